"""What the public API promises, sentence by sentence."""

from __future__ import annotations

import gc
import os
import shutil
import stat
import warnings
from array import array
from collections.abc import Callable, MutableMapping
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import lsmkv
from conftest import SMALL, fill, number_key, open_small
from lsmkv import DB, ClosedError
from lsmkv.storage import FileLock, Storage

# Opening


def test_open_makes_missing_directories(tmp_path: Path) -> None:
    with open_small(tmp_path / "a" / "b" / "store") as db:
        db[b"k"] = b"v"
    assert (tmp_path / "a" / "b" / "store" / "CURRENT").is_file()


def test_open_takes_str_and_path(tmp_path: Path) -> None:
    with open_small(tmp_path / "s") as db:
        db[b"k"] = b"v"
    with open_small(str(tmp_path / "s")) as db:
        assert db[b"k"] == b"v"


def test_open_refuses_a_path_of_bytes(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="path is str"):
        lsmkv.open(os.fsencode(tmp_path / "s"))  # type: ignore[arg-type]


def test_what_was_written_is_there_after_reopening(path: str) -> None:
    with open_small(path) as db:
        contents = fill(db, range(500))
        db.delete(number_key(7))
        del contents[number_key(7)]
    with open_small(path) as db:
        assert dict(db) == contents


def test_create_if_missing_false_refuses_and_makes_nothing(path: str) -> None:
    with pytest.raises(lsmkv.NotAStoreError, match="holds no lsmkv store"):
        open_small(path, create_if_missing=False)
    assert not os.path.exists(path)


def test_create_if_missing_false_opens_what_is_there(path: str) -> None:
    open_small(path).close()
    open_small(path, create_if_missing=False).close()


def test_error_if_exists_refuses_a_store(path: str) -> None:
    with open_small(path, error_if_exists=True) as db:
        db[b"k"] = b"v"
    with pytest.raises(lsmkv.StoreExistsError):
        open_small(path, error_if_exists=True)


class _LateLock(Storage):
    """Somebody else makes the store just before the lock is taken."""

    def lock(self, path: str) -> FileLock:
        open_small(os.path.dirname(path)).close()
        return super().lock(path)


def test_error_if_exists_refuses_a_store_made_meanwhile(path: str) -> None:
    with pytest.raises(lsmkv.StoreExistsError):
        open_small(path, error_if_exists=True, storage=_LateLock())
    open_small(path).close()  # the lock was let go


def test_a_second_writer_is_locked_out_and_told_by_whom(path: str) -> None:
    with open_small(path):
        with pytest.raises(lsmkv.LockedError, match=str(os.getpid())) as caught:
            open_small(path)
        assert (caught.value.path, caught.value.pid) == (path, os.getpid())
    open_small(path).close()


def test_a_directory_that_lost_its_current_is_not_taken_for_a_new_store(path: str) -> None:
    with open_small(path) as db:
        db[b"k"] = b"v"
    os.remove(os.path.join(path, "CURRENT"))
    for read_only in (False, True):
        with pytest.raises(lsmkv.NotAStoreError, match=r"lsmkv\.repair"):
            open_small(path, read_only=read_only)


def test_files_of_others_in_the_directory_are_left_alone(path: str) -> None:
    os.mkdir(path)
    Path(path, "notes.txt").write_text("mine")
    with open_small(path) as db:
        fill(db, range(300))
        db.compact_range()
    assert Path(path, "notes.txt").read_text() == "mine"


def test_an_unknown_option_is_a_type_error_that_names_it(path: str) -> None:
    with pytest.raises(TypeError, match="no such option: blok_size"):
        lsmkv.open(path, blok_size=1)
    assert not os.path.exists(path)


def test_an_option_out_of_range_touches_nothing(path: str) -> None:
    with pytest.raises(ValueError, match="error_rate"):
        lsmkv.open(path, error_rate=2.0)
    assert not os.path.exists(path)


def test_options_that_are_no_options_are_a_type_error(path: str) -> None:
    with pytest.raises(TypeError, match=r"lsmkv\.Options, not dict"):
        lsmkv.open(path, {"size_ratio": 4})  # type: ignore[arg-type]


def test_overrides_replace_single_options(path: str) -> None:
    with lsmkv.open(path, SMALL, size_ratio=5) as db:
        assert db.options == SMALL.replace(size_ratio=5)


