"""The experiment ``openings``: its options and its method."""

from __future__ import annotations

import argparse
from typing import Final

from bench.experiments.openings.measure import measure
from bench.experiments.openings.rows import Row
from bench.experiments.openings.story import story
from bench.experiments.openings.tasks import Task, tasks
from bench.harness.experiment import Experiment, at_least, positive
from lsmkv.options import KIB

_LEAST_KEYS: Final = 1000


def _cost(text: str) -> int:
    cost = int(text)
    if cost < 0:
        raise argparse.ArgumentTypeError(f"{text}: must be 0 or more")
    return cost


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keys", type=at_least(_LEAST_KEYS), help="entries; default: 10,000 or 100,000"
    )
    parser.add_argument(
        "--openings",
        type=positive,
        help="openings of each store and residency; default: 3 or 10",
    )
    parser.add_argument(
        "--lookups",
        type=at_least(1000),
        help="most lookups that count the block reads of a store; default: 100,000 or 2,000,000",
    )
    parser.add_argument(
        "--request-cost-bytes",
        type=_cost,
        default=64 * KIB,
        metavar="N",
        help="a read request costs as much as so many bytes; default: %(default)s",
    )


EXPERIMENT: Final[Experiment[Task, list[Row], Row]] = Experiment(
    name="openings",
    title="The best error rate for a store that is opened often",
    question="A store is opened, asked for absent keys, and closed; each opening loads the filters anew. "
    "Which error rate reads least?",
    method=(
        "Uncompressed stores of 16-byte keys and 100-byte values, in one table per run; every run spans "
        "all keys. Bloom filters, one per block, of 50 to 0.0001 %, or none. All lookups are of absent "
        "keys, uniform, between two present ones.",
        "The cost of a lookup is what it reads, and its share of loading the filters: bytes, requests, "
        "and bytes plus `--request-cost-bytes` for each request. Indexes are read by every opening, "
        "whatever the filters; they are counted apart.",
        "Loads of filters are counted in openings, each followed by up to one lookup per key, at each "
        "number of lookups; the table states the mean. Resident filters are loaded whole by the first "
        "lookup in their table. Cached ones are loaded in chunks, into a block cache that holds all of "
        "them.",
        "Block reads are counted over many lookups, no two of one key, with no block cache: until 5000 "
        "blocks were read or, at the lowest rates, 2,000,000 lookups were made. Each lookup reads the "
        "same whatever came before, so block reads of L lookups per key are L times those. Beyond one "
        "lookup per key everything is calculated so. The command fails if the block reads of the "
        "openings themselves differ from that by more than six standard deviations.",
        "A block cache is not part of this: with one, no opening reads a block twice, so that high "
        "numbers of lookups cost less than stated, above all without filters. No opening need read more "
        "than the whole store.",
        "Theory: p* = 1/(8 (ln 2)^2 L runs B), where L is lookups per key and B the bytes of a block, "
        "with those that a request costs; no filters where that exceeds 1, or where the requests that "
        "load filters cost more than they save.",
    ),
    row_type=Row,
    tasks=tasks,
    measure=measure,
    rows=lambda measured: [row for rows in measured for row in rows],
    story=story,
    libraries=("numpy", "matplotlib"),
    add_options=add_options,
)
