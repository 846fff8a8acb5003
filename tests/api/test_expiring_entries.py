"""Entries that expire: put in every way, read in every way, never late."""

from __future__ import annotations

import gc
import math
import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import open_small

import lsmkv
from clocks import SetClock
from lsmkv.encoding.expiry import MAX_EXPIRY_S
from threaded_stores import run_all

KEY, OLD, NEW = b"k", b"old", b"new"
DUE_S = 1060


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def db(path: str, clock: SetClock) -> Iterator[lsmkv.DB]:
    with open_small(path, clock=clock) as opened:
        yield opened


# --- arguments ---


def _in_batch(db: lsmkv.DB, **expiry: Any) -> None:
    with db.write_batch() as batch:
        batch.put(KEY, NEW, **expiry)


def _in_transaction(db: lsmkv.DB, **expiry: Any) -> None:
    with db.transaction() as transaction:
        transaction.put(KEY, NEW, **expiry)


def _in_table(db: lsmkv.DB, **expiry: Any) -> None:
    path = f"{db.path}.table"
    with lsmkv.TableWriter(path) as table:
        table.add(KEY, NEW, **expiry)
    db.ingest([path])


WRITES: dict[str, Callable[..., object]] = {
    "put": lambda db, **expiry: db.put(KEY, NEW, **expiry),
    "batch": _in_batch,
    "transaction": _in_transaction,
    "table": _in_table,
    "bulk_load": lambda db, **expiry: db.bulk_load([(KEY, NEW)], **expiry),
    "compare_and_set": lambda db, **expiry: db.compare_and_set(KEY, None, NEW, **expiry),
}
REFUSALS: dict[str, Callable[..., object]] = {
    **WRITES,
    "touch": lambda db, **expiry: db.touch(KEY, **expiry),
    "transaction's touch": lambda db, **expiry: db.transaction().touch(KEY, **expiry),
    "compare_and_set to nothing": lambda db, **expiry: db.compare_and_set(
        KEY, None, None, **expiry
    ),
}


@pytest.mark.parametrize("way", WRITES)
def test_each_way_to_write_takes_an_expiry(db: lsmkv.DB, way: str) -> None:
    WRITES[way](db, expires_at=5e9)
    assert (db.get(KEY), db.expires_at(KEY)) == (NEW, 5_000_000_000)


@pytest.mark.parametrize(
    "wrong",
    [
        {"ttl_s": 0},
        {"ttl_s": True},
        {"expires_at": math.nan},
        {"expires_at": MAX_EXPIRY_S + 1},
        {"ttl_s": 1, "expires_at": 2000},
    ],
    ids=str,
)
@pytest.mark.parametrize("way", REFUSALS)
def test_a_wrong_expiry_is_refused_and_nothing_written(
    db: lsmkv.DB, way: str, wrong: dict[str, Any]
) -> None:
    with pytest.raises((TypeError, ValueError), match=r"ttl_s|expires_at"):
        REFUSALS[way](db, **wrong)
    assert dict(db.items()) == {}


@pytest.mark.parametrize(
    ("pair", "told"),
    [
        ((KEY, NEW, True), "expires_at is a number"),
        ((KEY, NEW, -1), "expires_at=-1"),
        ((KEY, NEW, 2000, 1), "pairs are"),
        ((KEY,), "pairs are"),
    ],
)
def test_bulk_load_refuses_a_wrong_pair_and_loads_nothing(
    db: lsmkv.DB, pair: Any, told: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=told):
        db.bulk_load([(b"a", b""), pair])
    assert dict(db.items()) == {}


@pytest.mark.parametrize("is_sorted", [False, True])
def test_a_pair_of_bulk_load_tells_its_own_expiry_first(db: lsmkv.DB, is_sorted: bool) -> None:
    pairs: Any = [(b"a", b""), (b"b", b"", None), (b"c", b"", 2000.5), (b"d", b"", math.inf)]
    db.bulk_load(pairs, ttl_s=60, sorted=is_sorted)
    assert [db.expires_at(key) for key in (b"a", b"b", b"c", b"d")] == [1060, 1060, 2000, None]


def test_a_clock_that_is_none_is_refused(path: str) -> None:
    wrong: Any = 1000.0
    with pytest.raises(TypeError, match="clock is a function"):
        lsmkv.open(path, clock=wrong)
    assert not os.path.exists(path)


# --- the default ---

