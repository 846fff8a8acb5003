"""The story of ``learning``: what it saves, what it costs, and when it is pointless."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from bench.experiments.learning.charts import charts
from bench.experiments.learning.rows import Row
from bench.experiments.learning.tables import (
    contenders,
    pairs,
    ratio_text,
    ratios,
    reads,
    summary,
)
from bench.harness.story import Story

LEAST_RATIO: Final = 5.0
MOST_LISTED_BITS: Final = 0.25
LEAST_KEYS_JUDGED: Final = 10_000  # of fewer, chance decides how many are listed
"""The list, for each present key, where there is no block cache."""


def story(rows: Sequence[Row]) -> Story:
    """Findings, table and chart, all computed from ``rows``."""
    found = pairs(rows)
    failures = _saved(*found[0])
    for row in rows:
        is_fewer = row.how == "list" and row.wasted_reads < row.counted_again
        if row.counted_again not in (-1, row.wasted_reads) and not is_fewer:
            failures.append(
                f"{row.load}, repetition {row.repetition}: {row.how} wastes {row.wasted_reads:,} reads, "
                f"by the second count {row.counted_again:,}"
            )
    return Story(
        [contenders(rows), summary(rows)],
        charts(rows),
        failures,
        headline=_headline(*found[0]),
    )


def _headline(ordinary: Sequence[Row], learning: Sequence[Row]) -> str:
    fewer = f": {times} times fewer" if (times := ratio_text(ordinary, learning)) != "-" else ""
    return (
        f"Without a block cache adaptive_filters turns {reads(ordinary):,.0f} wasted reads into "
        f"{reads(learning):,.0f}{fewer} (medians)."
    )


def _saved(ordinary: Sequence[Row], learning: Sequence[Row]) -> list[str]:
    times = ratios(ordinary, learning)
    listed = max(row.filter_bits_per_key - row.filter_bits_per_key_before for row in learning)
    failures = []
    is_told = ratio_text(ordinary, learning) != "-"
    if is_told and median(times) < LEAST_RATIO:
        failures.append(f"learning leaves 1 of {median(times):.1f} wasted reads")
    if listed > MOST_LISTED_BITS and learning[0].key_count >= LEAST_KEYS_JUDGED:
        failures.append(f"the list takes {listed:.2f} bits per key")
    return failures
