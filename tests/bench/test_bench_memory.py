"""Filters or block cache: counts are checked."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

from bench.engines.base import engine_named
from bench.experiments.memory.experiment import EXPERIMENT
from bench.experiments.memory.measure import measure
from bench.experiments.memory.rows import Row
from bench.experiments.memory.story import failures
from bench.experiments.memory.tables import of_part
from bench.experiments.memory.tasks import DIRECT, LAWS, PARTS, PRESENT_SHARES, ROCKSDB, SPLIT, Task
from bench.experiments.memory.workloads import Workload
from bench.harness.experiment import Results, run

pytestmark = pytest.mark.slow  # real stores of every configuration

TINY = [
    "--quick", "--out", "unused", "--keys", "1000", "--lookups", "150", "--repetitions", "1",
    "--scale", "512",
]  # fmt: skip


@pytest.fixture(scope="module")
def results() -> Results[Row]:
    return run(EXPERIMENT, TINY)


def test_every_part_is_measured_and_keeps_its_promises(results: Results[Row]) -> None:
    assert {row.part for row in results.rows} == {*PARTS, DIRECT}
    assert failures(results.rows) == []


def test_filters_index_and_caches_together_are_the_budget(results: Results[Row]) -> None:
    for row in of_part(results.rows, SPLIT):
        if row.cache_bytes is None:
            assert row.block_reads is None
            continue
        held_bytes = row.index_memory_bytes or 0
        if row.filters != ROCKSDB:  # which reports both in one number
            held_bytes += row.filter_bytes
        assert held_bytes + row.cache_bytes == row.memory_bytes


def test_rocksdb_without_filters_reads_a_block_for_each_absent_key_that_it_is_asked(
    results: Results[Row],
) -> None:
    if not engine_named(ROCKSDB).is_installed():
        pytest.skip("rocksdict is not installed")
    asked = [
        row.reads_per_lookup
        for row in results.rows
        if row.filters == ROCKSDB and row.error_rate == 1 and not row.present_share
        if row.cache_bytes is not None and (row.budget_share or 1) < 0.1
    ]
    assert asked
    assert min(asked) > 0.5


def test_pages_counted_are_those_of_direct_reads(tmp_path: Path) -> None:
    rows = measure(Task(DIRECT, "bloom", 0.1, 1, 4096, 2000, 300, 1, 5), str(tmp_path))
    if not rows:
        pytest.skip(f"{os.fspath(tmp_path)}: this file system has no direct reads")
    ordinary, direct = rows
    assert ordinary.block_page_bytes == direct.block_page_bytes
    assert ordinary.filter_page_bytes == direct.filter_page_bytes
    assert (ordinary.block_read_bytes or 0) < (direct.block_read_bytes or 0)


@pytest.mark.parametrize(
    ("part", "change", "reason"),
    [
        (SPLIT, {"found_count": 7}, "present keys were found"),
        (SPLIT, {"filter_reads": 3}, "3 reads of filters that are not cached"),
        (DIRECT, {"block_page_bytes": 1}, "block_page_bytes: "),
    ],
)
def test_a_broken_promise_fails_the_report(
    results: Results[Row], part: str, change: dict[str, Any], reason: str
) -> None:
    rows = of_part(results.rows, part)
    found = failures([dataclasses.replace(rows[0], **change), *rows[1:]])
    assert len(found) == 1
    assert reason in found[0]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("share", PRESENT_SHARES)
def test_lookups_are_those_of_the_seed_and_of_the_share(law: str, share: float) -> None:
    workload = Workload(law, share, 1000, 7)
    lookups = workload.lookups(400, "counted")
    assert lookups == workload.lookups(400, "counted")
    assert lookups != workload.lookups(400, "warming")
    assert lookups != dataclasses.replace(workload, seed=8).lookups(400, "counted")
    assert abs(sum(lookups.are_present) / 400 - share) < 0.1
    for key, is_present in zip(lookups.keys, lookups.are_present, strict=True):
        assert (int(key) % 2 == 0) == is_present
