"""The experiment ``granularity``: its options, its configurations and its method."""

from __future__ import annotations

import argparse
import math
from typing import Final

from bench.experiments.granularity.contenders import Contender
from bench.experiments.granularity.measure import measure
from bench.experiments.granularity.rows import Row
from bench.experiments.granularity.shapes import FLUSHES, STYLES, Load
from bench.experiments.granularity.story import story
from bench.experiments.granularity.tasks import Effort, Task
from bench.harness.experiment import Experiment, Plan
from lsmkv.options import FilterAllocation

FULL: Final = Effort(absent=20_000, present=5_000, cached=4_000, timed=5_000)
QUICK: Final = Effort(absent=5_000, present=1_000, cached=600, timed=800)
FULL_BITS: Final = (4.0, 6.0, 8.0, 10.0, 12.0, 16.0)
QUICK_BITS: Final = (6.0, 10.0, 16.0)
FULL_FLUSH_ENTRIES: Final = 2048
QUICK_FLUSH_ENTRIES: Final = 256
LEAST_BITS: Final = 3.0
"""With fewer bits, Monkey may leave the largest run without a filter."""

ALLOCATIONS: Final[tuple[FilterAllocation, ...]] = ("uniform", "monkey")
FUSE_RATES: Final[tuple[tuple[FilterAllocation, float], ...]] = (
    ("uniform", 2.0**-8),
    ("uniform", 2.0**-16),
    ("monkey", 2.0**-8),
)
"""Sizes of binary fuse filters: 8 bits, 16 bits, or 16 where Monkey asks for them."""


def contenders() -> list[Contender]:
    """The contenders that have budgets."""
    return [
        contender
        for allocation in ALLOCATIONS
        for contender in (
            Contender("block", "bloom", allocation),
            Contender("block", "ribbon", allocation),
            Contender("table", "bloom", allocation),
            Contender("table", "blocked-bloom", allocation),
            Contender("table", "ribbon", allocation),
        )
    ]


def tasks(plan: Plan) -> list[Task]:
    """Each tree without filters, and with each contender and budget.

    Binary fuse filters have rates in place of budgets.
    """
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
        for allocation, rate in FUSE_RATES:
            fuse = Contender("table", "binary-fuse", allocation)
            found.append(Task(load, fuse, None, rate, effort, given.cache_share))
    return found


def _bits(text: str) -> float:
    bits = float(text)
    if not LEAST_BITS <= bits <= 32:
        raise argparse.ArgumentTypeError(f"{text}: must lie between {LEAST_BITS:g} and 32")
    return bits


def _share(text: str) -> float:
    share = float(text)
    if not 0 < share < math.inf:
        raise argparse.ArgumentTypeError(f"{text}: must be above 0")
    return share


def _flush_entries(text: str) -> int:
    entries = int(text)
    if entries < 32:
        raise argparse.ArgumentTypeError(f"{text}: must be 32 or more")
    return entries


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bits",
        type=_bits,
        action="append",
        metavar="N",
        help="a budget in filter bits per key; may be repeated; default: "
        + ", ".join(f"{bits:g}" for bits in FULL_BITS),
    )
    parser.add_argument(
        "--flush-entries",
        type=_flush_entries,
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
    title="One filter per block, one per table, and Monkey, at equal memory",
    question="Where should the filters of an LSM store sit, at equal memory?  HBase has one in each "
    "data block.  RocksDB gave that up for one per table, since the index must be searched before a "
    "block's filter can be asked.  Monkey (Dayan, Athanassoulis, Idreos, SIGMOD 2017) gives small "
    "runs better filters than large ones.  When is which right?",
    method=(
        f"Trees. The same {FLUSHES} flushes of random keys, 16-byte keys and 105-byte values, blocks "
        "of 4 KiB and 32 entries, size ratio 4. Every flush, with the compactions it causes, is "
        "waited for, so that the shape does not depend on timing; levels are merged whole, so each "
        "run is one table. The number of flushes is one before the next cascade, when a tree has the "
        "most runs. All configurations must come to the same shape, or the report fails.",
        "Equal memory. A budget is filter bits per key over the whole tree. The error_rate "
        "that comes nearest to it is calculated: the store's own choice of compactions, run without "
        "data, tells which tables there will be and what Monkey will ask of each; "
        "lsmkv.filters tells the bytes. Rows state what the built store really uses. Binary fuse "
        "filters have two sizes, so they stand at budgets of their own. A ribbon filter of a large table "
        "has whole columns, so it comes within about half a column of a budget. Those of "
        "blocks have one of two numbers of columns, and meet any. Monkey is measured as the "
        "store delivers it: a table keeps the rate that the tree at its writing gave it.",
        "Counts. Absent keys lie between present ones. Data block reads are counted with no "
        "block cache and all filters in memory. An index search is counted by the rules of a "
        "lookup: per table, where the filter said maybe; per block, always, before the filter. "
        "The counters are checked against the tables' key ranges. Expected reads and rates are sums "
        "over these keys of the exact rates of the filters built. Intervals are Clopper and "
        "Pearson's of all probes; they do not know that each filter is a sample, too.",
        "Times. Warm lookups are timed one by one, every block they need in the cache, after a "
        "first pass over the same keys; the clock (some 50 ns) is in them. An index search and "
        "a filter probe are timed by themselves, in loops over one table after the other, where "
        "processor caches are kinder than in a lookup; the least of five turns counts, and the least "
        "of all rows with the same indexes.",
        'Cached filters. With filter_residency="cached" filters are read when asked for, per block in '
        "chunks of up to 4 KiB, per table whole, and kept in a block cache of a share of the "
        "filters' size. As many absent lookups go before as are counted. Three orders: random; nine "
        "of ten from a hundredth of the keys, scattered; stretches of 64 neighbours.",
    ),
    row_type=Row,
    tasks=tasks,
    measure=measure,
    rows=list,
    story=story,
    add_options=_add_options,
)
