"""The tools that measure other builds, and their errors for bad ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.workloads import operations
from bench.workloads.operations import TIMED
from tools import compare_builds
from tools.builds import CHECKOUT, BuildError, nature


@pytest.mark.parametrize("kind", TIMED)
def test_every_kind_of_work_is_done_and_measured(kind: str, tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    if TIMED[kind].reads:
        operations.make_timed_store(store, 80)
    found = operations.measure(kind, store, 80)
    assert found["time, us"] > 0
    assert (found["syncs of logs"] > 0) == kind.startswith("put-sync")


@pytest.mark.slow
def test_two_builds_are_measured_in_processes_of_their_own() -> None:
    rows = compare_builds.measure([CHECKOUT, CHECKOUT], "get-hit", 50, 1, None)
    assert [len(column) for column in rows] == [1, 1]
    assert compare_builds.ratios(rows[0], rows[1])[0] > 0


def test_a_folder_without_lsmkv_is_no_build(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="no lsmkv to run"):
        nature(str(tmp_path))


def test_a_build_that_fails_is_an_error_that_shows_why(tmp_path: Path) -> None:
    (tmp_path / "lsmkv").mkdir()
    (tmp_path / "lsmkv" / "__init__.py").write_text("raise ImportError('broken on purpose')")
    with pytest.raises(BuildError, match="broken on purpose"):
        compare_builds.measure([str(tmp_path)], "put", 8, 1, None)
