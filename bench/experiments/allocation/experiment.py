"""The experiment ``allocation``: its options and its method."""

from __future__ import annotations

import argparse
from typing import Final

from bench.experiments.allocation.measure import measure
from bench.experiments.allocation.rows import Row
from bench.experiments.allocation.story import section, story, write_picture
from bench.experiments.allocation.tasks import Task, tasks
from bench.harness.experiment import Experiment, at_least

_LEAST_KEYS: Final = 5000


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keys", type=at_least(_LEAST_KEYS), help="entries; default: 20,000 or 100,000"
    )


EXPERIMENT: Final[Experiment[Task, Row, Row]] = Experiment(
    name="allocation",
    title="Filter memory shared among runs, beside Monkey's and Dostoevsky's formulas",
    question="How many reads of absent keys does a tree waste, by filter memory, number of levels and "
    "size ratio, with one rate for all runs, with Monkey's rates, and without filters in the last level?",
    method=(
        "Full trees as the papers draw them: level i has T times the keys of level i - 1. A leveled "
        "tree has one run in each level, a tiered one T - 1, and a lazy-leveled one T - 1 but one in the "
        "last. Each run is written as one table by a flush, with one Bloom filter of its own rate, so "
        "that nothing is merged meanwhile. Keys of 16 bytes and values of 100 are uncompressed, in "
        "blocks of 4 KiB; every run spans all keys. What trees write is measured by `bench compaction`.",
        "uniform: one rate p = e^(-(M/N) (ln 2)^2) for all runs, with M bits for N keys. monkey: rates "
        "in proportion to the runs' sizes, in the same memory. hits: p, and no filters in the last "
        "level, RocksDB's optimize_filters_for_hits: a lookup that finds its key there needs none.",
        "The formula is the sum of the rates of all runs (Monkey's R). Filters are per run "
        "(filter_granularity table), as in the papers: those of blocks have whole bytes for few keys, "
        "which takes and errs some per cent more or less. A key between two blocks of a run costs no "
        "read, and small runs span a little less than all keys. Counts are of as many different absent "
        "keys as there are keys, each between two present ones, block cache off. Intervals are Clopper "
        "and Pearson's of all filters asked; they take the filters as given. Lookups of present keys "
        "are of 10,000 of them.",
    ),
    row_type=Row,
    tasks=tasks,
    measure=measure,
    rows=list,
    story=story,
    libraries=("numpy", "scipy", "matplotlib"),
    add_options=add_options,
    document=section,
    write_more=write_picture,
)
