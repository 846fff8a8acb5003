"""The story of ``openings``: the best rate by lookups between two openings, and what others cost."""

from __future__ import annotations

import argparse
import math
import os
import shutil
from collections.abc import Sequence
from typing import Final

from bench.experiments.openings.charts import NAME, charts
from bench.experiments.openings.rows import Row
from bench.experiments.openings.tables import (
    BYTES,
    MIXED,
    Best,
    Shape,
    bests,
    lookups_text,
    rate_text,
    shapes,
    tables,
    unit_name,
)
from bench.harness.experiment import Results
from bench.harness.story import Story
from reports.document import provenance

PICTURES: Final = "pictures"
MOST_MISSED: Final = 0.1
"""The command fails if theory misses the best rate in a larger part of the cases."""

_SIGMAS: Final = 6.0
"""Standard deviations that counts of openings may differ from those of many lookups."""


def story(rows: Sequence[Row]) -> Story:
    """Findings, tables and chart, all computed from ``rows``."""
    found = [_default(rows, unit) for unit in (BYTES, MIXED)]
    return Story(
        [*found, _agreement(rows), _cached(rows), _index(rows)],
        tables(rows),
        charts(rows),
        failures(rows),
        headline=_headline(rows),
    )


def _headline(rows: Sequence[Row]) -> str:
    """Where 1 % is within 5 % of the best, in stores of the first shape."""
    of = shapes(rows, "resident")[0]
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


def _default(rows: Sequence[Row], unit: str) -> str:
    """Where 1 % is nearly the best, what it costs elsewhere, and where no filters are best."""
    parts = [_default_in(rows, of, unit) for of in shapes(rows, "resident")]
    return f"Cost in {unit_name(rows, unit)}: 1 % is within 5 % of the best in {'; '.join(parts)}."


def _default_in(rows: Sequence[Row], of: Shape, unit: str) -> str:
    found = bests(rows, of, unit)
    where = _range(found)
    told = [each for each in found if each.is_told]
    worst = max(told, key=lambda each: each.default / each.cost, default=None)
    off = [each for each in found if each.rate == 1]
    none = f"; no filters are best up to {lookups_text(off[-1].lookups_per_key)}" if off else ""
    if worst is None:
        return f"{of.name} {where}{none}"
    return (
        f"{of.name} {where} (up to {worst.default / worst.cost:.0f} times the best, at "
        f"{lookups_text(worst.lookups_per_key)}{none})"
    )


def _range(found: Sequence[Best]) -> str:
    """The numbers of lookups at which 1 % is nearly the best."""
    fits = [lookups_text(each.lookups_per_key) for each in found if each.least <= 0.01 <= each.most]
    ends = list(dict.fromkeys((fits[0], fits[-1]))) if fits else []
    return f"at {' to '.join(ends)} lookups per key" if ends else "at none of the numbers tried"


def _judged(rows: Sequence[Row]) -> list[Best]:
    return [
        each
        for unit in (BYTES, MIXED)
        for of in shapes(rows, "resident")
        for each in bests(rows, of, unit)
        if each.is_inner and each.is_told
    ]


def _agreement(rows: Sequence[Row]) -> str:
    judged = _judged(rows)
    agreeing = sum(each.agrees for each in judged)
    return (
        f"Theory's best rate, or its neighbour among the rates tried, is within 5 % of the best cost in "
        f"{agreeing} of the {len(judged)} cases where it lies between the ends of those tried, and "
        "enough block reads were counted."
    )


def _cached(rows: Sequence[Row]) -> str:
    """What cached filters save where few lookups follow an opening."""
    of = shapes(rows, "resident")[0]
    other = Shape(of.run_count, of.block_size_bytes, "cached")
    pairs = zip(bests(rows, of, BYTES), bests(rows, other, BYTES), strict=True)
    parts = [
        f"{mine.cost / theirs.cost:.2f} at {lookups_text(mine.lookups_per_key)}"
        for mine, theirs in pairs
        if mine.lookups_per_key <= 0.1 and mine.is_told and theirs.is_told
    ]
    if not parts:
        return f"{of.name}: too few block reads to compare resident filters with cached ones."
    return (
        f"{of.name}: bytes with the best rate of resident filters by those with the best of cached ones, "
        f"by lookups per key: {', '.join(parts)}."
    )


def _index(rows: Sequence[Row]) -> str:
    row = next(row for row in rows if row.error_rate == 0.01)
    return (
        f"{shapes([row], row.residency)[0].name}: an opening and its first lookup also read "
        f"{row.index_bytes / row.key_count:.2f} bytes per key of indexes in {row.index_requests} "
        f"requests, whatever the filters, of which those of 1 % have {row.filter_bits_per_key / 8:.2f}; "
        "costs are without these."
    )


def section(results: Results[Row]) -> str:
    """The section of a document: the picture, findings, and brief tables."""
    told = story(results.rows)
    parts = [f"Command: `{results.header['command']}`. {provenance(results.header)}"]
    parts.append(f"![The best error rate by lookups between two openings]({PICTURES}/{NAME}.svg)")
    parts.append("\n".join(f"- {finding}" for finding in told.findings))
    parts += [table.to_markdown() for table in told.tables if table.brief]
    return "\n\n".join(parts) + "\n"


def write_picture(results: Results[Row], given: argparse.Namespace) -> list[str]:
    """With ``--into``: the chart as a picture beside the document."""
    if not given.into:
        return []
    folder = os.path.join(os.path.dirname(given.into), PICTURES)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{NAME}.svg")
    shutil.copyfile(os.path.join(given.out, f"{NAME}.svg"), path)
    return [path]
