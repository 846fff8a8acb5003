"""The tables of ``peers``: times, ratios, other quantities, and latencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.experiments.peers.rows import Row
from bench.harness.ratios import Figures, Ratio, Spread
from bench.harness.tables import Shown, Table, table_of
from lsmkv.options import MIB


@dataclass(frozen=True, slots=True)
class Quantity:
    """A compared figure that is no time.

    Attributes:
        label: the first cell of its table row.
        phase: the phase that tells it.
        column: the column of the rows.
        unit: the figure's unit in the column's units.
        each: per operation.
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


def _each(label: str, phase: str, column: str, digits: int = 1, better: bool = False) -> Quantity:
    return Quantity(label, phase, column, digits, each=True, more_is_better=better)


QUANTITIES: Final = (
    Quantity("disk, uncompressed, MiB", "disk_none", "disk_bytes", unit=MIB),
    Quantity("disk, zstd, MiB", "disk_zstd", "disk_bytes", unit=MIB),
    Quantity("sustained: peak memory, MiB", "sustained", "peak_memory_bytes", unit=MIB),
    Quantity("sustained: CPU, s", "sustained", "cpu_s", 2),
    _each("absent, cold: block reads each", "readmissing_cold", "data_block_reads", 4),
    _each(
        "absent, cold: spared by filters", "readmissing_cold", "filter_negatives", 4, better=True
    ),
    _each("absent, cold: OS bytes each", "readmissing_cold", "os_read_bytes"),
    _each("absent, cold, timed: OS bytes", "readmissing_cold", "os_read_bytes_timed"),
    _each("present, cold: block reads each", "readrandom_cold", "data_block_reads", 4),
    _each("present, cold: OS bytes each", "readrandom_cold", "os_read_bytes"),
    _each("present, cold, timed: OS bytes", "readrandom_cold", "os_read_bytes_timed"),
)


def number(value: float) -> str:
    """Three digits; k stands for thousands.

    >>> number(0.1234), number(12.34), number(1234.5), number(40_790)
    ('0.123', '12.3', '1.23k', '40.8k')
    """
    unit = "" if abs(value) < 999.5 else "k"
    scaled = value / 1000 if unit else value
    digits = (
        3 if abs(scaled) < 0.9995 else 2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0
    )
    return f"{scaled:,.{digits}f}{unit}"


def _spread(found: Spread | None) -> str:
    if found is None:
        return "-"
    return f"{number(found.median)} ({number(found.least)}-{number(found.most)})"


def tables(
    rows: Sequence[Row], times: Figures[Row], ratios: Sequence[Ratio], engines: Sequence[str]
) -> list[Table]:
    found = [_times_table(times, engines)]
    if ratios:
        found.append(_ratio_table(ratios))
    found += [_quantities_table(rows, engines), _latency_table(rows, engines)]
    return [table for table in found if table.cells]


def _times_table(times: Figures[Row], engines: Sequence[str]) -> Table:
    return Table(
        "Microseconds per operation: median (least-most)",
        ["phase", *engines],
        [
            [phase, *(_spread(times.spread(phase, engine)) for engine in engines)]
            for phase in times.phases
        ],
        "readseq, readreverse: per entry; multi_get: per key; seekrandom: per scan; k: thousands",
    )


def _ratio_table(ratios: Sequence[Ratio]) -> Table:
    return table_of(
        "Best peer's time by lsmkv's: over 1, lsmkv is ahead",
        ratios,
        (
            Shown("phase", "phase"),
            Shown("best peer", "peer"),
            Shown("verdict", "verdict"),
            Shown("ratio", lambda found: found.ratio.median, ".2f"),
            Shown("least", lambda found: found.ratio.least, ".2f"),
            Shown("most", lambda found: found.ratio.most, ".2f"),
        ),
        "taken within each repetition; ahead or behind: in all of them",
        left=3,
    )


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
    return Table(
        "Size, memory, CPU and reads: medians",
        ["", *engines, "best peer / lsmkv"],
        cells,
        "block reads and filters: by the engines' own counts; OS bytes: by the operating system's. "
        "Direct reads of lsmkv are of whole 4 KiB pages, of RocksDB of sectors. Timed: in the pass that "
        "is timed, through the page cache, into which lsmkv, LevelDB and LMDB have more read than is "
        "asked for",
    )


def _latency_table(rows: Sequence[Row], engines: Sequence[str]) -> Table:
    cells = []
    for phase in dict.fromkeys(row.phase for row in rows if row.latency_us_p50 is not None):
        for label, figure in (
            ("p50", lambda row: row.latency_us_p50),
            ("p99", lambda row: row.latency_us_p99),
            ("p99.9", lambda row: row.latency_us_p999),
            ("puts by the writer", lambda row: row.writer_operations),
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
    )
