"""GETs of published stores: counts equal the server's log, and grow as p."""

from __future__ import annotations

import dataclasses

import pytest

from bench.experiments.saved_requests.experiment import EXPERIMENT
from bench.experiments.saved_requests.rows import COLD, OPENING, WARM, Row
from bench.experiments.saved_requests.story import failures
from bench.experiments.saved_requests.tables import of_engines, pairs, rates
from bench.experiments.saved_requests.tasks import RATES, RUNS, has_slatedb
from bench.harness.experiment import Results, run

pytestmark = pytest.mark.slow  # a server for each configuration

TINY = ["--out", "unused", "--keys", "4000", "--lookups", "600", "--gets", "60"]


@pytest.fixture(scope="module")
def results() -> Results[Row]:
    return run(EXPERIMENT, TINY)


def promises(rows: list[Row]) -> list[str]:
    """Broken promises that are no times: few keys make few requests to save."""
    return [found for found in failures(rows) if "times faster" not in found]


def test_counts_equal_the_servers_log_and_theory(results: Results[Row]) -> None:
    assert promises(results.rows) == []
    counted = [row for row in results.rows if row.counted_gets is not None]
    assert {row.error_rate for row in counted} >= set(RATES)
    assert all(row.counted_gets == row.gets for row in counted)


def test_a_found_key_of_one_run_costs_one_get(results: Results[Row]) -> None:
    for row in rates(results.rows, 1, "present"):
        assert row.gets == row.lookups
        assert row.ms_per_lookup == row.get_ms == 20.0
        assert row.usd_per_million == pytest.approx(0.4)


def test_absent_keys_cost_less_the_lower_the_rate(results: Results[Row]) -> None:
    for runs in RUNS:
        absent = rates(results.rows, runs, "absent")
        assert [row.error_rate for row in absent] == sorted(RATES, reverse=True)
        assert absent[0].gets_per_lookup > 0.9 * runs
        assert absent[-1].gets_per_lookup < 0.02 * runs


def test_engines_stand_side_by_side(results: Results[Row]) -> None:
    names = {"lsmkv", "lsmkv, ribbon"} | ({"slatedb"} if has_slatedb() else set())
    for phase, keys in ((OPENING, "none"), (COLD, "absent"), (COLD, "present"), (WARM, "present")):
        found = of_engines(results.rows, phase, keys)
        assert {(row.engine, row.run_count) for row in found} == {
            (name, runs) for name in names for runs in RUNS
        }
    assert all(row.gets == 0 for row in of_engines(results.rows, WARM, "absent"))
    ours = [row for row in of_engines(results.rows, COLD, "present") if row.engine != "slatedb"]
    assert all(row.gets >= row.lookups for row in ours)


def test_many_keys_at_once_take_the_same_gets(results: Results[Row]) -> None:
    found = pairs(results.rows)
    assert found
    for one, many in found:
        assert one.gets == many.gets > 0


def test_broken_promises_are_told(results: Results[Row]) -> None:
    rows = list(results.rows)
    at = next(number for number, row in enumerate(rows) if row.keys == "present")
    rows[at] = dataclasses.replace(rows[at], counted_gets=rows[at].gets + 1)
    assert "counted" in promises(rows)[0]
    rows[at] = dataclasses.replace(results.rows[at], expected_gets=10_000.0)
    assert "in theory" in promises(rows)[0]
    slow = [
        dataclasses.replace(row, elapsed_s=1.0) if row.part == "parallel" else row
        for row in results.rows
    ]
    assert any("1.0 times faster" in found for found in failures(slow))
