"""The story of ``budget``: the memory is kept, and spent where lookups ask."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from bench.experiments.budget.charts import NAME, charts
from bench.experiments.budget.rows import Row
from bench.experiments.budget.tables import Pair, comparison, pairs, ratio_text
from bench.experiments.budget.tasks import BITS
from bench.harness.experiment import Results
from bench.harness.intervals import ratio_interval
from bench.harness.pictures import copy_beside, link
from bench.harness.story import Story
from reports.document import provenance

WITHIN: Final = 0.02
MOST_UNIFORM: Final = 1.02
MOST_HOT: Final = 0.7


def story(rows: Sequence[Row]) -> Story:
    """Table and chart, all computed from ``rows``."""
    found = pairs(rows)
    usual = [pair for pair in found if pair[0].bits_per_key == BITS]
    return Story(
        [comparison(found)],
        charts(rows),
        failures(rows),
        headline=_headline(usual),
    )


def _size(pair: Pair) -> float:
    """The size of the filters by the budget."""
    monkey, budget = pair
    return budget.filter_bytes / monkey.filter_bytes


def _headline(usual: Sequence[Pair]) -> str:
    monkey, budget = next(pair for pair in usual if pair[0].hot_share == 0.9)
    return (
        "Where a tenth of the keys has 90 % of the lookups, a budget wastes "
        f"{ratio_text(budget.wasted_reads, monkey.wasted_reads)} of the reads that Monkey's rates do."
    )


def failures(rows: Sequence[Row]) -> list[str]:
    """The stores that keep no budget, or read more than is promised beyond what chance explains."""
    found = []
    for monkey, budget in pairs(rows):
        name = f"{monkey.hot_share:.0%} of the lookups in a tenth, {monkey.bits_per_key:g} bits"
        size = _size((monkey, budget))
        if abs(size - 1) > WITHIN:
            found.append(f"{name}: filters take {size:.3f} of the budget")
        low, _ = ratio_interval(budget.wasted_reads, monkey.wasted_reads)
        most = {0.1: MOST_UNIFORM, 0.9: MOST_HOT}.get(monkey.hot_share)
        if most is not None and low > most:
            found.append(f"{name}: at least {low:.2f} of Monkey's reads, not {most}")
    return found


def section(results: Results[Row]) -> str:
    """The section of a document: the picture and the table."""
    told = story(results.rows)
    return (
        "\n\n".join(
            [
                link(
                    NAME, "Data blocks read for an absent key, by filter memory and skew of lookups"
                ),
                f"Command: `{results.header['command']}`. {provenance(results.header)}",
                told.tables[0].to_markdown(),
            ]
        )
        + "\n"
    )


def write_picture(results: Results[Row], given: argparse.Namespace) -> list[str]:
    """With ``--into``: the chart as a picture beside the document."""
    return copy_beside(given, NAME)
