"""What the rows of ``filters`` say: findings and tables, and the tables as Markdown."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Sequence
from typing import Any, Final

from bench.experiments.filters.contenders import missing
from bench.experiments.filters.rows import Row, error_rates, key_counts, middle_rate, rows_of
from bench.harness.experiment import Results
from bench.harness.story import Story, Table
from reports.document import provenance

MARKDOWN_NAME: Final = "filters.md"

DOCUMENTED: Final = (30, 300)
"""The numbers of keys that the documentation shows."""


HEADINGS: Final = (
    "filter",
    "bits/key",
    "of bound",
    "exact %",
    "measured %",
    "95 % interval",
    "add ns",
    "present",
    "absent",
)
LEGEND: Final = (
    "exact: the rate in theory of the filter as built; after ~ that of independent probes, which "
    "the filter may miss. measured: false positives by absent keys asked; ! where the 95 % interval "
    "leaves the rate in theory out. of bound: bits per key by log2(1/p) at the exact rate (after ~ "
    "at the measured one), below which no filter can go. Times of adding a key, and of asking for a "
    "present and an absent one, are medians in ns, loop included; of fingerprints and binary fuse "
    "an add is a key's share of the build."
)


def story(rows: Sequence[Row]) -> Story:
    """Findings, tables and charts, all computed from ``rows``."""
    from bench.experiments.filters.charts import charts

    findings = [*_intervals(rows), *_probes(rows), *_sizes(rows), *_times(rows)]
    denied = sorted({row.filter for row in rows if row.false_negative_count})
    failures = [f"{name} denied keys that it holds" for name in denied]
    return Story(findings, tables(rows, missing()), charts(rows), failures)


# Findings


def _intervals(rows: Sequence[Row]) -> list[str]:
    """How often intervals hold the rate in theory: 95 % of the times, if the theory is right."""
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
    """What other ways to derive the probes cost where filters are smallest and rates lowest."""
    here = rows_of(rows, key_counts(rows)[0], error_rates(rows)[-1])
    shown = [row for row in here if row.filter == "bloom" or row.group == "strategy"]
    if not shown:
        return []
    ratios = ", ".join(f"{row.filter} {row.ratio[0]:.2f}" for row in shown)
    return [f"{_heading(shown[0])}, measured rate by the rate of independent probes: {ratios}."]


def _sizes(rows: Sequence[Row]) -> list[str]:
    return [
        f"{_heading(best)}, the fewest bits for the rate it has: {best.filter}, "
        f"{best.over_lower_bound:.2f} times the lower bound ({best.bits_per_key:.1f} bits per key at "
        f"{_number(best.rate)} %)."
        for best in _best(
            [row for row in rows if row.error_rate_basis != "ideal" and row.over_lower_bound],
            lambda row: row.over_lower_bound or math.inf,
        )
    ]


def _times(rows: Sequence[Row]) -> list[str]:
    """How long absent keys take: of the Bloom filter, and of the quickest of each group."""
    found = []
    for key_count in key_counts(rows):
        here = rows_of(rows, key_count, middle_rate(rows))
        quickest = sorted(here, key=lambda row: row.query_absent_ns_median)
        shown = [row for row in here if row.filter == "bloom"]
        for group in ("package", "peer"):
            shown += [row for row in quickest if row.group == group][:1]
        told = dict.fromkeys(f"{row.filter} {row.query_absent_ns_median:,.0f} ns" for row in shown)
        found.append(
            f"{_heading(here[0])}, to ask for an absent key (medians; bloom and the quickest of this "
            f"package and of the peers): {', '.join(told)}."
        )
    return found


def _best(rows: Sequence[Row], value: Callable[[Row], float]) -> list[Row]:
    """The row with the lowest value for each number of keys, at the middle rate."""
    found = []
    for key_count in key_counts(rows):
        here = rows_of(rows, key_count, middle_rate(rows))
        if here:
            found.append(min(here, key=value))
    return found


# Tables


def tables(rows: Sequence[Row], missing_names: Sequence[str]) -> list[Table]:
    """One for each number of keys and requested rate; those who are missing are named in each."""
    found = []
    for key_count in key_counts(rows):
        for error_rate in error_rates(rows):
            here = rows_of(rows, key_count, error_rate)
            absent = [
                [name, "not installed", *[""] * (len(HEADINGS) - 2)] for name in missing_names
            ]
            found.append(Table(_heading(here[0]), HEADINGS, [*map(cells, here), *absent]))
    if found:
        last = found.pop()
        found.append(Table(last.title, last.headings, last.cells, LEGEND))
    return found


def cells(row: Row) -> list[str]:
    """A row as it is shown."""
    approximate = "~" if row.error_rate_basis == "ideal" else ""
    over = "-" if row.over_lower_bound is None else f"{row.over_lower_bound:.2f}"
    outside = "" if row.exact_in_interval else " !"
    return [
        row.filter,
        f"{row.bits_per_key:.2f}",
        over,
        approximate + _number(row.error_rate_exact),
        _number(row.error_rate_measured) + outside,
        f"{_number(row.error_rate_low)} to {_number(row.error_rate_high)}",
        f"{row.add_ns_median:,.0f}",
        f"{row.query_present_ns_median:,.0f}",
        f"{row.query_absent_ns_median:,.0f}",
    ]


def _heading(row: Row) -> str:
    return f"{row.key_count:,} keys, {row.error_rate_requested * 100:.3g} % requested"


def _number(rate: float) -> str:
    """A rate in per cent with three digits and no exponent."""
    per_cent = rate * 100
    if not per_cent:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(per_cent)))
    return f"{per_cent:.{digits}f}"


# Markdown


def write_markdown(results: Results[Row], given: argparse.Namespace) -> list[str]:
    """Write ``filters.md``."""
    path = os.path.join(given.out, MARKDOWN_NAME)
    with open(path, "w", encoding="utf-8") as file:
        file.write(markdown(results.header, results.rows))
    return [path]


def section(results: Results[Row]) -> str:
    """The tables that documents show."""
    return markdown(results.header, [row for row in results.rows if row.key_count in DOCUMENTED])


def markdown(header: dict[str, Any], rows: Sequence[Row]) -> str:
    """All tables as Markdown, below how they were made."""
    lines = [f"Command: `{header['command']}`. {provenance(header)}", ""]
    for table in tables(rows, header["missing"]):
        lines += [
            f"**{table.title}**",
            "",
            "| " + " | ".join(table.headings) + " |",
            "|---|" + "---:|" * (len(table.headings) - 1),
        ]
        lines += ["| " + " | ".join(row) + " |" for row in table.cells]
        lines.append("")
    return "\n".join([*lines, LEGEND, ""])