DEFAULTS: dict[str, Callable[[lsmkv.DB], object]] = {
    **WRITES,
    "setitem": lambda db: db.__setitem__(KEY, NEW),
    "update": lambda db: db.update({KEY: NEW}),
    "prefixed": lambda db: db.prefixed(b"").put(KEY, NEW),
}
del DEFAULTS["table"]  # its writer has options of its own


@pytest.mark.parametrize("way", DEFAULTS)
def test_the_default_counts_for_each_way_to_write(path: str, clock: SetClock, way: str) -> None:
    with open_small(path, clock=clock, default_ttl_s=60) as db:
        DEFAULTS[way](db)
        assert db.expires_at(KEY) == 1060


def test_a_table_writer_takes_the_default(path: str, db: lsmkv.DB) -> None:
    with lsmkv.TableWriter(f"{path}.table", default_ttl_s=60) as table:
        table.add(KEY, NEW)
        table.add(b"l", NEW, ttl_s=math.inf)
    db.ingest([f"{path}.table"])
    assert db.expires_at(KEY) is not None
    assert db.expires_at(b"l") is None


@pytest.mark.parametrize("wrong", [0, -1, math.nan, 1e300, True, "60"])
def test_a_wrong_default_is_refused(path: str, wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="default_ttl_s="):
        lsmkv.open(path, default_ttl_s=wrong)
    assert not os.path.exists(path)


def test_a_store_with_a_default_closes_when_it_is_dropped(path: str) -> None:
    gc.disable()
    try:
        for _ in range(2):  # LockedError, if the first one were left to the garbage collector
            db = open_small(path, default_ttl_s=60)
            db.put(KEY, NEW)
            del db
    finally:
        gc.enable()


# --- reading ---


def _over_level0(db: lsmkv.DB) -> None:
    db.put(KEY, OLD)
    db.flush()
    db.put(KEY, NEW, expires_at=DUE_S)
    db.flush()


def _over_lower_levels(db: lsmkv.DB) -> None:
    db.put(KEY, OLD)
    db.compact_range()
    db.put(KEY, NEW, expires_at=DUE_S)
    db.flush()


def _compacted(db: lsmkv.DB) -> None:
    _over_level0(db)
    db.compact_range()


def _kept_by_a_snapshot(db: lsmkv.DB) -> None:
    db.put(KEY, OLD)
    with db.snapshot():
        _over_level0(db)
        db.compact_range()


def _in_memtable(db: lsmkv.DB) -> None:
    db.put(KEY, OLD)
    db.put(KEY, NEW, expires_at=DUE_S)


def _bulk_loaded(db: lsmkv.DB) -> None:
    db.put(KEY, OLD)
    db.bulk_load([(KEY, NEW, DUE_S)])


def _ingested(db: lsmkv.DB) -> None:
    db.put(KEY, OLD)
    _in_table(db, expires_at=DUE_S)


def _touched(db: lsmkv.DB) -> None:
    db.put(KEY, NEW)
    db.flush()
    assert db.touch(KEY, expires_at=DUE_S)


PLACES = [_in_memtable, _over_level0, _over_lower_levels, _compacted, _kept_by_a_snapshot]
PLACES += [_bulk_loaded, _ingested, _touched]


def _killed(db: lsmkv.DB, clock: SetClock) -> lsmkv.DB:
    db.wait_until_settled()  # no file goes while they are copied
    shutil.copytree(db.path, f"{db.path}.copy")
    return open_small(f"{db.path}.copy", clock=clock)


def _repaired(db: lsmkv.DB, clock: SetClock) -> lsmkv.DB:
    db.close()
    os.remove(os.path.join(db.path, "CURRENT"))
    lsmkv.repair(db.path, in_place=True)
    return open_small(db.path, clock=clock)


HANDLES: dict[str, Callable[[lsmkv.DB, SetClock], lsmkv.DB]] = {
    "same": lambda db, clock: db,
    "killed": _killed,
    "repaired": _repaired,
    "reader": lambda db, clock: open_small(db.path, read_only=True, clock=clock),
}


def _first(db: Any) -> bytes | None:
    cursor = db.cursor()
    return cursor.value if cursor.first() else None


def _by_transaction(read: Callable[[Any], bytes | None]) -> Callable[[lsmkv.DB], bytes | None]:
    def found(db: lsmkv.DB) -> bytes | None:
        with db.transaction() as transaction:
            return read(transaction)

    return found


