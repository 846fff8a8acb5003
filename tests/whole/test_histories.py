"""Random transactions in eight threads are serialisable, and not when a check is left out."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest
from conftest import open_small

import lsmkv
from histories import Anomaly, Done, List, anomalies
from lsmkv.api import reads
from lsmkv.api.transaction import TransactionState
from lsmkv.encoding.entries import Absent
from lsmkv.encoding.expiry import Held
from lsmkv.engine.recent_writes import Place, RecentWrites
from threaded_stores import run_all

KEYS = [b"k%02d" % number for number in range(8)]
PUBLISHED = [b"k03p", b"k06p"]  # by batches of one thread
CLIENTS = 6


def encoded(values: List) -> bytes:
    return b",".join(b"%d" % value for value in values)


def decoded(value: bytes | None) -> List:
    return tuple(map(int, value.split(b","))) if value else ()


class DiscardedError(Exception):
    """A program changed its mind."""


class Seen:
    """Reads and appends of one transaction, noted in ``done``."""

    def __init__(self, transaction: Any, done: Done, universe: list[bytes]) -> None:
        self.transaction = transaction
        self.done = done
        self._universe = universe
        self._own: dict[bytes, List] = {}

    def _foreign(self, key: bytes, values: List) -> List:
        """What others appended; fails unless the transaction's own appends follow."""
        own = self._own.get(key, ())
        assert values[len(values) - len(own) :] == own
        return values[: len(values) - len(own)]

    def get(self, key: bytes) -> List:
        values = decoded(self.transaction.get(key))
        self.done.gets[key] = self._foreign(key, values)
        return values

    def multi_get(self, keys: list[bytes]) -> None:
        for key, value in zip(keys, self.transaction.multi_get(keys), strict=True):
            self.done.gets[key] = self._foreign(key, decoded(value))

    def append(self, key: bytes, value: int) -> None:
        self.transaction[key] = encoded((*self.get(key), value))
        self._own[key] = (*self._own.get(key, ()), value)
        self.done.appends.append((key, value))

    def scan(self, start: bytes, stop: bytes, reverse: bool, most: int) -> None:
        """Read a range, or its first keys."""
        entries = self.transaction.items(start=start, stop=stop, reverse=reverse)
        found = dict(islice(entries, most))
        if len(found) == most:  # what comes after was not seen
            start = max(start, min(found)) if reverse else start
            stop = stop if reverse else min(stop, max(found) + b"\0")
        self._note(start, stop, found)

    def seek(self, key: bytes) -> None:
        """Read the first key from ``key`` on, and the next."""
        with self.transaction.cursor() as cursor:
            found = dict(cursor.item for move in (lambda: cursor.seek(key), cursor.next) if move())
        self._note(key, max(found) + b"\0" if len(found) == 2 else b"z", found)

    def _note(self, start: bytes, stop: bytes, found: dict[bytes, bytes]) -> None:
        for key in self._universe:
            if start <= key < stop:
                self.done.scans[key] = self._foreign(key, decoded(found.get(key)))


