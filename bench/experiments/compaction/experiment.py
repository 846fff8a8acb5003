"""The experiment ``compaction``: its options, its configurations and its method."""

from __future__ import annotations

import argparse
from typing import Final

from lsmkv.options import Options

from ...harness.experiment import Experiment, Plan, at_least
from ...harness.seeds import Figure
from .loads import CHUNK_ENTRIES, GROWING, LOADS
from .measure import (
    ABSENT_LOOKUPS,
    PRESENT_LOOKUPS,
    SCAN_ENTRIES,
    SCANS,
    measure,
)
from .rows import Row
from .story import story
from .summary import ALLOCATIONS, DEFAULT, MAIN_LOAD, STYLES
from .tasks import SCALE, Task

QUICK_WRITE_BUFFERS: Final = 120
FULL_WRITE_BUFFERS: Final = 840
"""The second half has a whole cycle of a tiered tree of T = 10: 4 * 10 * 10 write buffers."""
QUICK_KEY_SPACES: Final = (15, 47)
FULL_KEY_SPACES: Final = (50, 108, 232)
"""In write buffers; steps by the third root of 10, so that no style is caught at a lucky size."""
# Cycles are 4 T^i write buffers long: strides that share no factor with 4 and 10 meet every phase.
QUICK_STRIDE: Final = 3
FULL_STRIDE: Final = 7
LEAST_WRITE_BUFFERS: Final = 16

METHOD: Final = (
    "Each store has the default options and Bloom filters, with the sizes of write buffer, tables "
    f"and levels divided by {SCALE}: three levels below level 0 after minutes. The block cache is off, "
    "nothing is compressed, entries have 16-byte keys and 100-byte values.",
    f"It is loaded by chunks of one write buffer ({CHUNK_ENTRIES} operations). After each the "
    "store is flushed and left until no compaction is due, so counts repeat from run to run, and "
    "level 0 is never crowded.",
    "Everything is averaged over the cycle of the tree: its state is taken after every write "
    "buffer of the second half of the load, its reads after every third (--quick) or seventh, "
    f"which meets all phases. Reads: {ABSENT_LOOKUPS} lookups of absent keys, {PRESENT_LOOKUPS} of "
    f"present keys and {SCANS} scans of {SCAN_ENTRIES} entries; every answer is compared with a "
    "model. Tables show the mean of means and the worst of worsts over the key spaces.",
    "Write amplification is the bytes of tables written over the keys and values handed over (the "
    "log is not in it). Space amplification is the bytes of live table files over live keys and "
    "values. Expected reads of an absent lookup are the sum of the exact rates of the filters it "
    "meets. Theory of writes: 1 + L T/2 (leveled), 1 + L (tiered) and 1 + (L - 1) + T/2, with L "
    "levels below level 0 (Dayan and Idreos, Dostoevsky, SIGMOD 2018).",
)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--loads", nargs="+", choices=tuple(LOADS), help="default: all; --quick: overwrite"
    )
    parser.add_argument(
        "--size-ratios",
        nargs="+",
        type=_size_ratio,
        metavar="T",
        help="default: 2 4 6 10; --quick: 4 10",
    )
    parser.add_argument(
        "--error-rates",
        nargs="+",
        type=_error_rate,
        metavar="P",
        help="default: 0.1 0.01 0.001; --quick: 0.1 0.001",
    )
    parser.add_argument(
        "--write-buffers",
        type=at_least(LEAST_WRITE_BUFFERS),
        metavar="N",
        help=f"length of the load; default: {FULL_WRITE_BUFFERS}; --quick: {QUICK_WRITE_BUFFERS}",
    )


def _size_ratio(text: str) -> int:
    number = int(text)
    try:
        Options(size_ratio=number)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return number


def _error_rate(text: str) -> float:
    rate = float(text)
    if not 0 < rate < 1:
        raise argparse.ArgumentTypeError(f"{text}: must lie between 0 and 1, both excluded")
    return rate


def tasks(plan: Plan) -> list[Task]:
    """Every style at every size ratio, rate, allocation and key space; other loads at the defaults."""
    given = plan.options
    length = given.write_buffers or (QUICK_WRITE_BUFFERS if plan.quick else FULL_WRITE_BUFFERS)
    found: list[Task] = []
    for load in given.loads or ([MAIN_LOAD] if plan.quick else LOADS):
        found += [
            Task(
                load=load,
                style=style,
                size_ratio=size_ratio,
                error_rate=error_rate,
                allocation=allocation,
                key_count=key_space * CHUNK_ENTRIES,
                chunk_count=length,
                stride=QUICK_STRIDE if plan.quick else FULL_STRIDE,
                seed=plan.seed,
            )
            for size_ratio in given.size_ratios or _size_ratios(load, plan.quick)
            for error_rate in given.error_rates or _error_rates(load, plan.quick)
            for style in STYLES
            for allocation in ALLOCATIONS
            for key_space in _key_spaces(load, error_rate, length, plan.quick)
        ]
    return found


def _size_ratios(load: str, quick: bool) -> tuple[int, ...]:
    if load != MAIN_LOAD:
        return (DEFAULT.size_ratio,)
    return (4, 10) if quick else (2, 4, 6, 10)


def _error_rates(load: str, quick: bool) -> tuple[float, ...]:
    if load != MAIN_LOAD:
        return (DEFAULT.error_rate,)
    return (0.1, DEFAULT.error_rate) if quick else (0.1, 0.01, 0.001)


def _key_spaces(load: str, error_rate: float, length: int, quick: bool) -> tuple[int, ...]:
    if load in GROWING:
        return (length,)
    spaces = QUICK_KEY_SPACES if quick else FULL_KEY_SPACES
    if load == MAIN_LOAD and error_rate == DEFAULT.error_rate:
        return spaces
    return spaces[1:2]


EXPERIMENT: Final[Experiment[Task, Row, Row]] = Experiment(
    name="compaction",
    title="Compaction styles over a sustained load",
    question=(
        "What do leveled, tiered and lazy-leveled compaction write, keep and read, as the size "
        "ratio T, the false-positive rate p and its allocation to runs vary, and which should be "
        "the default?"
    ),
    method=METHOD,
    row_type=Row,
    tasks=tasks,
    measure=measure,
    rows=list,
    story=story,
    add_options=_add_options,
    pools=True,
    figures=(
        Figure("write amplification", "write_amplification"),
        Figure("reads of an absent key", "absent_block_reads", "absent_lookup_count"),
    ),
)
