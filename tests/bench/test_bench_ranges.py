"""Ranges and data larger than memory in ``saved-io``: two counts, bounds, and what is not measured."""

from __future__ import annotations

import dataclasses
import tempfile
from bisect import bisect_left
from pathlib import Path

import pytest

import lsmkv
from bench.experiments.saved_io import limited
from bench.experiments.saved_io.datasets import LIMITED, PREFIXES, RANGES, content, data_set_named
from bench.experiments.saved_io.limited import Limited, limited_columns, limited_pass, limited_story
from bench.experiments.saved_io.measure import measure
from bench.experiments.saved_io.ranges import (
    CORRELATIONS,
    LENGTHS,
    LONG_ENTRIES,
    empty_ranges,
    range_story,
    rates_of_ranges,
    shared_prefix,
)
from bench.experiments.saved_io.rows import Row, join
from bench.experiments.saved_io.stores import build, filter_key
from bench.experiments.saved_io.tasks import StoreTask
from bench.harness import page_cache
from bench.harness.memory_group import why_no_memory_group
from bench.harness.sweep import sweep
from lsmkv.options import KIB, MIB

ENTRIES = 2000
RATE = 0.001


def task_of(name: str, policy: str, rate: float | None) -> StoreTask:
    return StoreTask(name, ENTRIES, 4 * KIB, 4, policy, rate, (0.0,), 500, 0, 1970)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """Four runs of numbers of 8 bytes with each kind of filters and without, and some of 32 bytes."""
    tasks = [
        task_of(name, policy, rate)
        for name, policies in (
            ("ranges-8", data_set_named("ranges-8").policies),
            ("ranges-32", ("bloom", "grafite")),
        )
        for policy in policies
        for rate in rates_of_ranges(policy, (None, RATE))
    ]
    return join(sweep(measure, tasks, None))


def reads(rows: list[Row], policy: str, *axes: float | None) -> float:
    """Blocks read for a range of so many numbers of 8 bytes, with that correlation."""
    return next(
        (row.data_block_reads or 0) / row.lookup_count
        for row in rows
        if (row.filter_policy, row.range_numbers, row.correlation) == (policy, *axes)
        and row.error_rate_requested
    )


@pytest.mark.parametrize("name", RANGES)
def test_empty_ranges_lie_between_two_keys_as_near_as_the_correlation_says(name: str) -> None:
    keys = [key for key, _ in content(name, ENTRIES, 1970).entries]
    assert {len(key) for key in keys} == {RANGES[name]} and keys == sorted(keys)
    numbers = [int.from_bytes(key, "big") for key in keys]
    for length, correlation, farthest in ((4096, 0.0, 2**30), (64, 0.5, 2**15), (1, 1.0, 1)):
        gaps = []
        for asked in empty_ranges(keys, length, correlation, 500, seed=1):
            start, stop = (int.from_bytes(bound, "big") for bound in asked)
            after = bisect_left(numbers, start)
            assert stop - start == length and stop <= numbers[after]
            gaps.append(start - numbers[after - 1])
        assert len(gaps) == 500 and min(gaps) >= 1 and farthest / 2 < max(gaps) <= farthest


def test_both_counts_agree_and_long_ranges_have_a_hundred_keys(rows: list[Row]) -> None:
    assert len(rows) == (5 + 3) * (len(LENGTHS) * len(CORRELATIONS) + 1)
    for row in rows:
        entries = 0 if row.range_numbers else LONG_ENTRIES * row.lookup_count
        assert (row.miscounted, row.found_count) == (0, entries)


def test_all_filters_have_the_bits_of_bloom_filters(rows: list[Row]) -> None:
    bits = [row.filter_bits_per_key for row in rows if row.error_rate_requested]
    assert max(bits) < 1.02 * min(bits)


@pytest.mark.parametrize("policy", PREFIXES)
def test_filters_of_prefixes_never_deny_a_range_that_has_a_key(policy: str, tmp_path: Path) -> None:
    data, task = content("ranges-8", ENTRIES, 1970), task_of("ranges-8", policy, RATE)
    build(task, data, str(tmp_path))
    with lsmkv.open(tmp_path, read_only=True) as db:
        for key, value in data.entries:
            stop = (int.from_bytes(key, "big") + 1).to_bytes(8, "big")
            prefix = shared_prefix((key, stop), filter_key(task))
            assert prefix == key[: 8 - PREFIXES[policy]]
            assert list(db.items(start=key, stop=stop, prefix=prefix)) == [(key, value)]
        assert db.stats().prefix_filter_skips > 2.9 * ENTRIES


