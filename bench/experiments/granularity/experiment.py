"""The experiment ``granularity``: its options, its configurations and its method."""

from __future__ import annotations

import argparse
import math
from typing import Final

from lsmkv.options import FilterAllocation

from ...harness.experiment import Experiment, Plan, at_least, between
from ...harness.seeds import Figure
from . import rocksdb
from .contenders import Contender
from .measure import measure
from .rows import Row
from .shapes import FLUSHES, STYLES, Load
from .story import story
from .tasks import Effort, Task

FULL: Final = Effort(absent=20_000, present=5_000, cached=4_000)
QUICK: Final = Effort(absent=5_000, present=1_000, cached=600)
FULL_BITS: Final = (4.0, 6.0, 8.0, 10.0, 12.0, 16.0)
QUICK_BITS: Final = (6.0, 10.0, 16.0)
FULL_FLUSH_ENTRIES: Final = 4096
QUICK_FLUSH_ENTRIES: Final = 256
LEAST_BITS: Final = 3.0  # with fewer bits, Monkey may leave the largest run without a filter
ALLOCATIONS: Final[tuple[FilterAllocation, ...]] = ("uniform", "monkey")


def contenders() -> list[Contender]:
    """The contenders that have budgets."""
    return [
        contender
        for allocation in ALLOCATIONS
        for contender in (
            Contender("block", "bloom", allocation),
            Contender("block", "ribbon", allocation),
            Contender("partition", "bloom", allocation),
            Contender("chunk", "bloom", allocation),
            Contender("table", "bloom", allocation),
            Contender("table", "ribbon", allocation),
        )
    ]


def tasks(plan: Plan) -> list[Task]:
    """Each tree without filters, and with each contender and budget."""
    given, effort = plan.options, QUICK if plan.quick else FULL
    flush_entries = given.flush_entries or (
        QUICK_FLUSH_ENTRIES if plan.quick else FULL_FLUSH_ENTRIES
    )
    found = []
    for style in STYLES:
        load = Load(style, FLUSHES, flush_entries, plan.seed)
        none = Contender("block", "none", "uniform")
        found.append(Task(load, none, None, 0.5, effort, given.cache_share))
        for budget in given.bits or (QUICK_BITS if plan.quick else FULL_BITS):
            for contender in contenders():
                found.append(Task(load, contender, budget, None, effort, given.cache_share))
    return found


def missing() -> list[str]:
    """RocksDB, if it cannot be asked."""
    return [] if rocksdb.is_installed() else ["rocksdb"]


def _share(text: str) -> float:
    share = float(text)
    if not 0 < share < math.inf:
        raise argparse.ArgumentTypeError(f"{text}: must be above 0")
    return share


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bits",
        type=between(LEAST_BITS, 32),
        action="append",
        metavar="N",
        help="a budget in filter bits per key; may be repeated; default: "
        + ", ".join(f"{bits:g}" for bits in FULL_BITS),
    )
    parser.add_argument(
        "--flush-entries",
        type=at_least(32),
        metavar="N",
        help=f"entries of each of the {FLUSHES} flushes that make a tree; default: "
        f"{FULL_FLUSH_ENTRIES}, with --quick {QUICK_FLUSH_ENTRIES}",
    )
    parser.add_argument(
        "--cache-share",
        type=_share,
        default=0.75,
        metavar="SHARE",
        help="block cache by filter memory, where filters are fetched on demand; "
        "default: %(default)s",
    )


EXPERIMENT: Final[Experiment[Task, Row, Row]] = Experiment(
    name="granularity",
    title="One filter per block, per chunk or per table, at equal memory",
    question="What should one filter of an LSM store cover, at equal memory: a block, a partition "
    "(RocksDB's, 4 KiB of filter), a chunk (HBase's, 128 KiB), or a whole table (RocksDB's default)? "
    "How many reads does it waste, what must be loaded to ask it, and how many index searches does a "
    "lookup take?",
    method=(
        f"Trees. The same {FLUSHES} flushes of random keys, 16-byte keys and 105-byte values, "
        "blocks of 4 KiB and 32 entries, size ratio 4. Each flush is waited for, and levels are "
        "merged whole, so each run is one table. Their number is one before the next cascade, "
        "when a tree has the most runs. All trees must have the same shape.",
        "Partitions (RocksDB's, 4 KiB of filter) and chunks (HBase's, 128 KiB) are built of "
        "lsmkv's Bloom filters of consecutive keys, in a file beside a store without filters. A "
        "lookup searches the filters' first keys, asks the filter, and on a maybe looks the key "
        "up in the table. HBase's hash functions, and its halving of a last chunk, are not "
        "copied. Monkey (Dayan, Athanassoulis, Idreos, SIGMOD 2017) gives small runs better "
        "filters.",
        "RocksDB itself, where rocksdict is installed, counts the filter blocks that it reads, "
        "partitioned and not, in tables of level 0 with the same keys, bits, orders, and cache "
        "size. It keeps index blocks in that cache too, and its partitions come out somewhat "
        "below 4 KiB.",
        "Equal memory. A budget is filter bits per key over the whole tree. The error_rate that "
        "comes nearest is calculated from the tables that the store's own choice of compactions "
        "will make. Rows state what the built store uses. A ribbon filter of a large table has "
        "whole columns, so it comes within about half a column.",
        "Counts. Absent keys lie between present ones and do not repeat; no block cache, filters "
        "in memory. An index search is counted by the rules of a lookup: per table or chunk, "
        "where the filter said maybe; per block, always, before the filter. Expected reads are "
        "sums of the exact rates of the filters built. Intervals are Clopper and Pearson's of all "
        "probes.",
        "Cached filters are read when asked for, per block in pieces of up to 4 KiB, the others "
        "one whole filter at a time, and kept in a block cache of a share of the filters' size. "
        "As many absent lookups go before as are counted. Three orders: random; nine of ten from "
        "a hundredth of the keys, scattered; stretches of 64 neighbours.",
    ),
    row_type=Row,
    tasks=tasks,
    measure=measure,
    rows=list,
    story=story,
    libraries=("rocksdict",),
    missing=missing,
    add_options=_add_options,
    figures=(Figure("wasted reads of a lookup", "absent_block_reads", "absent_lookups"),),
)
