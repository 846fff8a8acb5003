"""The experiment ``openings``: its options and its method."""

from __future__ import annotations

import argparse
from typing import Final

from lsmkv.options import KIB

from ...harness.experiment import Experiment, at_least, flattened, positive
from ...harness.seeds import Figure
from .measure import measure
from .rows import Row
from .story import story
from .tasks import Task, tasks

_LEAST_KEYS: Final = 1000


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keys", type=at_least(_LEAST_KEYS), help="default: 10,000 or 100,000")
    parser.add_argument(
        "--openings", type=positive, help="openings of each store and residency; default: 3 or 10"
    )
    parser.add_argument(
        "--lookups",
        type=at_least(1000),
        help="most lookups that count the block reads of a store; default: 100,000 or 2,000,000",
    )
    parser.add_argument(
        "--request-cost-bytes",
        type=at_least(0),
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
        "Uncompressed stores of 16-byte keys and 100-byte values, in one table per run; every run "
        "spans all keys. Bloom filters, one per block, of 50 to 0.0001 %, or none. All lookups "
        "are of absent keys, uniform, between two present ones.",
        "The cost of a lookup is what it reads, and its share of loading the filters: bytes, or "
        "bytes plus `--request-cost-bytes` for each request. Loads of filters are counted in "
        "openings, each followed by up to one lookup per key. Indexes, which every opening reads, "
        "are counted apart.",
        "Block reads are counted over many lookups, no two of one key, with no block cache: until "
        "5000 blocks were read or 2,000,000 lookups were made. Block reads of L lookups per key "
        "are L times those; the openings' own must be within six standard deviations of that.",
        "Theory: p* = 1/(8 (ln 2)^2 L runs B), where L is lookups per key and B the bytes of a "
        "block, with those that a request costs; no filters where that exceeds 1, or where the "
        "requests that load filters cost more than they save.",
    ),
    row_type=Row,
    tasks=tasks,
    measure=measure,
    rows=flattened,
    story=story,
    libraries=("numpy", "matplotlib"),
    add_options=add_options,
    figures=(Figure("block reads of a lookup", "counted_block_reads", "counted_lookups"),),
)
