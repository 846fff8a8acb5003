"""The story of ``filters``: findings, and the tables as Markdown."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Sequence
from typing import Any, Final

from bench.experiments.filters.charts import charts
from bench.experiments.filters.contenders import missing
from bench.experiments.filters.rows import Row, error_rates, key_counts, middle_rate, rows_of
from bench.experiments.filters.tables import heading, rate_percent, tables
from bench.harness.experiment import Results
from bench.harness.intervals import FEWEST_EVENTS
from bench.harness.story import Story
from reports.document import provenance

MARKDOWN_NAME: Final = "filters.md"

DOCUMENTED: Final = (30, 300)
"""The numbers of keys in the documentation's tables."""


def story(rows: Sequence[Row]) -> Story:
    """Findings, tables and charts, all computed from ``rows``."""
    findings = [*_intervals(rows), *_probes(rows), *_sizes(rows), *_times(rows)]
    denied = sorted({row.filter for row in rows if row.false_negative_count})
    failures = [f"{name} denied keys that it holds" for name in denied]
    return Story(
        findings, tables(rows, missing()), charts(rows), failures, headline=_headline(rows)
    )


def _headline(rows: Sequence[Row]) -> str:
    best = _smallest(rows)
    if not best:
        return ""
    last = best[-1]
    return (
        f"The smallest filter at {rate_percent(middle_rate(rows))} % is {last.filter}, "
        f"{last.over_lower_bound:.2f} times the lower bound ({last.bits_per_key:.1f} bits per key, "
        f"{last.key_count:,} keys)."
    )


def _intervals(rows: Sequence[Row]) -> list[str]:
    """How many intervals hold the rate in theory.

    95 % of them do if the theory is right.
    """
    found = []
    for told, bases in (
        ("own theory gives the rate", ("exact", "expected")),
        ("theory is that of independent probes", ("ideal",)),
    ):
        here = [row for row in rows if row.error_rate_basis in bases]
        inside = sum(row.exact_in_interval for row in here)
        if here:
            found.append(
                f"Of {len(here)} rows of filters whose {told}, {inside} ({inside / len(here):.0%}) "
                "have it in the 95 % interval of what was measured."
            )
    return found


def _probes(rows: Sequence[Row]) -> list[str]:
    """Costs of other probe derivations, for small filters and low rates."""
    here = rows_of(rows, key_counts(rows)[0], error_rates(rows)[-1])
    shown = [
        row
        for row in here
        if (row.filter == "bloom" or row.group == "strategy")
        and row.false_positive_count >= FEWEST_EVENTS
    ]
    if not shown:
        return []
    ratios = ", ".join(f"{row.filter} {row.ratio.median:.2f}" for row in shown)
    return [f"{heading(shown[0])}, measured rate by the rate of independent probes: {ratios}."]


def _sizes(rows: Sequence[Row]) -> list[str]:
    return [
        f"{heading(best)}, the fewest bits for the rate it has: {best.filter}, "
        f"{best.over_lower_bound:.2f} times the lower bound ({best.bits_per_key:.1f} bits per key at "
        f"{rate_percent(best.rate)} %)."
        for best in _smallest(rows)
    ]


def _smallest(rows: Sequence[Row]) -> list[Row]:
    """The filters of fewest bits for the rates that they have, by number of keys."""
    return _best(
        [row for row in rows if row.error_rate_basis != "ideal" and row.over_lower_bound],
        lambda row: row.over_lower_bound or math.inf,
    )


def _times(rows: Sequence[Row]) -> list[str]:
    """How long absent keys take: in the store, and of the quickest object and peer."""
    found = []
    for key_count in key_counts(rows):
        here = rows_of(rows, key_count, middle_rate(rows))
        quickest = sorted(here, key=lambda row: row.query_absent_ns_median)
        shown = [row for row in here if row.group == "store" or row.filter == "bloom"]
        for group in ("package", "peer"):
            shown += [row for row in quickest if row.group == group][:1]
        told = dict.fromkeys(
            f"{row.filter} {row.query_absent_ns_median:,.0f} ns ({row.code})" for row in shown
        )
        found.append(
            f"{heading(here[0])}, to ask for an absent key (medians; the store's filters, bloom as "
            f"an object, and the quickest object and peer): {', '.join(told)}."
        )
    return found


def _best(rows: Sequence[Row], value: Callable[[Row], float]) -> list[Row]:
    """Rows with the lowest ``value`` at middle rate, by number of keys."""
    found = []
    for key_count in key_counts(rows):
        here = rows_of(rows, key_count, middle_rate(rows))
        if here:
            found.append(min(here, key=value))
    return found


def write_markdown(results: Results[Row], given: argparse.Namespace) -> list[str]:
    path = os.path.join(given.out, MARKDOWN_NAME)
    with open(path, "w", encoding="utf-8") as file:
        file.write(markdown(results.header, results.rows))
    return [path]


def section(results: Results[Row]) -> str:
    return markdown(results.header, [row for row in results.rows if row.key_count in DOCUMENTED])


def markdown(header: dict[str, Any], rows: Sequence[Row]) -> str:
    """All tables as Markdown, below their command."""
    parts = [f"Command: `{header['command']}`. {provenance(header)}"]
    parts += [table.to_markdown() for table in tables(rows, header["missing"])]
    return "\n\n".join(parts) + "\n"
