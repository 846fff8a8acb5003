"""Type checkers infer the types of keys and values, and see mistakes."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import inferred_types
import pytest

import lsmkv
from gates import LONG_WAIT_S

ROOT = Path(__file__).parents[2]
PROGRAM = Path(inferred_types.__file__)


def checked(*command: str, folder: Path) -> str:
    """What a checker says of a copy of the program that uses this checkout."""
    (folder / "program.py").write_text(PROGRAM.read_text())
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=LONG_WAIT_S,
    )
    assert (done.returncode == 0) == ("error" not in done.stdout.partition("0 errors")[0]), done
    return done.stdout


@pytest.mark.slow  # `make lint` has mypy read the program, too
def test_mypy_infers_the_types(tmp_path: Path) -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed here")
    found = checked("mypy", "--strict", "--config-file=", "program.py", folder=tmp_path)
    assert found.startswith("Success")


@pytest.mark.slow
def test_pyright_infers_the_types(tmp_path: Path) -> None:
    if importlib.util.find_spec("pyright") is None or shutil.which("node") is None:
        pytest.skip("pyright, or the node that it needs, is not installed here")
    settings = {
        "include": ["program.py"],
        "extraPaths": [str(ROOT)],
        "typeCheckingMode": "strict",
        "reportUnnecessaryTypeIgnoreComment": True,
        "reportUnusedCallResult": False,
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    found = checked("pyright", "--pythonpath", sys.executable, folder=tmp_path)
    assert found.startswith("0 errors, 0 warnings"), found


@pytest.mark.parametrize("name", ["keys_and_values", "a_mapping", "snapshots_and_batches"])
def test_the_program_runs(db: lsmkv.DB, name: str) -> None:
    getattr(inferred_types, name)(db)
