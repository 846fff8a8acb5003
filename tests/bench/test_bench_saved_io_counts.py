"""What ``saved-io`` counts net, beside independent counts."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

import lsmkv
from bench.experiments.saved_io.datasets import DIGITS, content
from bench.experiments.saved_io.experiment import EXPERIMENT, tasks
from bench.experiments.saved_io.measure import measure
from bench.experiments.saved_io.rows import Row, join
from bench.experiments.saved_io.stores import build, count
from bench.experiments.saved_io.story import HEADLINE_RATES, headline_rows, story
from bench.experiments.saved_io.tables import headline
from bench.experiments.saved_io.tasks import StoreTask, Task
from bench.harness import experiment
from bench.harness.experiment import Plan, Results, parser_for
from bench.harness.filter_answers import PAGE_BYTES, answers
from bench.harness.sweep import sweep
from bench.workloads.keys import lookups

PAGE = Path(__file__).parents[2] / "docs" / "saved-io.md"
TINY = [
    "--quick", "--out", "unused", "--datasets", "digits", "--entries", "2000", "--lookups", "2000",
    "--counts-only",
]  # fmt: skip


def few(plan: Plan) -> list[Task]:
    """Stores of the first table's rates, in blocks of 4 KiB."""
    return [
        task
        for task in tasks(plan)
        if isinstance(task, StoreTask)
        and task.block_size_bytes == 4096
        and task.error_rate in (None, *HEADLINE_RATES)
    ]


@pytest.fixture(scope="module")
def results() -> Results[Row]:
    return experiment.run(dataclasses.replace(EXPERIMENT, tasks=few), TINY)


def tiny(directory: Path, **changes: Any) -> tuple[StoreTask, str]:
    """A store of four runs, and its path."""
    task = StoreTask(DIGITS, 3000, 4096, 4, "bloom", 0.1, (0.5,), 3000, 0, 1)
    task = dataclasses.replace(task, **changes)
    path = str(directory / "store")
    build(task, content(DIGITS, task.entries, task.seed), path)
    return task, path


def some_keys(task: StoreTask, hit_ratio: float) -> list[bytes]:
    data = content(DIGITS, task.entries, task.seed)
    present = [key for key, _ in data.entries]
    return lookups(present, data.absent, hit_ratio, 2 * task.entries, seed=2)


# Two counts of the same lookups


@pytest.mark.parametrize(
    "policy", ["bloom", "none", pytest.param("ribbon", marks=pytest.mark.slow)]
)
def test_both_counts_of_a_store_agree(policy: str, tmp_path: Path) -> None:
    task, path = tiny(tmp_path, policy=policy, error_rate=None if policy == "none" else 0.1)
    for hit_ratio in (0.0, 0.5, 1.0):
        counted = count(path, some_keys(task, hit_ratio))
        assert counted.stats.block_reads > 0
        assert counted.miscounted == 0


def test_present_keys_count_as_trials_of_other_runs(tmp_path: Path) -> None:
    task, path = tiny(tmp_path)
    found = answers(path, some_keys(task, 1.0))
    # Of four runs a key's own is at the second or third place, on average.
    assert sum(found.trials) == pytest.approx(1.5 * 2 * task.entries, rel=0.1)
    assert found.effective == pytest.approx(sum(found.trials) / 2)


def test_bytes_of_pages_are_those_of_direct_reads(tmp_path: Path) -> None:
    task, path = tiny(tmp_path, entries=3200)  # with what is behind the filters in one page
    keys = some_keys(task, 0.5)[:300]
    try:
        with lsmkv.open(path, read_only=True, block_cache_size_bytes=0, direct_reads=True) as db:
            for key in keys:
                db.get(key)
            direct = db.stats()
    except OSError as error:
        pytest.skip(f"no direct reads here: {error}")
    counted = count(path, keys)
    built = build(task, content(DIGITS, task.entries, task.seed), str(tmp_path / "again"))
    assert counted.answers.block_page_bytes == direct.block_read_bytes
    assert built.filter_page_bytes == direct.filter_read_bytes
    # It is read at the opening in three parts and at the first lookup in two.
    assert 5 * built.index_page_bytes == direct.index_read_bytes
    assert direct.block_read_bytes % PAGE_BYTES == 0
    assert direct.block_read_bytes > 1.3 * counted.stats.block_read_bytes  # most blocks straddle


@pytest.mark.slow
def test_a_count_that_disagrees_fails_the_report(results: Results[Row]) -> None:
    changed = [dataclasses.replace(row, miscounted=3) for row in results.rows[1:2]]
    failures = story([*results.rows[:1], *changed]).failures
    assert ["off by 3 from a second count" in failure for failure in failures] == [True]


# Findings that fail


@pytest.mark.slow
def test_intervals_that_miss_the_exact_rate_too_often_fail_the_report(
    results: Results[Row],
) -> None:
    assert story(results.rows).failures == []
    missed = [
        dataclasses.replace(
            row, error_rate_low=0.0, error_rate_high=(row.error_rate_exact or 0) / 2
        )
        if row.is_store and row.error_rate_exact
        else row
        for row in results.rows
    ]
    assert any("95 % intervals" in failure for failure in story(missed).failures)


# The published page


def published() -> tuple[list[str], list[list[str]]]:
    """The command of the page, and the cells of its first table."""
    text = PAGE.read_text(encoding="utf-8")
    command = re.search(r"Command: `python -m bench saved-io (.*?)`", text)
    assert command is not None
    cells = [
        [cell.strip() for cell in line.strip("|\n").split("|")]
        for line in text[command.end() :].split("Net:", 1)[0].splitlines()
        if re.match(r"\| [\d.]+ \|", line)
    ]
    return command[1].split(), cells


def rows_of_page(command: list[str], rates: tuple[float, ...]) -> list[list[str]]:
    """The page's cells for some rates, measured again."""
    given = parser_for(EXPERIMENT).parse_args(command)
    planned: list[Task] = [
        dataclasses.replace(task, hit_ratios=(0.0,))
        for task in tasks(Plan(given.quick, given.seed, given))
        if isinstance(task, StoreTask)
        and (task.dataset, task.block_size_bytes, task.runs) == (DIGITS, 4096, 4)
        and task.error_rate in (None, *rates)
    ]
    assert len(planned) == 1 + len(rates)
    rows = join(sweep(measure, planned, None))
    return [list(cells) for cells in headline(headline_rows(rows)).cells]


@pytest.mark.slow
def test_the_rows_of_the_page_are_those_that_the_experiment_gives() -> None:
    command, cells = published()
    assert rows_of_page(command, HEADLINE_RATES) == cells
