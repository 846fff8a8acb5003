"""What ``python -m bench filters`` writes down: rows as CSV, JSON, Markdown and on the terminal.

``bench/README.md`` describes the columns; :class:`Row` is what it describes.
"""

from __future__ import annotations

import csv
import json
import math
import os
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table

from bench.filter_contenders import CONTENDERS, Basis, Contender, Group
from bench.filter_measure import Configuration, Counts, Timings, interval

SCHEMA: Final = 1
CSV_NAME: Final = "filters.csv"
JSON_NAME: Final = "filters.json"
MARKDOWN_NAME: Final = "filters.md"

DOCUMENTED: Final = (30, 300)
"""The numbers of keys that the documentation shows."""

BEGIN: Final = "<!-- bench filters -->\n"
END: Final = "<!-- end -->\n"


@dataclass(frozen=True, slots=True)
class Row:
    """One configuration; names and meanings are stable."""

    filter: str
    group: Group
    key_count: int
    error_rate_requested: float
    error_rate_exact: float
    error_rate_basis: Basis
    error_rate_measured: float
    error_rate_low: float
    error_rate_high: float
    exact_in_interval: bool
    design_effect: float
    bits_per_key: float
    lower_bound_bits_per_key: float | None
    over_lower_bound: float | None
    filter_count: int
    trial_count: int
    false_positive_count: int
    false_negative_count: int
    refused_count: int
    add_ns_median: float
    add_ns_min: float
    add_ns_max: float
    query_present_ns_median: float
    query_present_ns_min: float
    query_present_ns_max: float
    query_absent_ns_median: float
    query_absent_ns_min: float
    query_absent_ns_max: float

    @property
    def ratio(self) -> tuple[float, float, float]:
        """Measured over exact rate, and its interval's ends."""
        return (
            self.error_rate_measured / self.error_rate_exact,
            self.error_rate_low / self.error_rate_exact,
            self.error_rate_high / self.error_rate_exact,
        )


COUNTED: Final = tuple(
    field.name for field in fields(Row) if not field.name.startswith(("add_ns", "query_"))
)
"""The columns that are the same whenever a seed is run."""


def row_of(contender: Contender, what: Configuration, counts: Counts, timings: Timings) -> Row:
    """What was found out of one configuration."""
    found = interval(counts.hits, counts.per_filter)
    bits_per_key = counts.bits / len(counts.hits) / what.key_count
    # Whoever misses the rate in theory is judged by the one it has.
    bound = _lower_bound(found.rate if contender.basis == "ideal" else counts.rate)
    return Row(
        filter=contender.name,
        group=contender.group,
        key_count=what.key_count,
        error_rate_requested=what.error_rate,
        error_rate_exact=counts.rate,
        error_rate_basis=contender.basis,
        error_rate_measured=found.rate,
        error_rate_low=found.low,
        error_rate_high=found.high,
        exact_in_interval=found.low <= counts.rate <= found.high,
        design_effect=found.design_effect,
        bits_per_key=bits_per_key,
        lower_bound_bits_per_key=bound,
        over_lower_bound=None if bound is None else bits_per_key / bound,
        filter_count=len(counts.hits),
        trial_count=counts.trials,
        false_positive_count=sum(counts.hits),
        false_negative_count=counts.false_negatives,
        refused_count=counts.refused,
        add_ns_median=timings.add.median,
        add_ns_min=timings.add.least,
        add_ns_max=timings.add.most,
        query_present_ns_median=timings.present.median,
        query_present_ns_min=timings.present.least,
        query_present_ns_max=timings.present.most,
        query_absent_ns_median=timings.absent.median,
        query_absent_ns_min=timings.absent.least,
        query_absent_ns_max=timings.absent.most,
    )


def _lower_bound(rate: float) -> float | None:
    """log2(1/p): no filter has fewer bits per key; None when no false positive was seen."""
    return -math.log2(rate) if 0.0 < rate < 1.0 else None


@dataclass(frozen=True, slots=True)
class Report:
    """All rows, and what they came from: ``header`` is plain JSON."""

    header: dict[str, Any]
    rows: list[Row]

    @property
    def missing(self) -> list[str]:
        """Contenders that were not installed."""
        return list(self.header["missing"])

    @property
    def key_counts(self) -> list[int]:
        """The numbers of keys."""
        return sorted({row.key_count for row in self.rows})

    @property
    def error_rates(self) -> list[float]:
        """The rates that were asked for, highest first."""
        return sorted({row.error_rate_requested for row in self.rows}, reverse=True)

    @property
    def names(self) -> list[str]:
        """The contenders that have rows, in the order of the tables."""
        present = {row.filter for row in self.rows}
        return [contender.name for contender in CONTENDERS if contender.name in present]

    def of(self, key_count: int, error_rate: float | None = None) -> list[Row]:
        """The rows of one number of keys, and of one requested rate or all."""
        return [
            row
            for row in self.rows
            if row.key_count == key_count and error_rate in (None, row.error_rate_requested)
        ]


