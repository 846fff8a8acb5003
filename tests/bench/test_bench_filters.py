"""The filters' benchmark: repeatable counts, honest intervals, and no missing contender."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.experiments.filters import tasks
from bench.experiments.filters.contenders import contender_named, missing
from bench.experiments.filters.experiment import EXPERIMENT
from bench.experiments.filters.measure import count
from bench.experiments.filters.rows import Row, names
from bench.experiments.filters.story import story
from bench.harness import experiment, records
from bench.harness.experiment import Results
from bench.harness.intervals import clustered_interval
from lsmkv.filters import hash_key
from lsmkv.filters.policy import POLICIES

TINY = tasks.Effort(
    key_counts=(8, 30),
    error_rates=(0.1, 0.01),
    false_positives=3,
    least_trials=60,
    most_trials=100,
    least_filters=3,
    turns=1,
    timed_operations=30,
    timed_asked=20,
)


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "QUICK", TINY)


def run(*arguments: str) -> Results[Row]:
    return experiment.run(EXPERIMENT, ["--quick", "--out", "unused", *arguments])


@pytest.fixture(scope="module")
def made() -> Results[Row]:
    """The results of the command without other arguments; no test changes them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "QUICK", TINY)
        return run()


def counted(results: Results[Row]) -> list[dict[str, Any]]:
    return records.repeatable(results.rows)


def test_rows_of_the_store_ask_the_bits_that_its_policies_build_for_tables() -> None:
    draw = random.Random("store rows")
    keys = tasks.keys_of(draw, 60)
    for policy in POLICIES:
        contender = contender_named(f"store/{policy.name}")
        filled = contender.fill(keys[:30], 0.01)
        bits, parameter = policy.build([hash_key(key) for key in keys[:30]], 0.01)
        assert (filled.section[filled.start :], filled.parameter) == (bits, parameter)
        assert contender.ask(filled, keys) == [
            policy.may_contain(bits, 0, len(bits), parameter, hash_key(key)) for key in keys
        ]


def test_the_rate_in_theory_of_ribbon_filters_in_tables_is_the_mean_of_both_rates() -> None:
    found = count(tasks.Task("store/ribbon", 30, 0.01, 1970, filter_count=300, per_filter=10))
    assert 2**-7 < found.rate < 2**-6
    assert found.rate == pytest.approx(0.01, rel=0.1)


@pytest.mark.slow
def test_only_times_change_from_run_to_run_and_in_other_processes(made: Results[Row]) -> None:
    first = counted(made)
    assert counted(run("--jobs", "2")) == first
    assert counted(run("--seed", "2")) != first
    times = {c["name"] for c in records.columns(Row)} - first[0].keys()
    assert times == {
        f"{operation}_ns_median" for operation in ("add", "query_present", "query_absent")
    }


def test_a_denied_key_fails_the_experiment(made: Results[Row]) -> None:
    rows = list(made.rows)
    assert story(rows).failures == []
    rows[0] = replace(rows[0], false_negative_count=1)
    assert story(rows).failures == [f"{rows[0].filter} denied keys that it holds"]


@pytest.mark.parametrize(
    ("name", "right"), [("bloom", True), ("counting-4", True), ("bloom/double-hashing", False)]
)
def test_the_interval_tells_independent_probes_from_double_hashing(name: str, right: bool) -> None:
    found = count(tasks.Task(name, 30, 0.01, 1970, filter_count=700, per_filter=100))
    low, high = (
        clustered_interval(found.hits, found.per_filter).low,
        clustered_interval(found.hits, 100).high,
    )
    assert (low <= found.rate <= high) == right
    assert right or low > found.rate
    assert found.false_negatives == 0


def test_a_missing_peer_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "rbloom", None)
    assert missing() == ["rbloom"]
    results = run()
    assert results.header["missing"] == ["rbloom"]
    assert "rbloom" not in names(results.rows)


def test_one_filter_is_not_enough() -> None:
    with pytest.raises(ValueError, match="one filter"):
        clustered_interval([3], 100)