def test_the_default_options_are_in_force_when_none_are_given(path: str) -> None:
    with lsmkv.open(path) as db:
        assert db.options == lsmkv.Options()


def test_files_belong_to_the_owner_alone_by_default(path: str) -> None:
    with open_small(path) as db:
        fill(db, range(300))
        db.flush()
        modes = {stat.S_IMODE(entry.stat().st_mode) for entry in os.scandir(path)}
    assert modes == {0o600}


# Opening to read only


def test_read_only_reads_beside_a_writer(path: str) -> None:
    with open_small(path) as writer:
        writer[b"k"] = b"v"
        with open_small(path, read_only=True) as reader:
            assert reader.read_only
            assert dict(reader) == {b"k": b"v"}


def test_read_only_needs_a_store(path: str) -> None:
    with pytest.raises(lsmkv.NotAStoreError):
        open_small(path, read_only=True)
    assert not os.path.exists(path)


def test_read_only_changes_no_file(path: str) -> None:
    with open_small(path) as db:
        fill(db, range(300))
    before = {entry.name: entry.stat().st_mtime_ns for entry in os.scandir(path)}
    with open_small(path, read_only=True) as db:
        assert len(db) == 300
    assert {entry.name: entry.stat().st_mtime_ns for entry in os.scandir(path)} == before


WRITES: dict[str, Callable[[DB], object]] = {
    "put": lambda db: db.put(b"k", b"v"),
    "delete": lambda db: db.delete(b"k"),
    "setitem": lambda db: db.__setitem__(b"k", b"v"),
    "delitem": lambda db: db.__delitem__(b"there"),
    "update": lambda db: db.update({b"k": b"v"}),
    "pop": lambda db: db.pop(b"there"),
    "clear": lambda db: db.clear(),
    "flush": lambda db: db.flush(),
    "compact_range": lambda db: db.compact_range(),
    "sync": lambda db: db.sync(),
}


@pytest.mark.parametrize("name", WRITES)
def test_read_only_refuses(name: str, path: str) -> None:
    with open_small(path) as db:
        db[b"there"] = b"v"
    with open_small(path, read_only=True) as db:
        with pytest.raises(lsmkv.ReadOnlyError, match="read_only=True"):
            WRITES[name](db)
        assert dict(db) == {b"there": b"v"}


def test_read_only_refuses_to_commit_a_batch(path: str) -> None:
    open_small(path).close()
    with open_small(path, read_only=True) as db:
        batch = db.write_batch()
        batch.put(b"k", b"v")
        with pytest.raises(lsmkv.ReadOnlyError):
            batch.commit()


def test_refresh_shows_what_the_writer_has_written_since(path: str) -> None:
    with open_small(path) as writer:
        writer[b"k"] = b"1"
        with open_small(path, read_only=True) as reader:
            contents = fill(writer, range(300))
            writer[b"k"] = b"2"
            assert dict(reader) == {b"k": b"1"}
            reader.refresh()
            assert dict(reader) == contents | {b"k": b"2"}


def test_a_reader_keeps_its_view_while_the_writer_compacts(path: str) -> None:
    with open_small(path) as writer:
        contents = fill(writer, range(300))
        writer.flush()
        with open_small(path, read_only=True) as reader:
            writer.clear()
            writer.compact_range()
            assert dict(reader) == contents


def test_refresh_of_a_writer_changes_nothing(db: DB) -> None:
    db[b"k"] = b"v"
    db.refresh()
    assert dict(db) == {b"k": b"v"}


# Reading and writing single keys


def test_get_gives_the_value_or_the_default(db: DB) -> None:
    db.put(b"k", b"v")
    assert db.get(b"k") == b"v"
    assert db.get(b"absent") is None
    assert db.get(b"absent", b"default") == b"default"
    assert db.get(b"absent", 7) == 7


def test_an_empty_value_is_a_value(db: DB) -> None:
    db.put(b"k", b"")
    assert db.get(b"k", b"default") == b""
    assert b"k" in db


def test_the_empty_key_is_a_key(db: DB) -> None:
    db[b""] = b"v"
    db.flush()
    assert db[b""] == b"v"
    del db[b""]
    assert b"" not in db