READS: dict[str, Callable[[Any], bytes | None]] = {
    "get": lambda db: db.get(KEY),
    "multi_get": lambda db: db.multi_get([KEY, b"absent"])[0],
    "in": lambda db: NEW if KEY in db else None,
    "len": lambda db: NEW if len(db) else None,
    "items": lambda db: dict(db.items()).get(KEY),
    "reverse": lambda db: dict(db.items(reverse=True)).get(KEY),
    "cursor": _first,
    "snapshot items": lambda db: dict(db.snapshot().items()).get(KEY),
    "expires_at": lambda db: NEW if db.expires_at(KEY) == DUE_S else None,
    "explain": lambda db: db.explain(KEY).value,
}
CHANGES: dict[str, Callable[[lsmkv.DB], bytes | None]] = {
    "transaction": _by_transaction(lambda transaction: transaction.get(KEY)),
    "transaction items": _by_transaction(lambda transaction: dict(transaction.items()).get(KEY)),
    "touch": lambda db: NEW if db.touch(KEY, expires_at=DUE_S) else None,
    "compare": lambda db: NEW if not db.compare_and_set(KEY, None, None) else None,
    "pop": lambda db: db.pop(KEY, None),
    "popitem": lambda db: db.popitem()[1] if len(db) else None,
}


def assert_all_read(db: lsmkv.DB, reads: dict[str, Any], expected: bytes | None) -> None:
    assert {name: read(db) for name, read in reads.items()} == dict.fromkeys(reads, expected)


@pytest.mark.parametrize("handle", HANDLES)
@pytest.mark.parametrize("place", PLACES)
def test_every_read_finds_an_entry_until_it_is_due_and_none_older_then(
    db: lsmkv.DB, clock: SetClock, place: Callable[[lsmkv.DB], None], handle: str
) -> None:
    clock.now_s = DUE_S - 0.01
    place(db)
    with HANDLES[handle](db, clock) as opened:
        assert_all_read(opened, READS, NEW)
        clock.now_s = DUE_S
        assert_all_read(opened, READS, None)


@pytest.mark.parametrize("way", CHANGES)
def test_every_change_in_one_step_finds_an_entry_until_it_is_due(
    db: lsmkv.DB, clock: SetClock, way: str
) -> None:
    for now_s, expected in ((DUE_S - 0.01, NEW), (DUE_S, None)):
        clock.now_s = now_s
        db.put(KEY, NEW, expires_at=DUE_S)
        assert CHANGES[way](db) == expected


# --- touch and compare_and_set ---


def test_touch_renews_what_is_there_and_nothing_else(db: lsmkv.DB, clock: SetClock) -> None:
    db.put(KEY, NEW, ttl_s=60)
    assert db.touch(KEY, ttl_s=100)
    assert (db.get(KEY), db.expires_at(KEY)) == (NEW, 1100)
    assert db.touch(KEY)
    assert db.expires_at(KEY) is None
    assert not db.touch(b"absent", ttl_s=100)
    assert list(db) == [KEY]


def test_touch_by_two_threads_loses_no_other_write(db: lsmkv.DB) -> None:
    db.put(KEY, b"0", ttl_s=60)

    def count() -> None:
        for number in range(300):
            assert db.compare_and_set(KEY, b"%d" % number, b"%d" % (number + 1), ttl_s=60)

    def touch() -> None:
        for _ in range(300):
            assert db.touch(KEY, ttl_s=90)

    run_all(count, touch)
    assert db.get(KEY) == b"300"


# --- views ---

VIEWS: dict[str, Callable[[lsmkv.DB], Any]] = {
    "snapshot": lambda db: db.snapshot(),
    "transaction": lambda db: db.transaction(),
}


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_goes_on_showing_what_is_due_meanwhile(
    db: lsmkv.DB, clock: SetClock, view: str
) -> None:
    def read() -> object:
        return shown.get(KEY), shown.multi_get([KEY]), dict(shown.items())

    db.put(KEY, NEW, expires_at=DUE_S)
    shown = VIEWS[view](db)
    seen = (NEW, [NEW], {KEY: NEW})
    assert read() == seen
    clock.now_s = DUE_S
    assert db.get(KEY) is None
    assert read() == seen
    for _ in range(2):
        db.flush()
        assert read() == seen
        db.compact_range(force=True)
        db.wait_until_settled()
        assert read() == seen


