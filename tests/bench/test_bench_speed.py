"""The speed check runs and measures every operation that it names."""

from __future__ import annotations

from bench.experiments import speed


def test_every_operation_is_measured() -> None:
    taken = speed.measure(entries=300, seed=1)
    assert len(taken) == 8
    assert all(microseconds > 0 for microseconds in taken.values())
