"""Consistent read views of a store, and lookups in them."""

from __future__ import annotations

import time
from abc import abstractmethod
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

_LOOKUPS_TOGETHER: Final = 64  # keys looked up side by side; as many blocks may be held at once
_REMOTE_LOOKUPS_TOGETHER: Final = 512  # whose blocks are asked for at once
_OWNER_CHECKS: Final = 4
_OWNER_CHECK_S: Final = 0.01


class SuperVersion:
    """One consistent set of memtables and tables; ``flushing`` is newest first."""

    def __init__(
        self, memtable: Memtable, flushing: tuple[Memtable, ...], version: Version
    ) -> None:
        self.memtable = memtable
        self.flushing = flushing
        self.version = version

    @property
    def memtables(self) -> tuple[Memtable, ...]:
        return (self.memtable, *self.flushing)

    def get(self, key: bytes, stats: Stats) -> Value:
        """The present value of ``key``; None when it has none."""
        stats.gets += 1
        found = self._get_in_memory(key)
        if isinstance(found, Absent):
            value = self.version.get(key, hash_key(key), MAX_SEQUENCE, stats)
            if value is not None:
                stats.get_hits += 1
            return value
        stats.memtable_hits += 1
        if found is not None:
            stats.get_hits += 1
        return found

    def _get_in_memory(self, key: bytes) -> Value | Absent:
        if not self.memtable.is_empty:  # an empty one is not worth hashing the key
            found = self.memtable.get(key)
            if not isinstance(found, Absent):
                return found
        for memtable in self.flushing:
            found = memtable.get(key)
            if not isinstance(found, Absent):
                return found
        return ABSENT

    def get_many(self, keys: list[bytes], stats: Stats) -> list[Value]:
        """The present value of each of ``keys``; None where there is none."""
        found: list[Value] = []
        together = _REMOTE_LOOKUPS_TOGETHER if self.version.is_remote else _LOOKUPS_TOGETHER
        for start in range(0, len(keys), together):
            end = start + together
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
            known = self._get_in_memory(key)
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

    def get_at(self, key: bytes, seq: int, stats: Stats) -> Value:
        """The value as of ``seq``, which is pinned."""
        return value_at(self.memtables, self.version, key, seq, stats)


def value_at(
    memtables: tuple[Memtable, ...], version: Version, key: bytes, seq: int, stats: Stats
) -> Value:
    """The value that ``key`` had as of ``seq``, which is still readable."""
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
    """The store as it was after the write ``seq``.

    ``memtables`` are newest first, without a live one that was empty.  ``retention``, if needed, makes
    the live one keep old values while this view exists.
    """

    def __init__(
        self,
        memtables: tuple[Memtable, ...],
        version: Version,
        seq: int,
        retention: Retention | None,
    ) -> None:
        self.memtables = memtables
        self.version = version
        self.seq = seq
        self.retention = retention

    def get(self, key: bytes, stats: Stats) -> Value:
        return value_at(self.memtables, self.version, key, self.seq, stats)


