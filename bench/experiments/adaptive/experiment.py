"""The experiment ``adaptive``: its options and its method."""

from __future__ import annotations

import argparse
from typing import Final

from bench.experiments.adaptive.measure import measure
from bench.experiments.adaptive.rows import Row, join
from bench.experiments.adaptive.story import document, story, write_picture
from bench.experiments.adaptive.tasks import BITS, BUFFERS, POINTS, SIZE_RATIO, STEPS, Task, tasks
from bench.harness.experiment import Experiment, at_least, positive

_LEAST_KEYS: Final = 2000
"""A write buffer of fewer has no table of several blocks."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keys", type=at_least(_LEAST_KEYS), help="keys of a store; default: 8,000 or 100,000"
    )
    parser.add_argument(
        "--repetitions", type=positive, help="with a seed of its own each; default: 1 or 5"
    )


EXPERIMENT: Final[Experiment[Task, list[Row], Row]] = Experiment(
    name="adaptive",
    title="Filters under a workload that shifts",
    question="Which filters waste the fewest reads in the same memory while the keys that are asked for "
    "change?",
    method=(
        "Four stores of the same keys (16 bytes, values of 100, blocks of 4 KiB, uncompressed, no block "
        f"cache). monkey: Monkey's rates, in the memory of {BITS:g} bits per key as each table is "
        "written. The others have what that store's filters took on average. uniform: one rate for all. "
        "learning: one rate with adaptive_filters, and a quarter of a bit less, for the list of learnt "
        "keys. budget: filter_memory_bytes, so that by a trial filters take that memory on average. The "
        "memory of each is in the table, and none may take 5 % more than Monkey's.",
        "Lookups ask for absent keys alone. Nine tenths of them lie in one tenth of the key range, "
        "which is another one in each of three phases. New keys: each is asked for once. Popular keys: "
        "in the hot tenth they follow a Zipf law of exponent 1, with another order in each phase. "
        "Phases that change what is asked are the model of Tectonic (A. H. Ott, S. Kaushik, B. Chen, "
        "S. Sarkar, TPCTC 2025).",
        f"Before each group of lookups 1/{BUFFERS} of the keys, drawn at random, is overwritten, "
        "flushed, and the tree settled: flushes and compactions write tables, and only these get new "
        f"rates. A phase overwrites {POINTS * STEPS / BUFFERS:.0%} of the keys. Trees have small "
        f"levels (T = {SIZE_RATIO}), so that most of the last one is rewritten in a phase.",
        "A wasted read is a data block read for an absent key. The store's count of reads must be that "
        "of the filters that let a key pass; for the last lookups of each phase, a second handle that "
        "explains every lookup must search as many blocks (but for the filters that learn, which "
        "answer otherwise the second time).",
    ),
    row_type=Row,
    tasks=tasks,
    measure=measure,
    rows=join,
    story=story,
    libraries=("numpy", "scipy", "matplotlib"),
    add_options=add_options,
    document=document,
    write_more=write_picture,
)
