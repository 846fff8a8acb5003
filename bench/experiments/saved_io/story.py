"""The story of ``saved-io``: findings, and which tables and charts there are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from bench.experiments.saved_io import tables
from bench.experiments.saved_io.charts import LOOKUPS_PER_KEY, charts, cost, knee_rows
from bench.experiments.saved_io.datasets import ALONE, HBASE
from bench.experiments.saved_io.equal_story import equal_story
from bench.experiments.saved_io.rows import REFERENCE_RATE, Row
from bench.harness.intervals import rate_interval
from bench.harness.story import Story
from bench.harness.tables import percent

BAR: Final = 0.99
"""The share of the reads of absent lookups that filters of 1 % must save."""


def story(rows: Sequence[Row]) -> Story:
    """Findings, tables and charts, all computed from ``rows``."""
    stores = [row for row in rows if row.is_store]
    findings, failures = _strategies(rows), list[str]()
    found = []
    if stores:
        saved, failures = _saved(stores)
        agreement, disagreements = _agreement(stores)
        findings = [saved, *_hits(stores), _rates(stores), *findings, agreement]
        findings += _latency(stores) + _hbase(stores) + _knee(stores)
        failures += disagreements
        found.append(
            tables.summary([row for row in stores if not row.hit_ratio and not row.repetition])
        )
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
    return Story(findings, found, charts(rows), failures)


def _shape(row: Row) -> tuple[object, ...]:
    return row.dataset, row.filter_policy, row.block_size_bytes, row.run_count


def _at_reference(rows: Sequence[Row], hit_ratio: float) -> list[Row]:
    return [
        row
        for row in rows
        if row.error_rate_requested == REFERENCE_RATE and row.hit_ratio == hit_ratio
    ]


def _saved(stores: Sequence[Row]) -> tuple[str, list[str]]:
    rows = _at_reference(stores, 0.0)
    asked = sum(row.data_block_reads_unfiltered or 0 for row in rows)
    left = sum(row.data_block_reads or 0 for row in rows)
    low, high = rate_interval(left, asked)
    shares = [row.reads_saved_gross_share or 0.0 for row in rows]
    nets = [row.reads_saved_net_share or 0.0 for row in rows]
    finding = (
        f"At p = 1 % filters save {(1 - left / asked):.2%} of the data-block reads of absent lookups "
        f"({asked:,} without filters, {left:,} with; 95 % interval {1 - high:.2%} to {1 - low:.2%}); "
        f"by store {min(shares):.2%} to {max(shares):.2%}, and net of loading the filters "
        f"{min(nets):.2%} to {max(nets):.2%}."
    )
    # A sample may fall short of what holds by theory; it fails when chance does not explain it.
    if 1 - low < BAR:
        return finding, [f"filters of 1 % save only {1 - left / asked:.2%} of absent reads"]
    return finding, []


def _hits(stores: Sequence[Row]) -> list[str]:
    found = []
    for hit_ratio in sorted({row.hit_ratio for row in stores} - {0.0}):
        shares = [row.reads_saved_gross_share or 0.0 for row in _at_reference(stores, hit_ratio)]
        if shares:
            found.append(
                f"{hit_ratio:.0%} of keys present: {min(shares):.1%} to {max(shares):.1%} of reads "
                "saved at p = 1 %, more where more runs are searched without a find."
            )
    return found


def _rates(stores: Sequence[Row]) -> str:
    judged = [row for row in stores if row.error_rate_measured is not None and not row.hit_ratio]
    holding = sum(row.holds_exact for row in judged)
    return (
        f"The exact rate of the filters as built lies in the 95 % interval of the measured one in "
        f"{holding} of {len(judged)} stores (19 of 20 are to be expected)."
    )


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
        f"{row.filter_bytes_per_key * 2**30 / 200 / 1e6:.2f} MB for each GiB of cells, and saves "
        f"{row.reads_saved_net_share or 0.0:.2%} of absent reads, net."
        for row in rows[:1]
    ]


def _knee(stores: Sequence[Row]) -> list[str]:
    group = knee_rows(
        [
            row
            for row in stores
            if row.error_rate_requested is not None and not row.hit_ratio and not row.repetition
        ]
    )
    best = {
        per_key: min(group, key=partial(cost, lookups_per_key=per_key))
        for per_key in LOOKUPS_PER_KEY
    }
    said = "; ".join(
        f"{per_key:g}: p = {percent(row.error_rate_requested or 0.0)} %"
        for per_key, row in best.items()
    )
    return [
        "The rate with the fewest bytes read, filters' load included, by the absent lookups per key "
        f"between two openings of the store: {said}."
    ]
