"""The experiment ``budget``: its options and its method."""

from __future__ import annotations

import argparse
from typing import Final

from bench.experiments.budget.measure import measure
from bench.experiments.budget.rows import Row, join
from bench.experiments.budget.story import section, story, write_picture
from bench.experiments.budget.tasks import Task, tasks
from bench.harness.experiment import Experiment, at_least

_LEAST_KEYS: Final = 5000


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keys", type=at_least(_LEAST_KEYS), help="entries; default: 10,000 or 40,000"
    )


EXPERIMENT: Final[Experiment[Task, tuple[Row, ...], Row]] = Experiment(
    name="budget",
    title="A budget of filter memory that follows the lookups",
    question="How many reads of absent keys does filter_memory_bytes save beside Monkey's rates in the "
    "same memory, where lookups are skewed, and is the budget kept?",
    method=(
        "Keys are written in random order, in 64 flushes of one table each (leveled, size ratio 4, "
        "settled after each); as many absent keys as there are keys are looked up; half of the keys are "
        "written again. Then four lookups for each key, of different absent keys, are counted, all is "
        "compacted to one run, and they are counted again. Keys have 16 bytes, values 100, uncompressed, "
        "in blocks of 4 KiB with one Bloom filter each; no block cache.",
        "A lookup takes a key of the first tenth of the key range with a chance of 10, 50, 90 or 99 %, "
        "and one of the rest otherwise. 10 % are the same everywhere.",
        "monkey: filter_allocation, with the error rate that takes the bits per key. budget: "
        "filter_memory_bytes, of as many bytes as Monkey's filters take in the compacted run. For the "
        "tree Monkey's store is written again, with as many bytes as the budget's filters take there.",
        "Theory, for one run: the rates for the tenth and for the rest that minimise the reads in the "
        "memory, in proportion to keys by lookups. Counts know tables, not the tenth, and "
        "keep some bits where nobody asks. Intervals are 95 % intervals of a ratio of counts.",
    ),
    row_type=Row,
    tasks=tasks,
    measure=measure,
    rows=join,
    story=story,
    libraries=("scipy", "matplotlib"),
    add_options=add_options,
    document=section,
    write_more=write_picture,
)
