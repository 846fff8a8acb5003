"""What a store knows of keys that queues have left behind, and of writes beside transactions."""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from conftest import open_small
from hypothesis import given
from hypothesis import strategies as st

import lsmkv
from costs import COMPILED, instructions
from interruptions import at_each_place
from lsmkv.encoding.expiry import Held
from lsmkv.engine.engine import Engine
from lsmkv.engine.first_key import MOST_GAPS, FirstKeys
from lsmkv.engine.recent_writes import Place, RecentWrites
from lsmkv.engine.watch import Watch, Watches
from lsmkv.read.bounds import Bounds
from threaded_stores import run_all, wait_until

interpreted_only = pytest.mark.skipif(
    COMPILED, reason="the interpreter does not see the instructions of compiled functions"
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with lsmkv.open(tmp_path_factory.mktemp("store")) as db:
        yield db._engine


def fresh(engine: Engine) -> FirstKeys:
    return FirstKeys(engine.readers, Watches(), lambda *_: True)


def key(number: int) -> bytes:
    return b"%05d" % number


# --- the gaps -------------------------------------------------------------------------------------


def keys_in(gaps: FirstKeys, keys: list[bytes]) -> set[bytes]:
    """The keys that are in a gap; as told by both ways of looking at it."""
    inside = {each for each in keys if any(low <= each < high for low, high in gaps.gaps)}
    assert inside == {each for each in keys if gaps.end_of(each) != each}
    return inside


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 12), st.integers(0, 12)), max_size=30))
def test_a_key_is_in_a_gap_from_a_search_that_passed_it_until_it_is_put(
    engine: Engine, steps: list[tuple[bool, int, int]]
) -> None:
    keys = [b"%c%b" % (letter, end) for letter in b"abcdefghijklm" for end in (b"", b"\0", b"x")]
    gaps, model = fresh(engine), set[bytes]()
    for is_put, first, second in steps:
        if is_put:
            gaps.note(keys[3 * first], b"value")
            model.discard(keys[3 * first])
        else:
            low, high = sorted((keys[3 * first], keys[3 * second]))
            gaps.add(low, high)
            model.update(each for each in keys if low <= each < high)
        assert keys_in(gaps, keys) == model
    gaps.note_all()
    assert gaps.gaps == []


def test_a_deletion_leaves_a_gap_as_it_is(engine: Engine) -> None:
    gaps = fresh(engine)
    gaps.add(b"a", b"c")
    gaps.note(b"b", None)
    assert gaps.gaps == [(b"a", b"c")]


@pytest.mark.parametrize("by", ["pops", "puts"])
def test_gaps_are_bounded_and_true(engine: Engine, by: str) -> None:
    numbers = list(range(3 * MOST_GAPS))
    random.Random(1).shuffle(numbers)
    gaps = fresh(engine)
    if by == "puts":
        gaps.add(b"", b"\xff")
    for number in numbers:
        if by == "puts":
            gaps.note(key(number), b"value")
        else:
            gaps.add(key(number), key(number) + b"x")
    assert MOST_GAPS / 2 < len(gaps.gaps) <= MOST_GAPS
    for number in numbers:
        assert by == "pops" or gaps.end_of(key(number)) == key(number)
        assert gaps.end_of(key(number) + b"y") == key(number) + b"y" or by == "puts"


@pytest.mark.parametrize("later", [b"a", b"b"])
def test_what_is_put_right_after_a_removal_is_in_no_gap(later: bytes, tmp_path: Path) -> None:
    with lsmkv.open(tmp_path) as db:
        readers, writer = db._engine.readers, db._engine.writer

        def write(key: bytes, value: Held, sync: bool, watch: Watch) -> bool:
            is_done = writer.write_one(key, value, sync, watch)
            db.put(later, b"later")
            return is_done

        db.put(b"b", b"")
        first_keys = FirstKeys(readers, writer.watches, write)
        assert first_keys.pop(Bounds()) == (b"b", b"")
        assert first_keys.pop(Bounds()) == (later, b"later")


# --- what pops cost -------------------------------------------------------------------------------

COUNTED_POPS = 20


def a_queue(db: lsmkv.DB, count: int) -> Callable[[], object]:
    """A whole store that was popped ``count`` times."""
    for number in range(count + COUNTED_POPS):
        db.put(key(number), b"")
    for _ in range(count):
        db.popitem()
    return lambda: [db.popitem() for _ in range(COUNTED_POPS)]


