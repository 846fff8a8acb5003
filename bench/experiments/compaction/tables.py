"""The tables of ``compaction``: the decision, and what each load writes, keeps and reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bench.experiments.compaction.decision import Standing, decide
from bench.experiments.compaction.summary import (
    ALLOCATIONS,
    DEFAULT,
    Config,
    Summary,
    at_default,
    loads_of,
    of_load,
)
from bench.harness.tables import Shown, Table, table_of

_SETTINGS: Final = ("style", "size_ratio", "error_rate", "allocation")


def tables(summaries: Sequence[Summary]) -> list[Table]:
    """Every table that the summaries have data for."""
    found = _decisions(summaries)
    for load in loads_of(summaries):
        rows = [each.row for each in of_load(summaries, load)]
        found.append(
            table_of(
                f"What is written and kept: {load}",
                rows,
                (
                    *_SETTINGS,
                    "write_amplification",
                    "write_amplification_expected",
                    Shown(
                        "windows",
                        lambda row: (
                            f"{row.write_amplification_min:.1f}-{row.write_amplification_max:.1f}"
                        ),
                    ),
                    "write_burst_max",
                    "space_amplification_mean",
                    "space_amplification_max",
                    "level_count",
                ),
                "Windows: least and most of four equal parts of the second half. Levels: below level "
                "0.",
            )
        )
        found.append(
            table_of(
                f"What is read, and the filters: {load}",
                rows,
                (
                    *_SETTINGS,
                    "run_count_mean",
                    "run_count_max",
                    "absent_reads_mean",
                    "absent_reads_expected_mean",
                    "absent_reads_expected_max",
                    "present_reads_mean",
                    "present_reads_max",
                    "scan_reads_mean",
                    "scan_reads_max",
                    "filter_bytes_per_key",
                    "filter_bytes_per_entry",
                ),
                "Data blocks read per operation, cache off. Exact: by the filters' exact rates in the "
                "same states; worst: by these, at the worst moment. B/key, B/entry: filter bytes in "
                "memory per live key and per stored entry.",
            )
        )
    return found


def _decisions(summaries: Sequence[Summary]) -> list[Table]:
    standings: list[tuple[Standing, Config]] = []
    for load in loads_of(summaries):
        for allocation in ALLOCATIONS:
            decision = decide(at_default(summaries, load, allocation))
            if decision is not None:
                standings += [(each, decision.winner) for each in decision.standings]
    if not standings:
        return []

    def worst(heading: str, column: str, form: str = "#.3g") -> Shown:
        return Shown(heading, lambda pair: getattr(pair[0].summary.row, column), form)

    return [
        table_of(
            f"The decision at T = {DEFAULT.size_ratio}, p = {DEFAULT.error_rate * 100:g} %: worst of "
            "the cycle, then writes",
            standings,
            (
                worst("load", "load", ""),
                worst("filters", "allocation", ""),
                worst("style", "style", ""),
                worst("present", "present_reads_max"),
                worst("absent", "absent_reads_expected_max"),
                worst("scan", "scan_reads_max"),
                worst("space", "space_amplification_max"),
                Shown("over best", lambda pair: pair[0].ratio, ".2f"),
                Shown("admitted", lambda pair: "yes" if pair[0].admitted else "no"),
                worst("write amp.", "write_amplification", ".2f"),
                worst("burst", "write_burst_max", ".0f"),
                Shown("", lambda pair: "chosen" if pair[0].summary.config == pair[1] else ""),
            ),
            "Present, absent, scan: data blocks read. Over best: the largest of the four ratios. "
            "Burst: most bytes written after one write buffer, per byte in it; not in the criterion. "
            "Chosen: among the states that were measured; no verdict if they cover less than a cycle.",
            left=3,
        )
    ]
