"""The best error rate by lookups between openings: loads are counted, and reads grow with lookups."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bench.experiments.openings.experiment import EXPERIMENT
from bench.experiments.openings.measure import absent_keys, block_slope, measure, opening
from bench.experiments.openings.rows import Row
from bench.experiments.openings.story import failures
from bench.experiments.openings.tables import (
    BYTES,
    bests,
    shapes,
)
from bench.experiments.openings.tasks import RATES, Task
from bench.experiments.openings.theory import best_rate, cost_per_key
from bench.harness.experiment import Results, run
from bench.harness.records import repeatable
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


def test_twice_the_lookups_read_twice_the_blocks(tmp_path: Path) -> None:
    """A lookup reads what it would read in any other place: counts of parts add up."""
    task = Task(0.1, 2, 4096, 2000, 1, 1.0, 6000, 3, 0)
    path = str(tmp_path / "store")
    write_runs(path, 2000, 2, 3, Options(error_rate=0.1))
    found = opening(path, task, 0)
    half, whole = found[0.3].block_reads, found[1.0].block_reads
    assert whole == pytest.approx(half / 0.3, rel=0.25)
    asked, many = block_slope(path, task)
    assert whole / 1999 == pytest.approx(many.block_reads / asked, rel=0.25)


def test_an_opening_of_fewer_lookups_reads_what_a_longer_one_has_read_by_then(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "store")
    write_runs(path, 2000, 1, 3, Options())
    long = opening(path, Task(0.01, 1, 4096, 2000, 1, 1.0, 100, 3, 0), 0)
    short = opening(path, Task(0.01, 1, 4096, 2000, 1, 0.03, 100, 3, 0), 0)
    assert short == {at: long[at] for at in short}
    assert max(short) == 0.03


def test_resident_filters_are_loaded_whole_by_the_first_lookup(results: Results[Row]) -> None:
    for row in results.rows:
        if row.error_rate < 1:
            assert row.filter_bytes_least == row.filter_bytes_most
            assert row.filter_bytes == round(row.filter_bits_per_key * row.key_count / 8)
            assert row.filter_requests == row.run_count


def test_the_best_measured_rate_is_near_theory(results: Results[Row]) -> None:
    of = shapes(results.rows)[0]
    found = {each.lookups_per_key: each for each in bests(results.rows, of, BYTES)}
    for lookups in (0.001, 0.01, 0.1):
        assert 0.2 < found[lookups].rate / found[lookups].theory < 5
    assert found[0.01].off > 5 * found[0.01].cost


def test_counts_repeat(tmp_path: Path) -> None:
    task = Task(0.05, 2, 4096, 1000, 2, 1.0, 3000, 9, 100)
    rows = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        rows.append(repeatable(measure(task, str(tmp_path / name))))
    assert rows[0] == rows[1]


def test_block_reads_that_do_not_grow_as_lookups_fail_the_report(results: Results[Row]) -> None:
    row = next(row for row in results.rows if row.error_rate == 1 and row.lookups_per_key == 1)
    assert row.direct_block_reads is not None
    changed = dataclasses.replace(row, direct_block_reads=2 * row.direct_block_reads)
    rows = [changed if each is row else each for each in results.rows]
    (failure,) = failures(rows)
    assert "were expected" in failure
    assert "off, 1 lookups per key" in failure


def test_rates_far_from_theory_fail_the_report(results: Results[Row]) -> None:
    rows = [
        dataclasses.replace(row, filter_bytes=0.0 if row.error_rate == 0.5 else 1e12)
        for row in results.rows
    ]
    assert any("theory's best rate" in failure for failure in failures(rows))


def test_theory_has_its_minimum_where_it_says() -> None:
    for lookups, runs, block in ((0.001, 1, 4096), (0.01, 4, 4096), (1.0, 1, 65536)):
        rate = best_rate(lookups, runs, block)
        least = cost_per_key(rate, lookups, runs, block)
        for factor in (0.5, 0.99, 1.01, 2.0):
            assert cost_per_key(min(1.0, rate * factor), lookups, runs, block) > least


def test_absent_keys_differ_between_openings_and_lie_between_present_ones() -> None:
    task = Task(0.1, 1, 4096, 1000, 1, 1.0, 1, 3, 0)
    first, second = absent_keys(task, 0), absent_keys(task, 1)
    assert len({*first, *second}) == 2 * 999
    present = [b"%016d" % (2 * at) for at in range(1000)]
    for at, key in enumerate(sorted(first)):
        assert present[at] < key < present[at + 1]
