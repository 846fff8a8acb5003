"""The tables of the report: the decision, and per load what is written, kept and read."""

from __future__ import annotations

from collections.abc import Sequence

from bench.experiments.compaction.decision import WORST, decide
from bench.experiments.compaction.summary import (
    ALLOCATIONS,
    DEFAULT,
    Summary,
    at_default,
    loads_of,
    of_load,
)
from bench.harness.story import Table


def tables(summaries: Sequence[Summary]) -> list[Table]:
    """Every table that the summaries have data for."""
    found = _decisions(summaries)
    for load in loads_of(summaries):
        own = of_load(summaries, load)
        found += [_writes(load, own), _reads(load, own)]
    return found


def _decisions(summaries: Sequence[Summary]) -> list[Table]:
    cells = []
    for load in loads_of(summaries):
        for allocation in ALLOCATIONS:
            decision = decide(at_default(summaries, load, allocation))
            for standing in decision.standings if decision else ():
                each = standing.summary
                wins = decision is not None and each.config == decision.winner
                cells.append(
                    [
                        load,
                        allocation,
                        each.config.style,
                        *(_figures(each.most(column)) for column in WORST),
                        f"{standing.ratio:.2f}",
                        "yes" if standing.admitted else "no",
                        f"{each.mean('write_amplification'):.2f}",
                        f"{each.most('write_burst_max'):.0f}",
                        "chosen" if wins else "",
                    ]
                )
    if not cells:
        return []
    return [
        Table(
            f"The decision at T = {DEFAULT.size_ratio}, p = {DEFAULT.error_rate * 100:g} %: worst of "
            "the cycle, then writes",
            (
                "load",
                "filters",
                "style",
                "present",
                "absent",
                "scan",
                "space",
                "over best",
                "admitted",
                "write amp.",
                "burst",
                "",
            ),
            cells,
            "Present, absent, scan: data blocks read. Over best: the largest of the four ratios. "
            "Burst: most bytes written after one write buffer, per byte in it; not in the criterion. "
            "Chosen: by what was watched; no verdict if that was less than a whole cycle.",
            left=3,
        )
    ]


def _writes(load: str, summaries: Sequence[Summary]) -> Table:
    return Table(
        f"What is written and kept: {load}",
        (
            *_NAMES,
            "write amp.",
            "theory",
            "windows",
            "burst",
            "space amp.",
            "most",
            "levels",
        ),
        [
            [
                *_names(each),
                f"{each.mean('write_amplification'):.2f}",
                f"{each.mean('write_amplification_expected'):.1f}",
                f"{each.least('write_amplification_min'):.1f}-"
                f"{each.most('write_amplification_max'):.1f}",
                f"{each.most('write_burst_max'):.0f}",
                f"{each.mean('space_amplification_mean'):.2f}",
                f"{each.most('space_amplification_max'):.2f}",
                f"{each.most('level_count'):.0f}",
            ]
            for each in summaries
        ],
        "Windows: least and most of four equal parts of the second half. Levels: below level 0.",
    )


def _reads(load: str, summaries: Sequence[Summary]) -> Table:
    return Table(
        f"What is read, and the filters: {load}",
        (
            *_NAMES,
            "runs",
            "most",
            "absent",
            "exact",
            "worst",
            "present",
            "most",
            "scan",
            "most",
            "B/key",
            "B/entry",
        ),
        [
            [
                *_names(each),
                f"{each.mean('run_count_mean'):.1f}",
                f"{each.most('run_count_max'):.0f}",
                _figures(each.mean("absent_reads_mean")),
                _figures(each.mean("absent_reads_expected_mean")),
                _figures(each.most("absent_reads_expected_max")),
                f"{each.mean('present_reads_mean'):.3f}",
                f"{each.most('present_reads_max'):.3f}",
                f"{each.mean('scan_reads_mean'):.1f}",
                f"{each.most('scan_reads_max'):.1f}",
                f"{each.mean('filter_bytes_per_key'):.2f}",
                f"{each.mean('filter_bytes_per_entry'):.2f}",
            ]
            for each in summaries
        ],
        "Data blocks read per operation, cache off. Exact: by the filters' exact rates in the same "
        "states; worst: by these, at the worst moment. B/key, B/entry: filter bytes in memory per "
        "live key and per stored entry.",
    )


_NAMES = ("style", "T", "p, %", "filters")


def _names(each: Summary) -> list[str]:
    config = each.config
    return [
        config.style,
        str(config.size_ratio),
        f"{config.error_rate * 100:g}",
        config.allocation,
    ]


def _figures(value: float) -> str:
    """Three significant figures."""
    return f"{value:#.3g}"
