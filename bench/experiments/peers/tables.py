"""The tables of ``peers``: times, ratios, other quantities, and latencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Final

from lsmkv.options import MIB

from ...harness.intervals import FEWEST_EVENTS
from ...harness.ratios import OURS, Figures, Ratio, Spread
from ...harness.tables import Table
from .phases import LIMITED
from .rows import Row


@dataclass(frozen=True, slots=True)
class Quantity:
    """A compared figure that is no time.

    Attributes:
        label: the first cell of its table row.
        phase: the phase that tells it.
        column: the column of the rows.
        unit: the figure's unit in the column's units.
        each: divided by the operations.
        digits: digits after the decimal point.
    """

    label: str
    phase: str
    column: str
    digits: int = 1
    unit: int = 1
    each: bool = False
    more_is_better: bool = False

    def figure(self, row: Row) -> float | None:
        """Its value in a row of the phase."""
        value: float | None = getattr(row, self.column)
        return None if value is None else value / (row.operations if self.each else self.unit)


QUANTITIES: Final = (
    Quantity("disk, uncompressed, MiB", "disk_none", "disk_bytes", unit=MIB),
    Quantity("disk, zstd, MiB", "disk_zstd", "disk_bytes", unit=MIB),
    Quantity("sustained: peak memory, MiB", "sustained", "peak_memory_bytes", unit=MIB),
    Quantity("sustained: CPU, s", "sustained", "cpu_s", 2),
    Quantity("fillcompacted: peak memory, MiB", "fillcompacted", "peak_memory_bytes", unit=MIB),
    Quantity("fillcompacted: CPU, s", "fillcompacted", "cpu_s", 2),
    Quantity(
        "readrandom_group: OS bytes each", "readrandom_group", "os_read_bytes_timed", each=True
    ),
    Quantity(
        "readrandom_group: page cache, MiB",
        "readrandom_group",
        "page_cache_bytes_most",
        unit=MIB,
        more_is_better=True,
    ),
)


@dataclass(frozen=True, slots=True)
class ColdRow:
    """One line of the table of cold lookups.

    Attributes:
        keys, window: the first cells.
        phase: the phase that tells it.
    """

    keys: str
    window: str
    phase: str


COLD_ROWS: Final = (
    ColdRow("absent", "open + lookups", "readmissing_cold_open"),
    ColdRow("absent", "lookups", "readmissing_cold"),
    ColdRow("present", "open + lookups", "readrandom_cold_open"),
    ColdRow("present", "lookups", "readrandom_cold"),
)
COLD_FIGURES: Final = (
    ("block reads", "data_block_reads", 4, False),
    ("spared by filters", "filter_negatives", 4, True),
    ("OS bytes, direct", "os_read_bytes", 1, False),
    ("OS bytes, page cache", "os_read_bytes_timed", 1, False),
)
"""Label, column, digits, and whether more is better."""


def number(value: float, digits: int = 3) -> str:
    """Three digits, or two; k stands for thousands.

    >>> number(0.1234), number(12.34), number(1234.5), number(40_790)
    ('0.123', '12.3', '1.23k', '40.8k')
    >>> number(0.1234, 2), number(12.34, 2), number(1234.5, 2), number(0.999, 2)
    ('0.12', '12', '1.2k', '1.0')
    """
    unit = "" if abs(value) < 1000 - 5 * 10 ** (2 - digits) else "k"
    scaled = value / 1000 if unit else value
    after = digits
    for power in range(digits):
        if abs(scaled) >= 10**power * (1 - 5 * 10 ** -(digits + 1)):
            after = digits - 1 - power
    return f"{scaled:,.{after}f}{unit}"


def _spread(found: Spread | None) -> str:
    if found is None:
        return "-"
    return f"{number(found.median)} ({number(found.least, 2)}-{number(found.most, 2)})"


def tables(
    rows: Sequence[Row], times: Figures[Row], ratios: Sequence[Ratio], engines: Sequence[str]
) -> list[Table]:
    found = [
        _times_table(times, engines),
        _ratio_table(times, ratios, engines),
        _quantities_table(rows, engines),
        _cold_table(rows, engines),
        _limited_table(rows, engines),
        _latency_table(rows, engines),
    ]
    return [replace(table, timed=table.headings) for table in found if table.cells]


def _times_table(times: Figures[Row], engines: Sequence[str]) -> Table:
    return Table(
        "Microseconds per operation: median (least-most)",
        ["phase", *engines],
        [
            [phase, *(_spread(times.spread(phase, engine)) for engine in engines)]
            for phase in times.phases
        ],
        "over the repetitions, of which each has the median of its passes. readseq, readreverse: per "
        "entry; multi_get: per key; seekrandom, scandeleted: per scan; k: thousands",
    )


def _ratio_table(times: Figures[Row], ratios: Sequence[Ratio], engines: Sequence[str]) -> Table:
    peers = [engine for engine in engines if engine != OURS]
    return Table(
        "Each peer's time by lsmkv's: over 1, lsmkv is ahead (95 % interval)",
        ["phase", "best peer", "lsmkv is", *peers],
        [
            [
                best.phase,
                best.peer,
                best.verdict,
                *(_ratio_text(times.ratio_to(best.phase, peer)) for peer in peers),
            ]
            for best in ratios
        ],
        "taken within each repetition; interval: of the median, by ranks, with 6 repetitions or more; "
        "ahead, behind: that of the best peer excludes 1; level: it does not, and the ratio says "
        "nothing; no verdict: there is none. The best peer is the one of the lowest median here, so "
        "that of equal stores chance calls lsmkv behind more often than ahead",
        left=3,
    )


def _ratio_text(ratio: Ratio | None) -> str:
    if ratio is None:
        return "-"
    low, high = ratio.interval
    median = f"{ratio.ratio.median:.2f}"
    return f"{median} ({low:.2f}-{high:.2f})" if isfinite(high) else median


def _quantities_table(rows: Sequence[Row], engines: Sequence[str]) -> Table:
    cells = []
    for quantity in QUANTITIES:
        figures = Figures([row for row in rows if row.phase == quantity.phase], quantity.figure)
        if not figures.phases:
            continue
        spreads = [figures.spread(quantity.phase, engine) for engine in engines]
        line = ["-" if s is None else f"{s.median:,.{quantity.digits}f}" for s in spreads]
        ratios = [] if quantity.more_is_better else figures.ratios()
        compared = f"{ratios[0].ratio.median:.2f} ({ratios[0].peer})" if ratios else "-"
        cells.append([quantity.label, *line, compared])
    return Table("Size, memory and CPU: medians", ["", *engines, "best peer / lsmkv"], cells)


def _enough(rows: Sequence[Row], phase: str, column: str, peer: str) -> bool:
    """Whether lsmkv and the peer counted enough of it, in every repetition, for a ratio."""
    return all(
        (getattr(row, column) or 0) >= FEWEST_EVENTS
        for row in rows
        if row.phase == phase and row.engine in (OURS, peer)
    )


def _cold_table(rows: Sequence[Row], engines: Sequence[str]) -> Table:
    cells = []
    for line in COLD_ROWS:
        for label, column, digits, better in COLD_FIGURES:
            each = Quantity(label, line.phase, column, each=True, more_is_better=better)
            figures = Figures([row for row in rows if row.phase == line.phase], each.figure)
            if not figures.phases:
                continue
            spreads = [figures.spread(line.phase, engine) for engine in engines]
            texts = ["-" if s is None else f"{s.median:,.{digits}f}" for s in spreads]
            ratios = [] if better else figures.ratios()
            is_told = ratios and _enough(rows, line.phase, column, ratios[0].peer)
            compared = f"{ratios[0].ratio.median:.2f} ({ratios[0].peer})" if is_told else "-"
            cells.append([line.keys, line.window, label, *texts, compared])
    return Table(
        "Cold lookups, read for each: medians",
        ["keys", "window", "what", *engines, "best peer / lsmkv"],
        cells,
        "block reads, filters: by the engines' own counts, in the pass with direct reads. OS bytes: by "
        "the operating system's; direct: with direct reads where an engine has them (lsmkv reads whole "
        "4 KiB pages, RocksDB sectors); page cache: in the passes that are timed, with what is read "
        "ahead",
        left=3,
    )


def _limited_table(rows: Sequence[Row], engines: Sequence[str]) -> Table:
    cells = []
    for phase in LIMITED:
        mine = [row for row in rows if row.phase == phase]
        for label, figure in (
            ("OS bytes each", lambda row: (row.os_read_bytes_timed or 0) / row.operations),
            ("page cache at most, MiB", lambda row: (row.page_cache_bytes_most or 0) / MIB),
        ):
            figures = Figures(mine, figure)
            if figures.phases:
                spreads = [figures.spread(phase, engine) for engine in engines]
                limit = f"{mine[0].page_cache_limit_bytes / MIB:,.1f}"
                medians = ["-" if s is None else f"{s.median:,.1f}" for s in spreads]
                cells.append([phase, limit, label, *medians])
    return Table(
        "Lookups with less page cache than data: medians",
        ["phase", "limit, MiB", "what", *engines],
        cells,
        "at most: found when lookups had read so much that all pages were dropped; it may exceed the "
        "limit by what one lookup reads ahead",
        left=3,
    )


def _latency_table(rows: Sequence[Row], engines: Sequence[str]) -> Table:
    cells = []
    for phase in dict.fromkeys(row.phase for row in rows if row.latency_us_p50 is not None):
        for label, figure in (
            ("p50", lambda row: row.latency_us_p50),
            ("p99", lambda row: row.latency_us_p99),
            ("p99.9", lambda row: row.latency_us_p999),
            ("longest", lambda row: row.latency_us_most),
            ("puts by the writer", lambda row: row.writer_operations),
            ("part with a compaction", lambda row: row.compacting_share),
        ):
            figures = Figures([row for row in rows if row.phase == phase], figure)
            if figures.phases:
                spreads = [figures.spread(phase, engine) for engine in engines]
                medians = ["-" if s is None else number(s.median) for s in spreads]
                cells.append([phase, label, *medians])
    return Table(
        "Single operations, microseconds: median over the repetitions",
        ["phase", "", *engines],
        cells,
        left=2,
        brief=False,
    )
