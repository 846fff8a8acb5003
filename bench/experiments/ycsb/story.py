"""The story of ``ycsb``: margins between engines, and whether their counts agree."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from ...engines.base import engines as registered
from ...harness.ratios import Figures, Ratio
from ...harness.story import Story
from .charts import charts
from .rows import Cells, Row
from .tables import blocks, latencies, ratio_table, throughput
from .workloads import LOAD, WORKLOADS

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
"""Counts that must be equal in every engine."""


def story(rows: list[Row]) -> Story:
    timed = by_cell(row for row in rows if row.is_timed)
    counted = by_cell(row for row in rows if not row.is_timed)
    measured = {row.engine for row in rows if row.is_timed}
    engines = [engine.name for engine in registered() if engine.name in measured]
    workloads = [name for name in (LOAD, *WORKLOADS) if any(name == row.workload for row in rows)]
    failures = _failures(rows)
    ratios = ratios_of(timed)
    tables = [throughput(timed, engines, workloads)]
    if ratios:
        tables.append(ratio_table(ratios))
    tables.append(latencies(timed, engines, workloads))
    if counted:
        tables.append(blocks(counted, workloads))
    tables = [replace(table, timed=table.headings) for table in tables]
    return Story(tables, charts(timed, engines, workloads), failures, headline=_headline(ratios))


def _headline(ratios: Sequence[Ratio]) -> str:
    if not ratios:
        return ""
    counts = Counter(ratio.verdict for ratio in ratios)
    if counts["no verdict"]:
        few = counts["no verdict"]
        return f"Too few repetitions to tell who is ahead in {few} of {len(ratios)} workloads."
    return (
        f"lsmkv does more operations a second than its best peer in {counts['ahead']} of {len(ratios)} "
        f"workloads, level in {counts['level']}, fewer in {counts['behind']}."
    )


def by_cell(rows: Iterable[Row]) -> Cells:
    """The rows by workload and engine, in order of repetitions; one load stands for all."""
    cells: Cells = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.repetition):
        cell = cells[row.workload, row.engine]
        if not cell or cell[0].group == row.group:
            cell.append(row)
    return dict(cells)


def ratios_of(timed: Cells) -> list[Ratio]:
    """lsmkv's operations per second over the best peer's, by workload."""
    rows = [row for cell in timed.values() for row in cell]
    return Figures(rows, lambda row: row.operations_per_s).ratios(more_is_better=True)


def _failures(rows: Sequence[Row]) -> list[str]:
    failures = []
    alike: dict[tuple[int, bool, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        alike[row.repetition, row.is_timed, row.group, row.workload].append(row)
        where = f"{row.engine}, {row.workload}, repetition {row.repetition}"
        expected = 0 if row.workload == "N" else row.read_count + row.rmw_count
        if row.found_count != expected:
            failures.append(f"{where}: {row.found_count} reads found a value, not {expected}")
        if row.wrong_count:
            failures.append(f"{where}: {row.wrong_count} records do not hold what was written")
    for (repetition, _, _, workload), group in alike.items():
        for name in AGREED:
            if len({getattr(row, name) for row in group}) > 1:
                values = ", ".join(f"{row.engine} {getattr(row, name)}" for row in group)
                failures.append(f"{workload}, repetition {repetition}: {name} differs: {values}")
    return failures
