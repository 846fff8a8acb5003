"""Stores that nobody closes, and objects that outlive their store."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import fill, number_key, open_small

import lsmkv
from lsmkv.api import opening
from lsmkv.background import handles
from lsmkv.engine.engine import Engine

BUSY = """
import sys, lsmkv
db = lsmkv.open(sys.argv[1], write_buffer_size_bytes=20_000, level1_size_bytes=40_000,
                table_size_bytes=10_000)
for number in range(5000):
    db.put(b"%08d" % (number * 7919 % 100_003), b"x" * 100)
"""
KEPT_BY_A_CYCLE = """
class Holder: pass
holder = Holder()
holder.db, holder.itself = db, holder
del db
"""


@pytest.mark.parametrize("more", ["", KEPT_BY_A_CYCLE])
def test_a_program_that_closes_nothing_ends_and_leaves_a_closed_store(
    tmp_path: Path, more: str
) -> None:
    path = tmp_path / "db"
    subprocess.run([sys.executable, "-c", BUSY + more, str(path)], check=True, timeout=120)
    with lsmkv.open(path) as db:
        assert len(db) == 5000
        assert db.verify().ok


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_view_alone_keeps_its_store_open(path: str) -> None:
    with open_small(path) as db:
        contents = fill(db, range(100))
    assert list(open_small(path).items()) == list(contents.items())
    cursor = open_small(path).cursor()
    assert cursor.first() and cursor.key == number_key(0)
    del cursor
    open_small(path).close()  # and nothing holds it open any longer


def test_an_iterator_of_a_closed_store_removes_no_files_of_the_next(path: str) -> None:
    with open_small(path) as db:
        fill(db, range(500))
        db.flush()
        late = iter(db.items())
        next(late)
        db.compact_range()  # retires the tables that ``late`` reads
    lsmkv.destroy(path)
    with open_small(path) as db:
        contents = fill(db, range(500))
        db.flush()
        del late
        db.close()
    with open_small(path) as db:
        assert dict(db.items()) == contents
        assert db.verify().ok


def test_a_closed_store_is_no_longer_watched(path: str) -> None:
    watched = len(handles._watched)
    with open_small(path) as db, lsmkv.open(path, read_only=True) as reader:
        db[b"key"] = b"value"
        reader.refresh()
        assert len(handles._watched) == watched + 2
    assert len(handles._watched) == watched


def test_an_interrupt_before_a_store_is_open_leaves_it_unlocked(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any, **options: Any) -> Engine:
        Engine(*arguments, **options)
        raise KeyboardInterrupt

    gc.disable()
    try:
        monkeypatch.setattr(opening, "Engine", interrupted)
        with pytest.raises(KeyboardInterrupt):
            lsmkv.open(path)
        monkeypatch.undo()
        lsmkv.open(path).close()
    finally:
        gc.enable()
