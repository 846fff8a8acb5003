"""The public API's promises about mapping methods and ``repr``."""

from __future__ import annotations

from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest
from conftest import fill, number_key, open_small

from lsmkv import DB

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


def test_update_takes_a_mapping_or_pairs_or_nothing(db: DB) -> None:
    db.update({b"a": b"1"})
    db.update([(b"b", b"2"), (b"b", b"3")])
    db.update()
    assert dict(db) == {b"a": b"1", b"b": b"3"}


def test_update_keeps_the_entries_before_a_bad_key(db: DB) -> None:
    pairs: Any = [(b"a", b"1"), ("b", b"2"), (b"c", b"3")]
    with pytest.raises(TypeError, match="a key is bytes, not str"):
        db.update(pairs)
    assert dict(db) == {b"a": b"1"}


def test_the_docstring_of_update_says_that_it_is_not_atomic() -> None:
    told = DB.update.__doc__ or ""
    assert "a write of its own" in told
    assert "write_batch" in told


def test_update_takes_no_keywords(db: DB) -> None:
    with pytest.raises(TypeError, match="a key is bytes, not str"):
        db.update(a=b"1")  # type: ignore[call-overload]


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


@pytest.mark.parametrize(
    "wrong",
    ["a", 5, None, 1.5, object(), (b"a",), [b"a"], {b"a"}, slice(b"a", b"b")],
    ids=lambda wrong: type(wrong).__name__,
)
def test_what_cannot_be_a_key_is_refused_and_not_just_absent(db: DB, wrong: Any) -> None:
    db[b"a"] = b"1"
    with db.snapshot() as snapshot, db.transaction() as transaction:
        for reader in (db, snapshot, transaction, db.prefixed(b"")):
            for look in (reader.__contains__, reader.__getitem__, reader.get):
                with pytest.raises(TypeError, match=f"a key is bytes.*not {type(wrong).__name__}"):
                    look(wrong)
    with pytest.raises(TypeError, match="a key is bytes"):
        del db[wrong]


def test_a_view_does_not_hold_what_cannot_be_a_key(db: DB) -> None:
    db[b"a"] = b"1"
    for wrong in ("a", 5, None, object(), [b"a"]):
        assert wrong not in db.keys()  # noqa: SIM118  # the view is asked, not the store
        assert (wrong, b"1") not in db.items()
        assert wrong not in db.values()
    assert db.keys() & {"a", b"a", 5} == {b"a"}


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


def test_membership_in_a_view_ignores_later_writes(db: DB) -> None:
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