def test_delete_does_not_ask_whether_the_key_is_there(db: DB) -> None:
    db.delete(b"absent")
    assert b"absent" not in db


def test_multi_get_answers_in_the_order_asked(db: DB) -> None:
    db.update({b"a": b"1", b"c": b"3"})
    db.flush()
    db[b"b"] = b"2"
    assert db.multi_get([b"c", b"x", b"b", b"a", b"c"]) == [b"3", None, b"2", b"1", b"3"]
    assert db.multi_get(iter([])) == []


def test_multi_get_of_many_keys_asks_everything_that_may_hold_them(db: DB) -> None:
    contents: dict[bytes, bytes | None] = {}
    for step in (2, 3, 5):  # a run each, and what is newest in the memtable
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


def test_writes_with_sync_are_synced(db: DB) -> None:
    before = db.stats()
    db.put(b"a", b"1", sync=True)
    db.delete(b"a", sync=True)
    with db.write_batch(sync=True) as batch:
        batch.put(b"b", b"2")
    assert (db.stats() - before).log_syncs == 3


def test_writes_without_sync_are_not_until_asked(db: DB) -> None:
    before = db.stats()
    db.put(b"a", b"1")
    assert (db.stats() - before).log_syncs == 0
    db.sync()
    assert (db.stats() - before).log_syncs == 1


@pytest.mark.parametrize(
    "make",
    [bytearray, memoryview, lambda data: array("B", data), lambda data: memoryview(data)[::1]],
    ids=["bytearray", "memoryview", "array", "slice"],
)
def test_buffers_are_taken_for_keys_and_values(db: DB, make: Callable[[bytes], Any]) -> None:
    db.put(make(b"k"), make(b"v"))
    assert db[make(b"k")] == b"v"
    assert make(b"k") in db
    assert db.multi_get([make(b"k")]) == [b"v"]
    assert list(db.keys(start=make(b"k"), stop=make(b"l"))) == [b"k"]
    assert type(db[b"k"]) is bytes


def test_a_buffer_that_changes_later_changes_nothing(db: DB) -> None:
    key, value = bytearray(b"key"), bytearray(b"value")
    db.put(key, value)
    key[:] = value[:] = b"other"
    assert dict(db) == {b"key": b"value"}


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
@pytest.mark.parametrize(("wrong", "hint"), [("text", r"\.encode\(\)"), (7, r"\.to_bytes\(")])
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


def test_a_value_of_none_is_not_a_deletion(db: DB) -> None:
    db[b"k"] = b"v"
    with pytest.raises(TypeError, match="NoneType"):
        db.put(b"k", None)  # type: ignore[arg-type]
    assert db[b"k"] == b"v"


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


def test_a_bad_key_in_a_batch_leaves_what_was_collected(db: DB) -> None:
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


# The mapping


def test_a_store_is_a_mutable_mapping(db: DB) -> None:
    assert isinstance(db, MutableMapping)


def test_a_missing_key_is_a_key_error(db: DB) -> None:
    with pytest.raises(KeyError, match="absent"):
        db[b"absent"]
    with pytest.raises(KeyError, match="absent"):
        del db[b"absent"]
    with pytest.raises(KeyError, match="absent"):
        db.pop(b"absent")


def test_deleting_a_key_removes_it(db: DB) -> None:
    db[b"k"] = b"v"
    db.flush()
    del db[b"k"]
    assert b"k" not in db
    with pytest.raises(KeyError):
        del db[b"k"]


def test_iteration_is_in_order_and_reversed_in_the_opposite(db: DB) -> None:
    contents = fill(db, range(200))
    assert list(db) == list(contents)
    assert list(reversed(db)) == list(contents)[::-1]


def test_len_counts_keys_once(db: DB) -> None:
    fill(db, range(200))
    db.flush()
    fill(db, range(100, 300))
    db.delete(number_key(5))
    assert len(db) == 299


def test_bool_tells_whether_there_is_any_key(db: DB) -> None:
    assert not db
    db[b"k"] = b"v"
    assert db
    db.flush()
    db.delete(b"k")
    assert not db


def test_bool_reads_no_further_than_the_first_key(db: DB) -> None:
    fill(db, range(2000))
    db.compact_range()
    before = db.stats()
    assert db
    assert (db.stats() - before).block_reads <= 1


