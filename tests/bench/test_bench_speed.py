"""The speed check runs and measures every operation that it names."""

from __future__ import annotations

import pytest

from bench.experiments import speed


def test_every_operation_is_measured() -> None:
    taken = speed.measure(entries=300, seed=1)
    assert len(taken) == 8
    assert all(microseconds > 0 for microseconds in taken.values())


def test_the_table_shows_every_operation(capsys: pytest.CaptureFixture[str]) -> None:
    speed.main(["--entries", "200", "--rounds", "2"])
    shown = capsys.readouterr().out
    assert "200 entries" in shown
    assert all(name in shown for name in speed.measure(entries=50, seed=1))
