"""The tables of ``ycsb``: throughput, ratios, latencies and counts of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from ...harness.ratios import Ratio, spread
from ...harness.tables import Shown, Table, table_of
from .rows import OPERATION_TIMES, PERCENTILES, Cells
from .workloads import WORKLOADS


def short(value: float) -> str:
    """Three digits or so, without exponents.

    >>> short(1234.5), short(23.45), short(0.4567)
    ('1,234', '23.4', '0.46')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _title(workload: str) -> str:
    return f"{workload} {WORKLOADS[workload].title}" if workload in WORKLOADS else workload


def throughput(timed: Cells, engines: Sequence[str], workloads: Sequence[str]) -> Table:
    """Operations per second, and what the timed loop itself takes."""

    def cell(workload: str, engine: str) -> str:
        found = spread(row.operations_per_s / 1e3 for row in timed[workload, engine])
        return f"{short(found.median)} ({short(found.least)}-{short(found.most)})"

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


def ratio_table(ratios: Sequence[Ratio]) -> Table:
    """lsmkv against the best peer of each workload."""
    return table_of(
        "lsmkv's operations per second over its best peer's",
        ratios,
        (
            Shown("Workload", "phase"),
            Shown("Best peer", "peer"),
            Shown("Median", lambda found: found.ratio.median, ".2f"),
            Shown("95 % interval", lambda r: f"{r.interval[0]:.2f}-{r.interval[1]:.2f}"),
            Shown("Verdict", "verdict"),
            Shown("By repetition", lambda r: ", ".join(f"{ratio:.2f}" for ratio in r.each)),
        ),
        "The best peer is the one of the highest median. Above 1 lsmkv does more; level: the interval "
        "of the median includes 1; no verdict: fewer than 6 repetitions have no interval.",
        left=2,
    )


def latencies(timed: Cells, engines: Sequence[str], workloads: Sequence[str]) -> Table:
    def cell(workload: str, engine: str, name: str) -> str:
        return " / ".join(
            short(median(getattr(row, f"{name}_us_p{part}") for row in timed[workload, engine]))
            for part in PERCENTILES
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


def blocks(counted: Cells, workloads: Sequence[str]) -> Table:
    """Counts of blocks and filters by the engines that count."""
    engines = list(dict.fromkeys(name for _, name in counted))
    columns = {"data_block_reads": "blocks read", "filter_negatives": "spared by filters"}

    def per_operation(workload: str, engine: str, name: str) -> str:
        row = counted[workload, engine][0]
        count = getattr(row, name)
        return "" if count is None else f"{count / row.operations:.3f}"

    return Table(
        "Per operation: data blocks that were not in the engine's cache, and searches that "
        "filters spared",
        ["Workload", *(f"{engine}: {label}" for engine in engines for label in columns.values())],
        [
            [
                workload,
                *(per_operation(workload, engine, name) for engine in engines for name in columns),
            ]
            for workload in workloads
        ],
        note="As each engine counts itself, in the counting pass. Filters stand per block in "
        "lsmkv and per table in RocksDB. They depend on the shape in which background work left "
        "the tree, and need not repeat from run to run.",
    )
