"""The story of ``learning``: what it saves, what it costs, and when it is pointless."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from bench.experiments.learning.charts import charts
from bench.experiments.learning.rows import Row
from bench.experiments.learning.tables import (
    HOWS,
    by_load,
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
POINTLESS: Final = 0.1
"""Learning is called pointless where it saves less than this part of the wasted reads."""


def story(rows: Sequence[Row]) -> Story:
    """Findings, table and chart, all computed from ``rows``."""
    found = pairs(rows)
    saved, failures = _saved(*found[0])
    findings = [saved, _beside(rows)]
    for row in rows:
        is_fewer = row.how == "list" and row.wasted_reads < row.counted_again
        if row.counted_again not in (-1, row.wasted_reads) and not is_fewer:
            failures.append(
                f"{row.load}, repetition {row.repetition}: {row.how} wastes {row.wasted_reads:,} reads, "
                f"by the second count {row.counted_again:,}"
            )
    for is_shared in (False, True):
        findings.append(_pointless([pair for pair in found if pair[0][0].is_shared == is_shared]))
    return Story(
        findings,
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


def _saved(ordinary: Sequence[Row], learning: Sequence[Row]) -> tuple[str, list[str]]:
    times = ratios(ordinary, learning)
    bits = max(row.filter_bits_per_key for row in learning)
    listed = max(row.filter_bits_per_key - row.filter_bits_per_key_before for row in learning)
    is_told = ratio_text(ordinary, learning) != "-"
    fewer = (
        f": {median(times):.1f} times fewer, in single repetitions {times[0]:.1f} to {times[-1]:.1f}"
        if is_told
        else ""
    )
    finding = (
        f"Without a block cache, {reads(ordinary):,.0f} wasted reads become {reads(learning):,.0f} "
        f"(medians){fewer}, at {bits:.2f} bits per key, of which {listed:.2f} are for the list."
    )
    failures = []
    if is_told and median(times) < LEAST_RATIO:
        failures.append(f"learning leaves 1 of {median(times):.1f} wasted reads")
    if listed > MOST_LISTED_BITS and learning[0].key_count >= LEAST_KEYS_JUDGED:
        failures.append(f"the list takes {listed:.2f} bits per key")
    return finding, failures


def _beside(rows: Sequence[Row]) -> str:
    load = "Zipf 1.0"
    told = [
        f"{how} {reads(found):,.0f} ({min(row.wasted_reads for row in found):,} to "
        f"{max(row.wasted_reads for row in found):,}) at {found[0].learnt_bits_per_key:.2f} bits per key"
        for how in HOWS[1:]
        if (found := by_load(rows, load, how))
    ]
    return f"Wasted reads of {load}, medians and extremes: {'; '.join(told)}."


def _pointless(found: Sequence[tuple[list[Row], list[Row]]]) -> str:
    asked = "absent and present keys" if found[0][0][0].is_shared else "absent keys alone"
    for ordinary, learning in found:
        if reads(learning) > (1 - POINTLESS) * reads(ordinary):
            return (
                f"Lookups of {asked}: from a block cache of {ordinary[0].cache_share:.0%} of the blocks "
                f"on, learning saves less than a tenth of the wasted reads ({reads(ordinary):,.0f} "
                f"without, {reads(learning):,.0f} with it), and is pointless."
            )
    return f"Lookups of {asked}: no block cache that was tried makes learning pointless."
