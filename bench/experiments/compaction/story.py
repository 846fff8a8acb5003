"""The story of ``compaction``: headline and failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...harness.story import Story
from . import summary
from .charts import charts
from .rows import Row
from .tables import tables


def story(rows: list[Row]) -> Story:
    summaries = summary.summarise(rows)
    wrong = sum(row.wrong_answers for row in rows)
    failures = [f"{wrong} lookups or scans had a wrong answer"] if wrong else []
    found = tables(summaries)
    return Story(found, charts(summaries), failures, headline=_headline(summaries))


def _headline(summaries: Sequence[summary.Summary]) -> str:
    """The styles at the default, or at the first settings that were measured."""
    main = summary.of_load(summaries, summary.MAIN_LOAD)
    if not main:
        return ""
    usual = summary.at_default(summaries, summary.MAIN_LOAD, summary.DEFAULT.filter_allocation)
    first = (usual or main)[0].config
    parts = [
        f"{each.config.style} {each.row.write_amplification:.2f} and "
        f"{each.row.absent_reads_expected_mean:.4f}"
        for each in main
        if replace(each.config, style=first.style) == first
    ]
    return (
        f"Bytes written per byte and blocks read per absent key, T = {first.size_ratio}: "
        f"{'; '.join(parts)}."
    )
