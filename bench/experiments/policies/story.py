"""The story of ``policies``: tables and charts of the parts that were measured, and what fails."""

from __future__ import annotations

from collections.abc import Sequence

from ...harness.story import Story
from . import repeats, shift, skew, trees
from .charts import charts
from .rows import Row, of
from .tables import tables

PARTS = {"trees": trees, "skew": skew, "shift": shift, "repeats": repeats}


def story(rows: Sequence[Row]) -> Story:
    return Story(tables(rows), charts(rows), failures(rows), headline=_headline(rows))


def failures(rows: Sequence[Row]) -> list[str]:
    """The broken promises of every part."""
    return [
        failure
        for part, module in PARTS.items()
        if (here := of(rows, part=part))
        for failure in module.failures(here)
    ]


def _headline(rows: Sequence[Row]) -> str:
    skewed = of(rows, part="skew", hot_share=0.9, bits_per_key=skew.BITS)
    if skewed:
        (both,) = skew.pairs(skewed, is_compacted=True)
        return (
            "Where a tenth of the keys has 90 % of the lookups, a budget wastes "
            f"{skew.ratio(*both).text('.2f')} of the reads that Monkey's rates do."
        )
    repeated = of(rows, part="repeats")
    if repeated:
        ordinary, learning = map(repeats.reads, repeats.pairs(repeated)[0])
        return f"The list of learnt keys turns {ordinary:,.0f} wasted reads into {learning:,.0f}."
    return f"Absent keys waste {sum(row.wasted_reads for row in rows):,} reads in all stores."
