"""One handle and many threads: models, iterators, snapshots, flush, pins."""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from conftest import BACKGROUNDS

import lsmkv
from leaks import open_descriptors
from lsmkv.options import CompactionStyle
from threaded_stores import Background, filled, open_store, run_all

STYLES: tuple[CompactionStyle, ...] = ("leveled", "tiered", "lazy-leveled")

# Of tests that differ in how tables are read, and not in who writes them.
PROCESS_IS_SLOW = pytest.mark.parametrize(
    "background",
    [BACKGROUNDS[0], pytest.param(BACKGROUNDS[1], marks=pytest.mark.slow)],
    ids=["thread", "process"],
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


# --- reading and writing ---


class Client:
    """One thread's work on keys of its own, checked against a dict."""

    def __init__(self, db: lsmkv.DB, number: int, operations: int) -> None:
        self.db = db
        self.prefix = b"client%d/" % number
        self.chances = random.Random(number)
        self.operations = operations
        self.model: dict[bytes, bytes] = {}
        self.snapshots: list[tuple[lsmkv.Snapshot, dict[bytes, bytes]]] = []

    def key(self) -> bytes:
        return self.prefix + b"%03d" % self.chances.randrange(200)

    def value(self) -> bytes:
        return b"%d " % self.chances.randrange(1_000_000) + b"v" * self.chances.randrange(120)

    def put(self) -> None:
        key, value = self.key(), self.value()
        self.db.put(key, value)
        self.model[key] = value

    def delete(self) -> None:
        key = self.key()
        self.db.delete(key)
        self.model.pop(key, None)

    def batch(self) -> None:
        with self.db.write_batch() as batch:
            for _ in range(self.chances.randrange(40)):
                key = self.key()
                if self.chances.random() < 0.3:
                    batch.delete(key)
                    self.model.pop(key, None)
                else:
                    self.model[key] = self.value()
                    batch.put(key, self.model[key])

    def get(self) -> None:
        key = self.key()
        assert self.db.get(key) == self.model.get(key)

    def scan(self) -> None:
        reverse = self.chances.random() < 0.5
        found = list(self.db.items(prefix=self.prefix, reverse=reverse))
        assert found == sorted(self.model.items(), reverse=reverse)

    def take_snapshot(self) -> None:
        self.snapshots.append((self.db.snapshot(), dict(self.model)))

    def check_snapshot(self) -> None:
        if self.snapshots:
            at = self.chances.randrange(len(self.snapshots))
            snapshot, model = self.snapshots.pop(at)
            with snapshot:
                assert dict(snapshot.items(prefix=self.prefix)) == model
                key = self.key()
                assert snapshot.get(key) == model.get(key)

    def walk(self) -> None:
        with self.db.cursor() as cursor:
            found = []
            going = cursor.seek(self.prefix)
            while going and cursor.key.startswith(self.prefix):
                found.append(cursor.item)
                going = cursor.next()
            assert found == sorted(self.model.items())

    def run(self) -> None:
        actions = [self.put, self.delete, self.batch, self.get, self.scan]
        actions += [self.take_snapshot, self.check_snapshot, self.walk]
        weights = [40, 10, 8, 40, 2, 1, 1, 1]
        for action in self.chances.choices(actions, weights, k=self.operations):
            action()
        while self.snapshots:
            self.check_snapshot()
        self.scan()


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("residency", "operations"),
    [
        ("resident", 100),
        *(pytest.param(name, 1200, marks=pytest.mark.slow) for name in ("resident", "cached")),
    ],
)
def test_each_thread_sees_its_own_writes_and_no_others_in_their_place(
    path: Path, style: CompactionStyle, residency: str, operations: int, background: Background
) -> None:
    with open_store(path, compaction=style, filter_residency=residency, **background) as db:
        clients = [Client(db, number, operations) for number in range(4)]
        for _ in range(20):  # compiled clients may be done before a helper process has begun
            run_all(*[client.run for client in clients])
            stats = db.stats()
            if stats.flushes > 5 and stats.compactions > 2:
                break
        assert stats.flushes > 5 and stats.compactions > 2
        expected = {key: value for client in clients for key, value in client.model.items()}
        assert dict(db) == expected
    with open_store(path, compaction=style) as db:
        assert dict(db) == expected