def test_update_takes_mappings_pairs_and_stores(db: DB, tmp_path: Path) -> None:
    db.update({b"a": b"1"})
    db.update([(b"b", b"2")])
    with open_small(tmp_path / "other") as other:
        other.update(db)
        assert dict(other) == {b"a": b"1", b"b": b"2"}


def test_pop_gives_and_removes(db: DB) -> None:
    db[b"k"] = b"v"
    assert db.pop(b"k") == b"v"
    assert db.pop(b"k", b"default") == b"default"


def test_setdefault_keeps_what_is_there(db: DB) -> None:
    assert db.setdefault(b"k", b"1") == b"1"
    assert db.setdefault(b"k", b"2") == b"1"


def test_popitem_takes_an_entry_until_there_is_none(db: DB) -> None:
    db.update({b"a": b"1", b"b": b"2"})
    assert sorted([db.popitem(), db.popitem()]) == [(b"a", b"1"), (b"b", b"2")]
    with pytest.raises(KeyError):
        db.popitem()


def test_clear_removes_everything(db: DB) -> None:
    fill(db, range(2500))
    db.clear()
    assert not db
    assert len(db) == 0


def test_a_store_equals_a_dict_of_its_contents(db: DB) -> None:
    contents = fill(db, range(50))
    assert db == contents
    assert contents == db
    assert db != {}
    with db.snapshot() as snapshot:
        assert db == snapshot


def test_views_are_sets_and_lists_of_the_contents(db: DB) -> None:
    contents = fill(db, range(300))
    assert list(db.keys()) == list(contents)
    assert list(db.values()) == list(contents.values())
    assert list(db.items()) == list(contents.items())
    assert len(db.keys()) == len(db.values()) == len(db.items()) == 300


def test_views_take_set_operations(db: DB) -> None:
    db.update({b"a": b"1", b"b": b"2", b"c": b"3"})
    assert db.keys() & {b"a", b"x"} == {b"a"}
    assert db.keys() | {b"x"} == {b"a", b"b", b"c", b"x"}
    assert db.keys(stop=b"c") - {b"a"} == {b"b"}
    assert db.keys() ^ {b"a", b"x"} == {b"b", b"c", b"x"}
    same: object = {b"a", b"b", b"c"}
    assert db.keys() == same
    assert db.keys(start=b"b") < db.keys()
    assert db.keys().isdisjoint([b"x"])
    assert db.items() & {(b"a", b"1"), (b"b", b"9")} == {(b"a", b"1")}


def test_views_are_reversible(db: DB) -> None:
    db.update({b"a": b"1", b"b": b"2"})
    assert list(reversed(db.keys())) == [b"b", b"a"]
    assert list(reversed(db.values())) == [b"2", b"1"]
    assert list(reversed(db.items())) == [(b"b", b"2"), (b"a", b"1")]
    assert list(reversed(db.keys(reverse=True))) == [b"a", b"b"]


def test_views_can_be_iterated_again(db: DB) -> None:
    db.update({b"a": b"1", b"b": b"2"})
    keys = db.keys()
    assert list(keys) == list(keys) == [b"a", b"b"]


def test_membership_in_views(db: DB) -> None:
    db.update({b"a": b"1", b"b": b"2", b"c": b"3"})
    assert b"b" in db.keys(start=b"b", stop=b"c")
    assert b"c" not in db.keys(start=b"b", stop=b"c")
    assert b"a" not in db.keys(start=b"b")
    text: object = "b"
    assert text not in db.keys(stop=b"c")
    assert (b"a", b"1") in db.items()
    assert (b"a", b"2") not in db.items()
    assert b"a" not in db.items()  # type: ignore[comparison-overlap]
    assert b"2" in db.values()
    assert b"9" not in db.values()


def test_membership_in_a_view_is_as_of_its_making(db: DB) -> None:
    db[b"k"] = b"old"
    items = db.items()
    db[b"k"] = b"new"
    db[b"later"] = b"v"
    db.compact_range()
    assert (b"k", b"old") in items
    assert (b"k", b"new") not in items
    assert b"later" not in {key for key, _ in items}


def test_a_store_has_no_hash(db: DB) -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(db)


# Text