class Trial:
    """Eight threads with random programs over a few keys."""

    def __init__(self, db: lsmkv.DB, rounds: int, seed: int) -> None:
        self.db = db
        self.rounds = rounds
        self.seed = seed
        self.loaded = [b"k%02dl%d" % (number % 8, number) for number in range(rounds // 10)]
        self.universe = sorted([*KEYS, *PUBLISHED, *self.loaded])
        self.history: list[Done] = []
        self.numbers = count(1)
        self.running = CLIENTS

    def run(self) -> list[Anomaly]:
        clients = [lambda number=number: self.client(number) for number in range(CLIENTS)]
        run_all(*clients, self.publisher, self.loader)
        final = {key: decoded(self.db.get(key)) for key in self.universe}
        return anomalies(self.history, final)

    def attempt(self, work: Callable[[Done], None]) -> None:
        done = Done(next(self.numbers), time.perf_counter_ns())
        try:
            work(done)
        except (lsmkv.ConflictError, DiscardedError):
            done.committed = False
        done.ended = time.perf_counter_ns()
        self.history.append(done)

    def client(self, number: int) -> None:
        chance = random.Random(100 * self.seed + number)
        try:
            for _ in range(self.rounds):
                kinds = [self.transaction] * 8 + [self.compare_and_set, self.snapshot]
                kind = chance.choice(kinds)
                self.attempt(partial(kind, chance=chance))
        finally:
            self.running -= 1

    def transaction(self, done: Done, chance: random.Random) -> None:
        with self.db.transaction() as transaction:
            seen = Seen(transaction, done, self.universe)
            for _ in range(chance.randrange(1, 6)):
                self.step(seen, chance)
                time.sleep(0)
            if chance.random() < 0.1:
                raise DiscardedError

    def step(self, seen: Seen, chance: random.Random) -> None:
        key = chance.choice(KEYS)
        match chance.randrange(8):
            case 0:
                seen.get(key)
            case 1:
                seen.multi_get(chance.sample(self.universe, 3))
            case 2 | 3:
                start, stop = sorted(chance.sample([*KEYS, b"k", b"z"], 2))
                seen.scan(start, stop, chance.random() < 0.5, chance.choice([1, 2, 5, 100]))
            case 4:
                seen.seek(key)
            case _:
                seen.append(key, next(self.numbers))

    def compare_and_set(self, done: Done, chance: random.Random) -> None:
        key, value = chance.choice(KEYS), next(self.numbers)
        before = decoded(self.db.get(key))
        time.sleep(0)
        expected = encoded(before) if before else None
        done.appends.append((key, value))
        if not self.db.compare_and_set(key, expected, encoded((*before, value))):
            raise DiscardedError
        done.gets[key] = before

    def snapshot(self, done: Done, chance: random.Random) -> None:
        with self.db.snapshot() as snapshot:
            seen = Seen(snapshot, done, self.universe)
            seen.get(chance.choice(KEYS))
            seen.scan(b"k", b"z", chance.random() < 0.5, 100)

    def publisher(self) -> None:
        values: List = ()
        while self.running:
            values = (*values, next(self.numbers))

            def publish(done: Done, values: List = values) -> None:
                with self.db.write_batch() as batch:
                    for key in PUBLISHED:
                        batch.put(key, encoded(values))
                done.appends += [(key, values[-1]) for key in PUBLISHED]

            self.attempt(publish)
            time.sleep(0.003)

    def loader(self) -> None:
        for number, key in enumerate(self.loaded):
            value = next(self.numbers)

            def load(done: Done, key: bytes = key, value: int = value) -> None:
                self.db.bulk_load([(key, encoded((value,)))])
                done.appends.append((key, value))

            self.attempt(load)
            if number % 3 == 0:
                self.db.compact_range()


@pytest.fixture(autouse=True)
def many_switches() -> Iterator[None]:
    """Make threads take turns often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def trial(path: Path, rounds: int, seed: int = 1) -> list[Anomaly]:
    with open_small(path) as db:
        return Trial(db, rounds, seed).run()


def test_transactions_in_eight_threads_are_serialisable(tmp_path: Path) -> None:
    assert trial(tmp_path, rounds=50) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_transactions_in_eight_threads_are_serialisable(tmp_path: Path, seed: int) -> None:
    assert trial(tmp_path, rounds=300, seed=seed) == []


def nothing(*_: object) -> None:
    pass


def without_keys(found: reads.Reads, place: Place, check: Any = reads.Reads.check) -> None:
    found.keys.clear()
    check(found, place)


def newest(state: TransactionState, key: bytes) -> Held:
    own = state.own.get(key)
    if isinstance(own, Absent):
        state.reads.keys.add(key)
        return state.snapshot._readers.lookup(key)
    return own


BROKEN: dict[str, tuple[Any, str, Any, set[str]]] = {
    "nothing is checked": (
        reads.Reads, "check", nothing, {"lost update", "write skew", "G2", "phantom"},
    ),
    "keys are not checked": (
        reads.Reads, "check", without_keys, {"lost update", "write skew", "G2"},
    ),
    "ranges are not checked": (reads.ReadRange, "seen", nothing, {"phantom"}),
    "writes are not remembered": (RecentWrites, "_add", nothing, {"lost update"}),
    "the newest values are read": (TransactionState, "get", newest, {"read skew", "phantom"}),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_an_anomaly_is_found_when(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    where, what, instead, kinds = BROKEN[name]
    monkeypatch.setattr(where, what, instead, raising=False)
    found: set[str] = set()
    for seed in range(20):
        found |= {anomaly.kind for anomaly in trial(tmp_path / str(seed), rounds=40, seed=seed)}
        if found & kinds:
            return
    raise AssertionError(f"only {found}")
