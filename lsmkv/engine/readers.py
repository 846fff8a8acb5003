"""Lookups in an open store, and its read views."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from weakref import ref

from lsmkv.background.state import StoreState
from lsmkv.encoding.entries import MAX_SEQUENCE, Buffer, key_bytes, keys_bytes
from lsmkv.encoding.expiry import Moment
from lsmkv.read.snapshots import Pin, Retention
from lsmkv.read.view import ReadView, SuperVersion, held_at


class StoreView(ReadView):
    """A read view of an open store; once that is closed, nothing is read."""

    state: StoreState


class Readers:
    """The reading part of an open store."""

    def __init__(self, state: StoreState) -> None:
        self.state = state
        self._clock = state.clock
        self._cache = state.cache
        self._stats = state.stats
        self._live_snapshots = state.snapshots.live  # read by each write, and faster from here
        self._retention: Callable[[], Retention | None] = ref(Retention())  # dead already

    def lookup(self, key: Buffer) -> bytes | None:
        """The present value of ``key``.  Raises as ``DB.get``."""
        current = self.state.super_version
        if current is None:
            current = self.state.require_open()  # raises the right error
        return current.get(key_bytes(key), self._clock, self._cache, self._stats)

    def expires_at(self, key: Buffer) -> int | None:
        """When ``key`` is due.  Raises as ``DB.expires_at``."""
        current = self.state.require_open()
        data, seq = key_bytes(key), MAX_SEQUENCE
        entries = current.memtables, current.version, current.range_deletes
        held = held_at(*entries, data, seq, self._stats)
        return Moment(self._clock).expiry_of(held)

    def lookup_many(self, keys: Iterable[Buffer]) -> list[bytes | None]:
        """The present values of ``keys``.  Raises as ``DB.multi_get``."""
        checked = keys_bytes(keys)
        moment = Moment(self.state.clock)
        # A refresh by another thread may fill the cache with newer entries than this view's.
        cache = None if self.state.read_only else self._cache
        return self.state.require_open().get_many(checked, moment, cache, self._stats)

    def pin_current(self) -> tuple[SuperVersion, Pin]:
        """The current super version, and a pin on the last write."""
        state = self.state
        if state.super_version is None:
            state.require_open()  # before the mutex, which an opening takes
        thread = state.entering()
        with state.mutex:
            state.owner = thread
            current = state.require_open()
            return current, state.snapshots.pin(state.last_seq, Moment(state.clock))

    def read_view(self) -> StoreView:
        """The store as it is now."""
        state = self.state
        if state.super_version is None:
            state.require_open()  # as in pin_current
        thread = state.entering()
        with state.mutex:
            state.owner = thread
            moment = Moment(state.clock)
            read_view = self._view_of(state.require_open(), state.last_seq, moment)
            state.owner = 0
            return read_view

    def read_view_at(self, current: SuperVersion, pin: Pin) -> StoreView:
        """``current`` as the snapshot of ``pin`` sees it."""
        state = self.state
        thread = state.entering()
        with state.mutex:
            state.owner = thread
            return self._view_of(current, pin.seq, pin.moment)

    def _view_of(self, current: SuperVersion, seq: int, moment: Moment) -> StoreView:
        """``current`` as of ``seq`` (the mutex is held)."""
        memtables = current.flushing
        retention: Retention | None = None
        if not current.memtable.is_empty:  # else all that it will hold is newer than the view
            memtables = current.memtables
            retention = self._retention()
            if retention is None:
                retention = Retention()
                self._retention = ref(retention)
        view = StoreView(memtables, current.version, seq, moment, retention, current.range_deletes)
        view.state = self.state
        return view

    def need_old_values(self) -> bool:
        """Whether writes must keep what they replace (the mutex is held)."""
        return bool(self._live_snapshots) or self._retention() is not None