def write(report: Report, directory: str) -> list[str]:
    """Write CSV, JSON and Markdown into a folder; their paths."""
    paths = [os.path.join(directory, name) for name in (CSV_NAME, JSON_NAME, MARKDOWN_NAME)]
    with open(paths[0], "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows([asdict(row) for row in report.rows])
    with open(paths[1], "w", encoding="utf-8") as file:
        json.dump({**report.header, "rows": [asdict(row) for row in report.rows]}, file, indent=1)
        file.write("\n")
    with open(paths[2], "w", encoding="utf-8") as file:
        file.write(markdown(report))
    return paths


HEADINGS: Final = (
    "filter",
    "bits/key",
    "of bound",
    "exact, %",
    "measured, %",
    "95 % interval",
    "add, ns",
    "present",
    "absent",
)


def insert(report: Report, path: str) -> None:
    """Replace the section of a document between :data:`BEGIN` and :data:`END` with some tables.

    Raises:
        ValueError: the document has no such section.
    """
    with open(path, encoding="utf-8") as file:
        before, begin, rest = file.read().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{path}: no section from {BEGIN.strip()} to {END.strip()}")
    tables = markdown(replace(report, rows=[r for r in report.rows if r.key_count in DOCUMENTED]))
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}{begin}\n{tables}\n{end}{after}")


def markdown(report: Report) -> str:
    """A table for each number of keys and requested rate, as Markdown."""
    lines = [f"Command: `{report.header['command']}`. {_provenance(report.header)}", ""]
    for key_count in report.key_counts:
        for error_rate in report.error_rates:
            lines += [
                f"**{key_count:,} keys, {_percent(error_rate)} requested**",
                "",
                "| " + " | ".join(HEADINGS) + " |",
                "|---|" + "---:|" * (len(HEADINGS) - 1),
            ]
            lines += [
                "| " + " | ".join(cells(row)) + " |" for row in report.of(key_count, error_rate)
            ]
            lines += [
                f"| {name} | not installed |" + " |" * (len(HEADINGS) - 2)
                for name in report.missing
            ]
            lines.append("")
    lines += [LEGEND, ""]
    return "\n".join(lines)


def print_tables(report: Report, console: Console) -> None:
    """The same tables for a terminal."""
    for key_count in report.key_counts:
        for error_rate in report.error_rates:
            table = Table(
                title=f"{key_count:,} keys, {_percent(error_rate)} requested",
                title_justify="left",
                box=box.SIMPLE_HEAD,
                show_edge=False,
            )
            for heading in HEADINGS:
                table.add_column(
                    heading, justify="left" if heading == "filter" else "right", no_wrap=True
                )
            for row in report.of(key_count, error_rate):
                table.add_row(*cells(row))
            for name in report.missing:
                table.add_row(name, "not installed")
            console.print(table)
            console.print()
    console.print(LEGEND.replace("`", ""), soft_wrap=False)


LEGEND: Final = (
    "exact: the rate in theory of the filter as built; after ~ that of independent probes, which "
    "the filter may miss. measured: false positives by absent keys asked; ! where the 95 % interval "
    "leaves the rate in theory out. of bound: bits per key by log2(1/p) at the exact rate (after ~ "
    "at the measured one), below which no filter can go. Times of adding a key, and of asking for a "
    "present and an absent one, are medians in ns, loop included; of fingerprints and binary fuse "
    "an add is a key's share of the build."
)


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


def _provenance(header: dict[str, Any]) -> str:
    machine = header["machine"]
    versions = ", ".join([f"{name} {version}" for name, version in header["versions"].items()])
    return (
        f"Seed {header['seed']}; {machine['processor']}, {machine['cpu_count']} CPUs, "
        f"{machine['system']}; {header['form']}, {versions}."
    )


def _number(rate: float) -> str:
    """A rate in per cent with three digits and no exponent."""
    per_cent = rate * 100
    if not per_cent:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(per_cent)))
    return f"{per_cent:.{digits}f}"


def _percent(rate: float) -> str:
    return f"{rate * 100:.3g} %"
