"""The story of ``growth``: findings and failures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from bench.experiments.growth.charts import charts
from bench.experiments.growth.groups import MODES, Size, by_style, figures
from bench.experiments.growth.rows import Row
from bench.experiments.growth.tables import tables
from bench.harness.intervals import rate_interval
from bench.harness.story import Story
from lsmkv.options import KIB, MIB

_SURE: Final = 0.999
"""Confidence of the interval that must hold the filters' rate; high, because there are many sizes."""


def story(rows: list[Row]) -> Story:
    sizes = by_style(rows)
    findings = [
        finding
        for style, found in sizes.items()
        for finding in (
            _of_shape(style, found),
            _of_reads(style, found),
            _of_writes(style, found),
            _of_times(style, found),
            _of_latency(style, found),
            _of_memory(style, found),
            _of_cache(style, found),
        )
    ]
    wrong = [problem for found in sizes.values() for size in found for problem in failures(size)]
    return Story(findings, tables(sizes), charts(sizes), wrong, headline=_headline(sizes))


def _headline(sizes: Mapping[str, Sequence[Size]]) -> str:
    style, found = next(iter(sizes.items()))
    first, last = found[0], found[-1]
    more = last.counts.entries / first.counts.entries
    present, absent = (
        last.spread(column).median / first.spread(column).median
        for column in ("get_hit_us", "get_miss_us")
    )
    return (
        f"In {more:g} times as many entries a present key takes {present:.2f} times as long to find, an "
        f"absent one {absent:.2f} times ({style})."
    )


def failures(size: Size) -> list[str]:
    """The broken promises of one size."""
    row = size.counts
    found = []
    if row.wrong_answers:
        found.append(f"{row.wrong_answers} operations had a wrong answer")
    asked, passed = row.absent_filters, row.absent_false_positives
    low, high = rate_interval(passed, asked, _SURE)
    if not low <= row.filter_rate_expected <= high:
        found.append(
            f"filters let {passed:,} of {asked:,} absent keys pass, between {low:.3%} and {high:.3%}, "
            f"where {row.filter_rate_expected:.3%} are expected"
        )
    if row.absent_block_reads != passed:
        found.append(f"absent lookups read {row.absent_block_reads:,} blocks, not {passed:,}")
    wanted = row.present_lookups + row.present_false_positives
    if row.present_block_reads != wanted:
        found.append(f"present lookups read {row.present_block_reads:,} blocks, not {wanted:,}")
    if row.cache_peak_bytes > row.cache_budget_bytes:
        found.append(
            f"the block cache held {row.cache_peak_bytes:,} bytes of {row.cache_budget_bytes:,}"
        )
    has_room = row.scan_cached_bytes <= row.cache_budget_bytes / 2
    if has_room and row.hot_hit_rate_after_scan < row.hot_hit_rate_before:
        found.append("a scan drove hot blocks out of the cache")
    missed = max(each.warm_misses for each in size.rows)
    if missed:
        found.append(f"{missed:,} blocks of warm operations were not in the cache")
    return [f"{row.entries:,} entries, {row.style}: {problem}" for problem in found]


def _ends(found: Sequence[Size]) -> tuple[Row, Row]:
    return found[0].counts, found[-1].counts


def _of_shape(style: str, found: Sequence[Size]) -> str:
    first, last = _ends(found)
    return (
        f"{style}, {first.entries:,} to {last.entries:,} entries: levels (below level 0) "
        f"{first.level_count} to {last.level_count}, runs {first.run_count} to {last.run_count}, tables "
        f"{first.table_count:,} to {last.table_count:,}; an absent lookup compares "
        f"{first.fence_comparisons:.1f} to {last.fence_comparisons:.1f} fences (derived; log2 of the "
        f"blocks of each run that spans the key: {first.fence_comparisons_least:.1f} to "
        f"{last.fence_comparisons_least:.1f})."
    )


