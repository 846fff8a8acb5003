"""Transactions: what conflicts, how they end, and ``DB.transact``, which tries again."""

from __future__ import annotations

import gc
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
from conftest import open_small

import lsmkv
from lsmkv import DB, Transaction
from lsmkv.api import transaction as own_writes
from threaded_stores import run_all

Act = Callable[[Any], object]


@pytest.fixture(autouse=True)
def filled(db: DB) -> None:
    db.update({b"a": b"1", b"c": b"3", b"e": b"5"})


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
    "expires_at": lambda t: t.expires_at(b"c"),
    "expires_at of nothing": lambda t: t.expires_at(b"d"),
    "touch": lambda t: t.touch(b"c"),
    "touch of nothing": lambda t: t.touch(b"d"),
    "expires_at in a mapping": lambda t: t.prefixed(b"c").expires_at(b""),
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
    "expires_at": ([b"c"], [b"b", b"d"]),
    "expires_at of nothing": ([b"d"], [b"c", b"e"]),
    "touch": ([b"c"], [b"b", b"d"]),
    "touch of nothing": ([b"d"], [b"c", b"e"]),
    "expires_at in a mapping": ([b"c"], [b"b", b"d"]),
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
    "touch": lambda db: db.touch(b"c"),
    "transaction's touch": lambda db: touch(db.transaction()),
}


def change(writer: Any) -> None:
    writer.put(b"c", b"")
    writer.delete(b"d")
    writer.commit()


def touch(transaction: Any) -> None:
    assert transaction.touch(b"c")
    transaction.commit()


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
    "expires_at": lambda t: t.expires_at(b"a"),
    "put": lambda t: t.put(b"a", b""),
    "touch": lambda t: t.touch(b"a"),
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


def test_a_synced_transaction_is_a_synced_batch(db: DB) -> None:
    before = db.stats()
    with db.transaction(sync=True) as t:
        t[b"a"] = t[b"c"]
        t[b"b"] = b""
    done = db.stats() - before
    assert (done.write_batches, done.writes, done.log_syncs) == (1, 2, 1)


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


# --- layers ---


def test_what_a_mapping_of_a_transaction_read_conflicts(db: DB) -> None:
    users = db.prefixed(b"user/")
    with pytest.raises(lsmkv.ConflictError) as caught, db.transaction() as t:
        t[b"count"] = b"%d" % len(users.on(t))
        users[b"new"] = b""
    assert caught.value.key == b"user/new"


def test_transact_returns_what_the_function_returned_and_tries_again(db: DB) -> None:
    tries = []

    def work(t: Transaction) -> bytes:
        tries.append(t)
        value = t[b"a"]
        if len(tries) < 3:
            db[b"a"] = b"%d" % len(tries)
        t[b"b"] = value
        return value

    assert db.transact(work) == b"2" == db[b"b"]
    assert len(tries) == 3


def test_transact_gives_up_with_the_conflict_as_cause(db: DB) -> None:
    def work(t: Transaction) -> None:
        t[b"b"] = t[b"a"]
        db[b"a"] = b""

    with pytest.raises(lsmkv.ConflictError, match="in 3 attempts") as caught:
        db.transact(work, 3)
    assert (caught.value.key, caught.value.attempts) == (b"a", 3)
    assert isinstance(caught.value.__cause__, lsmkv.ConflictError)
    assert b"b" not in db


def test_transact_passes_other_exceptions_on_at_once(db: DB) -> None:
    def work(t: Transaction) -> None:
        t.clear()
        raise LookupError

    with pytest.raises(LookupError):
        db.transact(work)
    assert len(db) == 3


@pytest.mark.parametrize("attempts", [0, -1, 1.5, None])
def test_transact_needs_an_attempt(db: DB, attempts: Any) -> None:
    with pytest.raises(ValueError, match="attempts="):
        db.transact(len, attempts)


def test_compare_and_set_sets_only_what_was_expected(db: DB) -> None:
    assert not db.compare_and_set(b"a", None, b"2")
    assert not db.compare_and_set(b"b", b"1", b"2")
    assert db.compare_and_set(b"b", None, b"")
    assert not db.compare_and_set(b"b", None, b"again")
    assert db.compare_and_set(b"b", b"", b"2")
    assert db.compare_and_set(b"a", b"1", None)
    assert db.compare_and_set(b"a", None, None)
    assert dict(db) == {b"b": b"2", b"c": b"3", b"e": b"5"}
    with pytest.raises(TypeError):
        db.compare_and_set(b"a", 1, b"")  # type: ignore[arg-type]
