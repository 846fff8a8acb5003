"""The charts of ``memory``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise, product

from lsmkv.options import KIB

from ...harness.charts import Chart, Line, Panel, Point
from ...harness.colours import THEORY, series
from ...harness.ratios import Spread
from ...harness.tables import percent
from . import tables
from .rows import Row
from .tasks import LAWS, PRESENT_SHARES, RESIDENCY


def charts(rows: Sequence[Row]) -> list[Chart]:
    """The charts that the rows are enough for."""
    swept = tables.of_part(rows, RESIDENCY)
    blocks = sorted({row.block_size_bytes for row in swept})
    return [_split(rows, runs) for runs in tables.run_counts(rows)] + [
        _residency(swept, block_bytes) for block_bytes in blocks
    ]


def _split(rows: Sequence[Row], runs: int) -> Chart:
    return Chart(
        "memory-split" if runs == 1 else f"memory-split-{runs}-runs",
        f"Filters or cache: {runs} {'run' if runs == 1 else 'runs'}",
        "Block reads per lookup, wasted and needed, against the memory for filters, index and caches "
        "together; one line for each error rate of Bloom filters, the cache getting the rest. "
        "Medians, bars from least to most. A line begins where its filters fit; where a repetition "
        "read no block at all, a logarithmic axis has no mark.",
        [
            Panel(
                lines=list(_split_lines(rows, runs, law, share)),
                title=f"{tables.LAW_NAMES[law]}, {percent(share)} % present",
                x="filters + index + caches, % of the data" if share == PRESENT_SHARES[-1] else "",
                y="block reads per lookup" if law == LAWS[0] else "",
                log="x" if share else "xy",
                ticks=[100 * budget for budget in tables.budgets(rows)],
            )
            for share, law in product(PRESENT_SHARES, LAWS)
        ],
        columns=len(LAWS),
        same_x=True,
        same_y="row",
        width=9.0,
        height=8.6,
        is_published=runs == 1,
    )


def _split_lines(rows: Sequence[Row], runs: int, law: str, share: float) -> Iterator[Line]:
    bloom = [which for which in tables.CONTENDERS if which.filters != "ribbon"]
    for number, which in enumerate(bloom):
        points = [
            _point(100 * budget, tables.reads(here))
            for budget in tables.budgets(rows)
            if (here := tables.split_rows(rows, runs, law, share, budget, which))
            and tables.reads(here).least > 0
        ]
        label = "no filters" if which.rate is None else f"p = {which.name}"
        yield Line(label, points, series(number))
    theirs = [
        _point(100 * budget, found)
        for budget in tables.budgets(rows)
        if runs == 1 and (found := tables.rocksdb(rows, law, share, budget)) and found.least > 0
    ]
    if theirs:
        yield Line("RocksDB, the best of its settings", theirs, series(len(bloom)))


def _point(place: float, spread: Spread) -> Point:
    return place, spread.median, spread.least, spread.most


def _residency(rows: Sequence[Row], block_bytes: int) -> Chart:
    here = [row for row in rows if row.block_size_bytes == block_bytes]
    sizes, kib = tables.memories(rows), block_bytes // KIB
    filters = next(row for row in here if row.granularity == "block")
    fits = _place(sizes, filters.filter_bytes)
    shares = (0.0, 1.0)
    return Chart(
        "memory-residency" if kib == 4 else f"memory-residency-{kib}-kib",
        f"Where cached filters turn: blocks of {kib} KiB",
        "Bytes of 4 KiB pages that a device reads per lookup, by the size of the block cache. "
        "Dotted: the cache is as large as all filters, and where cached filters begin to read less "
        "than none. Dashed: a chunk for each lookup whose chunk a cache of that size cannot hold, and a "
        "block for each false positive (uniform lookups of absent keys).",
        [
            Panel(
                lines=[
                    *_residency_lines(rows, block_bytes, share, law),
                    *_theory(filters, here, sizes, is_shown=law == "uniform" and not share),
                ],
                title=f"{tables.LAW_NAMES[law]}, {'present' if share else 'absent'} keys",
                x="block cache" if share else "",
                y="bytes read per lookup" if law == LAWS[0] else "",
                ticks={float(place): tables.size(each) for place, each in enumerate(sizes)},
                edges=[
                    (fits, "cache as large as all filters"),
                    *((place, "") for place in break_evens(here, block_bytes, share, law)),
                ],
            )
            for share, law in product(shares, LAWS)
        ],
        columns=len(LAWS),
        legend=3,
        same_x=True,
        same_y="row",
        width=9.0,
        height=6.6,
        is_published=kib == 4,
    )


def _residency_lines(
    rows: Sequence[Row], block_bytes: int, share: float, law: str
) -> Iterator[Line]:
    for number, kind in enumerate(tables.RESIDENCIES):
        points = [
            _point(place, tables.page_bytes(each))
            for place, memory in enumerate(tables.memories(rows))
            if (each := tables.swept_rows(rows, block_bytes, share, law, kind, memory))
        ]
        yield Line(tables.RESIDENCY_NAMES[kind], points, series(number))


def break_evens(rows: Sequence[Row], block_bytes: int, share: float, law: str) -> list[float]:
    """The place, if any, from which cached filters read less than none, between the caches tried."""
    excess = [
        tables.page_bytes(tables.swept_rows(rows, block_bytes, share, law, "cached", memory)).median
        - tables.page_bytes(tables.swept_rows(rows, block_bytes, share, law, "off", memory)).median
        for memory in tables.memories(rows)
    ]
    found = [
        place + before / (before - after)
        for place, (before, after) in enumerate(pairwise(excess))
        if before > 0.0 >= after
    ]
    return found[-1:]


def _theory(
    first: Row, rows: Sequence[Row], sizes: Sequence[int], *, is_shown: bool
) -> Iterator[Line]:
    """Bytes of uniform lookups of absent keys with cached filters, by place."""
    if not is_shown:
        return
    empty = [
        row
        for row in rows
        if not row.memory_bytes and row.law == "uniform" and not row.present_share
    ]
    chunk, block = (
        tables.page_bytes(
            [row for row in empty if row.residency == kind and row.granularity == "block"]
        )
        for kind in ("cached", "off")
    )
    passed = first.error_rate_exact or first.error_rate
    points = []
    for place, memory in enumerate(sizes):
        missed = 1.0 - min(1.0, memory / first.filter_bytes)
        read = missed * (chunk.median - passed * block.median) + passed * block.median
        points.append((float(place), read))
    yield Line("cached, theory", points, THEORY)


def _place(sizes: Sequence[int], size_bytes: int) -> float:
    """Where a number of bytes lies between the places of ``sizes``, by its logarithm."""
    above = next((place for place, each in enumerate(sizes) if each >= size_bytes), len(sizes) - 1)
    low, high = sizes[max(0, above - 1)], sizes[above]
    if not low or low == high:
        return above
    return above - 1 + math.log(size_bytes / low) / math.log(high / low)