def test_repr_tells_path_and_state(path: str) -> None:
    with open_small(path) as db:
        assert repr(db) == f"<lsmkv.DB at {path!r}, open>"
    assert repr(db) == f"<lsmkv.DB at {path!r}, closed>"
    with open_small(path, read_only=True) as reader:
        assert repr(reader) == f"<lsmkv.DB at {path!r}, read-only>"


def test_repr_of_views_reads_nothing(db: DB) -> None:
    assert repr(db.keys()) == f"<RangeKeys of {db.path}>"
    assert repr(db.values()) == f"<RangeValues of {db.path}>"
    assert repr(db.items()) == f"<RangeItems of {db.path}>"


def test_repr_of_a_snapshot_tells_its_place(db: DB) -> None:
    db[b"k"] = b"v"
    with db.snapshot() as snapshot:
        assert repr(snapshot) == f"<lsmkv.Snapshot of {db.path}, as of 1>"
    assert repr(snapshot) == f"<lsmkv.Snapshot of {db.path}, closed>"


def test_path_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_small("store") as db:
        assert db.path == str(tmp_path / "store")


# Closing

USES: dict[str, Callable[[DB], object]] = {
    "get": lambda db: db.get(b"k"),
    "getitem": lambda db: db[b"k"],
    "contains": lambda db: b"k" in db,
    "multi_get": lambda db: db.multi_get([b"k"]),
    "put": lambda db: db.put(b"k", b"v"),
    "put synced": lambda db: db.put(b"k", b"v", sync=True),
    "setitem": lambda db: db.__setitem__(b"k", b"v"),
    "delete": lambda db: db.delete(b"k"),
    "delitem": lambda db: db.__delitem__(b"k"),
    "iter": lambda db: list(db),
    "reversed": lambda db: list(reversed(db)),
    "len": len,
    "bool": bool,
    "equal": lambda db: db == {},
    "keys": lambda db: db.keys(),
    "values": lambda db: db.values(),
    "items": lambda db: db.items(),
    "clear": lambda db: db.clear(),
    "update": lambda db: db.update({b"k": b"v"}),
    "pop": lambda db: db.pop(b"k"),
    "popitem": lambda db: db.popitem(),
    "setdefault": lambda db: db.setdefault(b"k", b"v"),
    "snapshot": lambda db: db.snapshot(),
    "cursor": lambda db: db.cursor(),
    "write_batch": lambda db: db.write_batch(),
    "sync": lambda db: db.sync(),
    "flush": lambda db: db.flush(),
    "compact_range": lambda db: db.compact_range(),
    "wait_until_settled": lambda db: db.wait_until_settled(),
    "resume": lambda db: db.resume(),
    "refresh": lambda db: db.refresh(),
    "stats": lambda db: db.stats(),
    "memory_usage": lambda db: db.memory_usage(),
    "approximate_count": lambda db: db.approximate_count(),
    "approximate_size": lambda db: db.approximate_size(),
    "explain": lambda db: db.explain(b"k"),
    "inspect": lambda db: db.inspect(),
    "blocks": lambda db: db.blocks(1),
    "verify": lambda db: db.verify(),
    "with": lambda db: db.__enter__(),
}


@pytest.mark.parametrize("name", USES)
def test_a_closed_store_refuses(name: str, path: str) -> None:
    db = open_small(path)
    db[b"k"] = b"v"
    db.close()
    with pytest.raises(ClosedError, match="is closed"):
        USES[name](db)


def test_every_public_method_is_tried_on_a_closed_store() -> None:
    tried = set(USES) | {"close", "closed", "path", "options", "read_only"}
    public = {name for name in dir(DB) if not name.startswith("_")}
    assert public <= tried


def test_what_needs_no_open_store_works_on_a_closed_one(path: str) -> None:
    db = open_small(path)
    db.close()
    assert (db.closed, db.path, db.read_only, db.options) == (True, path, False, SMALL)


def test_close_can_be_called_again(path: str) -> None:
    db = open_small(path)
    db.close()
    db.close()
    with open_small(path) as again:
        assert not again.closed


def test_a_live_iterator_ends_with_an_error_when_the_store_is_closed(path: str) -> None:
    db = open_small(path)
    fill(db, range(3000))
    walks: list[Any] = [iter(db), iter(db.items()), iter(db.values(reverse=True))]
    unstarted = iter(db.keys())
    for walk in walks:
        next(walk)
    db.close()
    for walk in walks:  # what it has at hand it may still give: a block's entries at most
        with pytest.raises(ClosedError, match="is closed"):
            list(islice(walk, 500))
    with pytest.raises(ClosedError, match="is closed"):
        next(unstarted)


