"""What the rows say: who does how many operations a second, by what margin, and whether all agree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Final

from bench.engines.base import engines as registered
from bench.experiments.ycsb.cells import Cell
from bench.experiments.ycsb.rows import OPERATION_TIMES, Row
from bench.experiments.ycsb.workloads import LOAD, WORKLOADS
from bench.harness.story import Story, Table

OURS: Final = "lsmkv"
AGREED: Final = (
    "operations",
    "present_records",
    "read_count",
    "update_count",
    "insert_count",
    "scan_count",
    "rmw_count",
    "found_count",
    "scanned_entries",
)
"""Counts that every engine must have alike."""


def story(rows: list[Row]) -> Story:
    """Findings, tables, charts and what must hold and did not."""
    from bench.experiments.ycsb.charts import charts  # drawing is slow to import

    timed = by_cell(row for row in rows if row.repetition)
    counted = by_cell(row for row in rows if not row.repetition)
    measured = {row.engine for row in rows if row.repetition}
    engines = [engine.name for engine in registered() if engine.name in measured]
    workloads = [name for name in (LOAD, *WORKLOADS) if any(name == row.workload for row in rows)]
    failures = _failures(rows)
    findings = [*_margins(timed, engines, workloads), *_counts(rows, counted, failures)]
    tables = [_throughput(timed, engines, workloads), *_ratios(timed, engines, workloads)]
    tables += [_latencies(timed, engines, workloads), *_blocks(counted, workloads)]
    return Story(findings, tables, charts(timed, engines, workloads), failures)


def by_cell(rows: Iterable[Row]) -> Cell:
    """The rows of each workload and engine, in the order of the repetitions.

    The load precedes every group of workloads; that of the first group stands for it.
    """
    cells: Cell = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.repetition):
        cell = cells[row.workload, row.engine]
        if not cell or cell[0].group == row.group:
            cell.append(row)
    return dict(cells)


def ratios(timed: Cell, engines: Sequence[str], workload: str) -> tuple[str, list[float]] | None:
    """The best peer (by its median), and lsmkv's operations per second over its, by repetition.

    None when lsmkv or its peers were not measured.
    """
    peers = [name for name in engines if name != OURS]
    if OURS not in engines or not peers:
        return None

    def middle(peer: str) -> float:
        return median(row.operations_per_s for row in timed[workload, peer])

    best = max(peers, key=middle)
    pairs = zip(timed[workload, OURS], timed[workload, best], strict=True)
    return best, [ours.operations_per_s / theirs.operations_per_s for ours, theirs in pairs]


def _failures(rows: Sequence[Row]) -> list[str]:
    failures = []
    alike: dict[tuple[int, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        alike[row.repetition, row.group, row.workload].append(row)
        where = f"{row.engine}, {row.workload}, repetition {row.repetition}"
        expected = 0 if row.workload == "N" else row.read_count + row.rmw_count
        if row.found_count != expected:
            failures.append(f"{where}: {row.found_count} reads found a value, not {expected}")
        if row.wrong_count:
            failures.append(f"{where}: {row.wrong_count} records do not hold what was written")
    for (repetition, _, workload), group in alike.items():
        for name in AGREED:
            if len({getattr(row, name) for row in group}) > 1:
                values = ", ".join(f"{row.engine} {getattr(row, name)}" for row in group)
                failures.append(f"{workload}, repetition {repetition}: {name} differs: {values}")
    return failures


def _margins(timed: Cell, engines: Sequence[str], workloads: Sequence[str]) -> list[str]:
    """A sentence each for the workloads that lsmkv leads, does not lead, and neither for sure."""
    sorted_: dict[str, list[str]] = {"more": [], "less": [], "both": []}
    for workload in workloads:
        found = ratios(timed, engines, workload)
        if found is None:
            return []
        best, each = found
        kind = "more" if min(each) > 1 else "less" if max(each) < 1 else "both"
        sorted_[kind].append(f"{workload} {median(each):.2f} ({best})")
    ours = f"lsmkv {timed[workloads[0], OURS][0].engine_version}"
    what = {
        "more": f"In every repetition {ours} did more operations a second than its best peer in",
        "less": f"In every repetition {ours} did fewer operations a second than its best peer in",
        "both": f"The repetitions do not agree whether {ours} or its best peer does more in",
    }
    note = "; the figure is the median ratio of lsmkv to the peer named."
    return [f"{what[kind]}: {', '.join(names)}{note}" for kind, names in sorted_.items() if names]


def _counts(rows: Sequence[Row], counted: Cell, failures: Sequence[str]) -> list[str]:
    sentences = []
    if not failures:
        reads = sum(row.read_count + row.rmw_count for row in rows)
        entries = sum(row.scanned_entries for row in rows)
        sentences.append(
            f"All engines agree in every count: {reads:,} reads, {entries:,} entries walked over by "
            f"scans, and {len(rows)} times 1000 records read back that held what was written last."
        )
    for engine in dict.fromkeys(name for _, name in counted):
        for row in counted.get(("N", engine), []):
            if row.filter_negatives is not None and row.data_block_reads is not None:
                sentences.append(
                    f"In N, {row.operations:,} reads of absent keys, {engine}'s filters spared "
                    f"{row.filter_negatives:,} searches, and it read {row.data_block_reads:,} data "
                    "blocks that were not in its cache."
                )
    return sentences


def short(value: float) -> str:
    """Three digits or so, without exponents.

    >>> short(1234.5), short(23.45), short(0.4567)
    ('1,234', '23.4', '0.46')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _title(workload: str) -> str:
    return f"{workload} {WORKLOADS[workload].title}" if workload in WORKLOADS else workload