def put_together(db: lsmkv.DB, keys: list[bytes], number: int) -> None:
    """Set all of ``keys`` to ``number``, in one batch."""
    with db.write_batch() as batch:
        for key in keys:
            batch.put(key, b"%06d" % number)


def race(write: Callable[[int], None], times: int, *readers: Callable[[], None]) -> None:
    """Call ``write`` with each number while ``readers`` are called again and again."""
    done = threading.Event()

    def write_all() -> None:
        try:
            for number in range(times):
                write(number)
        finally:
            done.set()

    def read(reader: Callable[[], None]) -> None:
        while not done.is_set():
            reader()

    run_all(write_all, *[partial(read, reader) for reader in readers])


@pytest.mark.parametrize("batches", [60, pytest.param(200, marks=pytest.mark.slow)])
def test_a_reader_of_one_key_of_a_batch_sees_all_of_it(path: Path, batches: int) -> None:
    keys = [b"key%03d" % number for number in range(40)]
    newest: dict[int, bytes] = {}
    with open_store(path) as db:

        def write(number: int) -> None:
            put_together(db, keys, number)
            if number % 3 == 0:
                db.put(keys[number % 40], b"%06d" % number)

        def read() -> None:
            value = db.get(random.choice(keys))
            before = newest.get(threading.get_ident(), b"")
            assert value is None or value >= before
            newest[threading.get_ident()] = value or before

        race(write, batches, read, read, read)


@pytest.mark.parametrize("batches", [150, pytest.param(400, marks=pytest.mark.slow)])
def test_a_batch_is_seen_whole_or_not_at_all(path: Path, batches: int) -> None:
    keys = [b"key%03d" % number for number in range(40)]
    with open_store(path) as db:

        def read() -> None:
            assert len(set(db.values())) <= 1
            with db.snapshot() as snapshot:
                assert len({snapshot.get(key) for key in keys}) == 1

        race(partial(put_together, db, keys), batches, read, read)


@pytest.mark.parametrize("writes", [800, pytest.param(3000, marks=pytest.mark.slow)])
def test_writes_are_seen_in_the_order_they_were_made(path: Path, writes: int) -> None:
    with open_store(path) as db:
        last = [b""]

        def write(number: int) -> None:
            db.put(b"first", b"%06d" % number)
            db.put(b"second", b"%06d" % number)

        def read() -> None:
            second = db.get(b"second", b"")
            first = db.get(b"first", b"")
            assert last[0] <= second <= first
            last[0] = second

        race(write, writes, read)


def test_synced_writes_of_many_threads_are_all_made(path: Path) -> None:
    with open_store(path) as db:

        def write(number: int) -> None:
            for count in range(50):
                db.put(b"%d/%d" % (number, count), b"v", sync=True)

        run_all(*[lambda number=number: write(number) for number in range(6)])
        assert len(db) == db.stats().writes == 300


# --- iterators and snapshots over flushes and compactions ---


def rewrite_everything(db: lsmkv.DB) -> None:
    """Replace every file of the store by new ones."""
    for number in range(0, 3000, 2):
        db.put(b"key%05d" % number, b"new")
        db.delete(b"key%05d" % (number + 1))
    db.compact_range()
    db.wait_until_settled()


@PROCESS_IS_SLOW
def test_iterators_views_and_cursors_go_on_over_flush_and_compaction(
    path: Path, background: Background
) -> None:
    with open_store(path, **background) as db:
        model, cursor = filled(db), db.cursor()
        view = db.items(start=b"key00100", stop=b"key02000")
        within = [item for item in sorted(model.items()) if b"key00100" <= item[0] < b"key02000"]
        assert list(view) == within
        assert cursor.seek(b"key01500")
        upwards, downwards = iter(db.items()), reversed(db.items())
        found_up = [next(upwards) for _ in range(700)]
        found_down = [next(downwards) for _ in range(700)]
        rewrite_everything(db)
        assert found_up + list(upwards) == sorted(model.items())
        assert found_down + list(downwards) == sorted(model.items(), reverse=True)
        assert list(view) == within
        assert len(view) == len(within) and within[5] in view
        assert cursor.item == (b"key01500", b"old 1500")
        for _ in range(800):
            assert cursor.next()
        assert cursor.item == (b"key02300", b"old 2300")
        for _ in range(1600):
            assert cursor.prev()
        assert cursor.item == (b"key00700", b"old 700")
        cursor.close()


