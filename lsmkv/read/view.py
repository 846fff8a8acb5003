"""The current read state, and consistent read views."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from threading import get_ident
from typing import Final
from weakref import ref

from librt.threading import Lock
from librt.vecs import vec
from mypy_extensions import i64

from lsmkv.encoding.entries import (
    ABSENT,
    MAX_SEQUENCE,
    Absent,
    Buffer,
    Value,
    key_bytes,
    keys_bytes,
)
from lsmkv.errors import ClosedError, Error, ForkedError
from lsmkv.filters.hashing import hash_key
from lsmkv.log.batch import Operation
from lsmkv.memtable.memtable import Memtable
from lsmkv.read.snapshots import Pin, Retention, SnapshotList
from lsmkv.stats import Stats
from lsmkv.tree.version import Version

_TOGETHER: Final = 64  # keys that are looked up side by side: as many blocks may be held at once


class SuperVersion:
    """One consistent set of everything that can hold a key: memtables, newest first, and tables."""

    def __init__(
        self, memtable: Memtable, flushing: tuple[Memtable, ...], version: Version
    ) -> None:
        self.memtable = memtable
        self.flushing = flushing
        self.version = version

    def get(self, key: bytes, stats: Stats) -> Value:
        """The present value of ``key``; None when it has none."""
        stats.gets += 1
        found = self._in_memtables(key)
        if isinstance(found, Absent):
            value = self.version.get(key, hash_key(key), MAX_SEQUENCE, stats)
            if value is not None:
                stats.get_hits += 1
            return value
        stats.memtable_hits += 1
        if found is not None:
            stats.get_hits += 1
        return found

    def get_many(self, keys: list[bytes], stats: Stats) -> list[Value]:
        """The present value of each of ``keys``; None where there is none."""
        found: list[Value] = []
        for start in range(0, len(keys), _TOGETHER):
            end = start + _TOGETHER
            found += self._get_together(keys[start:end], stats)
        return found

    def _get_together(self, keys: list[bytes], stats: Stats) -> list[Value]:
        count = len(keys)
        stats.gets += count
        values: list[Value] = [None] * count
        wanted = vec[i64]([0] * count)
        hashes = vec[i64]([0] * count)
        left: i64 = 0
        for position, key in enumerate(keys):
            known = self._in_memtables(key)
            if isinstance(known, Absent):
                hashes[position] = hash_key(key)
                wanted[left] = position
                left += 1
            else:
                values[position] = known
                stats.memtable_hits += 1
        wanted = wanted[:left]
        for run in self.version.runs:
            if len(wanted):
                wanted = run.get_many(keys, hashes, wanted, values, stats)
                self.version.charge_wasted_probes(len(wanted))
        stats.get_hits += count - values.count(None)
        return values

    def _in_memtables(self, key: bytes) -> Value | Absent:
        if not self.memtable.is_empty:  # an empty one is not worth hashing the key
            found = self.memtable.get(key)
            if not isinstance(found, Absent):
                return found
        for memtable in self.flushing:
            found = memtable.get(key)
            if not isinstance(found, Absent):
                return found
        return ABSENT

    def get_at(self, key: bytes, seq: int, stats: Stats) -> Value:
        """The value that ``key`` had as of ``seq``, which is pinned; None when it had none."""
        return value_at(self.memtables, self.version, key, seq, stats)

    @property
    def memtables(self) -> tuple[Memtable, ...]:
        return (self.memtable, *self.flushing)


def value_at(
    memtables: tuple[Memtable, ...], version: Version, key: bytes, seq: int, stats: Stats
) -> Value:
    """The value that ``key`` had as of ``seq``, of which nothing is forgotten; None: it had none."""
    stats.gets += 1
    for memtable in memtables:
        found = memtable.get_at(key, seq)
        if not isinstance(found, Absent):
            stats.memtable_hits += 1
            break
    else:
        found = version.get(key, hash_key(key), seq, stats)
    if found is not None:
        stats.get_hits += 1
    return found


class ReadView:
    """The store as it was after one write.

    Attributes:
        memtables: newest first; one that was empty may be left out.
        seq: number of that write.
        hold: referred to as long as what it shows may be asked for; None when nothing need be kept.
    """

    def __init__(
        self, memtables: tuple[Memtable, ...], version: Version, seq: int, hold: Retention | None
    ) -> None:
        self.memtables = memtables
        self.version = version
        self.seq = seq
        self.hold = hold

    def get(self, key: bytes, stats: Stats) -> Value:
        """The value that ``key`` had; None when it had none."""
        return value_at(self.memtables, self.version, key, self.seq, stats)


class ReadViews:
    """Makes moments, and knows whether any of them, or a pin, is left.  Under the engine's mutex."""

    def __init__(self, pins: SnapshotList) -> None:
        self._pinned = pins.live
        self._held: Callable[[], Retention | None] = ref(Retention())  # of nobody

    def of(self, current: SuperVersion, seq: int) -> ReadView:
        """``current`` as of ``seq``, which is the present or pinned; it stays readable on its own."""
        if current.memtable.is_empty:  # what comes into it comes too late
            return ReadView(current.flushing, current.version, seq, None)
        hold = self._held()
        if hold is None:
            hold = Retention()
            self._held = ref(hold)
        return ReadView(current.memtables, current.version, seq, hold)

    def any_left(self) -> bool:
        """Whether what a write replaces may still be asked for."""
        return bool(self._pinned) or self._held() is not None


