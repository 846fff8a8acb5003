"""The story of ``saved-io``: findings, and which tables and charts there are."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from scipy.stats import binom

from bench.experiments.saved_io import tables
from bench.experiments.saved_io.charts import READS_LEFT, charts
from bench.experiments.saved_io.datasets import ALONE, DIGITS, HBASE
from bench.experiments.saved_io.equal_story import equal_story
from bench.experiments.saved_io.rows import REFERENCE_RATE, Row
from bench.harness import pictures
from bench.harness.experiment import Results
from bench.harness.intervals import CONFIDENCE, rate_interval
from bench.harness.story import Story
from reports.document import provenance

HEADLINE_RATES: Final = (0.1, 0.01, 0.001, 0.0001)
"""The rates of the first table."""

HEADLINE_RUNS: Final = 4

_CHANCE: Final = 1e-5  # less likely is no chance

BAR: Final = 0.99
"""The share of the reads of absent lookups that filters of 1 % must save."""


def story(rows: Sequence[Row]) -> Story:
    """Findings, tables and charts, all computed from ``rows``."""
    stores = [row for row in rows if row.is_store]
    findings, failures = _strategies(rows), list[str]()
    first, found = None, []
    if stores:
        saved, failures = _saved(stores)
        holding, doubts = _rates(stores)
        agreement, disagreements = _agreement(stores)
        findings = [*saved, *_hits(stores), *holding, *findings, agreement]
        findings += _latency(stores) + _hbase(stores)
        failures += [*doubts, *disagreements, *_miscounted(stores), *_below_bound(stores)]
        absent = [row for row in stores if not row.hit_ratio and not row.repetition]
        asked = headline_rows(stores)
        first = tables.headline(asked) if asked else None
        found.append(tables.summary(absent))
        found += [
            tables.of_store([row for row in stores if _shape(row) == shape])
            for shape in dict.fromkeys(map(_shape, stores))
        ]
    compared, equal_findings, equal_failures = equal_story(rows)
    found += compared
    findings += equal_findings
    failures += equal_failures
    strategies = [row for row in rows if row.dataset == ALONE]
    if strategies:
        found.append(tables.of_strategies(strategies))
    return Story(findings, found, charts(rows), failures, first)


def headline_rows(rows: Sequence[Row]) -> list[Row]:
    """The rows of :data:`HEADLINE_RATES` for absent keys, in stores of one shape.

    The shape is that of the data set ``digits``, if measured, with the smallest blocks, in
    :data:`HEADLINE_RUNS` runs if there are such stores.
    """
    here = [
        row
        for row in rows
        if row.is_store
        and not row.hit_ratio
        and not row.repetition
        and row.error_rate_requested in HEADLINE_RATES
    ]
    if not here:
        return []
    best = min(
        here,
        key=lambda row: (
            row.dataset != DIGITS,
            row.block_size_bytes,
            row.run_count != HEADLINE_RUNS,
        ),
    )
    return [row for row in here if _shape(row) == _shape(best)]


def _shape(row: Row) -> tuple[object, ...]:
    return row.dataset, row.filter_policy, row.block_size_bytes, row.run_count


def _at_reference(rows: Sequence[Row], hit_ratio: float) -> list[Row]:
    return [
        row
        for row in rows
        if row.error_rate_requested == REFERENCE_RATE and row.hit_ratio == hit_ratio
    ]


def _saved(stores: Sequence[Row]) -> tuple[list[str], list[str]]:
    rows = _at_reference(stores, 0.0)
    asked = sum(row.data_block_reads_unfiltered or 0 for row in rows)
    if not asked:
        return [], []
    left = sum(row.data_block_reads or 0 for row in rows)
    # The stores have different filters: their variances add up.
    weighed = sum((row.data_block_reads_unfiltered or 0) * (row.design_effect or 1) for row in rows)
    low, high = rate_interval(left, asked, effective=asked * asked / weighed)
    shares = [row.reads_saved_gross_share or 0.0 for row in rows]
    nets = [row.reads_saved_net_share or 0.0 for row in rows]
    pages = [row.page_bytes_saved_net_share or 0.0 for row in rows]
    finding = (
        f"At p = 1 % filters save {(1 - left / asked):.2%} of the data-block reads of absent lookups "
        f"({asked:,} without filters, {left:,} with; 95 % interval {1 - high:.2%} to {1 - low:.2%})"
        f"{f'; by store {_span(shares)}' if len(rows) > 1 else ''}. Net of loading the filters once it "
        f"is {_span(nets)} of the read calls, and {_span(pages)} of the bytes of pages."
    )
    # A sample may fall short of what holds by theory; it fails when chance does not explain it.
    if 1 - low < BAR:
        return [finding], [f"filters of 1 % save only {1 - left / asked:.2%} of absent reads"]
    return [finding], []


def _span(shares: Sequence[float], digits: int = 2) -> str:
    """The least and the largest share, or the only one.

    >>> _span([0.99, 0.985]), _span([0.99])
    ('98.50% to 99.00%', '99.00%')
    """
    low, high = (f"{end:.{digits}%}" for end in (min(shares), max(shares)))
    return low if low == high else f"{low} to {high}"


def _hits(stores: Sequence[Row]) -> list[str]:
    found = []
    more = ", more where more runs are searched without a find"
    for hit_ratio in sorted({row.hit_ratio for row in stores} - {0.0}):
        shares = [row.reads_saved_gross_share or 0.0 for row in _at_reference(stores, hit_ratio)]
        if shares:
            found.append(
                f"{hit_ratio:.0%} of keys present: {_span(shares, 1)} of reads saved at p = 1 %"
                f"{more if len({row.run_count for row in stores}) > 1 else ''}."
            )
    return found


def _rates(stores: Sequence[Row]) -> tuple[list[str], list[str]]:
    judged = [row for row in stores if row.error_rate_measured is not None and not row.hit_ratio]
    if not judged:
        return [], []
    holding = sum(row.holds_exact for row in judged)
    finding = (
        f"The exact rate of the filters as built lies in the 95 % interval of the measured one in "
        f"{holding} of {len(judged)} stores (19 of 20 are to be expected)."
    )
    if binom.cdf(holding, len(judged), CONFIDENCE) < _CHANCE:
        return [finding], [
            f"the exact rate lies in only {holding} of {len(judged)} 95 % intervals: the theory or the "
            "intervals are wrong"
        ]
    return [finding], []


def _below_bound(stores: Sequence[Row]) -> list[str]:
    return [
        f"{tables.shape_name(row)}, p {row.error_rate_requested}: a measured rate up to "
        f"{row.error_rate_high or 0.0:.3%} is below the bound of any filter of "
        f"{row.filter_bits_per_key:.2f} bits per key"
        for row in stores
        if row.error_rate_high is not None and row.error_rate_high < 2.0**-row.filter_bits_per_key
    ]


def _miscounted(stores: Sequence[Row]) -> list[str]:
    return [
        f"{tables.shape_name(row)}, p {row.error_rate_requested}, hits {row.hit_ratio}: the store's "
        f"counters are off by {row.miscounted} from a second count"
        for row in stores
        if row.miscounted
    ]


def _strategies(rows: Sequence[Row]) -> list[str]:
    alone = [
        row
        for row in rows
        if row.dataset == ALONE
        and row.error_rate_requested == REFERENCE_RATE
        and row.error_rate_exact
    ]
    if not alone:
        return []
    said = ", ".join(
        f"{row.hash_strategy} {(row.error_rate_measured or 0.0) / (row.error_rate_exact or 1.0):.2f}"
        for row in alone
        if row.repetition == 0
    )
    return [
        f"Measured over exact rate of filters of {alone[0].entry_count} keys at p = 1 %, by how the "
        f"probes come from the hash: {said}."
    ]


def _agreement(stores: Sequence[Row]) -> tuple[str, list[str]]:
    told = [row for row in stores if row.os_check in ("agrees", "FAILED")]
    failed = [row for row in told if row.os_check == "FAILED"]
    if not told:
        return f"The operating system's count was {stores[0].os_check}.", []
    worst = max(
        abs((row.os_read_bytes or 0) - (row.counted_read_bytes or 0))
        / (row.counted_read_bytes or 1)
        for row in told
    )
    finding = (
        f"The operating system's count of bytes read agrees with ours within 1 % in "
        f"{len(told) - len(failed)} of {len(stores)} cold runs; the largest difference is {worst:.3%}."
    )
    failures = [
        f"{row.dataset}, {row.block_size_bytes} byte blocks, {row.run_count} runs, p "
        f"{row.error_rate_requested}, hits {row.hit_ratio}: {row.counted_read_bytes:,} bytes counted, "
        f"{row.os_read_bytes:,} by the operating system"
        for row in failed
    ]
    return finding, failures


def _latency(stores: Sequence[Row]) -> list[str]:
    found = []
    for row in _at_reference(stores, 0.0):
        base = next(
            each
            for each in stores
            if _shape(each) == _shape(row)
            and each.error_rate_requested is None
            and each.hit_ratio == 0.0
            and each.repetition == row.repetition
        )
        if row.cold_us_mean and base.cold_us_mean:
            found.append(base.cold_us_mean / row.cold_us_mean)
    if not found:
        return []
    return [
        f"Cold, a mean absent lookup is {min(found):.1f} to {max(found):.1f} times as fast with "
        "filters of 1 % as without (device and machine decide how much; the counts above do not "
        "depend on them)."
    ]


def _hbase(stores: Sequence[Row]) -> list[str]:
    rows = [row for row in _at_reference(stores, 0.0) if row.dataset == HBASE]
    return [
        f"HBase's shape (64 KiB blocks, 200-byte cells, {(row.data_bytes or 0) / 2**20:,.0f} MiB): at "
        f"p = 1 % a filter costs {row.filter_bytes_per_key:.2f} bytes a cell, "
        f"{row.filter_bytes_per_key * 2**30 / 200 / 1e6:.2f} MB for each GiB of cells, and saves, net, "
        f"{row.reads_saved_net_share or 0.0:.2%} of the read calls of {row.lookup_count:,} absent "
        f"lookups and {row.page_bytes_saved_net_share or 0.0:.2%} of their bytes of pages."
        for row in rows[:1]
    ]


def section(results: Results[Row]) -> str:
    """The section of a document: the first table, the first chart, and the findings."""
    told = story(results.rows)
    parts = [f"Command: `{results.header['command']}`. {provenance(results.header)}"]
    if told.first is not None:
        parts.append(told.first.to_markdown())
    if any(chart.name == READS_LEFT for chart in told.charts):
        parts.append(pictures.link(READS_LEFT, "Data blocks read for an absent key, by p"))
    parts.append("\n".join(f"- {finding}" for finding in told.findings))
    return "\n\n".join(parts) + "\n"


def write_picture(results: Results[Row], given: argparse.Namespace) -> list[str]:
    """With ``--into``: the first chart as a picture beside the document, if there is one."""
    drawn = any(row.is_store for row in results.rows)
    return pictures.copy_beside(given, READS_LEFT) if drawn else []
