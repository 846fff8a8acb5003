"""Ranges and data larger than memory in ``saved-io``: two counts, bounds, and what is not measured."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

import pytest

import lsmkv
from bench.experiments.saved_io import limited
from bench.experiments.saved_io.datasets import LIMITED, NUMBER_GAP, RANGES, content
from bench.experiments.saved_io.limited import Limited, limited_columns, limited_pass, limited_story
from bench.experiments.saved_io.measure import measure
from bench.experiments.saved_io.ranges import EMPTY, KINDS, LONG, TINY, range_story, ranges_of
from bench.experiments.saved_io.rows import Row, join
from bench.experiments.saved_io.tasks import StoreTask
from bench.harness import page_cache
from bench.harness.memory_group import why_no_memory_group
from bench.harness.sweep import sweep
from lsmkv.options import KIB, MIB

ENTRIES = 2000


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """Four runs of numbers, without filters and with Bloom and Grafite filters."""
    tasks = [
        StoreTask(RANGES, ENTRIES, 4 * KIB, 4, policy, rate, (0.0,), 400, 0, 1970)
        for policy, rates in (("bloom", (None, 0.01)), ("grafite", (None, 0.01, 0.0025)))
        for rate in rates
    ]
    return join(sweep(measure, tasks, None))


def of(rows: list[Row], kind: str, policy: str, rate: float) -> Row:
    (row,) = (
        row
        for row in rows
        if (row.lookups_of, row.filter_policy, row.error_rate_requested) == (kind, policy, rate)
    )
    return row


def test_ranges_hold_what_their_kind_says() -> None:
    keys = sorted(key for key, _ in content(RANGES, ENTRIES, 1970).entries)
    first = int.from_bytes(keys[0], "big") // NUMBER_GAP
    for kind, entries in ((EMPTY, 0), (TINY, 1), (LONG, 100)):
        for start, stop in ranges_of(kind, first, ENTRIES, 200, seed=1):
            assert sum(start <= key < stop for key in keys) == entries
            numbers = int.from_bytes(stop, "big") - int.from_bytes(start, "big")
            assert (1 <= numbers <= 8) == (kind != LONG)


def test_both_counts_of_ranges_agree(rows: list[Row]) -> None:
    assert {row.lookups_of for row in rows} == set(KINDS)
    assert all(row.miscounted == 0 and (row.data_block_reads or 0) > 0 for row in rows)


def test_bloom_filters_save_no_read_of_a_range_and_grafite_those_of_empty_ones(
    rows: list[Row],
) -> None:
    for kind in KINDS:
        assert of(rows, kind, "bloom", 0.01).reads_saved_gross == 0
    empty = of(rows, EMPTY, "grafite", 0.0025)
    assert (empty.data_block_reads_unfiltered or 0) > 3.5 * empty.lookup_count
    assert (empty.data_block_reads or 0) <= 0.07 * empty.lookup_count
    tiny = of(rows, TINY, "grafite", 0.0025)
    assert 1 <= (tiny.data_block_reads or 0) / tiny.lookup_count <= 1.07
    assert of(rows, LONG, "grafite", 0.0025).reads_saved_gross == 0


def test_ranges_that_pass_more_often_than_theory_allows_fail_the_report(rows: list[Row]) -> None:
    tables, failures = range_story(rows)
    assert (len(tables), failures) == (1, [])
    wrong = [
        dataclasses.replace(row, filter_false_positives=row.filter_trials or 0) for row in rows
    ]
    assert len(range_story(wrong)[1]) == 4  # two kinds at two rates


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
