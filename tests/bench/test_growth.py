"""The growth experiment: its theory, its counts beside independent ones, its failures."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import lsmkv
from bench.experiments.growth import theory
from bench.experiments.growth.counting import count_reads, watch_cache
from bench.experiments.growth.experiment import EXPERIMENT, tasks
from bench.experiments.growth.filling import fill
from bench.experiments.growth.groups import by_style
from bench.experiments.growth.model import bytes_written
from bench.experiments.growth.rows import Reads, Row, Tree, columns
from bench.experiments.growth.story import failures, story
from bench.experiments.growth.tasks import SEEK_ENTRIES, Task, copy_of
from bench.experiments.growth.timing import measure_puts, measure_reads
from bench.harness import experiment
from bench.harness.experiment import Plan
from bench.workloads.keys import absent_key, present_key
from headlines import assert_headline

TASK = Task(
    entries=4000,
    style="leveled",
    scale=2048,
    lookups=1500,
    window=600,
    repetitions=2,
    seed=3,
)
ARGUMENTS = [
    "--entries",
    "300",
    "--scale",
    "4096",
    "--lookups",
    "100",
    "--window",
    "200",
    "--repetitions",
    "1",
]


def planned(*arguments: str) -> list[Task]:
    given = experiment.parser_for(EXPERIMENT).parse_args(["--out", "unused", *arguments])
    styles = tasks(Plan(given.quick, given.seed, given))
    return [task for sizes in styles for task in sizes.tasks]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("growth") / "store")


@pytest.fixture(scope="module")
def tree(store: str) -> Tree:
    return fill(TASK, store)


@pytest.fixture(scope="module")
def reads(store: str, tree: Tree) -> Reads:
    return count_reads(TASK, store)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """Measured by the command, each stage in its own process."""
    return experiment.run(EXPERIMENT, [*ARGUMENTS, "--out", "unused"]).rows


# Theory


def test_levels_grow_with_the_logarithm_of_the_data() -> None:
    options = lsmkv.Options(
        write_buffer_size_bytes=5000, level0_compaction_trigger=2, level1_size_bytes=10_000
    )
    sizes = (9999, 10_000, 10_001, 110_000, 110_001, 1_110_001)
    assert [theory.level_count(size, options) for size in sizes] == [0, 1, 2, 2, 3, 4]


@pytest.mark.parametrize(
    ("flushes", "written"),
    [
        (1, 1),
        (2, 2 + 2),  # merged into level 1
        (4, 4 + 2 + 4),  # and again, with the present tables
        (6, 6 + 2 + 4 + 6),  # level 1 is too large by two tables, which are moved to level 2
    ],
)
def test_model_counts_the_writes_of_a_tree_followed_by_hand(flushes: int, written: int) -> None:
    options = lsmkv.Options(level1_size_bytes=16_384, level0_compaction_trigger=2)
    found = bytes_written([4000.0] * flushes, 10_000, options, 4000.0)
    assert found == pytest.approx(4000 * written, rel=0.001)


def test_fence_comparisons_are_the_logarithms_of_tables_and_blocks(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "store") as db:
        for number in range(3000):
            db[present_key(number)] = bytes(100)
        db.flush()
        expected = theory.expected(db.inspect(), 3000, SEEK_ENTRIES)
        (table,) = db.inspect().tables()
    by_blocks = math.log2(table.block_count + 1)
    assert expected.fence_comparisons == pytest.approx(1 + by_blocks)  # one run of one table
    assert expected.fence_comparisons_least == pytest.approx(by_blocks)


# Counts, beside independent counts


def test_bytes_written_are_those_of_the_files_of_a_store_that_was_only_flushed(
    tmp_path: Path,
) -> None:
    task = replace(TASK, entries=TASK.buffer_entries * 3)
    found = fill(task, str(tmp_path / "store"))
    files = sum(path.stat().st_size for path in (tmp_path / "store").glob("*.sst"))
    assert (found.run_count, found.level_count, found.compaction_write_bytes) == (3, 0, 0)
    assert found.flush_bytes == found.table_bytes == files
    assert found.write_amplification == pytest.approx(files / (task.entries * 116))


def test_the_filled_store_has_levels_and_each_key_once(store: str, tree: Tree) -> None:
    assert tree.level_count == tree.level_count_expected == 2
    assert tree.entries_stored == TASK.entries
    with lsmkv.open(store, read_only=True) as db:
        assert list(iter(db.keys())) == [present_key(number) for number in range(TASK.entries)]


def test_the_fill_writes_about_what_the_model_says(tree: Tree) -> None:
    assert tree.write_amplification == pytest.approx(tree.write_amplification_model, rel=0.2)


def test_a_fill_repeats_for_a_seed(tree: Tree, tmp_path: Path) -> None:
    assert fill(TASK, str(tmp_path / "again")) == tree


@pytest.mark.parametrize("kind", ["absent", "present"])
def test_filters_asked_and_blocks_read_are_those_that_explain_shows(
    store: str, reads: Reads, kind: str
) -> None:
    key = absent_key if kind == "absent" else present_key
    with lsmkv.open(store, read_only=True) as db:
        outcomes = Counter(
            step.outcome
            for number in TASK.sample(kind, TASK.lookups)
            for step in db.explain(key(number)).runs
        )
    passed = outcomes["absent"]  # a false positive
    searched = passed + outcomes["found"]
    assert getattr(reads, f"{kind}_filters") == searched + outcomes["filtered"]
    assert getattr(reads, f"{kind}_false_positives") == passed
    assert getattr(reads, f"{kind}_block_reads") == searched


def test_blocks_of_seeks_are_those_that_empty_caches_miss(store: str, reads: Reads) -> None:
    missed = 0
    for number in TASK.sample("seeks", reads.seeks):
        with lsmkv.open(store, read_only=True) as db:
            list(islice(db.items(start=present_key(number)), SEEK_ENTRIES))
            missed += db.stats().block_cache_misses
    assert reads.seek_block_reads == missed


def test_counts_lie_near_theory(reads: Reads) -> None:
    assert reads.wrong_answers == 0
    asked = reads.absent_filters / reads.absent_lookups
    assert asked == pytest.approx(reads.absent_filters_expected, rel=0.05)
    found = reads.seek_block_reads / reads.seeks
    assert found == pytest.approx(reads.seek_reads_expected, rel=0.1)
    assert reads.seek_reads_expected <= reads.seek_reads_without_fences


def test_a_small_cache_keeps_its_budget_and_its_hot_blocks(tmp_path: Path) -> None:
    task = replace(TASK, entries=20_000, scale=64)  # few tables
    fill(task, str(tmp_path / "store"))
    found = watch_cache(task, str(tmp_path / "store"))
    assert 0.5 < found.cache_peak_bytes / found.cache_budget_bytes <= 1
    assert found.hot_hit_rate_before == found.hot_hit_rate_after_scan == 1
    assert found.hot_hit_rate_after_lookups < 1
    assert found.cache_evictions > 0


# Times


def test_warm_reads_miss_nothing(store: str, tree: Tree) -> None:
    found = [measure_reads(TASK, store, repetition) for repetition in range(2)]
    assert [(each.warm_share, each.warm_misses) for each in found] == [(1.0, 0)] * 2
    assert all(each.get_hit_us > 0 and each.open_us > 0 for each in found)


@pytest.mark.slow
def test_warm_reads_leave_the_tree_as_it_is(tmp_path: Path) -> None:
    def numbers() -> list[int]:
        with lsmkv.open(directory, read_only=True) as db:
            return [table.number for table in db.inspect().tables()]

    directory = str(tmp_path / "store")
    # Three levels, and so many lookups that compaction for readers, with the default rate, is due.
    task = replace(TASK, entries=20_000, lookups=45_000)
    fill(task, directory)
    before = numbers()
    measure_reads(task, directory, 0)
    assert numbers() == before


def test_puts_leave_the_store_they_were_copied_from_alone(
    store: str, tree: Tree, tmp_path: Path
) -> None:
    before = {path.name: path.read_bytes() for path in Path(store).iterdir()}
    copy = copy_of(store, str(tmp_path / "copy"))
    puts = measure_puts(TASK, copy, "thread", 0)
    assert 0 < puts.put_us_p50 <= puts.put_us_p99 <= puts.put_us_p999 <= puts.put_us_max
    assert puts.put_settled_us >= puts.put_us
    assert {path.name: path.read_bytes() for path in Path(store).iterdir()} == before


# The command


def test_counts_repeat_in_another_process(rows: list[Row], tmp_path: Path) -> None:
    (task,) = planned(*ARGUMENTS)
    path = str(tmp_path / "store")
    again = columns(fill(task, path), count_reads(task, path), watch_cache(task, path))
    for name, count in again.items():
        assert getattr(rows[0], name) == count


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"wrong_answers": 2}, "2 operations had a wrong answer"),
        ({"absent_filters": 5000, "absent_false_positives": 200}, "let 200 of 5,000"),
        ({"absent_block_reads": 77}, "absent lookups read 77 blocks"),
        ({"present_block_reads": 999}, "present lookups read 999 blocks"),
        ({"cache_peak_bytes": 1 << 30}, "the block cache held"),
        ({"hot_hit_rate_after_scan": 0.5, "scan_cached_bytes": 0}, "a scan drove hot blocks out"),
        ({"warm_misses": 1}, "1 blocks of warm operations"),
    ],
)
def test_broken_promises_are_reported(
    rows: list[Row], changes: dict[str, Any], complaint: str
) -> None:
    assert story(rows).failures == []
    (size,) = by_style([replace(rows[0], **changes)])["leveled"]
    assert any(complaint in problem for problem in failures(size))


@pytest.mark.parametrize("arguments", [["--styles", "flat"], ["--entries", "0"]])
def test_invalid_options_are_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        planned(*arguments)
    assert "must be" in capsys.readouterr().err


def test_the_report_begins_with_a_number(rows: list[Row]) -> None:
    assert_headline(story(rows))