def test_an_iterator_and_a_cursor_keep_their_reading(db: lsmkv.DB, clock: SetClock) -> None:
    for number in range(500):
        db.put(b"%03d" % number, NEW, expires_at=DUE_S)
    db.flush()
    items, cursor = iter(db.items()), db.cursor()
    assert next(items)[0] == b"000"
    assert cursor.first()
    clock.now_s = DUE_S
    db.compact_range()
    assert len(list(items)) == 499
    assert cursor.seek(b"400")
    assert list(db) == []


def test_a_transaction_sees_its_own_puts_by_its_own_reading(db: lsmkv.DB, clock: SetClock) -> None:
    with db.transaction() as transaction:
        transaction.put(b"a", b"", ttl_s=5)
        transaction.put(b"b", b"", expires_at=999)
        clock.now_s += 5
        assert list(transaction) == [b"a"]
        assert (transaction.get(b"a"), transaction.get(b"b")) == (b"", None)
    assert list(db) == []


def test_a_transaction_tells_when_keys_go_with_its_own_writes(
    db: lsmkv.DB, clock: SetClock
) -> None:
    db.put(b"stored", b"", ttl_s=5)
    db.put(b"erased", b"", ttl_s=5)
    with db.transaction() as transaction:
        transaction.put(b"own", b"", ttl_s=7)
        transaction.delete(b"erased")
        transaction.delete_range(b"r", b"s")
        keys = [b"stored", b"own", b"erased", b"r", b"absent"]
        told = [transaction.expires_at(key) for key in keys]
    assert told == [clock.now_s + 5, clock.now_s + 7, None, None, None]


def test_a_transactions_touch_renews_what_it_sees_when_it_commits(
    db: lsmkv.DB, clock: SetClock
) -> None:
    db.put(KEY, NEW, ttl_s=5)
    with db.transaction() as transaction:
        transaction.put(b"own", b"", ttl_s=5)
        assert transaction.touch(b"own", ttl_s=100)
        assert transaction.touch(KEY, ttl_s=100)
        assert not transaction.touch(b"absent", ttl_s=100)
        assert db.expires_at(KEY) == clock.now_s + 5
        assert transaction.expires_at(KEY) == clock.now_s + 100
    assert db.expires_at(KEY) == db.expires_at(b"own") == clock.now_s + 100
    assert (db.get(KEY), b"absent" in db) == (NEW, False)


# --- a clock that is set back ---


def test_a_clock_set_back_counts_from_the_last_drop(db: lsmkv.DB, clock: SetClock) -> None:
    db.put(KEY, NEW, expires_at=DUE_S)
    clock.now_s = DUE_S
    db.compact_range()
    clock.now_s = 1000
    db.put(b"l", NEW, ttl_s=5)
    assert (db.get(KEY), db.expires_at(b"l")) == (None, DUE_S + 5)


def test_a_clock_that_was_ahead_for_a_compaction_stays_there_until_the_store_is_reopened(
    path: str, clock: SetClock
) -> None:
    with lsmkv.open(path, clock=clock) as db:
        db.put(b"z", b"")
        clock.now_s = DUE_S + 3600
        db.compact_range()
        clock.now_s = 1000
        db.put(KEY, NEW, expires_at=DUE_S)
        assert db.get(KEY) is None
    with lsmkv.open(path, clock=clock) as db:
        assert db.get(KEY) == NEW


def test_a_snapshot_after_a_drop_keeps_what_it_shows_with_the_clock_set_back(
    db: lsmkv.DB, clock: SetClock
) -> None:
    for number in range(10):
        db.put(b"%d" % number, NEW, expires_at=DUE_S + number)
    clock.now_s = DUE_S + 4
    db.flush()
    clock.now_s = 1000
    with db.snapshot() as snapshot:
        seen = list(snapshot)
        assert seen == [b"5", b"6", b"7", b"8", b"9"]
        clock.now_s = DUE_S + 100
        db.compact_range(force=True)
        db.wait_until_settled()
        assert list(snapshot) == seen


def test_popitem_and_get_agree_with_the_clock_set_back(db: lsmkv.DB, clock: SetClock) -> None:
    db.put(b"a", b"", expires_at=DUE_S)
    db.put(b"b", b"")
    clock.now_s = DUE_S
    assert db.popitem() == (b"b", b"")  # it knows now that nothing is before it
    clock.now_s = 1000
    left = dict(db.items())
    assert [db.popitem() for _ in left] == list(left.items())
