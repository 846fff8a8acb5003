"""Moments: what a reader of one consistent state goes by, and how long writes keep that for it."""

from __future__ import annotations

from collections.abc import Callable
from weakref import ref

from lsmkv.memtable import Memtable
from lsmkv.pins import Hold, Pins
from lsmkv.stats import Stats
from lsmkv.version import Value, Version, View, value_at


class Moment:
    """The store as it was after one write.

    Attributes:
        memtables: newest first; one that was empty may be left out.
        seq: number of that write.
        hold: referred to as long as what it shows may be asked for; None when nothing need be kept.
    """

    def __init__(
        self, memtables: tuple[Memtable, ...], version: Version, seq: int, hold: Hold | None
    ) -> None:
        self.memtables = memtables
        self.version = version
        self.seq = seq
        self.hold = hold

    def get(self, key: bytes, stats: Stats) -> Value:
        """The value that ``key`` had; None when it had none."""
        return value_at(self.memtables, self.version, key, self.seq, stats)


class Moments:
    """Makes moments, and knows whether any of them, or a pin, is left.  Under the engine's mutex."""

    def __init__(self, pins: Pins) -> None:
        self._pinned = pins.live
        self._held: Callable[[], Hold | None] = ref(Hold())  # of nobody

    def of(self, view: View, seq: int) -> Moment:
        """``view`` as of ``seq``, which is the present or pinned; it stays readable on its own."""
        if view.memtable.is_empty:  # what comes into it comes too late
            return Moment(view.flushing, view.version, seq, None)
        hold = self._held()
        if hold is None:
            hold = Hold()
            self._held = ref(hold)
        return Moment(view.memtables, view.version, seq, hold)

    def are_left(self) -> bool:
        """Whether what a write replaces may still be asked for."""
        return bool(self._pinned) or self._held() is not None
