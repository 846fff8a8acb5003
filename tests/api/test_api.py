"""The public API's promises about single keys, batches, and ``repr``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import fill, number_key, open_small

import lsmkv
from lsmkv import DB, MAX_BATCH_BYTES, ClosedError, WriteBatch
from lsmkv.log.batch import OPERATION_OVERHEAD_BYTES
from torture.fuzz.encoded import encode_batch

# Reading and writing single keys


def test_multi_get_of_many_keys_searches_memtables_and_all_runs(db: DB) -> None:
    contents: dict[bytes, bytes | None] = {}
    for step in (2, 3, 5):  # one run for each flush; the newest entries are in the memtable
        for number in range(0, 600, step):
            key = b"%03d" % number
            if number % 7 == step % 7:
                db.delete(key)
                contents[key] = None
            else:
                contents[key] = db[key] = b"%d" % step
        if step != 5:
            db.flush()
    keys = [b"%03d" % (number * 7 % 600) for number in range(700)]
    before = db.stats()
    assert db.multi_get(keys) == [contents.get(key) for key in keys]
    counted = db.stats() - before
    assert counted.gets == 700
    assert counted.get_hits == sum(contents.get(key) is not None for key in keys)
    assert counted.memtable_hits == sum(int(key) % 5 == 0 for key in keys)


@pytest.mark.parametrize(
    "use",
    [
        lambda db: db.write_batch().put("text", b"v"),
        lambda db: db.write_batch().delete("text"),
        lambda db: db.compact_range("text"),
        lambda db: db.approximate_size(stop="text"),
        lambda db: db.explain("text"),
    ],
)
def test_what_no_mapping_has_takes_bytes_for_keys_too(db: DB, use: Callable[[DB], object]) -> None:
    with pytest.raises(TypeError, match=r"\.encode\(\)"):
        use(db)


def test_a_bad_key_leaves_the_batch_as_it_was(db: DB) -> None:
    with db.write_batch() as batch:
        batch.put(b"a", b"1")
        with pytest.raises(ValueError, match="65536"):
            batch.put(bytes(65536), b"v")
        assert len(batch) == 1
    assert dict(db) == {b"a": b"1"}


# Batches


def test_a_batch_left_through_an_exception_is_discarded(db: DB) -> None:
    with pytest.raises(RuntimeError), db.write_batch() as batch:
        batch.put(b"k", b"v")
        raise RuntimeError
    assert not db
    assert batch.closed


def test_a_batch_is_one_write_to_the_log(db: DB) -> None:
    before = db.stats()
    with db.write_batch() as batch:
        for number in range(100):
            batch.put(number_key(number), b"v")
    written = db.stats() - before
    assert (written.writes, written.write_batches) == (100, 1)


def test_a_batch_can_be_committed_without_with_and_inside_it(db: DB) -> None:
    batch = db.write_batch()
    batch.put(b"k", b"v")
    batch.commit()
    assert (db[b"k"], batch.closed) == (b"v", True)
    with db.write_batch() as batch:
        batch.put(b"l", b"v")
        batch.commit()
    assert db[b"l"] == b"v"


def test_an_empty_batch_writes_nothing(db: DB) -> None:
    before = db.stats()
    with db.write_batch():
        pass
    assert (db.stats() - before).log_bytes == 0


@pytest.mark.parametrize(
    "use",
    [
        lambda batch: batch.put(b"k", b"v"),
        lambda batch: batch.delete(b"k"),
        lambda batch: batch.commit(),
        lambda batch: batch.clear(),
        len,
        lambda batch: batch.__enter__(),
    ],
    ids=["put", "delete", "commit", "clear", "len", "with"],
)
def test_a_committed_batch_is_closed(db: DB, use: Callable[[lsmkv.WriteBatch], object]) -> None:
    batch = db.write_batch()
    batch.put(b"a", b"1")
    batch.commit()
    with pytest.raises(ClosedError, match="committed or discarded"):
        use(batch)
    assert dict(db) == {b"a": b"1"}


def test_closing_a_batch_discards_it(db: DB) -> None:
    batch = db.write_batch()
    batch.put(b"k", b"v")
    batch.close()
    batch.close()
    with pytest.raises(ClosedError):
        batch.commit()
    assert not db


# Wrong arguments


@pytest.mark.parametrize("number", ["4", 4.0, None])
def test_the_number_of_a_table_is_an_int(tmp_path: Path, number: Any) -> None:
    with lsmkv.open(tmp_path / "db") as db, pytest.raises(TypeError) as caught:
        db.blocks(number)
    assert str(caught.value).startswith(f"table_number={number!r}: give the number of a table")


def test_changes_come_after_a_change(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db") as db, pytest.raises(TypeError, match="after=3: give a Tree"):
        db.tree_changes(3)  # type: ignore[arg-type]


# The mapping


def test_bool_reads_no_further_than_the_first_key(db: DB) -> None:
    fill(db, range(2000))
    db.compact_range()
    before = db.stats()
    assert db
    assert (db.stats() - before).block_reads <= 1


# Text


def test_repr_tells_path_and_state(path: str) -> None:
    with open_small(path) as db:
        assert repr(db) == f"<lsmkv.DB at {path!r}, open>"
    assert repr(db) == f"<lsmkv.DB at {path!r}, closed>"
    with open_small(path, read_only=True) as reader:
        assert repr(reader) == f"<lsmkv.DB at {path!r}, read-only>"


def test_path_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_small("store") as db:
        assert db.path == str(tmp_path / "store")


def test_a_batch_knows_its_encoded_size(db: DB) -> None:
    batch = db.write_batch()
    for number in range(300):
        batch.put(b"k" * number, b"v" * (number % 7))
        batch.delete(b"%d" % number)
    assert batch._operations is not None
    assert batch._size_bytes == len(encode_batch(1, batch._operations))


def test_a_cleared_batch_is_as_new(db: DB) -> None:
    batch = db.write_batch()
    batch.put(b"k", b"v")
    batch.clear()
    assert (len(batch), batch._size_bytes) == (0, db.write_batch()._size_bytes)
    batch.put(b"l", b"v")
    batch.commit()
    assert dict(db) == {b"l": b"v"}


def test_a_batch_up_to_its_limit_is_taken_and_no_more(db: DB) -> None:
    batch = db.write_batch()
    value = bytes(64 << 20)  # one object, held many times
    while batch._size_bytes + OPERATION_OVERHEAD_BYTES + len(value) <= MAX_BATCH_BYTES:
        batch.put(b"", value)
    rest = MAX_BATCH_BYTES - batch._size_bytes - OPERATION_OVERHEAD_BYTES
    count = len(batch)
    with pytest.raises(ValueError, match="over the limit of 1073741824 bytes; commit it in parts"):
        batch.put(b"k", value[:rest])
    assert len(batch) == count
    batch.put(b"", value[:rest])
    assert batch._size_bytes == MAX_BATCH_BYTES


def test_a_batch_is_made_by_its_store(db: DB) -> None:
    for arguments in ((), (db,), (db, True)):
        with pytest.raises(TypeError, match=r"^make a batch with db\.write_batch\(\), not with W"):
            WriteBatch(*arguments)


def test_zict_builds_on_a_store(db: DB) -> None:
    zict: Any = pytest.importorskip("zict", reason="zict is not installed")
    texts = zict.Func(str.encode, bytes.decode, db)
    buffer = zict.Buffer({}, zict.Cache(texts, zict.WeakValueMapping()), n=2)
    for number in range(5):
        buffer[b"%d" % number] = str(number)
    assert len(buffer) == 5 and set(db) == {b"0", b"1", b"2"}
    assert (buffer[b"0"], buffer.get(b"9"), buffer.pop(b"4")) == ("0", None, "4")
    assert sorted(buffer.items()) == [(b"%d" % n, str(n)) for n in range(4)]
