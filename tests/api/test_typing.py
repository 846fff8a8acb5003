"""Type checkers see the package's public names, and no others."""

from __future__ import annotations

import importlib.util
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import inferred_types
import pytest

import lsmkv
from gates import LONG_WAIT_S

ROOT = Path(__file__).parents[2]
FIRST = ROOT / "docs" / "get-started.md"

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

WRONG = """
import lsmkv, lsmkv.aio, lsmkv.cache, lsmkv.dbm, lsmkv.filters
lsmkv.LockedEror
lsmkv.filters.BlomFilter
lsmkv.open("store").update({"key": b"value"})
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

OPTIONS = """
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


# The lines of the wrong program after its import.
WRONG_LINES = {*range(3, len(WRONG.splitlines()) + 1)}
PROGRAMS = {
    "wrong": WRONG,
    "names": GOOD,
    "reports": REPORTS,
    "options": OPTIONS,
    "inferred": Path(inferred_types.__file__).read_text(),
    "first": "\n".join(re.findall(r"^```python\n(.*?)^```", FIRST.read_text(), re.M | re.S)),
}


def told(folder: Path, *command: str) -> dict[str, set[int]]:
    """The wrong lines that a checker finds in each program."""
    for name, program in PROGRAMS.items():
        (folder / f"{name}.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=LONG_WAIT_S,
    )
    found: dict[str, set[int]] = {name: set() for name in PROGRAMS}
    for name, line in re.findall(r"(\w+)\.py:(\d+)(?::\d+)?:? .*error", done.stdout):
        found[name].add(int(line))
    assert found["wrong"], done
    return found


EXPECTED = {name: WRONG_LINES if name == "wrong" else set[int]() for name in PROGRAMS}


def test_mypy_finds_every_wrong_line_and_no_other(tmp_path: Path) -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed here")
    options = ("--strict", "--config-file=", "--cache-dir", str(tmp_path / "cache"))
    assert told(tmp_path, "mypy", *options, *[f"{name}.py" for name in PROGRAMS]) == EXPECTED


@pytest.mark.slow
def test_pyright_finds_every_wrong_line_and_no_other(tmp_path: Path) -> None:
    if importlib.util.find_spec("pyright") is None or shutil.which("node") is None:
        pytest.skip("pyright, or the node that it needs, is not installed here")
    settings = {
        "include": ["wrong.py", "options.py", "inferred.py", "first.py"],
        "extraPaths": [str(ROOT)],
        "strict": ["inferred.py", "first.py"],
        "reportUnnecessaryTypeIgnoreComment": True,
        "reportUnusedCallResult": False,
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    assert told(tmp_path, "pyright", "--pythonpath", sys.executable) == EXPECTED


def test_completion_shows_the_public_names_and_modules_alone() -> None:
    shown = {name for name in dir(lsmkv) if not name.startswith("__")}
    modules = {"aio", "cache", "cluster", "counters", "dbm", "filters", "metrics", "typed"}
    assert shown == {*lsmkv.__all__, *modules}
    assert {each.name for each in pkgutil.iter_modules(lsmkv.__path__)} >= modules
    assert "__version__" in dir(lsmkv)


@pytest.mark.parametrize("name", ["keys_and_values", "a_mapping", "snapshots_and_batches"])
def test_the_program_of_inferred_types_runs(db: lsmkv.DB, name: str) -> None:
    getattr(inferred_types, name)(db)