def _of_reads(style: str, found: Sequence[Size]) -> str:
    first, last = _ends(found)
    passed = sum(size.counts.absent_false_positives for size in found)
    asked = sum(size.counts.absent_filters for size in found)
    low, high = rate_interval(passed, asked)
    promised = math.fsum(
        size.counts.filter_rate_expected * size.counts.absent_filters for size in found
    )
    return (
        f"{style}: filters let {passed / max(1, asked):.3%} of absent keys pass ({low:.3%} to "
        f"{high:.3%}; {promised / max(1, asked):.3%} in theory). Blocks read per absent lookup "
        f"{first.absent_block_reads / first.absent_lookups:.4f} to "
        f"{last.absent_block_reads / last.absent_lookups:.4f} (theory {first.absent_reads_expected:.4f} "
        f"to {last.absent_reads_expected:.4f}), per present one "
        f"{first.present_block_reads / first.present_lookups:.4f} to "
        f"{last.present_block_reads / last.present_lookups:.4f} (theory "
        f"{first.present_reads_expected:.4f} to {last.present_reads_expected:.4f}), per seek + 10 "
        f"{first.seek_block_reads / first.seeks:.2f} to {last.seek_block_reads / last.seeks:.2f} "
        f"(theory {first.seek_reads_expected:.2f} to {last.seek_reads_expected:.2f}; if fences did not "
        f"tell where blocks begin, {first.seek_reads_without_fences:.2f} to "
        f"{last.seek_reads_without_fences:.2f})."
    )


def _of_writes(style: str, found: Sequence[Size]) -> str:
    parts = []
    for size in found:
        row = size.counts
        parts.append(
            f"{row.write_amplification:.2f} at {row.entries:,} (model "
            f"{row.write_amplification_model:.2f}, textbook {row.write_amplification_textbook:.0f})"
        )
    return f"{style}: the fill writes, per byte handed over, {', '.join(parts)}."


def _of_times(style: str, found: Sequence[Size]) -> str:
    first, last = found[0], found[-1]
    parts = []
    for name, column in (
        ("get, present", "get_hit_us"),
        ("get, absent", "get_miss_us"),
        ("seek + 10", "seek_us"),
        ("scanned entry", "scan_us"),
        ("put in a thread until settled", "thread_put_settled_us"),
        ("put in processes until settled", "process_put_settled_us"),
        ("batch entry", "batch_us"),
        ("open", "open_us"),
    ):
        before, after = first.spread(column).median, last.spread(column).median
        parts.append(f"{name} {figures(before)} to {figures(after)} ({after / before:.2f} times)")
    growth = last.counts.entries / first.counts.entries
    logarithms = math.log2(last.counts.entries) / math.log2(first.counts.entries)
    return (
        f"{style}, microseconds, as n grows {growth:g} times and log2 n {logarithms:.2f} times: "
        + ", ".join(parts)
        + "."
    )


def _of_latency(style: str, found: Sequence[Size]) -> str:
    last = found[-1]
    parts = []
    for mode in MODES:
        p50, p99, p999, most = (
            figures(last.spread(f"{mode}_put_us_{name}").median)
            for name in ("p50", "p99", "p999", "max")
        )
        parts.append(
            f"in a {mode} p50 {p50}, p99 {p99}, p99.9 {p999}, maximum {most} microseconds, "
            f"{last.spread(f'{mode}_stops').median:g} puts stopped, peak memory "
            f"{last.spread(f'{mode}_peak_memory_bytes').median / MIB:.0f} MiB"
        )
    return (
        f"{style}, {last.counts.entries:,} entries, single puts while background work runs: "
        + "; ".join(parts)
        + "."
    )


def _of_memory(style: str, found: Sequence[Size]) -> str:
    row = found[-1].counts
    reported = row.index_bytes + row.filter_bytes
    real = row.open_private_bytes
    process = (
        ""
        if real is None
        else f" The process grew by {real / row.entries:.2f} a key when it opened the store "
        f"({real / reported - 1:+.1%} of what the store reports)."
    )
    held = row.memtable_bytes_private
    memtable = (
        ""
        if held is None
        else f" A memtable's entry takes {held:.0f} bytes, {held / row.memtable_bytes_reported:.1f} "
        f"times the {row.memtable_bytes_reported:.0f} reported (its log's)."
    )
    return (
        f"{style}, {row.entries:,} entries: indexes take {row.index_bytes / row.entries:.2f} bytes a key "
        f"(theory {row.index_bytes_expected:.2f}), filters {row.filter_bytes / row.entries:.2f} (theory "
        f"{row.filter_bytes_expected:.2f}).{process}{memtable}"
    )


def _of_cache(style: str, found: Sequence[Size]) -> str:
    row = found[-1].counts
    return (
        f"{style}, {row.entries:,} entries: a cache of {row.cache_budget_bytes / KIB:,.0f} KiB held "
        f"{row.cache_peak_bytes / KIB:,.0f} at the most; hot blocks were in it for "
        f"{row.hot_hit_rate_before:.1%} before a scan of the whole store, "
        f"{row.hot_hit_rate_after_scan:.1%} after it, and {row.hot_hit_rate_after_lookups:.1%} after "
        "lookups of twice as many other blocks as it holds."
    )