def queues_in_turn(db: lsmkv.DB, count: int) -> Callable[[], object]:
    queues = [db.prefixed(b"queue/%d/" % number) for number in range(5)]
    for number in range(count + COUNTED_POPS):
        for queue in queues:
            queue.put(key(number), b"")
    for _ in range(count):
        for queue in queues:
            queue.popitem()
    return lambda: [queue.popitem() for queue in queues for _ in range(COUNTED_POPS)]


def a_queue_with_urgent_entries(db: lsmkv.DB, count: int) -> Callable[[], object]:
    jobs = db.prefixed(b"jobs/")
    for number in range(count + COUNTED_POPS):
        jobs.put(b"5/" + key(number), b"")
    for _ in range(count):
        jobs.popitem()

    def work() -> None:
        for number in range(COUNTED_POPS):
            jobs.put(b"1/" + key(number), b"")
            assert jobs.popitem()[0].startswith(b"1/")
            assert jobs.popitem()[0].startswith(b"5/")

    return work


def an_empty_queue_that_was_cleared(db: lsmkv.DB, count: int) -> Callable[[], object]:
    jobs = db.prefixed(b"jobs/")
    for number in range(count):
        jobs.put(key(number), b"")
    jobs.clear()

    def poll() -> None:
        with pytest.raises(KeyError):
            jobs.popitem()

    def poll_all() -> None:
        for _ in range(COUNTED_POPS):
            poll()

    poll()
    return poll_all


def a_producer_beside_its_consumer(db: lsmkv.DB, count: int) -> Callable[[], object]:
    jobs = db.prefixed(b"jobs/")

    def pass_on(number: int) -> None:
        jobs.put(key(number), b"")
        assert jobs.popitem()[0] == key(number)
        with pytest.raises(KeyError):
            jobs.popitem()

    def pass_all() -> None:
        for number in range(COUNTED_POPS):
            pass_on(count + number)

    for number in range(count):
        pass_on(number)
    return pass_all


LOADS = [
    a_queue,
    queues_in_turn,
    a_queue_with_urgent_entries,
    an_empty_queue_that_was_cleared,
    a_producer_beside_its_consumer,
]


@interpreted_only
@pytest.mark.parametrize("load", LOADS)
def test_a_pop_costs_the_same_whatever_was_popped_before(
    load: Callable[[lsmkv.DB, int], Callable[[], object]], tmp_path: Path
) -> None:
    costs = []
    for count in (100, 800):
        with lsmkv.open(tmp_path / str(count)) as db:
            costs.append(instructions(load(db, count)))
    assert costs[1] < 1.1 * costs[0]


@pytest.mark.parametrize("prefixes", [[b""], [b"a/", b"b/", b"c/"]])
def test_popping_all_of_queues_reads_every_block_about_once(
    prefixes: list[bytes], tmp_path: Path
) -> None:
    options = lsmkv.Options(block_size_bytes=512, block_cache_size_bytes=0, compression="none")
    for count in (300, 1200):
        with lsmkv.open(tmp_path / str(count), options) as db:
            keys = [[prefix + key(number) for prefix in prefixes] for number in range(count)]
            db.update((each, b"v" * 50) for in_turn in keys for each in in_turn)
            db.compact_range()
            before = db.stats()
            popped = [db.popitem(prefix=prefix)[0] for _ in keys for prefix in prefixes]
            assert popped == [each for in_turn in keys for each in in_turn]
            # One block a pop, and the next where one is used up.
            assert (db.stats() - before).block_reads < 1.3 * len(popped)


# --- who waits for whom ---------------------------------------------------------------------------


def test_a_pop_that_waits_for_room_holds_up_no_other(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path) as db:
        db.put(b"a", b"1")
        db._engine.writer.hold()
        popped: list[tuple[bytes, bytes]] = []

        def pop_another() -> None:
            try:
                wait_until(lambda: db.stats().write_stops > 0)
                with pytest.raises(KeyError):
                    db.popitem(prefix=b"none")
            finally:
                db._engine.writer.let_go()

        run_all(lambda: popped.append(db.popitem()), pop_another)
        assert popped == [(b"a", b"1")]


def since(place: Place) -> list[object]:
    return list(place.written_since())


def test_a_place_tells_what_was_written_since_once() -> None:
    record = RecentWrites()
    first = record.begin()
    record.add(b"a")
    second = record.begin()
    record.admit([(b"b", b""), (b"c", None)], [], None)
    record.add_ranges([(b"d", b"f")])
    assert since(first) == [b"a", b"b", b"c", (b"d", b"f")]
    assert since(second) == [b"b", b"c", (b"d", b"f")]
    record.add(b"g")
    assert since(first) == since(second) == [b"g"]
    assert since(first) == []


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
