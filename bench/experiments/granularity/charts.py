"""The chart of ``granularity``: bytes of cached filters that a lookup reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ...harness.charts import Chart, Line, Panel, marks
from ...harness.colours import BLACK, series
from . import groups
from .rows import Row
from .verdict import ORDERS, filter_read_bytes, rocksdb_read_bytes

FIRST: Final = "granularity-cached"


def charts(rows: Sequence[Row]) -> list[Chart]:
    if not groups.budgets(rows):
        return []
    bits = groups.typical_budget(rows)
    return [
        Chart(
            FIRST,
            "Filter bytes read for an absent key when filters are read on demand",
            f"About {bits:g} bits per key, uniform rates; block cache {rows[0].cached_share:.0%} of "
            "the size of the filters. Further left is better. Per block, lsmkv reads its filters in "
            "pieces of up to 4 KiB; all others are read one whole filter at a time. Where nothing "
            "was read there is no mark. Crosses: RocksDB's own counts, in the rows of its two ways.",
            [
                Panel(
                    lines=list(_lines(here)),
                    title=f"{style}, {here[0].runs} runs",
                    x="filter bytes read per lookup",
                    names=[groups.kind(row).replace(" (", "\n(") for row in here],
                    log="x",
                )
                for style in groups.styles(rows)
                for here in [
                    [groups.at_budget(rows, style, each, "uniform", bits) for each in groups.KINDS]
                ]
            ],
            same_x=True,
            width=8.4,
            height=4.2,
            is_published=True,
        )
    ]


def _lines(rows: Sequence[Row]) -> Iterator[Line]:
    for number, (order, words) in enumerate(ORDERS.items()):
        apart = (number - 1) * 0.18
        ours = [(at + apart, filter_read_bytes(row, order)) for at, row in enumerate(rows)]
        theirs = [(at + apart, rocksdb_read_bytes(row, order)) for at, row in enumerate(rows)]
        yield marks(words, [point for point in ours if point[1]], series(number))
        crosses = [(place, read) for place, read in theirs if read]
        yield marks("RocksDB itself", crosses, {"color": BLACK, "marker": "x"})
