"""Type checkers see the package's public names, and no others."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

GOOD = """
import lsmkv
import lsmkv.errors
import lsmkv.filters
from lsmkv import filters
from lsmkv.filters import BloomFilter

store: lsmkv.DB = lsmkv.open("store", read_only=True, error_rate=0.001)
error: type[lsmkv.Error] = lsmkv.errors.LockedError
kinds = [filters.BloomFilter, lsmkv.filters.BloomFilter, BloomFilter]
register = filters.policy.register
store.update({b"key": b"value"})
store.update([(bytearray(b"key"), memoryview(b"value"))])
store.update()
"""

WRONG = {
    "a name that the package lacks": "import lsmkv\nlsmkv.LockedEror",
    "a name that the filters lack": "from lsmkv import filters\nfilters.BlomFilter",
    "a key that is no bytes": 'import lsmkv\nlsmkv.open("store").update({"key": b"value"})',
}


def complaints(code: str, folder: Path) -> str:
    """The errors that mypy finds in a program that uses this checkout."""
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed here")
    (folder / "program.py").write_text(code)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--config-file="),
            *("--cache-dir", str(folder / "cache"), "program.py"),
        ],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    assert (done.returncode == 0) == done.stdout.startswith("Success")
    return "" if done.returncode == 0 else done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder for checked programs, which share its cache."""
    return tmp_path_factory.mktemp("checked")


def test_a_program_with_right_names_is_clean(folder: Path) -> None:
    assert complaints(GOOD, folder) == ""


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_name_or_type_is_found(name: str, folder: Path) -> None:
    assert "program.py:2: error:" in complaints(WRONG[name], folder)
