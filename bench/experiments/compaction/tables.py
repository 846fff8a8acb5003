"""The tables of ``compaction``: what each load writes, keeps and reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...harness.tables import Shown, Table, table_of
from .summary import Summary, loads_of, of_load

_SETTINGS: Final = ("style", "size_ratio", "error_rate", "allocation")


def tables(summaries: Sequence[Summary]) -> list[Table]:
    """Every table that the summaries have data for."""
    found = []
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
