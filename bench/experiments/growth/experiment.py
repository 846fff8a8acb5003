"""The experiment ``growth``: its options, its configurations and its method."""

from __future__ import annotations

import argparse
from typing import Final

from bench.experiments.growth.measure import measure
from bench.experiments.growth.rows import Row
from bench.experiments.growth.story import story
from bench.experiments.growth.tasks import BATCH, Sizes, Task
from bench.harness.experiment import Experiment, Plan, at_least, positive
from bench.workloads.keys import KEY_BYTES
from lsmkv.options import CompactionStyle, Options

ENTRIES: Final = (500_000, 5_000_000, 20_000_000)
QUICK_ENTRIES: Final = (20_000, 100_000, 500_000)
SCALE: Final = 16
QUICK_SCALE: Final = 64
LOOKUPS: Final = 100_000
QUICK_LOOKUPS: Final = 10_000
WINDOW: Final = 500_000
QUICK_WINDOW: Final = 50_000
STYLES: Final[tuple[CompactionStyle, ...]] = ("leveled", "tiered", "lazy-leveled")

METHOD: Final = (
    f"Stores of n entries ({KEY_BYTES}-byte keys, 100-byte values, nothing compressed) have the "
    f"default options, with write buffer, tables and level 1 divided by {SCALE} (--quick: "
    f"{QUICK_SCALE}; --scale 1 is the default shape): trees of several levels at the smallest size. "
    f"Each is filled once, in random order, in batches of {BATCH}, flushed after every write buffer "
    "and left until no compaction is due, so that its shape and all counts repeat for a seed. Every "
    "stage of the measurement has a process of its own, for each size. Times are taken of all sizes "
    "in turn, once in each repetition, so that disturbances of the machine affect all sizes alike.",
    "Counts are taken without a cache: random different keys, present ones, absent ones (each just "
    "after a present one), and scans of ten entries; every answer is checked. Theory: a filter errs at "
    "its exact rate (Bose et al. 2008); an absent key is put to the filter of each run, unless it "
    "falls between two blocks, where fences answer; a present key costs one block, and the errors of "
    "the runs above its own. The number of fence comparisons is not counted in the store: it is "
    "derived from the indexes that are there, log2 of a run's tables and of a table's blocks.",
    "Writes: bytes of tables written per byte handed over during that fill (the log is not in it). "
    "The textbook has 1 + L T/2 for L full leveled levels. The model asks the store's own rules of "
    "compaction what to merge, in a tree of tables that have sizes and key ranges and no contents; "
    "keys are spread evenly.",
    "Times of reads are warm: a first pass brings every block that is asked for into the cache, the "
    "second, with the same keys as new objects, is timed. The cache has room for all blocks, or for a "
    "third of the machine's memory; then only a part of the key range is asked for (warm_share). A "
    "long scan goes past the cache by design, and reads the operating system's. Opening is of the "
    "closed store, its files in the operating system's cache, up to the first answer. Lookups, seeks "
    "and openings take other keys in each repetition.",
    "Times of writes are of random overwrites in a copy of the store, with everything at the default "
    "but the scale: single puts, each between two readings of the clock, and batches of 1000; then "
    "until all compaction is done. Keys and values are made outside the clock. Peak memory is that of "
    "the process and its children above what it held before the store was opened, so it contains "
    "indexes and filters too.",
    "Curves: each begins at the smallest size's median. 'levels' grows with the number of levels that "
    "theory asks for, 'log2 n' with the logarithm of n.",
    "Memory: what the store reports, beside the growth of the process's private memory "
    "(/proc/self/smaps_rollup) while the store is opened, by a process that has opened another store "
    "before. The memtable is filled with 100,000 entries whose keys and values are objects of their "
    "own; the store reports the length of its log.",
    "The small cache holds a 32nd of the blocks. Neighbouring keys that take a quarter of "
    "it are looked up twice; then the whole store is scanned, and after that twice as many random keys "
    "are looked up as it holds blocks. After each, one hot key for each block is looked up again: the "
    "hit rate is of these. A scan must not lower it, unless the first four blocks of each table, which "
    "by design go through the cache, take more than half of it.",
)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--entries",
        type=_sizes,
        help=f"sizes, by commas; default: {_listed(ENTRIES)}; --quick: {_listed(QUICK_ENTRIES)}",
    )
    parser.add_argument(
        "--styles",
        type=_styles,
        default=(Options().compaction,),
        help="by commas; default: leveled",
    )
    parser.add_argument("--repetitions", type=positive, default=3, help="default: %(default)s")
    parser.add_argument(
        "--scale",
        type=positive,
        help="write buffer, tables and level 1 are the default sizes by this; "
        f"default: {SCALE}; --quick: {QUICK_SCALE}",
    )
    parser.add_argument(
        "--lookups",
        type=positive,
        help=f"of each kind; default: {LOOKUPS:,}; --quick: {QUICK_LOOKUPS:,}",
    )
    parser.add_argument(
        "--window",
        type=positive,
        help=f"overwrites of a sustained write; default: {WINDOW:,}; --quick: {QUICK_WINDOW:,}",
    )


def _listed(sizes: tuple[int, ...]) -> str:
    return ",".join(map(str, sizes))


_size: Final = at_least(20)


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(sorted({_size(part) for part in text.split(",")}))


def _styles(text: str) -> tuple[CompactionStyle, ...]:
    for name in text.split(","):
        if name not in STYLES:
            raise argparse.ArgumentTypeError(f"{name}: must be one of {', '.join(STYLES)}")
    return tuple(style for style in STYLES if style in text.split(","))


def tasks(plan: Plan) -> list[Sizes]:
    given = plan.options
    return [
        Sizes(
            tuple(
                Task(
                    entries=entries,
                    style=style,
                    scale=given.scale or (QUICK_SCALE if plan.quick else SCALE),
                    lookups=given.lookups or (QUICK_LOOKUPS if plan.quick else LOOKUPS),
                    window=given.window or (QUICK_WINDOW if plan.quick else WINDOW),
                    repetitions=given.repetitions,
                    seed=plan.seed,
                )
                for entries in given.entries or (QUICK_ENTRIES if plan.quick else ENTRIES)
            )
        )
        for style in given.styles
    ]


def _rows(measured: list[list[Row]]) -> list[Row]:
    return [row for rows in measured for row in rows]


EXPERIMENT: Final[Experiment[Sizes, list[Row], Row]] = Experiment(
    name="growth",
    title="What operations cost as a store grows",
    question=(
        "How does the cost of each operation, and the memory per key, grow with the number of "
        "entries, beside what theory says?"
    ),
    method=METHOD,
    row_type=Row,
    tasks=tasks,
    measure=measure,
    rows=_rows,
    story=story,
    libraries=("psutil", "numpy"),
    alone=True,
    add_options=_add_options,
)
