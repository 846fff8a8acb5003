"""The main experiment: its counts repeat and agree with theory and the system."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import lsmkv
from bench.experiments.saved_io import theory
from bench.experiments.saved_io.datasets import DIGITS, PATHS, TENANTS, content, data_sets
from bench.experiments.saved_io.equal_story import comparisons, equal_story
from bench.experiments.saved_io.experiment import ERROR_RATES, EXPERIMENT
from bench.experiments.saved_io.measure import cold_pass, measure, os_check
from bench.experiments.saved_io.rows import EQUAL_BYTES, EQUAL_RATE, Row, join
from bench.experiments.saved_io.stores import count
from bench.experiments.saved_io.story import story
from bench.experiments.saved_io.tables import measured_rate
from bench.experiments.saved_io.tasks import EqualTask, StoreTask
from bench.harness import experiment, records
from bench.harness.environment import file_system
from bench.harness.seeds import TOO_FEW
from bench.harness.sweep import sweep
from lsmkv.options import KIB

QUICK = ("--quick", "--out", "unused", "--jobs", "2")
SMALLER = (*QUICK, "--entries", "4000", "--lookups", "2000")
SMALL = ("--quick", "--out", "unused", "--entries", "2000", "--lookups", "300", "--datasets")


@pytest.fixture(
    scope="module",
    params=[SMALLER, pytest.param(QUICK, marks=[pytest.mark.slow, pytest.mark.longest])],
    ids=["smaller", "quick"],
)
def results(request: pytest.FixtureRequest) -> experiment.Results[Row]:
    """The command's quick run with the default seed, and one of smaller stores."""
    return experiment.run(EXPERIMENT, request.param)


@pytest.fixture(scope="module")
def rows(results: experiment.Results[Row]) -> list[Row]:
    return results.rows


def stores(rows: list[Row], **wanted: Any) -> list[Row]:
    """The rows of stores whose columns have these values."""
    return [
        row
        for row in rows
        if row.is_store and all(getattr(row, name) == value for name, value in wanted.items())
    ]


@pytest.mark.slow
def test_a_small_run_counts_the_same_twice() -> None:
    first, second = (experiment.run(EXPERIMENT, [*SMALL, "digits,paths"]).rows for _ in range(2))
    assert records.repeatable(first) == records.repeatable(second)


def test_a_hot_tenant_asks_few_filters_and_fewest_where_its_entries_are_in_one_run() -> None:
    asked = []
    for name in (DIGITS, *TENANTS):
        task = StoreTask(name, 3000, 4 * KIB, 4, "bloom", 0.1, (0.0,), 3000, 0, 1970)
        (row,) = sweep(measure, [task], None)[0]
        assert row.miscounted == 0 and row.lookup_count == 3000
        asked.append(row.filters_asked_half or 0)
    assert asked[0] > 5 * asked[1] and asked[1] > asked[2] == 3


@pytest.fixture(scope="module")
def compared() -> list[Row]:
    """Small stores with ribbon filters beside Bloom filters of 1 %, in blocks of 4 and 64 KiB."""
    tasks = [EqualTask(DIGITS, 6000, kib * KIB, 4, 3000, 1970) for kib in (4, 64)]
    return [row for found in sweep(measure, tasks, None) for row in found]


@pytest.mark.slow
def test_the_compared_stores_are_asked_the_same_and_read_what_filters_let_pass(
    compared: list[Row],
) -> None:
    for each in comparisons(compared):
        rows = (each.bloom, each.equal_rate, each.equal_bytes)
        assert len({(row.data_block_reads_unfiltered, row.block_count) for row in rows}) == 1
        assert all(row.data_block_reads == row.filter_false_positives for row in rows)
        assert not any(row.found_count for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("role", "change", "reason"),
    [
        (EQUAL_BYTES, {"filter_bytes": 10**6}, "more bytes than Bloom"),
        (EQUAL_BYTES, {"data_block_reads": 60}, "times fewer reads"),
        (EQUAL_RATE, {"filter_bytes": 10**6}, "of the bytes at equal rate"),
        (EQUAL_RATE, {"data_block_reads_unfiltered": 1}, "not the same blocks"),
    ],
)
def test_a_missed_bar_fails_the_report(
    compared: list[Row], role: str, change: dict[str, int], reason: str
) -> None:
    changed = [
        dataclasses.replace(row, **change) if row.comparison == role else row  # type: ignore[arg-type]
        for row in compared
    ]
    assert [reason in failure for failure in equal_story(changed)[1]] == [True, True]


@pytest.mark.slow
def test_the_measured_rate_is_the_exact_one(rows: list[Row]) -> None:
    for rate in ERROR_RATES:
        if rate is None:
            continue
        # Other hit ratios ask the same filters for the same keys.
        judged = stores(rows, error_rate_requested=rate, hit_ratio=0.0)
        expected = variance = 0.0
        for row in judged:
            mean = (row.filter_trials or 0) * (row.error_rate_exact or 0.0)
            expected += mean
            variance += mean * (row.design_effect or 1.0)
        hits = sum(row.filter_false_positives for row in judged)
        assert abs(hits - expected) < 4 * math.sqrt(variance) + 1, rate


