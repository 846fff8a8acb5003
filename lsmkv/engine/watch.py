"""Watches: a write that depends on what was read, without a lock in between.

Whoever reads and then writes watches the keys first.  Every write tells each watch its key, under the
mutex.  The write that depends on the reading is done only if its watch admits it: if nothing else was
written there meanwhile.  Otherwise one reads again.  So of two threads that read the same, one writes.
"""

from __future__ import annotations

from lsmkv.encoding.expiry import Held


class Watch:
    """Watches the keys from ``start`` on.  Its methods are called with the mutex held.

    ``lowest``: the lowest of them that was written since :meth:`begin`.
    """

    def __init__(self, watches: Watches, start: bytes) -> None:
        self._watches = watches
        self.start = start
        self.lowest: bytes | None = None

    def begin(self) -> None:
        """Begin, or begin anew: what is read from now on shows every write before."""
        self.lowest = None
        self._watches.add(self)

    def note(self, key: bytes, value: Held) -> None:
        """A write of ``key`` begins; None removes it."""
        if self.start <= key and (self.lowest is None or key < self.lowest):
            self.lowest = key

    def note_all(self) -> None:
        """Any key may be written."""
        self.lowest = self.start

    def admits(self, key: bytes) -> bool:
        """Whether nothing was written from ``start`` up to ``key``."""
        return self.lowest is None or key < self.lowest


class Watches:
    """The watches of a store.  Its methods are called with the mutex held."""

    def __init__(self) -> None:
        self.exist = False  # whether there may be any; it is all that most writes ask
        # Those that are told.  Whoever begins one does so in a ``try``, whose ``finally`` starts with
        # ``active.pop(watch, None)``: no interrupt comes before a call of a C function.
        self.active: dict[Watch, None] = {}

    def add(self, watch: Watch) -> None:
        self.active[watch] = None
        self.exist = True

    def note(self, key: bytes, value: Held) -> None:
        active = self.active.copy()
        for watch in active:
            watch.note(key, value)
        if not active:
            self.exist = False

    def note_range(self, start: bytes, stop: bytes | None) -> None:
        """Tell every watch that all keys of a range are removed."""
        for watch in self.active.copy():
            if stop is None or watch.start < stop:
                watch.note(max(start, watch.start), None)

    def note_all(self) -> None:
        for watch in self.active.copy():
            watch.note_all()
