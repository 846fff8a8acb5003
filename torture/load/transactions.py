"""Scenario ``transactions`` of the part ``load``: random transactions, replayed in the log's order.

Some threads run transactions that read, scan, write and pop.  Others put, write batches and compare and
set the same keys, put entries into a queue and pop them, or read snapshots; one does upkeep.  At the end
:mod:`torture.load.log_order` makes the same calls one after another, in the order of the log.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count, islice
from typing import Any, Final

import lsmkv
from torture.framework.changes import check_contents
from torture.framework.store_checks import check_files
from torture.load.clients import Crew
from torture.load.log_order import Call, Item, LogKeeper, check_order, records
from torture.load.scenario import BACKGROUNDS, SMALL, Job

KEYS: Final = [b"key-%02d" % number for number in range(24)]
_QUEUE: Final = b"queue-"
_TRANSACTORS: Final = 4
_POPPERS: Final = 2
_LONGEST: Final = 6  # steps of a transaction
_SWITCH_INTERVAL_S: Final = 5e-5  # shorter than the default
_PAUSE_S: Final = 0.005


class _DiscardedError(Exception):
    """A transaction that does not want to commit."""


class _Noted:
    """A transaction or a snapshot whose reads and writes are noted in ``call``."""

    def __init__(self, store: Any, call: Call) -> None:
        self._store = store
        self._call = call
        self.written: dict[bytes, bytes | None] = {}

    def get(self, key: bytes) -> None:
        self._call.note("get", key, answer=self._store.get(key))

    def multi_get(self, keys: list[bytes]) -> None:
        for key, value in zip(keys, self._store.multi_get(keys), strict=True):
            self._call.note("get", key, answer=value)

    def items(self, dice: random.Random) -> None:
        start, stop = sorted(dice.sample([*KEYS, b"key-", _QUEUE, b"~"], 2))
        reverse, most = dice.random() < 0.5, dice.choice((1, 2, 5, 100))
        found = islice(self._store.items(start=start, stop=stop, reverse=reverse), most)
        self._call.note("items", start, stop, reverse, most, answer=list(found))

    def put(self, key: bytes) -> None:
        value = self._call.new_value()
        self._store.put(key, value)
        self._note_write(key, value)

    def delete(self, key: bytes) -> None:
        self._store.delete(key)
        self._note_write(key, None)

    def pop(self, key: bytes) -> None:
        value = self._store.pop(key, None)
        self._call.note("get", key, answer=value)
        if value is not None:
            self._note_write(key, None)

    def popitem(self, prefix: bytes) -> Item | None:
        """Pop the first entry with ``prefix``, and return it."""
        try:
            item: Item | None = self._store.popitem(prefix=prefix)
        except KeyError:
            item = None
        found = [] if item is None else [item]
        self._call.note("items", prefix, prefix + b"~", False, 1, answer=found)
        if item is not None:
            self._note_write(item[0], None)
        return item

    def _note_write(self, key: bytes, value: bytes | None) -> None:
        self._call.note("put", key, value)
        self.written[key] = value

    def step(self, dice: random.Random) -> None:
        """Read or write something."""
        key = dice.choice(KEYS)
        match dice.randrange(10):
            case 0 | 1:
                self.get(key)
            case 2:
                self.multi_get(dice.sample(KEYS, 3))
            case 3 | 4:
                self.items(dice)
            case 5:
                self.pop(key)
            case 6:
                self.popitem(dice.choice((b"key-1", b"key-")))
            case 7:
                self.delete(key)
            case _:
                self.put(key)


class Clients:
    """The steps of all threads; ``calls`` are what they did."""

    def __init__(self, db: lsmkv.DB) -> None:
        self.calls: list[Call] = []
        self._db = db
        self._numbers = count(1)
        self._pushed = 0

    def _note(self, what: str, work: Callable[[Call], bool]) -> None:
        """Note ``work``, which returns whether it wrote."""
        call = Call(next(self._numbers), what, time.perf_counter_ns())
        try:
            call.committed = work(call)
        except (lsmkv.ConflictError, _DiscardedError):
            what += ", discarded"
        call.what, call.ended = what, time.perf_counter_ns()
        self.calls.append(call)

    def transact(self, dice: random.Random) -> None:
        def work(call: Call) -> bool:
            with self._db.transaction(sync=dice.random() < 0.02) as transaction:
                noted = _Noted(transaction, call)
                for _ in range(dice.randint(1, _LONGEST)):
                    noted.step(dice)
                    time.sleep(0)
                if {*noted.written.values()} == {None}:  # a value tells whose record it is
                    noted.put(dice.choice(KEYS))
                if dice.random() < 0.1:
                    raise _DiscardedError
            return bool(noted.written)

        self._note("transaction", work)

    def write(self, dice: random.Random) -> None:
        """Put one key, or some in a batch, or compare and set one."""

        def put(call: Call) -> bool:
            _Noted(self._db, call).put(dice.choice(KEYS))
            return True

        def batch(call: Call) -> bool:
            with self._db.write_batch(sync=dice.random() < 0.02) as writing:
                noted = _Noted(writing, call)
                for key in dice.sample(KEYS, 3):
                    noted.put(key)
                noted.delete(dice.choice(KEYS))
                noted.put(dice.choice(KEYS))
            return True

        def compare_and_set(call: Call) -> bool:
            key, value = dice.choice(KEYS), call.new_value()
            before = self._db.get(key)
            time.sleep(0)
            if not self._db.compare_and_set(key, before, value):
                call.note("differs", key, before, answer=True)
                return False
            call.note("get", key, answer=before)
            call.note("put", key, value)
            return True

        what, work = dice.choice(
            (("put", put), ("batch", batch), ("compare_and_set", compare_and_set))
        )
        self._note(what, work)
        time.sleep(dice.random() * _PAUSE_S)

    def read(self, dice: random.Random) -> None:
        """Look one key up, scan, or do both in a snapshot."""

        def look_up(call: Call) -> bool:
            _Noted(self._db, call).get(dice.choice(KEYS))
            return False

        def scan(call: Call) -> bool:
            _Noted(self._db, call).items(dice)
            return False

        def snapshot(call: Call) -> bool:
            with self._db.snapshot() as held:
                noted = _Noted(held, call)
                noted.multi_get(dice.sample(KEYS, 3))
                noted.items(dice)
            return False

        self._note(*dice.choice((("get", look_up), ("scan", scan), ("snapshot", snapshot))))

    def push(self, dice: random.Random) -> None:
        """Put an entry behind all others of the queue."""

        def work(call: Call) -> bool:
            _Noted(self._db, call).put(_QUEUE + b"%09d" % self._pushed)
            return True

        self._pushed += 1
        self._note("push", work)
        time.sleep(dice.random() * _PAUSE_S)

    def pop(self, dice: random.Random) -> None:
        def work(call: Call) -> bool:
            noted = _Noted(self._db, call)
            call.removed = noted.popitem(_QUEUE)
            return bool(noted.written)

        self._note("pop", work)
        time.sleep(dice.random() * _PAUSE_S)


def run(job: Job) -> None:
    """Make calls until the time is up, and replay them."""
    kept = job.directory / "logs"
    kept.mkdir()
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        options = SMALL.replace(**BACKGROUNDS[job.variant])
        with lsmkv.open(job.path, options, storage=LogKeeper(kept)) as db:
            clients = Clients(db)
            _work(job, db, clients)
            found = dict(db)
            check_files(db)
            stats = db.stats()
    finally:
        sys.setswitchinterval(before)
    check_contents(found, check_order(clients.calls, records(kept, job.path)))
    job.counts.update(Counter(call.what for call in clients.calls))
    job.counts.update({"flushes": stats.flushes, "compactions": stats.compactions})


def _work(job: Job, db: lsmkv.DB, clients: Clients) -> None:
    def tend() -> None:
        db.flush() if upkeep.random() < 0.8 else db.compact_range()
        time.sleep(upkeep.random() * 10 * _PAUSE_S)

    upkeep = job.dice("upkeep")
    kinds = [clients.transact] * _TRANSACTORS + [clients.write] * 2 + [clients.read]
    kinds += [clients.push] + [clients.pop] * _POPPERS
    steps = [partial(kind, job.dice(f"client {at}")) for at, kind in enumerate(kinds)]
    Crew(job.seconds).run([*steps, tend])