def test_ranges_over_several_prefixes_or_with_many_keys_are_read(rows: list[Row]) -> None:
    assert shared_prefix((b"\1\0", b"\2\0"), lsmkv.FixedPrefix(1)) == b"\1"
    assert shared_prefix((b"\1\1", b"\2\1"), lsmkv.FixedPrefix(1)) is None
    for policy in ("bloom", "prefix-256", "grafite"):
        assert reads(rows, policy, 4096, 0.0) == reads(rows, "bloom", 1, 0.0)
        assert reads(rows, policy, None, None) == reads(rows, "bloom", None, None)


def test_prefixes_save_far_from_keys_alone_and_grafite_anywhere(rows: list[Row]) -> None:
    for policy in PREFIXES:
        assert reads(rows, policy, 8, 0.0) < 0.3 and reads(rows, policy, 1, 1.0) > 0.9
    assert all(reads(rows, "grafite", 8, correlation) < 0.1 for correlation in CORRELATIONS)
    near = {row.filter_policy: row for row in rows if row.correlation == 1.0}
    assert (near["prefix-256"].absent_reads_wasted_mean or 0) > 0.9
    assert (near["grafite"].absent_reads_wasted_mean or 0) < 0.1
    assert all((row.present_reads_wasted_mean or 0) < 0.1 for row in near.values())


def test_ranges_that_pass_more_often_than_theory_allows_fail_the_report(rows: list[Row]) -> None:
    tables, failures = range_story(rows)
    assert (len(tables), failures) == (1, [])
    wrong = [
        dataclasses.replace(row, filter_false_positives=row.filter_trials or 0) for row in rows
    ]
    assert len(range_story(wrong)[1]) == 2 * len(CORRELATIONS) * 3  # longer ranges have no bound


# Data larger than memory


def test_too_few_data_and_missing_groups_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = limited_pass(str(tmp_path), 8 * limited.LEAST_LIMIT_BYTES - 1, [b"key"])
    assert found.check == "134,217,727 bytes of data are below 134,217,728" and not found.us
    monkeypatch.setattr(page_cache, "why_not_dropped", lambda _: None)
    monkeypatch.setattr(limited, "why_no_memory_group", lambda: "no control group can be made here")
    found = limited_pass(str(tmp_path), 8 * limited.LEAST_LIMIT_BYTES, [b"key"])
    assert found.check == "no control group can be made here" and not found.us


def limited_row(row: Row, found: Limited | None) -> Row:
    return dataclasses.replace(row, dataset=LIMITED, hit_ratio=0.0, **limited_columns(found))


def test_more_in_the_page_cache_than_the_group_may_hold_fails_the_report(rows: list[Row]) -> None:
    row = limited_row(rows[0], Limited(MIB, [5.0, 7.0], 4096, MIB))
    tables, failures = limited_story([row])
    assert tables[0].cells[0][4:6] == ["6", "7"] and not failures
    assert len(limited_story([limited_row(rows[0], Limited(MIB, [5.0], 4096, MIB + 1))])[1]) == 1


@pytest.mark.slow
def test_lookups_in_a_control_group_read_from_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why := page_cache.why_not_dropped(tempfile.gettempdir()) or why_no_memory_group():
        pytest.skip(why)
    keys = [b"%08d" % number for number in range(40_000)]
    with lsmkv.open(tmp_path / "db", compression="none") as db:
        db.bulk_load([(key, bytes(1000)) for key in keys])
    monkeypatch.setattr(limited, "SHARE", 2)
    found = limited_pass(str(tmp_path / "db"), 40 * MIB, keys[::20])
    assert (found.check, found.limit_bytes, len(found.us)) == ("measured", 20 * MIB, 2000)
    assert (found.read_bytes or 0) >= 2000 * 4096
    assert 0 < (found.held_bytes or 0) <= 20 * MIB
