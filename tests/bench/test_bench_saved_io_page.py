"""What ``saved-io`` counts net, and what its report and its page show first."""

from __future__ import annotations

import argparse
import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import lsmkv
from bench.experiments.saved_io import theory
from bench.experiments.saved_io.charts import charts
from bench.experiments.saved_io.datasets import DIGITS, dataset
from bench.experiments.saved_io.experiment import EXPERIMENT, tasks
from bench.experiments.saved_io.measure import measure
from bench.experiments.saved_io.rows import Row, join
from bench.experiments.saved_io.stores import build, count
from bench.experiments.saved_io.story import (
    HEADLINE_RATES,
    headline_rows,
    section,
    story,
    write_picture,
)
from bench.experiments.saved_io.tables import headline
from bench.experiments.saved_io.tasks import StoreTask, Task
from bench.harness import experiment
from bench.harness.experiment import Plan, Results, parser_for
from bench.harness.filter_answers import PAGE_BYTES, answers
from bench.harness.sweep import sweep
from bench.workloads.keys import lookups
from drawn_charts import faults

PAGE = Path(__file__).parents[2] / "docs" / "saved-io.md"
FIRST_WORDS = 150
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


@pytest.fixture(scope="module")
def written(results: Results[Row], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with all files of the results."""
    out = tmp_path_factory.mktemp("out")
    experiment.write(EXPERIMENT, results, str(out))
    return out


def tiny(directory: Path, **changes: Any) -> tuple[StoreTask, str]:
    """A store of four runs, and its path."""
    task = StoreTask(DIGITS, 3000, 4096, 4, "bloom", 0.1, (0.5,), 3000, 0, 0, 1, 0)
    task = dataclasses.replace(task, **changes)
    path = str(directory / "store")
    build(task, dataset(DIGITS, task.entries, task.seed), path)
    return task, path


def some_keys(task: StoreTask, hit_ratio: float) -> list[bytes]:
    data = dataset(DIGITS, task.entries, task.seed)
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
    task, path = tiny(tmp_path)
    keys = some_keys(task, 0.5)[:300]
    try:
        with lsmkv.open(path, read_only=True, block_cache_size_bytes=0, direct_reads=True) as db:
            for key in keys:
                db.get(key)
            direct = db.stats()
    except OSError as error:
        pytest.skip(f"no direct reads here: {error}")
    counted = count(path, keys)
    built_pages = build(
        task, dataset(DIGITS, task.entries, task.seed), str(tmp_path / "again")
    ).filter_page_bytes
    assert counted.answers.block_page_bytes == direct.block_read_bytes
    assert built_pages == direct.filter_read_bytes
    assert direct.block_read_bytes % PAGE_BYTES == 0
    assert direct.block_read_bytes > 1.3 * counted.stats.block_read_bytes  # most blocks straddle


def test_a_count_that_disagrees_fails_the_report(results: Results[Row]) -> None:
    changed = [dataclasses.replace(row, miscounted=3) for row in results.rows[1:2]]
    failures = story([*results.rows[:1], *changed]).failures
    assert ["off by 3 from a second count" in failure for failure in failures] == [True]


# Findings that fail


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


def test_an_interval_below_the_bound_of_any_filter_fails_the_report(results: Results[Row]) -> None:
    changed = [
        dataclasses.replace(row, error_rate_low=0.0, error_rate_high=2.0**-30)
        if row.error_rate_requested == 0.01 and row.run_count == 1
        else row
        for row in results.rows
    ]
    assert any("below the bound of any filter" in failure for failure in story(changed).failures)


def test_theory_knows_that_keys_between_two_blocks_cost_nothing(results: Results[Row]) -> None:
    for row in results.rows:
        if row.is_store and row.error_rate_requested is None:
            gaps = (row.block_count or 0) / row.entry_count
            reads = theory.reads_per_lookup(1.0, row.hit_ratio, row.run_count or 0, gaps)
            assert (row.data_block_reads or 0) / row.lookup_count == pytest.approx(reads, rel=0.02)


# Options


def test_counts_only_times_nothing(results: Results[Row]) -> None:
    assert {row.cold_us_mean for row in results.rows} == {None}
    assert {chart.name for chart in charts(results.rows)} >= {"reads-left", "memory"}
    assert "cold-latency" not in {chart.name for chart in charts(results.rows)}
    assert "µs" not in " ".join(story(results.rows).tables[0].headings)


def test_policies_and_repetitions_have_rows_of_their_own() -> None:
    def one_run(plan: Plan) -> list[Task]:
        return [
            task
            for task in few(plan)
            if isinstance(task, StoreTask) and task.runs == 1 and task.error_rate in (None, 0.01)
        ]

    found = experiment.run(
        dataclasses.replace(EXPERIMENT, tasks=one_run),
        [*TINY, "--policies", "bloom,ribbon", "--repetitions", "2"],
    ).rows
    shapes = {(row.filter_policy, row.repetition, row.error_rate_requested) for row in found}
    assert len(shapes) == 8
    told = story(found)
    assert told.failures == []
    assert told.first is not None and [row[0] for row in told.first.cells] == ["1"]


def test_each_seed_has_keys_of_its_own() -> None:
    first, second = (
        {key for key, _ in dataset(DIGITS, 300, seed).entries} for seed in (1970, 1971)
    )
    assert first.isdisjoint(second)


# What comes first


class FirstScreen(HTMLParser):
    """The words of a page before its first picture, and the order of its parts."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.parts: list[str] = []
        self._hidden = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden = tag in ("style", "title")
        if tag in ("table", "img") or (tag == "ul" and ("class", "findings") in attrs):
            self.parts.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self._hidden = False

    def handle_data(self, data: str) -> None:
        if not self._hidden and "img" not in self.parts:
            self.words += data.split()


def test_the_report_begins_with_a_table_and_a_chart_in_few_words(
    written: Path,
) -> None:
    screen = FirstScreen()
    screen.feed((written / "report.html").read_text(encoding="utf-8"))
    assert screen.parts[:4] == ["table", "img", "ul", "img"]
    assert 60 < len(screen.words) <= FIRST_WORDS


def test_the_first_table_has_the_four_rates(results: Results[Row]) -> None:
    first = story(results.rows).first
    assert first is not None
    assert [row[0] for row in first.cells] == ["10", "1", "0.1", "0.01"]
    assert "4 KiB blocks, 4 runs" in first.title


def test_filters_without_a_store_have_no_first_table() -> None:
    alone = Row(
        dataset="alone", filter_policy="bloom", hash_strategy="product", hit_ratio=0.0,
        repetition=0, seed=1, lookup_count=1, entry_count=1, filter_false_positives=0,
        filter_bits_per_key=1.0, filter_bytes_per_key=1.0, os_check="",
    )  # fmt: skip
    assert headline_rows([alone]) == []


def test_the_section_has_table_picture_and_findings(
    results: Results[Row], written: Path, tmp_path: Path
) -> None:
    text = section(results)
    places = [text.index(part) for part in ("| 0.01 |", "](pictures/reads-left.svg)", "\n- At p")]
    assert places == sorted(places)
    document = tmp_path / "docs" / "page.md"
    document.parent.mkdir()
    given = argparse.Namespace(into=str(document), out=str(written))
    assert write_picture(results, given) == [str(document.parent / "pictures" / "reads-left.svg")]
    assert write_picture(results, argparse.Namespace(into=None, out=str(written))) == []


# The published page


def published() -> tuple[list[str], list[list[str]]]:
    """The command of the page, and the cells of its table."""
    text = PAGE.read_text(encoding="utf-8")
    command = re.search(r"Command: `python -m bench saved-io (.*?)`", text)
    assert command is not None
    cells = [
        [cell.strip() for cell in line.strip("|\n").split("|")]
        for line in text.splitlines()
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
        and (task.block_size_bytes, task.runs) == (4096, 4)
        and task.error_rate in (None, *rates)
    ]
    assert len(planned) == 1 + len(rates)
    rows = join(sweep(measure, planned, None))
    return [list(cells) for cells in headline(headline_rows(rows)).cells]


def test_the_page_shows_the_four_rows_of_its_command() -> None:
    command, cells = published()
    assert [row[0] for row in cells] == ["10", "1", "0.1", "0.01"]
    assert "--counts-only" in command
    assert (PAGE.parent / "pictures" / "reads-left.svg").exists()


@pytest.mark.slow
def test_the_rows_of_the_page_are_those_that_the_experiment_gives() -> None:
    command, cells = published()
    assert rows_of_page(command, HEADLINE_RATES) == cells


def test_charts_have_plain_ticks_and_name_their_lines(results: Results[Row]) -> None:
    assert faults(charts(results.rows)) == []
