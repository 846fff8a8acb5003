"""The story of ``memory``: where filters pay against cache, where cached filters turn, the preset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...harness.story import Story
from ...harness.tables import percent
from .charts import charts
from .measure import EQUAL
from .rows import Row
from .tables import (
    best,
    budgets,
    memories,
    number,
    of_part,
    page_bytes,
    run_counts,
    swept_rows,
    tables,
    told,
)
from .tasks import DIRECT, LAWS, RESIDENCY

MOST_EQUAL: Final = 1.1
"""The command fails if resident filters read more than so much by cached ones in the same memory."""


def story(rows: Sequence[Row]) -> Story:
    """Tables and charts, all computed from ``rows``."""
    return Story(tables(rows), charts(rows), failures(rows), headline=_headline(rows))


def _headline(rows: Sequence[Row]) -> str:
    """What filters save of the reads of absent keys, evenly asked for, where they save most."""
    counts = run_counts(rows)
    if not counts:
        return ""
    found = [(budget, best(rows, counts[0], LAWS[0], 0.0, budget)) for budget in budgets(rows)]
    budget, here = max(found, key=lambda pair: pair[1].off.median - pair[1].reads.median)
    return (
        f"In a memory of {percent(budget)} % of the data, filters leave {number(here.reads.median)} "
        f"reads per absent key where cache alone leaves {number(here.off.median)} ({here.which.name})."
    )


def failures(rows: Sequence[Row]) -> list[str]:
    """The broken promises."""
    found = []
    for row in rows:
        name = f"{row.part}, {row.filters} {row.error_rate:g}, {row.residency}, {row.law}"
        if row.found_count != row.present_count:
            found.append(
                f"{name}: {row.found_count} of {row.present_count} present keys were found"
            )
        if row.residency not in ("cached",) and row.filter_reads:
            found.append(f"{name}: {row.filter_reads} reads of filters that are not cached")
    ratios = equal_ratios(of_part(rows, RESIDENCY))
    if ratios and ratios[-1] > MOST_EQUAL:
        found.append(
            f"resident filters read up to {ratios[-1]:.2f} times the bytes of cached ones in the same "
            "memory"
        )
    found += _page_failures(of_part(rows, DIRECT))
    return found


def _page_failures(rows: Sequence[Row]) -> list[str]:
    """Pages counted of ordinary reads must be those of direct reads."""
    if not rows:
        return []
    ordinary, direct = rows
    return [
        f"{what}: {getattr(ordinary, what):,} counted, {getattr(direct, what):,} read directly"
        for what in ("block_page_bytes", "filter_page_bytes")
        if getattr(ordinary, what) != getattr(direct, what)
    ]


def equal_ratios(rows: Sequence[Row]) -> list[float]:
    """Bytes of resident filters by those of cached ones in the same memory, where both count."""
    found = []
    for block_bytes in sorted({row.block_size_bytes for row in rows}):
        for share in (0.0, 1.0):
            for law in LAWS:
                for memory in memories(rows):
                    resident, cached, off = (
                        swept_rows(rows, block_bytes, share, law, kind, memory)
                        for kind in (EQUAL, "cached", "off")
                    )
                    if not resident:
                        continue
                    mine, other = page_bytes(resident).median, page_bytes(cached).median
                    is_much = max(mine, other) > page_bytes(off).median / 100
                    if is_much and told(resident, cached):
                        found.append(mine / other)
    return sorted(found)
