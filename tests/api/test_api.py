"""The public API's promises about single keys and batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import number_key

import lsmkv
from lsmkv import DB, ClosedError

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


def test_writes_without_sync_are_synced_on_request(db: DB) -> None:
    before = db.stats()
    db.put(b"a", b"1")
    assert (db.stats() - before).log_syncs == 0
    db.sync()
    assert (db.stats() - before).log_syncs == 1


BAD_KEYS: dict[str, Callable[[DB, Any], object]] = {
    "get": lambda db, key: db.get(key),
    "getitem": lambda db, key: db[key],
    "contains": lambda db, key: key in db,
    "multi_get": lambda db, key: db.multi_get([b"k", key]),
    "put": lambda db, key: db.put(key, b"v"),
    "setitem": lambda db, key: db.__setitem__(key, b"v"),
    "delete": lambda db, key: db.delete(key),
    "delitem": lambda db, key: db.__delitem__(key),
    "batch put": lambda db, key: db.write_batch().put(key, b"v"),
    "batch delete": lambda db, key: db.write_batch().delete(key),
    "seek": lambda db, key: db.cursor().seek(key),
    "seek_for_prev": lambda db, key: db.cursor().seek_for_prev(key),
    "items start": lambda db, key: db.items(start=key),
    "keys stop": lambda db, key: db.keys(stop=key),
    "values prefix": lambda db, key: db.values(prefix=key),
    "compact_range": lambda db, key: db.compact_range(key),
    "approximate_size": lambda db, key: db.approximate_size(stop=key),
    "explain": lambda db, key: db.explain(key),
}


@pytest.mark.parametrize("name", BAD_KEYS)
@pytest.mark.parametrize(
    ("wrong", "hint"),
    [("text", r"\.encode\(\)"), (7, r"\.to_bytes\("), (slice(1), r"a range is db\.items\(")],
)
def test_keys_of_str_and_int_are_a_type_error_with_a_hint(
    db: DB, name: str, wrong: object, hint: str
) -> None:
    db[b"k"] = b"v"
    with pytest.raises(TypeError, match=hint):
        BAD_KEYS[name](db, wrong)
    assert dict(db) == {b"k": b"v"}


@pytest.mark.parametrize(("wrong", "hint"), [("text", r"\.encode\(\)"), (7, r"\.to_bytes\(")])
def test_values_of_str_and_int_are_a_type_error_with_a_hint(db: DB, wrong: Any, hint: str) -> None:
    with pytest.raises(TypeError, match=f"value.*{hint}"):
        db.put(b"k", wrong)
    with pytest.raises(TypeError, match=f"value.*{hint}"):
        db.write_batch().put(b"k", wrong)
    assert not db


def test_the_longest_key_is_stored_and_found_again(db: DB) -> None:
    longest = b"\xff" * lsmkv.MAX_KEY_BYTES
    db[longest] = b"v"
    db.compact_range()
    assert db[longest] == b"v"
    assert list(db.items(reverse=True)) == [(longest, b"v")]


def test_a_longer_key_is_a_value_error_and_nothing_is_written(db: DB) -> None:
    before = db.stats()
    with pytest.raises(ValueError, match="65536"):
        db.put(bytes(65536), b"v")
    with pytest.raises(ValueError, match="65536"):
        db.get(bytes(65536))
    assert (db.stats() - before).log_bytes == 0


def test_a_bad_key_leaves_the_batch_as_it_was(db: DB) -> None:
    with db.write_batch() as batch:
        batch.put(b"a", b"1")
        with pytest.raises(ValueError, match="65536"):
            batch.put(bytes(65536), b"v")
        assert len(batch) == 1
    assert dict(db) == {b"a": b"1"}


# Batches


def test_a_batch_is_applied_in_order(db: DB) -> None:
    db[b"old"] = b"v"
    with db.write_batch() as batch:
        batch.put(b"k", b"1")
        batch[b"k"] = b"2"
        batch.delete(b"old")
        batch.put(b"gone", b"v")
        del batch[b"gone"]
        assert len(batch) == 5
    assert dict(db) == {b"k": b"2"}


def test_a_batch_is_invisible_until_committed(db: DB) -> None:
    with db.write_batch() as batch:
        batch.put(b"k", b"v")
        assert b"k" not in db
    assert b"k" in db


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


def test_a_snapshot_sees_a_batch_whole_or_not_at_all(db: DB) -> None:
    with db.snapshot() as before:
        with db.write_batch() as batch:
            batch.put(b"a", b"1")
            batch.put(b"b", b"2")
        assert not before
        with db.snapshot() as after:
            db.clear()
            assert dict(after) == {b"a": b"1", b"b": b"2"}


def test_a_batch_can_be_committed_without_with(db: DB) -> None:
    batch = db.write_batch()
    batch.put(b"k", b"v")
    batch.commit()
    assert (db[b"k"], batch.closed) == (b"v", True)


def test_a_batch_can_be_committed_inside_its_with_block(db: DB) -> None:
    with db.write_batch() as batch:
        batch.put(b"k", b"v")
        batch.commit()
    assert db[b"k"] == b"v"


def test_a_cleared_batch_writes_only_what_came_after(db: DB) -> None:
    with db.write_batch() as batch:
        batch.put(b"a", b"1")
        batch.clear()
        batch.put(b"b", b"2")
    assert dict(db) == {b"b": b"2"}


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
