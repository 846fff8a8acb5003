"""Filters or block cache: counts are checked, the best split is found, and the page has the table."""

from __future__ import annotations

import argparse
import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

from bench.experiments.memory.charts import PICTURED
from bench.experiments.memory.experiment import EXPERIMENT
from bench.experiments.memory.measure import EQUAL, measure
from bench.experiments.memory.rows import Row
from bench.experiments.memory.story import failures, section, story, turn, write_pictures
from bench.experiments.memory.tables import (
    CONTENDERS,
    HARDLY,
    NEAR,
    best,
    of_part,
    size,
    split_rows,
    tables,
)
from bench.experiments.memory.tasks import (
    BUDGETS,
    DIRECT,
    LAWS,
    PARTS,
    PRESENT_SHARES,
    PRESET,
    RESIDENCY,
    SPLIT,
    Task,
)
from bench.experiments.memory.workloads import HOT_SHARE, Workload
from bench.harness.experiment import Results, run, write
from bench.harness.records import repeatable

pytestmark = pytest.mark.slow  # real stores of every configuration

TINY = [
    "--quick", "--out", "unused", "--keys", "1000", "--lookups", "150", "--repetitions", "1",
    "--scale", "512",
]  # fmt: skip
PAGE = Path(__file__).parents[2] / "docs" / "memory.md"


@pytest.fixture(scope="module")
def results() -> Results[Row]:
    return run(EXPERIMENT, TINY)


def test_every_part_is_measured_and_keeps_its_promises(results: Results[Row]) -> None:
    assert {row.part for row in results.rows} == {*PARTS, DIRECT}
    assert failures(results.rows) == []


def test_filters_and_cache_together_are_the_budget(results: Results[Row]) -> None:
    for row in of_part(results.rows, SPLIT):
        if row.cache_bytes is None:
            assert row.filter_bytes > row.memory_bytes
            assert row.block_reads is None
        else:
            assert row.filter_bytes + row.cache_bytes == row.memory_bytes


def test_ribbon_filters_take_no_more_bytes_than_the_bloom_filters_they_stand_beside(
    results: Results[Row],
) -> None:
    sizes = {(row.filters, row.error_rate): row for row in of_part(results.rows, SPLIT)}
    for (kind, rate), row in sizes.items():
        if kind == "ribbon":
            bloom = sizes["bloom", rate]
            assert 0.95 * bloom.filter_bytes < row.filter_bytes <= bloom.filter_bytes
            assert (row.error_rate_exact or 1.0) < (bloom.error_rate_exact or 0.0)


def test_filters_pay_for_absent_keys_and_never_for_present_ones_in_one_run(
    results: Results[Row],
) -> None:
    assert best(results.rows, 1, "uniform", 0.0, 0.1).pays
    for law in LAWS:
        for budget in BUDGETS:
            assert not best(results.rows, 1, law, 1.0, budget).pays


def test_the_best_split_reads_hardly_more_than_any_other_and_smaller_filters_read_more(
    results: Results[Row],
) -> None:
    found = best(results.rows, 1, "zipf", 0.5, 0.05)
    most = []
    for which in CONTENDERS:
        for row in split_rows(results.rows, 1, "zipf", 0.5, 0.05, which):  # one repetition
            allowed = max((1.0 + NEAR) * row.reads_per_lookup, row.reads_per_lookup + HARDLY)
            assert found.reads.median <= allowed
            most.append((which, row.reads_per_lookup))
    smaller = [reads for which, reads in most[: [each for each, _ in most].index(found.which)]]
    assert all(reads > found.reads.median for reads in smaller)
    assert smaller


def test_cached_filters_without_a_cache_read_a_chunk_for_each_lookup(
    results: Results[Row],
) -> None:
    empty = [
        row
        for row in of_part(results.rows, RESIDENCY)
        if row.cache_bytes == 0 and row.residency == "cached" and row.granularity == "block"
    ]
    assert empty
    for row in empty:
        # But those of keys between two blocks.
        assert 0.9 * row.lookup_count < (row.filter_reads or 0) <= row.lookup_count


