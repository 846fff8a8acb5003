"""The story of ``learning``: what it saves, what it costs, and when it is pointless."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bench.experiments.learning.charts import charts
from bench.experiments.learning.rows import Row
from bench.experiments.learning.tables import pairs, ratio, reads, summary
from bench.harness.story import Story

LEAST_RATIO: Final = 5.0
MOST_BITS: Final = 8.1
POINTLESS: Final = 0.1
"""Learning is called pointless where it spares less than this part of what it spares without a cache."""


def story(rows: Sequence[Row]) -> Story:
    """Findings, table and chart, all computed from ``rows``."""
    uncached, *cached = pairs(rows)
    saved, failures = _saved(*uncached)
    findings = [saved]
    for is_shared in (False, True):
        findings.append(
            _pointless(uncached, [pair for pair in cached if pair[0][0].is_shared == is_shared])
        )
    return Story(findings, [summary(rows)], charts(rows), failures)


def _saved(ordinary: Sequence[Row], learning: Sequence[Row]) -> tuple[str, list[str]]:
    times = ratio(ordinary, learning) or 0.0
    each = [ratio([one], [other]) or 0.0 for one, other in zip(ordinary, learning, strict=True)]
    bits = max(row.filter_bits_per_key for row in learning)
    finding = (
        f"Without a block cache, {reads(ordinary):,} reads in vain become {reads(learning):,}: "
        f"{times:.1f} times fewer (in single repetitions {min(each):.1f} to {max(each):.1f}), at "
        f"{bits:.2f} bits per key, of which {_listed(learning):.2f} are for what filters could not learn."
    )
    failures = []
    if times < LEAST_RATIO:
        failures.append(f"learning spares only {times:.1f} times the reads in vain")
    if bits > MOST_BITS:
        failures.append(f"filters that learn take {bits:.2f} bits per key")
    return finding, failures


def _listed(learning: Sequence[Row]) -> float:
    return max(row.filter_bits_per_key - row.filter_bits_per_key_before for row in learning)


def _pointless(
    uncached: tuple[list[Row], list[Row]], cached: Sequence[tuple[list[Row], list[Row]]]
) -> str:
    spared = reads(uncached[0]) - reads(uncached[1])
    asked = "absent and present keys" if cached[0][0][0].is_shared else "absent keys alone"
    for ordinary, learning in cached:
        left = reads(ordinary) - reads(learning)
        if left < POINTLESS * spared:
            return (
                f"Lookups of {asked}: with a block cache of {ordinary[0].cache_share:.0%} of the "
                f"blocks learning spares {left:,} reads, less than a tenth of the {spared:,} that it "
                "spares without a cache. From there on it is pointless."
            )
    return f"Lookups of {asked}: no block cache that was tried makes learning pointless."