def _throughput(timed: Cell, engines: Sequence[str], workloads: Sequence[str]) -> Table:
    def cell(workload: str, engine: str) -> str:
        found = [row.operations_per_s / 1e3 for row in timed[workload, engine]]
        return f"{short(median(found))} ({short(min(found))}-{short(max(found))})"

    loops = {
        workload: median(
            row.loop_us_per_operation for engine in engines for row in timed[workload, engine]
        )
        for workload in workloads
    }
    repetitions = max(len(found) for found in timed.values())
    versions = {row.engine: row.engine_version for found in timed.values() for row in found}
    return Table(
        "Thousand operations per second",
        ["Workload", *engines, "Loop, µs"],
        [
            [
                _title(workload),
                *(cell(workload, engine) for engine in engines),
                f"{loops[workload]:.2f}",
            ]
            for workload in workloads
        ],
        note=f"Median (least-most) of {repetitions} repetitions. Loop: what each operation takes on a "
        "Python dict, clock included; it is part of all figures (of E's without the scans). Versions: "
        + ", ".join(f"{engine} {versions[engine]}" for engine in engines)
        + ".",
    )


def _ratios(timed: Cell, engines: Sequence[str], workloads: Sequence[str]) -> list[Table]:
    cells = []
    for workload in workloads:
        found = ratios(timed, engines, workload)
        if found is None:
            return []
        best, each = found
        by_repetition = ", ".join(f"{ratio:.2f}" for ratio in each)
        spread = f"{min(each):.2f}-{max(each):.2f}"
        cells.append([workload, best, f"{median(each):.2f}", spread, by_repetition])
    return [
        Table(
            "lsmkv's operations per second over its best peer's",
            ["Workload", "Best peer", "Median", "Least-most", "By repetition"],
            cells,
            note="The best peer is the one of the highest median. Above 1 lsmkv does more.",
            left=2,
        )
    ]


def _latencies(timed: Cell, engines: Sequence[str], workloads: Sequence[str]) -> Table:
    def cell(workload: str, engine: str, name: str) -> str:
        return " / ".join(
            short(median(getattr(row, f"{name}_us_p{part}") for row in timed[workload, engine]))
            for part in (50, 99)
        )

    cells = []
    for workload in workloads:
        some = timed[workload, engines[0]][0]
        for name in OPERATION_TIMES.values():
            if getattr(some, f"{name}_count"):
                times = [cell(workload, engine, name) for engine in engines]
                cells.append([workload, name, *times])
    return Table(
        "Microseconds per operation: median / 99th percentile",
        ["Workload", "Operation", *engines],
        cells,
        note="Medians over the repetitions of each percentile; one reading of the clock is included. "
        "rmw: read-modify-write.",
        left=2,
    )


def _blocks(counted: Cell, workloads: Sequence[str]) -> list[Table]:
    engines = list(dict.fromkeys(name for _, name in counted))
    if not engines:
        return []

    def per_operation(workload: str, engine: str, name: str) -> str:
        row = counted[workload, engine][0]
        count = getattr(row, name)
        return "" if count is None else f"{count / row.operations:.3f}"

    names = ("data_block_reads", "filter_negatives")
    labels = ("blocks read", "spared by filters")
    return [
        Table(
            "Per operation: data blocks that were not in the engine's cache, and searches that "
            "filters spared",
            ["Workload", *(f"{engine}: {label}" for engine in engines for label in labels)],
            [
                [
                    workload,
                    *(per_operation(workload, engine, n) for engine in engines for n in names),
                ]
                for workload in workloads
            ],
            note="As each engine counts itself, in the counting pass. Filters stand per block in "
            "lsmkv and per table in RocksDB. They depend on the shape in which background work left "
            "the tree, and need not repeat from run to run.",
        )
    ]
