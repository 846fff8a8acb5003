"""Stores of many tables, in processes that may open few files."""

from __future__ import annotations

import errno
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from conftest import contents

import lsmkv
from gates import WAIT_S
from lsmkv.options import KIB

# Tables of 4 KiB, each of five entries that do not compress; a run may have all of them.
_TINY: Final[dict[str, Any]] = {
    "table_size_bytes": 4 * KIB,
    "compression": "none",
    "background": "thread",
}
_VALUE: Final = b"v" * 1000

_LIMITED: Final = """
import resource, sys
from pathlib import Path
import lsmkv
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
path, action, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
key = lambda number: b"%08d" % number
with lsmkv.open(path, read_only=action in ("read", "copy"), table_size_bytes=4096,
                compression="none", background=sys.argv[4]) as db:
    if action == "read":
        assert sum(1 for _ in db.items()) == count
        for number in range(0, count, 97):
            assert db.get(key(number)) == b"v" * 1000
        assert db.multi_get([key(n) for n in range(0, count, 31)]) == [b"v" * 1000] * len(
            range(0, count, 31))
        assert db.verify().ok
        db.inspect()
    elif action == "copy":
        db.checkpoint(path + ".checkpoint")
        lsmkv.backup(path, path + ".backup")
    elif action == "write":
        view = db.snapshot()
        for number in range(0, count, 7):
            db.put(key(number), b"new")
        db.flush()
        db.compact_range(force=True)
        for number in range(0, count, 119):
            assert view.get(key(number)) == b"v" * 1000
            assert db.get(key(number)) == b"new"
        db.checkpoint(path + ".checkpoint")
        view.close()
if action == "repair":
    for name in Path(path).glob("MANIFEST*"):
        name.unlink()
    assert lsmkv.repair(path, in_place=True).entries_lost == 0
with lsmkv.open(path, read_only=True) as db:
    assert sum(1 for _ in db.items()) == count
"""


def make(path: Path, count: int) -> None:
    """A store of so many entries, five in each table."""
    with lsmkv.open(path, **_TINY) as db:
        db.bulk_load((b"%08d" % number, _VALUE) for number in range(count))
        assert len(list(path.glob("*.sst"))) >= count // 5


def limited(path: Path, action: str, count: int, background: str = "thread") -> None:
    command = [sys.executable, "-c", _LIMITED, str(path), action, str(count), background]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("action", ["read", "copy", "write", "repair"])
def test_64_descriptors_are_enough_for_hundreds_of_tables(tmp_path: Path, action: str) -> None:
    make(tmp_path / "store", 750)
    limited(tmp_path / "store", action, 750)


@pytest.mark.slow
def test_64_descriptors_are_enough_for_merges_in_a_helper_process(tmp_path: Path) -> None:
    make(tmp_path / "store", 1500)
    limited(tmp_path / "store", "write", 1500, "process")


@pytest.mark.slow
@pytest.mark.parametrize("action", ["read", "copy", "write", "repair"])
def test_64_descriptors_are_enough_for_10_000_tables(tmp_path: Path, action: str) -> None:
    make(tmp_path / "store", 50_000)
    limited(tmp_path / "store", action, 50_000)


@pytest.mark.parametrize("bound", [1, 2, 40])
def test_views_read_tables_that_were_replaced(tmp_path: Path, bound: int) -> None:
    with lsmkv.open(tmp_path, max_open_files=bound, **_TINY) as db:
        model: dict[bytes, bytes] = {}
        chances = random.Random(bound)
        views: list[tuple[lsmkv.Snapshot, dict[bytes, bytes], Any]] = []
        for turn in range(6):
            for number in chances.sample(range(400), 200):
                model[b"%04d" % number] = b"%d" % turn * 200
                db.put(b"%04d" % number, model[b"%04d" % number])
            db.flush()
            db.wait_until_settled()
            cursor = iter(db.items())
            next(cursor)
            views.append((db.snapshot(), dict(sorted(model.items())), cursor))
            db.compact_range(force=True)
        for view, expected, cursor in views:
            assert list(view.items()) == list(expected.items())
            assert list(cursor) == list(expected.items())[1:]
            view.close()
        views.clear()
        del view, cursor
        db.put(b"last", b"1")
        db.compact_range(force=True)
        db.put(b"last", b"2")
        db.compact_range(force=True)
        live = sum(len(run.tables) for level in db.inspect().levels for run in level.runs)
        assert len(list(tmp_path.glob("*.sst"))) == live
    model[b"last"] = b"2"
    assert contents(tmp_path) == model


def test_tables_that_stay_for_views_are_removed_by_the_next_opening(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path, max_open_files=2, **_TINY) as db:
        for number in range(100):
            db.put(b"%04d" % number, _VALUE)
        db.flush()
        with db.snapshot() as view:
            cursor = iter(view.items())
            next(cursor)
            db.compact_range(force=True)
            stayed = len(list(tmp_path.glob("*.sst")))
            del cursor
    with lsmkv.open(tmp_path, **_TINY) as db:
        live = sum(len(run.tables) for level in db.inspect().levels for run in level.runs)
        assert stayed >= live == len(list(tmp_path.glob("*.sst")))


def test_a_reader_beside_a_writer_is_told_to_refresh(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path, **_TINY) as writer:
        for number in range(100):
            writer.put(b"%04d" % number, _VALUE)
        writer.compact_range()
        with lsmkv.open(tmp_path, read_only=True, max_open_files=1, **_TINY) as reader:
            assert reader.get(b"0000") == _VALUE
            writer.compact_range(force=True)
            with pytest.raises(OSError, match=r"refresh\(\)") as caught:
                list(reader.items())
            assert caught.value.errno == errno.ESTALE
            reader.refresh()
            assert len(list(reader.items())) == 100
