"""What the rows say: the matrix, the ratios, and the sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from bench.experiments.peers.rows import Row
from bench.harness.intervals import rate_interval
from bench.harness.ratios import OURS, Figures, Ratio, Spread
from bench.harness.story import Story, Table
from lsmkv.filters.maths.sizing import rate_for

MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Quantity:
    """A figure besides the times that is compared.

    Attributes:
        label: of its line in the table.
        phase: the one that it is of.
        figure: of a row.
        digits: after the decimal point.
    """

    label: str
    phase: str
    figure: Callable[[Row], float | None]
    digits: int = 1


def _part(figure: Callable[[Row], float | None], unit: float) -> Callable[[Row], float | None]:
    def divided(row: Row) -> float | None:
        value = figure(row)
        return None if value is None else value / unit

    return divided


def _each(figure: Callable[[Row], float | None]) -> Callable[[Row], float | None]:
    def per_operation(row: Row) -> float | None:
        value = figure(row)
        return None if value is None else value / row.operations

    return per_operation


QUANTITIES: Final = (
    Quantity("disk, uncompressed, MiB", "disk_none", _part(lambda row: row.disk_bytes, MIB)),
    Quantity("disk, zstd, MiB", "disk_zstd", _part(lambda row: row.disk_bytes, MIB)),
    Quantity("sustained: peak memory, MiB", "sustained", _part(lambda r: r.peak_memory_bytes, MIB)),
    Quantity("sustained: CPU, s", "sustained", lambda row: row.cpu_s, 2),
    Quantity(
        "absent, cold: block reads each", "readmissing_cold", _each(lambda r: r.data_block_reads), 4
    ),
    Quantity(
        "absent, cold: spared by filters",
        "readmissing_cold",
        _each(lambda r: r.filter_negatives),
        4,
    ),
    Quantity("absent, cold: OS bytes each", "readmissing_cold", _each(lambda r: r.os_read_bytes)),
    Quantity(
        "absent, cold, timed: OS bytes", "readmissing_cold", _each(lambda r: r.os_read_bytes_timed)
    ),
    Quantity(
        "present, cold: block reads each", "readrandom_cold", _each(lambda r: r.data_block_reads), 4
    ),
    Quantity("present, cold: OS bytes each", "readrandom_cold", _each(lambda r: r.os_read_bytes)),
    Quantity(
        "present, cold, timed: OS bytes", "readrandom_cold", _each(lambda r: r.os_read_bytes_timed)
    ),
)
_MORE_IS_BETTER: Final = ("absent, cold: spared by filters",)


def story(rows: list[Row]) -> Story:
    """Findings, tables and charts."""
    from bench.experiments.peers import charts as plots

    times = Figures(rows, lambda row: row.us_per_operation)
    engines = list(
        dict.fromkeys(row.engine for row in sorted(rows, key=lambda r: r.engine != OURS))
    )
    ratios = times.ratios()
    tables = [
        _times_table(times, engines),
        _quantities_table(rows, engines),
        _latency_table(rows, engines),
    ]
    drawn = [plots.times(times, engines)]
    if ratios:
        tables.insert(1, _ratio_table(ratios))
        drawn.insert(0, plots.ratios(ratios))
    return Story(
        [
            _versions(rows),
            *_time_findings(ratios),
            *_quantity_findings(rows),
            *_filter_findings(rows),
        ],
        [table for table in tables if table.cells],
        drawn if times.phases else [],
        disagreements(rows),
    )


def disagreements(rows: Iterable[Row]) -> list[str]:
    """Phases in which engines did not find the same."""
    found: dict[tuple[int, str], dict[tuple[int, int, int], list[str]]] = {}
    for row in rows:
        results = found.setdefault((row.repetition, row.phase), {})
        what = (row.operations, row.result_count, row.result_checksum)
        results.setdefault(what, []).append(row.engine)
    return [
        f"{phase}, repetition {repetition + 1}: results differ: "
        + ", ".join(
            f"{'/'.join(names)} {count} (CRC-32 {checksum:08x})"
            for (_, count, checksum), names in results.items()
        )
        for (repetition, phase), results in found.items()
        if len(results) > 1
    ]


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
    return Table(
        "Best peer's time by lsmkv's: over 1, lsmkv is ahead",
        ["phase", "best peer", "verdict", "ratio", "least", "most"],
        [
            [
                ratio.phase,
                ratio.peer,
                ratio.verdict,
                *(
                    f"{figure:.2f}"
                    for figure in (ratio.ratio.median, ratio.ratio.least, ratio.ratio.most)
                ),
            ]
            for ratio in ratios
        ],
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
        ratios = [] if quantity.label in _MORE_IS_BETTER else figures.ratios()
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


def _versions(rows: Sequence[Row]) -> str:
    versions = {row.engine: row.engine_version for row in rows}
    named = ", ".join(f"{engine} {version}" for engine, version in versions.items())
    return (
        f"Measured: {named}; {rows[0].entries:,} entries, "
        f"repetitions: {len({row.repetition for row in rows})}."
    )


def _time_findings(ratios: Sequence[Ratio]) -> list[str]:
    if not ratios:
        return []
    by_verdict = {
        verdict: [ratio.phase for ratio in ratios if ratio.verdict == verdict]
        for verdict in ("ahead", "level", "behind")
    }
    counts = "; ".join(
        f"{verdict} in {len(phases)}" + (f" ({', '.join(phases)})" if phases else "")
        for verdict, phases in by_verdict.items()
    )
    best = max(ratios, key=lambda ratio: ratio.ratio.median)
    worst = min(ratios, key=lambda ratio: ratio.ratio.median)
    return [
        f"Of {len(ratios)} timed phases lsmkv is, against the best peer of each: {counts}. "
        "Level: ahead in some repetitions and not in others.",
        f"Highest ratio: {_ratio(best)}. Lowest: {_ratio(worst)}.",
    ]


def _ratio(ratio: Ratio) -> str:
    found = ratio.ratio
    return (
        f"{ratio.phase}, {ratio.peer} takes {found.median:.2f} times lsmkv's time "
        f"({found.least:.2f} to {found.most:.2f})"
    )


def _quantity_findings(rows: Sequence[Row]) -> list[str]:
    found = []
    for quantity in QUANTITIES[:4]:
        figures = Figures([row for row in rows if row.phase == quantity.phase], quantity.figure)
        for ratio in figures.ratios():
            ours = figures.spread(quantity.phase, OURS)
            theirs = figures.spread(quantity.phase, ratio.peer)
            assert ours is not None and theirs is not None
            found.append(
                f"{quantity.label[0].upper()}{quantity.label[1:]}: lsmkv {number(ours.median)}, "
                f"{ratio.peer}, the best peer, {number(theirs.median)}: "
                f"{ratio.ratio.median:.2f} times ours."
            )
    return found


def _filter_findings(rows: Sequence[Row]) -> list[str]:
    """Data-block reads of absent look-ups beside the rate in theory."""
    cold = [row for row in rows if row.phase == "readmissing_cold"]
    counted = [row for row in cold if row.data_block_reads is not None]
    if not counted or not counted[0].bits_per_key:
        return []
    parts = []
    for engine in dict.fromkeys(row.engine for row in counted):
        mine = [row for row in counted if row.engine == engine]
        asked = sum(row.operations for row in mine)
        reads = sum(row.data_block_reads or 0 for row in mine)
        passed = sum(row.filter_false_positives or 0 for row in mine)
        answers = passed + sum(row.filter_negatives or 0 for row in mine)
        low, high = rate_interval(passed, answers)
        parts.append(
            f"{engine}: its filters let {passed / max(1, answers):.3%} pass "
            f"({low:.3%} to {high:.3%}), and a look-up read {reads / asked:.4f} data blocks"
        )
    bits = counted[0].bits_per_key
    theory = rate_for(round(bits * 1000), 1000)
    return [
        f"Cold look-ups of absent keys. {'; '.join(parts)}. In theory a Bloom filter of {bits:g} bits "
        f"per key lets {theory:.3%} pass. (A look-up asks a filter for each run of tables.)"
    ]
