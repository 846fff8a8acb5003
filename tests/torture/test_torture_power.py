"""A small run of the part ``power-cuts``."""

from __future__ import annotations

from pathlib import Path

import pytest

from torture.framework.part import Scale, Settings
from torture.load.power_cuts import KINDS, PART

pytestmark = pytest.mark.slow  # `make test` tests the store, not its testers


def settings(directory: Path, replay: str | None) -> Settings:
    return Settings(Scale.CI, 20.0, 1, directory, replay)


@pytest.mark.parametrize("kind", KINDS)
def test_synced_writes_survive_a_power_cut(kind: str, tmp_path: Path) -> None:
    outcome = PART.run(settings(tmp_path, kind))
    assert not outcome.failures
    assert not list(tmp_path.iterdir())
    if outcome.skipped:
        pytest.skip(outcome.skipped[0])
    assert outcome.counts[f"{kind}: power cuts"] == 2
