"""The command of the comparison of engines: a tiny run of a few phases."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import pytest

from bench.experiments.peers.experiment import EXPERIMENT
from bench.experiments.peers.rows import Row
from bench.harness import experiment, records
from bench.harness.experiment import run

TINY = ("--entries", "300", "--repetitions", "2", "--passes", "2", "--engines", "lsmkv,sqlite")
FEW_PHASES = ("--phases", "fillbatch,readrandom,readmissing_cold")


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What the command prints for a few phases, and its folder."""
    work, out = tmp_path_factory.mktemp("work"), tmp_path_factory.mktemp("out")
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        experiment.main(EXPERIMENT, ["--out", str(out), "--work", str(work), *TINY, *FEW_PHASES])
    return shown.getvalue(), out


def test_counts_repeat(command: tuple[str, Path], tmp_path: Path) -> None:
    arguments = ["--out", "unused", "--work", str(tmp_path), *TINY, *FEW_PHASES]
    written = json.loads((command[1] / "peers.json").read_text())["rows"]
    once = records.repeatable([Row(**row) for row in written])
    assert once == records.repeatable(run(EXPERIMENT, arguments).rows)
    assert len(once) == 2 * 2 * 3


def test_the_command_prints_its_findings(command: tuple[str, Path]) -> None:
    shown, out = command
    assert "repetition 2: lsmkv, sqlite" in shown
    assert "Of 3 timed phases" in shown
    assert (out / "report.html").exists()
