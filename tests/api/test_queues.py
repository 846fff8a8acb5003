"""Stores used as queues: written at one end, popped at the other."""

from __future__ import annotations

import contextlib
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import SMALL

import lsmkv
from gates import GatedStorage
from lsmkv.options import Background
from threaded_stores import run_all

KEYS = [b"%06d" % number for number in range(2000)]


def tombstones(db: lsmkv.DB) -> int:
    return sum(table.tombstone_count for table in db.inspect().tables())


def fill(db: lsmkv.DB, keys: list[bytes] = KEYS) -> None:
    for key in keys:
        db.put(key, b"v" * 50)


# --- deletions that hide nothing ---


@pytest.mark.parametrize("background", ["thread", "process"])
def test_a_flush_into_an_empty_tree_drops_deletions(tmp_path: Path, background: Background) -> None:
    with lsmkv.open(tmp_path, background=background, process_job_size_bytes=0) as db:
        fill(db)
        for key in KEYS[:1990]:
            db.delete(key)
        db.flush()
        assert (tombstones(db), db.inspect().entry_count) == (0, 10)
        assert list(db) == KEYS[1990:]


def test_a_store_that_was_cleared_settles_without_a_table(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path) as db:
        fill(db)
        db.clear()
        db.flush()
        db.wait_until_settled()
        assert list(db.inspect().tables()) == []
        assert list(tmp_path.glob("*.sst")) == []
        db.put(b"k", b"v")
    with lsmkv.open(tmp_path) as db:
        assert dict(db) == {b"k": b"v"}
        assert db.verify().ok


def test_deletions_in_a_memtable_that_waits_behind_an_older_one_still_hide_its_keys(
    tmp_path: Path,
) -> None:
    storage = GatedStorage()
    options = SMALL.replace(write_buffer_size_bytes=4096, max_immutable_memtables=8)
    with lsmkv.open(tmp_path, options, storage=storage) as db:
        storage.shut()
        fill(db, KEYS[:60])
        for key in KEYS[:60]:
            db.delete(key)
        fill(db, KEYS[100:130])
        assert len(db.inspect().memtable_key_counts) > 2
        storage.open_up()
        db.flush()
        assert list(db) == KEYS[100:130]


# --- popping in threads ---

QUEUES = [b"", KEYS[0][:-1], KEYS[10][:-1], KEYS[3]]


@pytest.fixture
def hurried() -> Iterator[None]:
    """Let threads take turns all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


PRODUCERS = 3


class Producer:
    """Puts values that nobody else puts, into keys of its own."""

    def __init__(self, db: lsmkv.DB, number: int) -> None:
        self._db = db
        self._number = number
        self._dice = random.Random(number)
        self.last: dict[bytes, bytes] = {}  # acknowledged, by key

    def work(self) -> None:
        db, dice = self._db, self._dice
        for number in range(400):
            key = dice.choice(QUEUES) + b"%d/%d" % (dice.randrange(8), self._number)
            value = b"%d of %d" % (number, self._number)
            how = dice.randrange(4)
            if how == 0:
                with db.write_batch() as batch:
                    batch.put(key, value)
            elif how == 1:
                if db.setdefault(key, value) != value:
                    continue
            else:
                db.put(key, value)
            self.last[key] = value


class Consumer:
    """Removes entries in every way that returns them."""

    def __init__(self, db: lsmkv.DB, number: int) -> None:
        self._db = db
        self._dice = random.Random(100 + number)
        self.removed: list[tuple[bytes, bytes]] = []

    def work(self) -> None:
        for _ in range(400):
            with contextlib.suppress(KeyError):
                self._remove()

    def _remove(self) -> None:
        db, dice = self._db, self._dice
        prefix, how = dice.choice(QUEUES), dice.randrange(4)
        if how == 0:
            key = prefix + b"%d/%d" % (dice.randrange(8), dice.randrange(PRODUCERS))
            self.removed.append((key, db.pop(key)))
        elif how == 1:
            key, value = next(iter(db.items(prefix=prefix)), (b"", b""))
            if db.compare_and_set(key, value, None):
                self.removed.append((key, value))
        else:
            self.removed.append(db.popitem(prefix=prefix))


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("flushes", [False, True])
def test_every_acknowledged_put_is_in_the_store_or_was_removed_once(
    tmp_path: Path, flushes: bool
) -> None:
    options = SMALL if flushes else lsmkv.Options()
    with lsmkv.open(tmp_path, options) as db:
        producers = [Producer(db, number) for number in range(PRODUCERS)]
        consumers = [Consumer(db, number) for number in range(4)]
        run_all(*[one.work for one in producers], *[one.work for one in consumers])
        left = dict(db)
        removed = [item for consumer in consumers for item in consumer.removed]
        counts = Counter(removed)
        for producer in producers:
            for item in producer.last.items():
                assert counts[item] + (left.get(item[0]) == item[1]) == 1
        assert max(counts.values()) == 1
        assert [db.popitem() for _ in left] == sorted(left.items())