class ReadState:
    """The current super version, and what readers of a store share.

    It and its heirs are abstract but for the last, so that compiled code checks an engine's type by one
    comparison.

    Attributes:
        super_version: the current one; None once the store is closed, or in a forked child.
        forked: whether this process is a fork of the one that opened the store.
        floor: no key below it has a value; None when nothing is known.
        popping: a lock, held while the first entry is found and removed.
    """

    def __init__(self, stats: Stats, directory: str) -> None:
        self.stats = stats
        self.directory = directory
        self.super_version: SuperVersion | None = None
        self.last_seq = 0
        self.snapshots = SnapshotList()
        self._live_snapshots = self.snapshots.live  # read by each write, and faster from here
        self._retention: Callable[[], Retention | None] = ref(Retention())  # dead already
        self.forked = False
        self.fork_advice = "was opened before the process forked; open it anew in the child"
        self.floor: bytes | None = None
        self.popping = Lock()
        self._mutex = Lock()
        self._owner = 0  # the last thread that took the mutex; 0 where it cleared this itself
        self._get_ident = get_ident  # an attribute is found faster than a module's name

    def lookup(self, key: Buffer) -> bytes | None:
        """The present value of ``key``.  Raises as ``DB.get``."""
        current = self.super_version
        if current is None:
            current = self.require_open()  # raises the right error
        return current.get(key_bytes(key), self.stats)

    def lookup_many(self, keys: Iterable[Buffer]) -> list[bytes | None]:
        """The present values of ``keys``.  Raises as ``DB.multi_get``."""
        checked = keys_bytes(keys)
        return self.require_open().get_many(checked, self.stats)

    def require_open(self) -> SuperVersion:
        """The current super version; ClosedError or ForkedError without one."""
        current = self.super_version
        if current is None:
            current = self.open_on_use()
        return current

    @abstractmethod
    def open_on_use(self) -> SuperVersion:
        """Open a store that was left to its first use; raise that any other is ``unusable``."""

    def unusable(self) -> Error:
        """Why there is no super version: a new exception for each caller."""
        if self.forked:
            return ForkedError(f"{self.directory} {self.fork_advice}")
        return ClosedError(f"{self.directory} is closed")

    def entering(self) -> int:
        """The present thread, to become the mutex's ``_owner``.

        It is asked first, so that nothing runs between taking the mutex and setting the owner.
        RuntimeError if the thread holds the mutex already, and would wait for itself.
        """
        thread = self._get_ident()
        if self._owner == thread and self._mutex.locked():
            self._refuse_own_lock(thread)
        return thread

    def _refuse_own_lock(self, thread: int) -> None:
        """Raise if ``thread`` holds the mutex: a finalizer or signal handler runs."""
        for _ in range(_OWNER_CHECKS):  # another thread may hold it, and not be its owner yet
            if not self._mutex.locked() or self._owner != thread:
                return
            time.sleep(_OWNER_CHECK_S)
        raise RuntimeError(
            f"this thread is already inside a call on {self.directory}: a finalizer, signal handler "
            "or trace function may only look keys up, and must leave everything else for later"
        )

    def pin_current(self) -> tuple[SuperVersion, Pin]:
        """The current super version, and a pin on the last write."""
        if self.super_version is None:
            self.require_open()  # before the mutex, which an opening takes
        thread = self.entering()
        with self._mutex:
            self._owner = thread
            current = self.require_open()
            return current, self.snapshots.pin(self.last_seq)

    def read_view(self) -> ReadView:
        thread = self.entering()
        with self._mutex:
            self._owner = thread
            read_view = self._view_of(self.require_open(), self.last_seq)
            self._owner = 0
            return read_view

    def read_view_on_use(self) -> ReadView:
        """:meth:`read_view` of a store that may be left to its first use."""
        self.require_open()
        return self.read_view()

    def read_view_at(self, current: SuperVersion, seq: int) -> ReadView:
        """``current`` as of ``seq``, which is pinned."""
        thread = self.entering()
        with self._mutex:
            self._owner = thread
            return self._view_of(current, seq)

    def read_view_and_floor(self) -> tuple[ReadView, bytes | None]:
        """:meth:`read_view`, and the ``floor`` at that moment."""
        thread = self.entering()
        with self._mutex:
            self._owner = thread
            return self._view_of(self.require_open(), self.last_seq), self.floor

    def _view_of(self, current: SuperVersion, seq: int) -> ReadView:
        """``current`` as of ``seq`` (the mutex is held)."""
        if current.memtable.is_empty:  # all that it will hold is newer than the view
            return ReadView(current.flushing, current.version, seq, None)
        retention = self._retention()
        if retention is None:
            retention = Retention()
            self._retention = ref(retention)
        return ReadView(current.memtables, current.version, seq, retention)

    def needs_old_values(self) -> bool:
        """Whether writes must keep what they replace (the mutex is held)."""
        return bool(self._live_snapshots) or self._retention() is not None

    def raise_floor(self, key: bytes, seq: int) -> None:
        """Note that no key below ``key`` had a value at ``seq``.  Ignored after a later write."""
        thread = self.entering()
        with self._mutex:
            self._owner = thread
            if self.last_seq == seq:
                self.floor = key

    def lower_floor(self, operations: list[Operation]) -> None:
        """Lower the floor to a write's keys (the mutex is held)."""
        for key, value in operations:
            if value is not None and self.floor is not None and key < self.floor:
                self.floor = key
