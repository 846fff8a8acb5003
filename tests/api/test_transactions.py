"""Transactions: what each sees, what conflicts, and how they end."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Any

import pytest
from conftest import contents, open_small

import lsmkv
from lsmkv import DB, Transaction
from lsmkv.api import transaction as own_writes
from lsmkv.typed import Int64, Str, TypedDB
from threaded_stores import run_all

Act = Callable[[Any], object]


@pytest.fixture(autouse=True)
def filled(db: DB) -> None:
    db.update({b"a": b"1", b"c": b"3", b"e": b"5"})


# --- what it sees ---


def test_a_transaction_sees_the_store_as_it_was_and_its_own_writes(db: DB) -> None:
    with db.transaction() as t:
        db[b"a"] = b"changed"
        t[b"b"] = b"2"
        del t[b"c"]
        assert t.multi_get([b"a", b"b", b"c"]) == [b"1", b"2", None]
        assert list(t.items()) == [(b"a", b"1"), (b"b", b"2"), (b"e", b"5")]
        assert list(reversed(t)) == [b"e", b"b", b"a"]
        assert (len(t), bool(t), b"b" in t, b"c" in t) == (3, True, True, False)
        assert b"b" not in db
        t.close()
    assert dict(db) == {b"a": b"changed", b"c": b"3", b"e": b"5"}


def test_a_view_does_not_see_later_writes(db: DB) -> None:
    with db.transaction() as t:
        before = t.items()
        for key, value in before:
            t[key + b"'"] = value  # a scan that saw these would not end
            t[key] = b"new"
        assert dict(before) == {b"a": b"1", b"c": b"3", b"e": b"5"}
        assert before.value(b"a") == b"1"
        assert len(t) == 6


def test_popitem_takes_the_first_key_with_a_prefix(db: DB) -> None:
    with db.transaction() as t:
        t[b"cc"] = b"own"
        assert t.popitem(prefix=b"c") == (b"c", b"3")
        assert t.popitem(prefix=b"c") == (b"cc", b"own")
        with pytest.raises(KeyError):
            t.popitem(prefix=b"c")
    assert dict(db) == {b"a": b"1", b"e": b"5"}


# --- conflicts ---


READS: dict[str, Act] = {
    "get": lambda t: t.get(b"c"),
    "get of nothing": lambda t: t.get(b"d"),
    "in": lambda t: b"c" in t,
    "multi_get": lambda t: t.multi_get([b"a", b"c"]),
    "range": lambda t: list(t.items(start=b"b", stop=b"d")),
    "empty range": lambda t: list(t.keys(start=b"b", stop=b"c")),
    "prefix": lambda t: list(t.values(prefix=b"c")),
    "reverse": lambda t: list(t.keys(start=b"b", reverse=True)),
    "first two": lambda t: list(islice(t.keys(), 2)),
    "last": lambda t: next(iter(t.keys(reverse=True))),
    "cursor": lambda t: t.cursor().seek(b"b"),
    "cursor, backwards": lambda t: t.cursor().seek_for_prev(b"d"),
    "len": len,
    "key in a view": lambda t: b"c" in t.keys(start=b"b"),  # of a view
    "popitem": lambda t: t.popitem(prefix=b"c"),
}
DISTURBED: dict[str, tuple[list[bytes], list[bytes]]] = {  # keys that conflict, and that do not
    "get": ([b"c"], [b"a", b"cc"]),
    "get of nothing": ([b"d"], [b"c", b"e"]),
    "in": ([b"c"], [b"d"]),
    "multi_get": ([b"a", b"c"], [b"b"]),
    "range": ([b"b", b"c", b"cc"], [b"a", b"d"]),
    "empty range": ([b"b", b"bb"], [b"c", b"a"]),
    "prefix": ([b"c", b"cc"], [b"b", b"d"]),
    "reverse": ([b"b", b"z"], [b"a"]),
    "first two": ([b"", b"a", b"b", b"c"], [b"c\0", b"d", b"e"]),
    "last": ([b"e", b"z"], [b"d", b"c"]),
    "cursor": ([b"b", b"c", b"bb"], [b"a", b"c\0"]),
    "cursor, backwards": ([b"c", b"d", b"cc"], [b"b", b"d\0"]),
    "len": ([b"", b"z"], []),
    "key in a view": ([b"c"], [b"b", b"d"]),
    "popitem": ([b"c"], [b"b", b"d"]),
}


@pytest.mark.parametrize("read", READS)
def test_a_write_to_what_was_read_is_a_conflict_and_no_other(db: DB, read: str) -> None:
    before = dict(db)
    conflicting, others = DISTURBED[read]
    for key in [*conflicting, *others]:
        t = db.transaction()
        READS[read](t)
        t.put(b"result", b"")
        db[key] = b"disturbed"
        if key in conflicting:
            with pytest.raises(lsmkv.ConflictError) as caught:
                t.commit()
            assert caught.value.key == key
            assert repr(key) in str(caught.value)
            assert b"result" not in db
        else:
            t.commit()
            assert b"result" in db
        db.clear()
        db.update(before)


WRITES: dict[str, Act] = {
    "put": lambda db: db.put(b"c", b""),
    "put of the same": lambda db: db.put(b"c", b"3"),
    "delete": lambda db: db.delete(b"c"),
    "batch": lambda db: change(db.write_batch()),
    "transaction": lambda db: change(db.transaction()),
    "compare_and_set": lambda db: db.compare_and_set(b"c", b"3", b"4"),
    "popitem": lambda db: db.popitem(prefix=b"c"),
    "clear": lambda db: db.clear(),
    "bulk_load": lambda db: db.bulk_load([(b"b", b""), (b"d", b"")]),
    "prefixed clear": lambda db: db.prefixed(b"c").clear(),
}


def change(writer: Any) -> None:
    writer.put(b"c", b"")
    writer.delete(b"d")
    writer.commit()


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("read", ["get", "range"])
def test_every_kind_of_write_conflicts(db: DB, write: str, read: str) -> None:
    t = db.transaction()
    READS[read](t)
    t.put(b"result", b"")
    WRITES[write](db)
    with pytest.raises(lsmkv.ConflictError):
        t.commit()
    assert b"result" not in db


def test_ingested_tables_conflict(db: DB, tmp_path: Any) -> None:
    with lsmkv.TableWriter(tmp_path / "table") as writer:
        writer.add(b"d", b"")
    t = db.transaction()
    t[b"result"] = t.get(b"d", b"nothing")
    db.ingest([tmp_path / "table"])
    with pytest.raises(lsmkv.ConflictError):
        t.commit()


def test_what_was_only_written_does_not_conflict(db: DB) -> None:
    with db.transaction() as t:
        t[b"c"] = b"mine"
        assert t[b"c"] == b"mine"  # its own: it has read nothing of the store
        db[b"c"] = b"theirs"
    assert db[b"c"] == b"mine"


def test_a_transaction_that_wrote_nothing_never_conflicts(db: DB) -> None:
    with db.transaction() as t:
        list(t)
        db.clear()
        assert len(t) == 3


def test_flushes_and_compactions_conflict_with_nothing(db: DB) -> None:
    with db.transaction() as t:
        t[b"count"] = b"%d" % len(t)
        db.flush()
        db.compact_range(force=True)
    assert db[b"count"] == b"3"


def test_of_two_transactions_that_swap_roles_one_conflicts(db: DB) -> None:  # write skew
    first, second = db.transaction(), db.transaction()
    first[b"a"] = first[b"c"]
    second[b"c"] = second[b"a"]
    first.commit()
    with pytest.raises(lsmkv.ConflictError):
        second.commit()
    assert (db[b"a"], db[b"c"]) == (b"3", b"3")


# --- the end ---


def test_an_exception_discards_and_so_does_a_conflict(db: DB) -> None:
    before = dict(db)
    with pytest.raises(ZeroDivisionError), db.transaction() as t:
        t.clear()
        _ = 1 // 0
    with pytest.raises(lsmkv.ConflictError), db.transaction() as t:
        t[b"a"] = t[b"c"]
        db[b"c"] = b"3"
    assert dict(db) == before
    assert t.closed


ENDED: dict[str, Act] = {
    "get": lambda t: t.get(b"a"),
    "put": lambda t: t.put(b"a", b""),
    "delete": lambda t: t.delete(b"a"),
    "items": lambda t: t.items(),
    "cursor": lambda t: t.cursor(),
    "commit": lambda t: t.commit(),
    "with": lambda t: t.__enter__(),
    "prefixed": lambda t: t.prefixed(b"a"),
}


@pytest.mark.parametrize("call", ENDED)
def test_an_ended_transaction_and_a_closed_store_are_refused(path: str, call: str) -> None:
    db = open_small(path + "2")
    t, left = db.transaction(), db.transaction()
    walk, cursor, view = iter(t.items()), t.cursor(), t.keys()
    t.commit()
    db.close()
    for ended in (t, left):
        with pytest.raises(lsmkv.ClosedError):
            ENDED[call](ended)
    for use in (lambda: next(walk), cursor.first, lambda: len(view), lambda: b"a" in view):
        with pytest.raises(lsmkv.ClosedError, match="committed or discarded"):
            use()
    left.close()
    assert (t.closed, left.closed) == (True, True)


def test_a_transaction_is_entered_once_and_a_second_time_changes_nothing(db: DB) -> None:
    with db.transaction() as t:
        t[b"a"] = b"2"
        with pytest.raises(RuntimeError, match=r"entered already.*begin another"), t:
            t[b"a"] = b"3"
        t[b"b"] = b"4"  # it is still open
    assert db.multi_get([b"a", b"b"]) == [b"2", b"4"]


def test_a_transaction_inside_another_is_one_of_its_own(db: DB) -> None:
    with suppress(ZeroDivisionError), db.transaction() as outer:
        outer[b"outer"] = b"1"
        db.transact(lambda t: t.put(b"committed", b"1"))
        with suppress(ZeroDivisionError), db.transaction() as inner:
            inner[b"discarded"] = b"1"
            1 / 0  # noqa: B018
        assert outer.multi_get([b"outer", b"committed", b"discarded"]) == [b"1", None, None]
        1 / 0  # noqa: B018
    assert db.multi_get([b"outer", b"committed", b"discarded"]) == [None, b"1", None]


def test_a_synced_transaction_is_a_synced_batch(db: DB) -> None:
    before = db.stats()
    with db.transaction(sync=True) as t:
        t[b"a"] = t[b"c"]
        t[b"b"] = b""
    done = db.stats() - before
    assert (done.write_batches, done.writes, done.log_syncs) == (1, 2, 1)


def test_committed_transactions_survive(path: str) -> None:
    with open_small(path + "2") as db, db.transaction() as t:
        t[b"k"] = b"v"
    assert contents(path + "2") == {b"k": b"v"}


def test_a_forgotten_transaction_leaves_nothing(db: DB) -> None:
    gc.disable()  # nor does it wait for the collector
    try:
        t: Transaction | None = db.transaction()
        assert t is not None
        t[b"x"] = t[b"a"]
        walk: Any = iter(t.items())
        next(walk)
        db[b"y"] = b""
        assert db._engine.writer.recent_writes.size_bytes
        t = walk = None
        assert not db._engine.writer.recent_writes.size_bytes
        assert not db._engine.readers.need_old_values()
    finally:
        gc.enable()


def test_a_kept_conflict_leaves_nothing(db: DB) -> None:
    with pytest.raises(lsmkv.ConflictError) as kept, db.transaction() as t:
        t[b"x"] = t[b"a"]
        db[b"a"] = b""
    assert kept.value.__traceback__ is not None
    assert not db._engine.writer.recent_writes.size_bytes
    assert not db._engine.readers.need_old_values()


def test_transactions_one_after_the_other_keep_no_old_values(db: DB) -> None:
    def count(t: Transaction) -> None:
        t[b"a"] = b"%d" % (int(t[b"a"]) + 1)

    for _ in range(100):
        db.transact(count)
    assert db.compare_and_set(b"a", db[b"a"], b"0")
    assert db.memory_usage().snapshot_versions == 0


# --- errors ---


def test_writes_beyond_the_limit_of_a_batch_are_refused(
    db: DB, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_writes, "MAX_BATCH_BYTES", 1000)
    with db.transaction() as t:
        t[b"k"] = bytes(900)
        t[b"k"] = bytes(800)  # in place of the first
        with pytest.raises(ValueError, match="limit of 1000 bytes"):
            t[b"l"] = bytes(200)
        t[b"l"] = bytes(100)
    assert len(db[b"k"] + db[b"l"]) == 900


def test_a_second_thread_is_refused_while_the_first_is_inside(db: DB) -> None:
    t = db.transaction()
    with t._state.lock:  # as inside a call
        for call in ENDED.values():
            with pytest.raises(ValueError, match="another thread"):
                call(t)
        with pytest.raises(ValueError, match="another thread"):
            t.close()
    run_all(lambda: t.put(b"from", b"another thread"))  # one after the other is fine
    t.commit()
    assert db[b"from"] == b"another thread"


def test_the_text_of_a_transaction_tells_its_state(db: DB) -> None:
    t = db.transaction()
    t[b"k"] = b""
    assert "1 write" in repr(t)
    assert "at no key" in repr(t.cursor())
    t.close()
    assert "committed or discarded" in repr(t)


# --- layers ---


def test_prefixed_and_typed_mappings_take_a_transaction(db: DB) -> None:
    users = db.prefixed(b"user/")
    ages = TypedDB(db.prefixed(b"age/"), key=Str(), value=Int64())
    with db.transaction() as t:
        users.on(t)[b"ada"] = b"Lovelace"
        ages.on(t)["ada"] = 36
        assert list(users.on(t)) == [b"ada"]
        assert t.prefixed(b"user/").multi_get([b"ada", b"x"]) == [b"Lovelace", None]
        with users.on(t).cursor() as cursor:
            assert cursor.first()
            assert cursor.item == (b"ada", b"Lovelace")
        assert not users
    assert (users[b"ada"], ages["ada"]) == (b"Lovelace", 36)


def test_what_a_mapping_of_a_transaction_read_conflicts(db: DB) -> None:
    users = db.prefixed(b"user/")
    with pytest.raises(lsmkv.ConflictError) as caught, db.transaction() as t:
        t[b"count"] = b"%d" % len(users.on(t))
        users[b"new"] = b""
    assert caught.value.key == b"user/new"
