"""The story of ``openings``: the best rate by lookups between two openings, and what others cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from ...harness.story import Story
from .charts import charts
from .rows import Row
from .tables import (
    BYTES,
    MIXED,
    Best,
    bests,
    lookups_text,
    rate_text,
    shapes,
    tables,
)

MOST_MISSED: Final = 0.1
"""The command fails if theory misses the best rate in a larger part of the cases."""

_SIGMAS: Final = 6.0
"""Standard deviations that counts of openings may differ from those of many lookups."""


def story(rows: Sequence[Row]) -> Story:
    """Tables and chart, all computed from ``rows``."""
    return Story(tables(rows), charts(rows), failures(rows), headline=_headline(rows))


def _headline(rows: Sequence[Row]) -> str:
    """Where 1 % is within 5 % of the best, in stores of the first shape."""
    of = shapes(rows)[0]
    where = _range(bests(rows, of, BYTES))
    return f"By bytes read, p = 1 % is nearly the best {where} after an opening ({of.name})."


def failures(rows: Sequence[Row]) -> list[str]:
    """The broken promises: block reads grow as the lookups, and theory finds the best rate."""
    found = []
    for row in rows:
        if row.direct_block_reads is None:
            continue
        lookups = row.openings * min(row.lookup_count, row.key_count - 1)
        expected = lookups * row.counted_block_reads / row.counted_lookups
        # Both counts are samples.
        variance = expected * (1.0 + lookups / row.counted_lookups)
        if abs(row.direct_block_reads - expected) > _SIGMAS * math.sqrt(variance) + _SIGMAS:
            found.append(
                f"{row.run_count} runs, {row.block_size_bytes} bytes, {rate_text(row.error_rate)}, "
                f"{lookups_text(row.lookups_per_key)} lookups per key: {row.direct_block_reads:,} block "
                f"reads where {expected:,.0f} were expected"
            )
    judged = _judged(rows)
    missed = sum(not each.agrees for each in judged)
    if missed > MOST_MISSED * len(judged):
        found.append(
            f"theory's best rate is not within 5 % of the best in {missed} of {len(judged)} cases"
        )
    return found


def _range(found: Sequence[Best]) -> str:
    """The numbers of lookups at which 1 % is nearly the best."""
    fits = [lookups_text(each.lookups_per_key) for each in found if each.least <= 0.01 <= each.most]
    ends = list(dict.fromkeys((fits[0], fits[-1]))) if fits else []
    return f"at {' to '.join(ends)} lookups per key" if ends else "at none of the numbers tried"


def _judged(rows: Sequence[Row]) -> list[Best]:
    return [
        each
        for unit in (BYTES, MIXED)
        for of in shapes(rows)
        for each in bests(rows, of, unit)
        if each.is_inner and each.is_told
    ]
