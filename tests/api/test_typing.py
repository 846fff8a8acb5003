"""Type checkers see the package's public names, and no others."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gates import LONG_WAIT_S

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

REPORTS = """
import lsmkv

def told(db: lsmkv.DB) -> list[lsmkv.Problem]:
    shape: lsmkv.StoreInfo = db.inspect()
    levels: tuple[lsmkv.LevelInfo, ...] = shape.levels
    runs: tuple[lsmkv.RunInfo, ...] = levels[0].runs
    verified: lsmkv.VerifyReport = db.verify()
    ingested: lsmkv.IngestReport = db.ingest(["a.sst"])
    copied: lsmkv.CheckpointReport = db.checkpoint("copy")
    saved: lsmkv.BackupReport = lsmkv.backup("store", "copy")
    repaired: lsmkv.RepairReport = lsmkv.repair("store", in_place=True)
    published: lsmkv.PublishReport = db.publish("s3://bucket/store")
    added: tuple[lsmkv.AddedTable, ...] = db.tree_changes()[0].added
    explained = db.explain(b"key")
    memtables: tuple[lsmkv.MemtableStep, ...] = explained.memtables
    asked: lsmkv.FilterStep | None = explained.runs[0].filter
    blocks: tuple[lsmkv.BlockStep, ...] = explained.runs[0].blocks
    lost: tuple[lsmkv.LostRange, ...] = repaired.lost_ranges
    return list(verified.problems)
"""

WRONG = {
    "a name that the package lacks": "import lsmkv\nlsmkv.LockedEror",
    "a name that the filters lack": "from lsmkv import filters\nfilters.BlomFilter",
    "a key that is no bytes": 'import lsmkv\nlsmkv.open("store").update({"key": b"value"})',
}


WRONG_OPTIONS = """
import lsmkv, lsmkv.aio, lsmkv.cache, lsmkv.dbm
lsmkv.open("store", blok_size_bytes=4096)
lsmkv.open("store", block_size_bytes="4096")
lsmkv.open("store", compaction="levelled")
lsmkv.Options(cache_size=1)
lsmkv.Options().replace(read_only=True)
lsmkv.TableWriter("table", compresion="none")
lsmkv.aio.open("store", error_rat=0.1)
lsmkv.cache.Cache("cache", size_limit=1)
lsmkv.dbm.open("store", "c", timeout=1)
"""

RIGHT_OPTIONS = """
from typing import Any, Unpack
import lsmkv, lsmkv.aio, lsmkv.cache, lsmkv.dbm

def opened(path: str, **options: Unpack[lsmkv.OptionsDict]) -> lsmkv.DB:
    return lsmkv.open(path, read_only=True, **options)

some: dict[str, Any] = {}
opened("store", block_size_bytes=4096, filter_key=lsmkv.FixedPrefix(4))
lsmkv.open("store", lsmkv.Options(error_rate=0.1).replace(file_mode=0o644), error_rate=0.5, **some)
lsmkv.TableWriter("table", compression="none")
lsmkv.aio.open("store", wait_s=1, on_event=print, filter_policy="mine")
lsmkv.cache.Cache("cache", size_limit_bytes=1, disk_cache_path=None)
lsmkv.dbm.open("store", "c", compaction="tiered")
"""


def wrong_lines(found: str) -> set[int]:
    """The lines of which a checker says that there is an error."""
    return {int(line) for line in re.findall(r"program\.py:(\d+)(?::\d+)?:? .*error", found)}


def lines_of(program: str) -> set[int]:
    """The lines of a program after its import."""
    return {*range(3, len(program.splitlines()) + 1)}


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
        timeout=LONG_WAIT_S,
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


def test_what_calls_return_can_be_named(folder: Path) -> None:
    assert complaints(REPORTS, folder) == ""


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_name_or_type_is_found(name: str, folder: Path) -> None:
    assert "program.py:2: error:" in complaints(WRONG[name], folder)


def test_mypy_finds_every_wrong_option(folder: Path) -> None:
    assert wrong_lines(complaints(WRONG_OPTIONS, folder)) == lines_of(WRONG_OPTIONS)


def test_mypy_takes_the_right_ones(folder: Path) -> None:
    assert complaints(RIGHT_OPTIONS, folder) == ""


@pytest.mark.slow
def test_pyright_finds_every_wrong_option_and_no_other(tmp_path: Path) -> None:
    if importlib.util.find_spec("pyright") is None or shutil.which("node") is None:
        pytest.skip("pyright, or the node that it needs, is not installed here")
    program = tmp_path / "program.py"
    settings = {"include": ["program.py"], "extraPaths": [str(ROOT)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    for code, wrong in ((WRONG_OPTIONS, lines_of(WRONG_OPTIONS)), (RIGHT_OPTIONS, set())):
        program.write_text(code)
        found = subprocess.run(
            [sys.executable, "-m", "pyright", "--pythonpath", sys.executable],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=LONG_WAIT_S,
        )
        assert wrong_lines(found.stdout) == wrong, found.stdout
        assert (found.returncode == 0) == (not wrong)