_LOOKS: Final = 4
_LOOK_S: Final = 0.01


class ReadState:
    """A view that is replaced as the store changes, and what readers of the past need of it.

    Attributes:
        view: what readers look into; None once the store is closed (or in a forked child).
        last_seq: sequence number of the last write.
        forked: whether this is the child of a fork, in which the store was not opened.
        pins: what snapshots still need.
        moments: what scans still need.
        floor: no key below it has a value; None when nothing is known.
        popping: held to find the first entry and to remove it.

    Args:
        directory: the store's.
    """

    def __init__(self, stats: Stats, directory: str) -> None:
        self.stats = stats
        self.directory = directory
        self.super_version: SuperVersion | None = None
        self.last_seq = 0
        self.snapshots = SnapshotList()
        self.read_views = ReadViews(self.snapshots)
        self.forked = False
        self.floor: bytes | None = None
        self.popping = Lock()
        self._mutex = Lock()
        self._owner = 0  # the thread that took the mutex last; 0 where it let go of it by itself
        self._get_ident = get_ident  # found sooner here than in the module

    def entering(self) -> int:
        """The present thread, which is about to take the mutex, and to become its ``_owner``.

        (Asked before, so that nothing runs between taking the mutex and naming its owner.)

        Raises:
            RuntimeError: it holds the mutex already, and would wait for itself.
        """
        thread = self._get_ident()
        if self._owner == thread and self._mutex.locked():
            self._refuse_own_lock(thread)
        return thread

    def _refuse_own_lock(self, thread: int) -> None:
        """Raise if ``thread`` holds the mutex: in a finalizer or signal handler inside of a call."""
        for _look in range(_LOOKS):  # who has just taken it may not be named yet
            if not self._mutex.locked() or self._owner != thread:
                return
            time.sleep(_LOOK_S)
        raise RuntimeError(
            f"{self.directory} is being used by this very thread, further up: a finalizer, signal "
            "handler or trace function may look keys up, and must leave the rest for later"
        )

    def require_open(self) -> SuperVersion:
        """The present view.

        Raises:
            ClosedError, ForkedError: there is none any more.
        """
        current = self.super_version
        if current is None:
            raise self.unusable()
        return current

    def unusable(self) -> Error:
        """What to raise when there is no view.

        It is made anew for each caller: an exception keeps the frames of all that it passed through.
        """
        if self.forked:
            reason = "was opened before the process forked; open it anew in the child"
            return ForkedError(f"{self.directory} {reason}")
        return ClosedError(f"{self.directory} is closed")

    def pin_current(self) -> tuple[SuperVersion, Pin]:
        """The present view, and a pin on the last write: a consistent whole."""
        thread = self.entering()
        with self._mutex:
            self._owner = thread
            current = self.require_open()
            return current, self.snapshots.pin(self.last_seq)

    def read_view(self) -> ReadView:
        """The store as it is now, for a reader that keeps its view."""
        thread = self.entering()
        with self._mutex:
            self._owner = thread
            read_view = self.read_views.of(self.require_open(), self.last_seq)
            self._owner = 0
            return read_view

    def read_view_and_floor(self) -> tuple[ReadView, bytes | None]:
        """:meth:`read_view`, and the ``floor`` at that moment."""
        thread = self.entering()
        with self._mutex:
            self._owner = thread
            return self.read_views.of(self.require_open(), self.last_seq), self.floor

    def raise_floor(self, key: bytes, seq: int) -> None:
        """Note that no key below ``key`` had a value at ``seq``, if nothing was written since."""
        thread = self.entering()
        with self._mutex:
            self._owner = thread
            if self.last_seq == seq:
                self.floor = key

    def lower_floor(self, operations: list[Operation]) -> None:
        """Take note of operations that are about to be written (the mutex is held)."""
        for key, value in operations:
            if value is not None and self.floor is not None and key < self.floor:
                self.floor = key

    def read_view_at(self, current: SuperVersion, seq: int) -> ReadView:
        """``current`` as of ``seq``, which is pinned."""
        thread = self.entering()
        with self._mutex:
            self._owner = thread
            return self.read_views.of(current, seq)

    def lookup(self, key: Buffer) -> bytes | None:
        """The present value of ``key``; None when it has none.  Raises as ``DB.get``."""
        current = self.super_version
        if current is None:
            current = self.require_open()  # says why there is none
        return current.get(key_bytes(key), self.stats)

    def lookup_many(self, keys: Iterable[Buffer]) -> list[bytes | None]:
        """The present value of each of ``keys``.  Raises as ``DB.multi_get``."""
        checked = keys_bytes(keys)
        return self.require_open().get_many(checked, self.stats)