@pytest.mark.parametrize("operations", [150, pytest.param(400, marks=pytest.mark.slow)])
def test_a_snapshot_is_kept_over_compactions_while_threads_write(
    path: Path, background: Background, operations: int
) -> None:
    with open_store(path, **background) as db:
        model = filled(db)
        with db.snapshot() as snapshot:
            clients = [Client(db, number, operations) for number in range(2)]

            def check() -> None:
                for _ in range(5):
                    assert dict(snapshot) == model

            run_all(*[client.run for client in clients], check, lambda: rewrite_everything(db))
            assert dict(snapshot) == model


@PROCESS_IS_SLOW
def test_tables_an_iterator_reads_have_no_names_any_more_and_are_closed_when_it_ends(
    path: Path, background: Background
) -> None:
    with open_store(path, **background) as db:
        filled(db)
        db.flush()
        db.wait_until_settled()
        iterator = iter(db.items())
        next(iterator)
        rewrite_everything(db)
        live = {info.file_name for info in db.inspect().tables()}
        assert {file.name for file in path.glob("*.sst")} == live
        open_before = len(open_descriptors())
        del iterator
        gc.collect()
        assert len(open_descriptors()) < open_before


# --- flush ---


@pytest.mark.parametrize("flushes", [6, pytest.param(40, marks=pytest.mark.slow)])
def test_flush_by_many_threads_at_once(path: Path, background: Background, flushes: int) -> None:
    with open_store(path, **background) as db:

        def work(number: int) -> None:
            for count in range(flushes):
                db.put(b"%d/%03d" % (number, count), b"v" * 50)
                db.flush()

        run_all(*[lambda number=number: work(number) for number in range(5)])
        assert len(db) == 5 * flushes
        assert db.inspect().memtable_key_counts == (0,)


@PROCESS_IS_SLOW
def test_flush_returns_when_what_was_written_before_is_in_tables(
    path: Path, background: Background
) -> None:
    with open_store(path, **background) as db:

        def work(number: int) -> None:
            for count in range(20):
                key = b"%d/%03d" % (number, count)
                db.put(key, b"value")
                db.flush()
                assert any(info.smallest <= key <= info.largest for info in db.inspect().tables())

        run_all(*[lambda number=number: work(number) for number in range(4)])


def test_compact_range_by_many_threads_at_once(path: Path, background: Background) -> None:
    with open_store(path, **background) as db:
        model = filled(db)
        run_all(*[db.compact_range] * 4, db.flush, db.wait_until_settled)
        assert dict(db) == model


# --- pins ---


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "dropped"])
def test_a_snapshot_may_be_ended_by_another_thread(path: Path, is_closed: bool) -> None:
    with open_store(path) as db:
        db.put(b"key", b"old")
        held = [db.snapshot()]
        db.put(b"key", b"new")
        run_all(held[0].close if is_closed else held.clear)
        gc.collect()
        db.compact_range()
        assert db.inspect().entry_count == 1


def test_a_pin_caught_in_a_cycle_is_released_by_the_collector_of_any_thread(path: Path) -> None:
    with open_store(path) as db:
        db.put(b"key", b"old")
        cycle: list[object] = [iter(db.items()), db.snapshot()]
        cycle.append(cycle)
        next(cycle[0])  # type: ignore[call-overload]  # the iterator has begun
        db.put(b"key", b"new")
        del cycle
        run_all(gc.collect)
        db.compact_range()
        assert db.inspect().entry_count == 1


def test_snapshots_taken_and_closed_by_many_threads_leave_no_pin_behind(path: Path) -> None:
    with open_store(path) as db:

        def work(number: int) -> None:
            for count in range(200):
                with db.snapshot() as snapshot:
                    db.put(b"%d" % number, b"%d" % count)
                    assert snapshot.get(b"%d" % number) == (b"%d" % (count - 1) if count else None)

        run_all(*[lambda number=number: work(number) for number in range(4)])
        db.compact_range()
        assert db.inspect().entry_count == 4
