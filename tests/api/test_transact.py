"""``DB.transact``, which tries a transaction again, and ``DB.compare_and_set``."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import lsmkv
from lsmkv import DB, Transaction
from threaded_stores import run_all


@pytest.fixture(autouse=True)
def filled(db: DB) -> None:
    db.update({b"a": b"1", b"c": b"3", b"e": b"5"})


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


def test_counters_in_threads_lose_nothing(db: DB) -> None:
    each = 60

    def compared() -> None:
        for _ in range(each):
            while True:
                before = db.get(b"n")
                if db.compare_and_set(b"n", before, b"%d" % (int(before or 0) + 1)):
                    break

    def transacted() -> None:
        def add(t: Transaction) -> None:
            t[b"n"] = b"%d" % (int(t.get(b"n", b"0")) + 1)

        for _ in range(each):
            db.transact(add, 1000)

    run_all(*[compared, transacted] * 4)
    assert db[b"n"] == b"%d" % (8 * each)


def test_a_lock_is_taken_by_one_thread(db: DB) -> None:
    taken = []

    def take() -> None:
        if db.compare_and_set(b"lock", None, b"%d" % threading.get_ident()):
            taken.append(threading.get_ident())

    run_all(*[take] * 8)
    assert db[b"lock"] == b"%d" % taken[0]
    assert len(taken) == 1
