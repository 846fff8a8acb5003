"""The story of ``learning``: what it saves, what it costs, and when it is pointless."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from bench.experiments.learning.charts import charts
from bench.experiments.learning.rows import Row
from bench.experiments.learning.tables import pairs, ratios, reads, summary
from bench.harness.story import Story

LEAST_RATIO: Final = 5.0
MOST_BITS: Final = 8.1
POINTLESS: Final = 0.1
"""Learning is called pointless where it saves less than this part of the wasted reads."""


def story(rows: Sequence[Row]) -> Story:
    """Findings, table and chart, all computed from ``rows``."""
    found = pairs(rows)
    saved, failures = _saved(*found[0])
    findings = [saved]
    for is_shared in (False, True):
        findings.append(_pointless([pair for pair in found if pair[0][0].is_shared == is_shared]))
    return Story(findings, [summary(rows)], charts(rows), failures)


def _saved(ordinary: Sequence[Row], learning: Sequence[Row]) -> tuple[str, list[str]]:
    times = ratios(ordinary, learning)
    bits = max(row.filter_bits_per_key for row in learning)
    listed = max(row.filter_bits_per_key - row.filter_bits_per_key_before for row in learning)
    finding = (
        f"Without a block cache, {reads(ordinary):,.0f} wasted reads become {reads(learning):,.0f} "
        f"(medians): {median(times):.1f} times fewer, in single repetitions {times[0]:.1f} to "
        f"{times[-1]:.1f}, at {bits:.2f} bits per key, of which {listed:.2f} are for what filters could "
        "not learn."
    )
    failures = []
    if median(times) < LEAST_RATIO:
        failures.append(f"learning leaves 1 of {median(times):.1f} wasted reads")
    if bits > MOST_BITS:
        failures.append(f"filters that learn take {bits:.2f} bits per key")
    return finding, failures


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
