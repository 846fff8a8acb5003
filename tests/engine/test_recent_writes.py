"""The record of what is written while transactions are open."""

from __future__ import annotations

import gc
import sys
from functools import partial

import pytest
from conftest import open_small

import lsmkv
from interruptions import at_each_place
from lsmkv.engine.recent_writes import Place, RecentWrites
from lsmkv.memtable.memtable import Memtable


def since(place: Place) -> list[object]:
    return list(place.written_since())


def test_a_place_tells_what_was_written_since_once() -> None:
    record = RecentWrites()
    first = record.begin()
    record.add(b"a")
    second = record.begin()
    record.admit([(b"b", b""), (b"c", None)], None)
    record.add_ranges([(b"d", b"f")])
    assert since(first) == [b"a", b"b", b"c", (b"d", b"f")]
    assert since(second) == [b"b", b"c", (b"d", b"f")]
    record.add(b"g")
    assert since(first) == since(second) == [b"g"]
    assert since(first) == []


def test_nothing_is_kept_when_nobody_asks() -> None:
    record = RecentWrites()
    record.add(b"a")
    place = record.begin()
    record.add(b"b")
    assert record.size_bytes > 0
    del place
    assert record.size_bytes == 0
    record.add(b"c")
    assert since(record.begin()) == []


def test_a_refused_batch_is_not_noted() -> None:
    record = RecentWrites()
    place = record.begin()

    def refuse() -> None:
        raise lsmkv.ConflictError(b"k")

    with pytest.raises(lsmkv.ConflictError):
        record.admit([(b"a", b"")], refuse)
    assert since(place) == []


def test_the_record_is_trimmed_while_transactions_overlap() -> None:
    record = RecentWrites(40_000)
    place = record.begin()
    for number in range(10_000):
        record.add(b"%06d" % number)
        if number % 100 == 0:
            following = record.begin()
            assert len(since(place)) == (1 if number == 0 else 100)
            place = following
    assert record.size_bytes <= 40_000
    assert len(record._parts) <= 6


def test_a_transaction_that_is_open_for_too_long_conflicts() -> None:
    record = RecentWrites(40_000)
    old = record.begin()
    for number in range(10_000):
        record.add(b"%06d" % number)
        assert record.size_bytes <= 50_000
    young = record.begin()
    record.add(b"last")
    with pytest.raises(lsmkv.ConflictError, match="open for too long") as caught:
        since(old)
    assert caught.value.key is None
    assert since(young) == [b"last"]


def test_a_store_tells_a_transaction_that_was_open_for_too_long(path: str) -> None:
    with open_small(path) as db:
        db._engine.writer.recent_writes = RecentWrites(4000)
        t = db.transaction()
        t[b"b"] = t.get(b"a", b"")
        with db.transaction() as blind:
            blind[b"c"] = b""  # it read nothing, so that nothing can have changed
            db.update((b"%06d" % number, b"") for number in range(1000))
        with pytest.raises(lsmkv.ConflictError, match="open for too long"):
            t.commit()
        assert db.compare_and_set(b"a", None, b"works")
        assert (b"b" in db, b"c" in db) == (False, True)


def test_an_interrupt_while_a_part_begins_loses_no_write() -> None:
    records: list[tuple[RecentWrites, Place, list[bytes]]] = []
    for _ in range(1000):
        record = RecentWrites(4000)
        records.append((record, record.begin(), []))
    unused = iter(records)
    used = [next(unused)]

    def add() -> None:
        record, _, added = used[-1]
        for number in range(20):
            record.add(b"%04d" % number)
            added.append(b"%04d" % number)

    def check() -> None:
        record, place, added = used[-1]
        record.add(b"after")
        found = since(place)
        assert found[-1] == b"after"
        assert {*added} <= {*found}
        used.append(next(unused))

    assert at_each_place(add, check) > 20


BEFORE_3_14 = pytest.mark.skipif(
    sys.version_info >= (3, 14),
    reason="there Python may be interrupted between a lock and the block that it is taken for",
)


@BEFORE_3_14
def test_an_interrupted_commit_is_done_or_not(path: str) -> None:
    with open_small(path) as db:
        db.update({b"a": b"old", b"b": b"old"})

        def commit() -> None:
            with db.transaction(sync=True) as t:
                assert t[b"a"] == b"old"
                t.update({b"a": b"new", b"b": b"new"})

        def check() -> None:
            gc.collect()
            assert db[b"a"] == db[b"b"]
            assert db._engine.writer.recent_writes.size_bytes == 0
            with db.transaction() as t:
                t.update({b"a": b"old", b"b": b"old"})

        assert at_each_place(commit, check, stride=3)


@BEFORE_3_14
def test_an_interrupted_compare_and_set_is_done_or_not(path: str) -> None:
    with open_small(path) as db:
        db[b"a"] = b"old"

        def check() -> None:
            gc.collect()
            assert db[b"a"] in (b"old", b"new")
            assert not db._engine.readers.need_old_values()
            db[b"a"] = b"old"

        assert at_each_place(partial(db.compare_and_set, b"a", b"old", b"new"), check)


def test_an_old_value_among_many_is_found() -> None:
    memtable = Memtable(1, 1)
    for seq in range(1, 200):
        memtable.put(b"k", b"%d" % seq, seq, keep_old=True)
    assert [memtable.get_at(b"k", seq) for seq in range(1, 200)] == [
        b"%d" % seq for seq in range(1, 200)
    ]
