"""The public API's promises about mapping methods and ``repr``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import fill, open_small

from lsmkv import DB

# The mapping


def test_bool_reads_no_further_than_the_first_key(db: DB) -> None:
    fill(db, range(2000))
    db.compact_range()
    before = db.stats()
    assert db
    assert (db.stats() - before).block_reads <= 1


def test_the_docstring_of_update_says_that_it_is_not_atomic() -> None:
    told = DB.update.__doc__ or ""
    assert "a write of its own" in told
    assert "write_batch" in told


def test_zict_builds_on_a_store(db: DB) -> None:
    zict: Any = pytest.importorskip("zict", reason="zict is not installed")
    texts = zict.Func(str.encode, bytes.decode, db)
    buffer = zict.Buffer({}, zict.Cache(texts, zict.WeakValueMapping()), n=2)
    for number in range(5):
        buffer[b"%d" % number] = str(number)
    assert len(buffer) == 5 and set(db) == {b"0", b"1", b"2"}
    assert b"0" in buffer and b"9" not in buffer
    assert (buffer[b"0"], buffer.get(b"9"), buffer.pop(b"4")) == ("0", None, "4")
    with pytest.raises(KeyError):
        del buffer[b"9"]
    buffer.update({b"0": "new"})
    assert sorted(buffer.items()) == [(b"0", "new"), (b"1", "1"), (b"2", "2"), (b"3", "3")]


# Text


def test_repr_tells_path_and_state(path: str) -> None:
    with open_small(path) as db:
        assert repr(db) == f"<lsmkv.DB at {path!r}, open>"
    assert repr(db) == f"<lsmkv.DB at {path!r}, closed>"
    with open_small(path, read_only=True) as reader:
        assert repr(reader) == f"<lsmkv.DB at {path!r}, read-only>"


def test_repr_of_views_reads_nothing(db: DB) -> None:
    assert repr(db.keys()) == f"<RangeKeys of {db.path!r}, all keys>"
    assert repr(db.values()) == f"<RangeValues of {db.path!r}, all keys>"
    assert repr(db.items()) == f"<RangeItems of {db.path!r}, all keys>"


def test_repr_of_a_snapshot_tells_its_place(db: DB) -> None:
    db[b"k"] = b"v"
    with db.snapshot() as snapshot:
        assert repr(snapshot) == f"<lsmkv.Snapshot of {db.path!r}, as of write 1>"
    assert repr(snapshot) == f"<lsmkv.Snapshot of {db.path!r}, closed>"


def test_repr_of_a_cursor_tells_its_key(db: DB) -> None:
    db.update({b"a": b"1", b"b" * 41: b"2"})
    with db.cursor() as cursor:
        assert repr(cursor) == f"<lsmkv.Cursor of {db.path!r}, at no key>"
        cursor.first()
        assert repr(cursor) == f"<lsmkv.Cursor of {db.path!r}, at b'a'>"
        cursor.last()
        assert repr(cursor) == f"<lsmkv.Cursor of {db.path!r}, at {b'b' * 40!r}...>"
        cursor.next()
        assert repr(cursor) == f"<lsmkv.Cursor of {db.path!r}, at no key>"
    assert repr(cursor) == f"<lsmkv.Cursor of {db.path!r}, closed>"


def test_repr_of_a_batch_tells_how_much_it_holds(db: DB) -> None:
    batch = db.write_batch()
    assert repr(batch) == f"<lsmkv.WriteBatch for {db.path!r}, 0 operations, 12 bytes>"
    batch.put(b"key", b"value")
    assert repr(batch) == f"<lsmkv.WriteBatch for {db.path!r}, 1 operation, 27 bytes>"
    batch.commit()
    assert repr(batch) == f"<lsmkv.WriteBatch for {db.path!r}, committed or discarded>"


def test_repr_of_objects_of_a_closed_store_does_not_raise(path: str) -> None:
    db = open_small(path)
    db[b"k"] = b"v"
    held = [db, db.snapshot(), db.cursor(), db.write_batch(), db.keys(), db.values(), db.items()]
    db.close()
    assert all(path in repr(each) for each in held)


def test_path_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_small("store") as db:
        assert db.path == str(tmp_path / "store")