def test_resident_filters_out_of_the_same_memory_leave_the_rest_to_the_cache(
    results: Results[Row],
) -> None:
    equal = [row for row in results.rows if row.residency == EQUAL]
    assert equal
    for row in equal:
        assert row.cache_bytes == row.memory_bytes - row.filter_bytes >= 0


def test_counts_repeat(tmp_path: Path) -> None:
    task = Task(SPLIT, "ribbon", 0.01, 2, 4096, 600, 100, 1, 5)
    rows = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        rows.append(repeatable(measure(task, str(tmp_path / name))))
    assert rows[0] == rows[1]


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


def test_resident_filters_that_read_more_than_cached_ones_fail_the_report(
    results: Results[Row],
) -> None:
    rows = [
        dataclasses.replace(row, block_page_bytes=10**9) if row.residency == EQUAL else row
        for row in of_part(results.rows, RESIDENCY)
    ]
    (failure,) = failures(rows)
    assert "the bytes of cached ones in the same memory" in failure


def test_the_turn_is_the_cache_from_which_on_cached_filters_read_hardly_more(
    results: Results[Row],
) -> None:
    rows = [
        dataclasses.replace(
            row,
            filter_reads=0,
            filter_page_bytes=0,
            block_page_bytes=1000
            if row.residency == "cached" and row.memory_bytes < 128 * 1024
            else 500,
        )
        for row in of_part(results.rows, RESIDENCY)
    ]
    assert turn(rows, 4096, 0.0, "uniform") == (128 * 1024, 2.0)


def test_the_section_shows_findings_pictures_and_brief_tables(
    results: Results[Row], tmp_path: Path
) -> None:
    text = section(results)
    assert all(f"](pictures/{name}.svg)" in text for name in PICTURED)
    assert text.count("| 0 % present, uniform |") == 1
    out, document = tmp_path / "out", tmp_path / "docs" / "page.md"
    write(EXPERIMENT, results, str(out))
    written = write_pictures(results, argparse.Namespace(into=str(document), out=str(out)))
    assert [Path(path).stem for path in written] == list(PICTURED)
    assert write_pictures(results, argparse.Namespace(into=None, out=str(out))) == []


def test_the_page_has_the_tables_and_findings_of_the_experiment(results: Results[Row]) -> None:
    """Same headings, same lookups in the same order; the figures are those of a full run."""
    page = PAGE.read_text()
    for table in tables(results.rows):
        if table.brief and "small_memory" not in table.title:
            lines = table.to_markdown().splitlines()
            assert lines[0].split(" of ")[0] in page
            first_cells = [
                line.rsplit(" | ", len(table.headings) - table.left)[0] for line in lines[4:-2]
            ]
            assert all(cell in page for cell in first_cells)
    for finding in story(results.rows).findings:
        assert " ".join(finding.split()[:4]) in page


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


def test_nine_tenths_of_the_lookups_of_a_hot_set_ask_for_a_hundredth_of_the_keys() -> None:
    keys = Workload("hot", 0.0, 10_001, 7).lookups(5000, "counted").keys
    popular = sorted((keys.count(key) for key in set(keys)), reverse=True)
    assert 0.88 < sum(popular[: round(10_000 * HOT_SHARE)]) / 5000 < 0.93


def test_sizes_are_named_in_their_unit() -> None:
    assert [size(each) for each in (0, 65536, 1 << 20)] == ["0", "64 KiB", "1 MiB"]


@pytest.mark.parametrize(
    "option",
    [["--keys", "10"], ["--parts", "split,nothing"], ["--lookups", "0"], ["--scale", "0"]],
)
def test_options_out_of_range_are_refused(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run(EXPERIMENT, ["--out", "unused", *option])
    assert "must be" in capsys.readouterr().err


@pytest.mark.parametrize("part", [SPLIT, PRESET])
def test_a_part_alone_makes_a_report(part: str, results: Results[Row]) -> None:
    told = story(of_part(results.rows, part))
    assert told.failures == []
    assert told.charts
    assert told.tables