@pytest.mark.slow
def test_the_system_counts_the_bytes_that_we_count(rows: list[Row]) -> None:
    told = [row for row in stores(rows) if row.os_read_bytes is not None]
    if not told:
        pytest.skip(f"no count of the system's: {stores(rows)[0].os_check}")
    assert [row for row in told if row.os_check != "agrees"] == []
    assert len(told) == len(stores(rows))


@pytest.mark.slow
def test_reads_saved_follow_theory(rows: list[Row]) -> None:
    for row in stores(rows, dataset=DIGITS):
        if row.error_rate_exact is not None:
            expected = 1 - theory.left_share(
                row.error_rate_exact, row.hit_ratio, row.run_count or 0
            )
            chance = 4 * math.sqrt((row.design_effect or 1) * 0.25 / (row.filter_trials or 1))
            assert row.reads_saved_gross_share == pytest.approx(expected, abs=0.002 + chance)


@pytest.mark.slow
def test_net_savings_pay_for_loading_the_filters(rows: list[Row]) -> None:
    for row in stores(rows):
        if row.error_rate_requested is not None:
            assert row.filter_reads == row.table_count
            assert row.reads_saved_net == (row.reads_saved_gross or 0) - (row.filter_reads or 0)
            assert row.bytes_saved_net == (row.bytes_saved_gross or 0) - (
                row.filter_read_bytes or 0
            )
            assert row.page_bytes_saved_net == (row.data_block_page_bytes_unfiltered or 0) - (
                row.data_block_page_bytes or 0
            ) - (row.filter_page_bytes or 0)
            net = row.page_bytes_saved_net_of_index_share or 0.0
            paid = (row.page_bytes_saved_net_share or 0.0) - net
            assert row.index_page_bytes == round(paid * (row.data_block_page_bytes_unfiltered or 0))
        else:
            assert row.filter_read_bytes == row.filter_bytes_per_key == 0


@pytest.fixture(scope="module")
def beside() -> list[Row]:
    """Two policies, one of them asked for the same filters twice."""
    tasks = [
        StoreTask(DIGITS, 2000, 4 * KIB, 4, policy, rate, (0.0,), 2000, 0, 1970)
        for policy, rates in (("bloom", (None, 0.1, 0.1)), ("ribbon", (None, 0.1)))
        for rate in rates
    ]
    return join(sweep(measure, tasks, None))


def test_a_filter_that_is_the_same_at_several_rates_is_one_store(beside: list[Row]) -> None:
    told = story(beside)
    assert told.first is not None and len(told.first.cells) == 2
    (devices,) = (table for table in told.tables if "modelled" in table.title)
    assert [row[0] for row in devices.cells] == ["none", "bloom", "ribbon"]


@pytest.mark.parametrize("change", [{"design_effect": 1e6}, {"filter_false_positives": 1}])
def test_few_popular_keys_tell_no_rate_of_others(
    change: dict[str, float], beside: list[Row]
) -> None:
    row = dataclasses.replace(beside[1], design_effect=2.0)
    assert TOO_FEW not in (measured_rate(row) or "")
    assert TOO_FEW in (measured_rate(dataclasses.replace(row, **change)) or "")  # type: ignore[arg-type]


@pytest.mark.slow
def test_stores_that_differ_are_not_compared(rows: list[Row]) -> None:
    changed = [
        dataclasses.replace(row, block_count=(row.block_count or 0) + 1)
        if row.error_rate_requested == 0.01 and row.is_store
        else row
        for row in rows
    ]
    with pytest.raises(ValueError, match="not the same store"):
        join([changed])


@pytest.mark.parametrize("name", [each.name for each in data_sets()])
def test_absent_keys_are_absent_and_lie_between_present_ones(name: str) -> None:
    data = content(name, 500, seed=5)
    present = {key for key, _ in data.entries}
    assert len(present) == len(data.entries) == 500
    assert data.absent
    assert present.isdisjoint(data.absent)
    assert all(key < max(present) for key in data.absent)
    if name != PATHS:
        assert all(min(present) < key for key in data.absent)


def test_an_unknown_data_set_is_refused() -> None:
    with pytest.raises(ValueError, match="'nothing': must be one of"):
        content("nothing", 1, seed=1)


def test_a_difference_of_more_than_one_per_cent_fails() -> None:
    assert os_check(1000, 1011) == os_check(1000, 989) == "FAILED"
    assert os_check(1000, 1010) == os_check(1000, 990) == "agrees"


@pytest.mark.skipif(file_system("/dev/shm") != "tmpfs", reason="needs a file system in memory")
def test_files_in_memory_fail_no_count_of_the_system() -> None:
    with TemporaryDirectory(dir="/dev/shm") as folder:
        with lsmkv.open(folder) as db:
            db.put(b"key", b"value")
            db.flush()
        cold = cold_pass(folder, [b"key"])
    assert cold.os_bytes is None and cold.os_check.startswith("not told: ")


def test_the_load_of_the_filters_is_counted(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db") as db:
        db.update({b"key1": b"value", b"key3": b"value"})
        db.flush()
    counted = count(str(tmp_path / "db"), [b"key2"])
    assert counted.stats.filter_reads == 1
    assert counted.stats.block_reads == 0
