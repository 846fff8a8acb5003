"""Processes killed while they write: see torture/crash/kill_loop.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from lsmkv.options import Background
from torture.crash import kill_loop
from torture.framework.part import UnsoundError

pytestmark = pytest.mark.slow  # `make test` tests the store, not its testers


@pytest.mark.parametrize("background", ["thread", "process"])
@pytest.mark.parametrize(
    ("seed", "rounds"),
    [(1, 8), *(pytest.param(seed, 100, marks=pytest.mark.longest) for seed in (2, 3, 4))],
)
def test_a_killed_writer_loses_nothing_acknowledged(
    tmp_path: Path, background: Background, seed: int, rounds: int
) -> None:
    counts = kill_loop.run(str(tmp_path / "store"), seed, rounds, background)
    assert counts["writers killed"] == rounds
    assert counts["operations acknowledged"] > 0
    assert rounds < 100 or counts["operations found unacknowledged"]


def test_a_store_that_lost_a_write_fails_with_seed_and_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose_one(loop: kill_loop.CrashLoop, die_at: int, run_s: float) -> int:
        return loop.done + 200  # claims so many acknowledged writes, and makes none

    monkeypatch.setattr(kill_loop.CrashLoop, "_write_and_kill", lose_one)
    with pytest.raises(UnsoundError, match="seed 3, round 1, after 200 operations"):
        kill_loop.run(str(tmp_path / "store"), seed=3, rounds=1)
