"""Pins: what readers of the past still need.

A snapshot reads whatever holds its keys when it is asked, and so pins a sequence number, which flushes
and compactions go by.  A scan has a view of its own, whose tables and memtables nobody takes away from
it; only the memtable that is still written to must go on telling what writes replace.  For that, scans
share a :class:`Retention`, which costs them next to nothing.
"""

from __future__ import annotations

from functools import partial
from itertools import count

from lsmkv.runtime import Finalizer


class Retention:
    """While anybody refers to it, memtables keep what writes replace in them."""

    __slots__ = ("__weakref__",)


class SnapshotList:
    """Every live pin.  Needs no lock: each step is one operation on a dict, atomic under the GIL.

    Attributes:
        live: the sequence number of each pin, by a name of its own.  To be looked at only.

    (A pin can be let go by the garbage collector, in any thread, in the middle of anything; it
    must never wait for a lock.)
    """

    def __init__(self) -> None:
        self.live: dict[int, int] = {}
        self._names = count()

    def pin(self, seq: int) -> Pin:
        """Keep what a reader as of ``seq`` sees, until the pin is released."""
        return Pin(self.live, next(self._names), seq)

    def sequence_numbers(self) -> list[int]:
        """The pinned sequence numbers, ascending, each once."""
        return sorted(set(self.live.copy().values()))  # dict.copy() is atomic


class Pin(Finalizer):
    """One reader's claim on the past: released by ``release`` or with its last reference."""

    __slots__ = ("_live", "_name", "seq")

    def __init__(self, live: dict[int, int], name: int, seq: int) -> None:
        super().__init__(partial(live.pop, name, None))
        self._live = live
        self._name = name
        self.seq = seq
        live[name] = seq

    def release(self) -> None:
        """Let go; a second call does nothing."""
        self._live.pop(self._name, None)
