"""The best error rate by lookups between openings: loads are counted, and reads grow with lookups."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bench.experiments.openings.experiment import EXPERIMENT
from bench.experiments.openings.measure import absent_keys, opening
from bench.experiments.openings.rows import Row
from bench.experiments.openings.story import failures
from bench.experiments.openings.tasks import RATES, Task
from bench.harness.experiment import Results, run
from bench.harness.run_stores import write_runs
from lsmkv.options import Options

pytestmark = pytest.mark.slow  # real stores of every configuration

TINY = ["--out", "unused", "--keys", "1000", "--openings", "2", "--lookups", "4000"]


@pytest.fixture(scope="module")
def results() -> Results[Row]:
    return run(EXPERIMENT, TINY)


def test_block_reads_of_openings_grow_as_their_lookups(results: Results[Row]) -> None:
    assert failures(results.rows) == []
    judged = [row for row in results.rows if row.direct_block_reads is not None]
    assert {row.error_rate for row in judged} == {1.0, *RATES}


def test_an_opening_of_fewer_lookups_reads_what_a_longer_one_has_read_by_then(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "store")
    write_runs(path, 2000, 1, 3, Options())
    long = opening(path, Task(0.01, 1, 4096, 2000, 1, 1.0, 100, 3, 0), 0)
    short = opening(path, Task(0.01, 1, 4096, 2000, 1, 0.03, 100, 3, 0), 0)
    assert short == {at: long[at] for at in short}
    assert max(short) == 0.03


def test_block_reads_that_do_not_grow_as_lookups_fail_the_report(results: Results[Row]) -> None:
    row = next(row for row in results.rows if row.error_rate == 1 and row.lookups_per_key == 1)
    assert row.direct_block_reads is not None
    changed = dataclasses.replace(row, direct_block_reads=2 * row.direct_block_reads)
    rows = [changed if each is row else each for each in results.rows]
    (failure,) = failures(rows)
    assert "were expected" in failure
    assert "off, 1 lookups per key" in failure


def test_absent_keys_differ_between_openings_and_lie_between_present_ones() -> None:
    task = Task(0.1, 1, 4096, 1000, 1, 1.0, 1, 3, 0)
    first, second = absent_keys(task, 0), absent_keys(task, 1)
    assert len({*first, *second}) == 2 * 999
    present = [b"%016d" % (2 * at) for at in range(1000)]
    for at, key in enumerate(sorted(first)):
        assert present[at] < key < present[at + 1]
