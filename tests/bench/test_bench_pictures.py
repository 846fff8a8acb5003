"""The notebook that draws pictures from tables, run as a program."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from bench import __main__ as bench

NOTEBOOK = Path(__file__).parents[2] / "bench" / "examples" / "notebook" / "pictures.py"
COMMANDS = (
    "saved-io --quick --counts-only --datasets digits --entries 500 --lookups 500 --repetitions 2",
    "policies --parts trees --quick --keys 500 --repetitions 2",
)


@pytest.mark.slow
def test_the_notebook_draws_both_pictures_from_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in COMMANDS:
        words = command.split()
        bench.main([*words, "--out", str(tmp_path / words[0]), "--work", str(tmp_path)])
    monkeypatch.setattr(sys, "argv", [str(NOTEBOOK), str(tmp_path)])
    monkeypatch.setenv("MPLBACKEND", "agg")
    runpy.run_path(str(NOTEBOOK))
    assert all((tmp_path / name).stat().st_size for name in ("reads-left.png", "policies.png"))