def test_views_refuse_once_the_store_is_closed(path: str) -> None:
    db = open_small(path)
    db[b"k"] = b"v"
    keys = db.keys()
    db.close()
    for use in (len, list, lambda view: b"k" in view):
        with pytest.raises(ClosedError):
            use(keys)


def test_cursors_snapshots_and_batches_refuse_once_the_store_is_closed(path: str) -> None:
    db = open_small(path)
    db[b"k"] = b"v"
    cursor, snapshot, batch = db.cursor(), db.snapshot(), db.write_batch()
    assert cursor.first()
    batch.put(b"k", b"w")
    db.close()
    uses: list[Callable[[], object]] = [
        cursor.first, cursor.next, lambda: cursor.item, lambda: cursor.seek(b"k"),
        lambda: snapshot[b"k"], lambda: list(snapshot), lambda: len(snapshot), snapshot.cursor,
        batch.commit,
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(ClosedError):
            use()
    for held in (cursor, snapshot, batch):
        held.close()


def test_leaving_the_with_block_closes_even_after_an_exception(path: str) -> None:
    with pytest.raises(RuntimeError), open_small(path) as db:
        raise RuntimeError
    assert db.closed


def test_a_store_dropped_unclosed_warns_and_is_closed(path: str) -> None:
    db = open_small(path)
    db[b"k"] = b"v"
    with pytest.warns(ResourceWarning, match="was not closed"):
        del db
        gc.collect()
    with open_small(path) as again:
        assert again[b"k"] == b"v"


def test_a_closed_store_dropped_does_not_warn(path: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        db = open_small(path)
        db.close()
        del db
        gc.collect()


# Destroying


def test_destroy_removes_the_store_and_its_directory(path: str) -> None:
    with open_small(path) as db:
        fill(db, range(500))
        db.flush()
    lsmkv.destroy(path)
    assert not os.path.exists(path)


def test_destroy_removes_only_what_is_the_stores(path: str) -> None:
    with open_small(path) as db:
        fill(db, range(500))
    Path(path, "notes.txt").write_text("mine")
    Path(path, "folder").mkdir()
    lsmkv.destroy(path)
    assert sorted(os.listdir(path)) == ["folder", "notes.txt"]


def test_destroy_refuses_what_is_no_store(tmp_path: Path) -> None:
    Path(tmp_path, "000001.log").write_text("not ours to judge")
    with pytest.raises(lsmkv.NotAStoreError):
        lsmkv.destroy(tmp_path)
    with pytest.raises(lsmkv.NotAStoreError):
        lsmkv.destroy(tmp_path / "absent")
    assert os.listdir(tmp_path) == ["000001.log"]


def test_destroy_refuses_a_store_that_is_open(path: str) -> None:
    with open_small(path) as db:
        db[b"k"] = b"v"
        with pytest.raises(lsmkv.LockedError):
            lsmkv.destroy(path)
        assert db[b"k"] == b"v"
    with open_small(path) as db:
        assert db[b"k"] == b"v"


def test_a_destroyed_store_can_be_made_anew(path: str) -> None:
    with open_small(path) as db:
        db[b"k"] = b"v"
    lsmkv.destroy(path)
    with open_small(path, error_if_exists=True) as db:
        assert not db


# Counting and measuring


def test_approximate_count_is_exact_for_keys_written_once(db: DB) -> None:
    fill(db, range(700))
    assert db.approximate_count() == 700
    db.compact_range()
    assert db.approximate_count() == 700


def test_approximate_count_counts_deletions_once_compacted(db: DB) -> None:
    fill(db, range(400))
    for number in range(100):
        db.delete(number_key(number))
    db.compact_range()
    assert db.approximate_count() == 300


def test_approximate_count_reads_nothing(db: DB) -> None:
    fill(db, range(700))
    db.flush()
    before = db.stats()
    db.approximate_count()
    db.approximate_size()
    after = db.stats() - before
    assert (after.block_reads, after.index_reads, after.filter_reads) == (0, 0, 0)


def test_approximate_size_of_everything_is_that_of_the_blocks(db: DB) -> None:
    fill(db, range(1000))
    db.compact_range()
    tables = list(db.inspect().tables())
    assert db.approximate_size() == sum(table.stored_bytes for table in tables)


def test_approximate_size_of_parts_adds_up(db: DB) -> None:
    fill(db, range(1000))
    db.compact_range()
    middle = number_key(400)
    parts = db.approximate_size(stop=middle) + db.approximate_size(start=middle)
    whole = db.approximate_size()
    assert whole <= parts <= whole + 2 * SMALL.block_size_bytes
    assert db.approximate_size(stop=middle) == pytest.approx(0.4 * whole, rel=0.05)


def test_approximate_size_of_an_empty_range_is_zero(db: DB) -> None:
    fill(db, range(1000))
    db.flush()
    assert db.approximate_size(b"b", b"a") == 0
    assert db.approximate_size(start=b"zzz") == 0
    assert db.approximate_size(stop=b"a") == 0


def test_memory_usage_tells_purposes_apart(db: DB) -> None:
    fill(db, range(1000))
    db.compact_range()
    usage = db.memory_usage()
    tables = list(db.inspect().tables())
    assert usage.filters == sum(table.filter_memory_bytes for table in tables) > 0
    assert usage.indexes == sum(table.index_bytes for table in tables) > 0
    assert usage.block_cache_budget == db.options.block_cache_size_bytes
    assert usage.as_dict().keys() == {
        "memtables", "snapshot_versions", "block_cache", "block_cache_budget", "filters", "indexes",
    }  # fmt: skip


def test_memory_of_memtables_grows_with_writes_and_goes_with_the_flush(path: str) -> None:
    with lsmkv.open(path) as db:
        empty = db.memory_usage().memtables
        db[b"k"] = bytes(100_000)
        assert 100_000 <= db.memory_usage().memtables - empty <= 101_000
        db.flush()
        assert db.memory_usage().memtables <= empty + 100


def test_memory_of_the_block_cache_grows_with_reads_up_to_its_budget(path: str) -> None:
    with open_small(path, block_cache_size_bytes=4096) as db:
        contents = fill(db, range(600))
        db.compact_range()
        assert db.memory_usage().block_cache == 0
        for key in contents:
            db.get(key)
            assert db.memory_usage().block_cache <= 4096
        assert db.memory_usage().block_cache > 0


def test_snapshot_versions_are_those_kept_in_memory_for_snapshots(db: DB) -> None:
    db[b"k"] = b"1"
    db[b"k"] = b"2"
    assert db.memory_usage().snapshot_versions == 0
    with db.snapshot():
        db[b"k"] = b"3"
        assert db.memory_usage().snapshot_versions == 1


def test_stats_count_from_the_opening(path: str) -> None:
    with open_small(path) as db:
        db[b"k"] = b"v"
    with open_small(path) as db:
        assert (db.stats().writes, db.stats().gets) == (0, 0)


def test_stats_of_two_moments_subtract(db: DB) -> None:
    db[b"a"] = b"1"
    before = db.stats()
    db.get(b"a")
    db.get(b"x")
    db.multi_get([b"a", b"a"])
    assert b"a" in db
    after = db.stats() - before
    assert (after.gets, after.get_hits, after.memtable_hits, after.writes) == (5, 4, 4, 0)


def test_flush_counts_what_it_wrote(db: DB) -> None:
    fill(db, range(50))
    before = db.stats()
    db.flush()
    flushed = db.stats() - before
    assert flushed.flushes == 1
    assert flushed.flush_bytes == sum(table.size_bytes for table in db.inspect().tables())


def test_blocks_tell_every_block_of_a_table(db: DB) -> None:
    contents = fill(db, range(150))
    db.compact_range()
    (table,) = db.inspect().tables()
    blocks = list(db.blocks(table.number))
    assert [block.number for block in blocks] == list(range(table.block_count))
    assert sum(block.entry_count for block in blocks) == 150
    assert (blocks[0].first_key, blocks[-1].last_key) == (min(contents), max(contents))


def test_blocks_of_a_table_that_is_not_there_are_a_value_error(db: DB) -> None:
    with pytest.raises(ValueError, match="table_number=99"):
        db.blocks(99)


# Upkeep


def test_flush_of_an_empty_memtable_writes_nothing(db: DB) -> None:
    db.flush()
    db[b"k"] = b"v"
    db.flush()
    db.flush()
    assert db.stats().flushes == 1


def test_compact_range_leaves_one_entry_for_each_key(db: DB) -> None:
    for _ in range(3):
        fill(db, range(300))
    db.delete(number_key(1))
    db.compact_range()
    assert db.inspect().entry_count == 299
    assert sum(len(level.runs) for level in db.inspect().levels) == 1


def test_compact_range_of_a_part_leaves_the_rest(path: str) -> None:
    with open_small(path, level0_compaction_trigger=12) as db:
        contents = fill(db, range(300), seed=1)
        db.flush()
        for number in range(100):
            db.delete(number_key(number))
            del contents[number_key(number)]
        db.compact_range(stop=number_key(100))
        assert not any(table.tombstone_count for table in db.inspect().tables())
        assert dict(db) == contents


@pytest.mark.parametrize(
    ("start", "stop"),
    [(number_key(200), number_key(100)), (number_key(9), number_key(9)), (b"zzz", None)],
    ids=["descending", "equal", "beyond"],
)
def test_compact_range_of_an_empty_range_merges_nothing(
    path: str, start: bytes, stop: bytes | None
) -> None:
    with open_small(path, level0_compaction_trigger=12) as db:
        contents = fill(db, range(300))
        db.compact_range(start, stop)
        assert (db.stats().compactions, len(db.inspect().levels)) == (0, 1)
        assert dict(db) == contents


def test_compact_range_leaves_what_is_one_run_already(db: DB) -> None:
    fill(db, range(300))
    db.compact_range()
    before = [table.number for table in db.inspect().tables()]
    db.compact_range()
    assert [table.number for table in db.inspect().tables()] == before


def test_compact_range_by_force_gives_it_the_form_of_the_present_options(path: str) -> None:
    with open_small(path) as db:
        contents = fill(db, range(300))
        db.compact_range()
    with open_small(path, compression="zstd", error_rate=0.2) as db:
        db.compact_range(force=True)
        assert {table.requested_rate for table in db.inspect().tables()} == {0.2}
        assert dict(db.items()) == contents


def test_wait_until_settled_returns_with_every_level_in_shape(db: DB) -> None:
    fill(db, range(3000))
    db.wait_until_settled()
    info = db.inspect()
    assert len(info.levels[0].runs) < SMALL.level0_compaction_trigger
    assert all(len(level.runs) <= 1 for level in info.levels[1:])


@pytest.mark.parametrize("style", ["leveled", "tiered", "lazy-leveled"])
def test_deletions_on_their_way_down_go_on_hiding_what_is_below(path: str, style: str) -> None:
    with open_small(
        path, compaction=style, level0_compaction_trigger=2, size_ratio=4, table_size_bytes=4096
    ) as db:
        contents = fill(db, range(2000))
        db.compact_range()
        for start in range(8):
            for number in range(start, 2000, 10):
                db.delete(number_key(number))
                del contents[number_key(number)]
            db.flush()
            db.wait_until_settled()
            assert list(iter(db)) == list(contents)
            assert db.get(number_key(start)) is None


def test_resume_does_nothing_when_there_was_no_failure(db: DB) -> None:
    db[b"k"] = b"v"
    db.resume()
    db[b"k"] = b"w"
    assert db[b"k"] == b"w"


def test_a_copy_of_the_directory_of_a_closed_store_is_a_store(path: str, tmp_path: Path) -> None:
    with open_small(path) as db:
        contents = fill(db, range(500))
    shutil.copytree(path, tmp_path / "copy")
    with open_small(tmp_path / "copy") as db:
        assert dict(db) == contents
        assert db.verify().ok


def test_reading_where_a_store_is_being_made_finds_none_yet(path: str) -> None:
    class Vanishing(Storage):
        """A directory whose temporary files are gone by the time one looks at them."""

        def list_directory(self, path: str) -> list[str]:
            return [*super().list_directory(path), "000001.log", "CURRENT.tmp"]

    Path(path).mkdir()
    with pytest.raises(lsmkv.NotAStoreError, match="holds no lsmkv store"):
        lsmkv.open(path, read_only=True, storage=Vanishing())
