"""Pinned sequence numbers, and who needs old values in the memtable.

Flushes and compactions keep the entries that a snapshot sees.  A scan keeps its own tables and
memtables alive; only the live memtable must keep the values that writes replace.  For that, all scans
share one :class:`Retention`.
"""

from __future__ import annotations

from functools import partial
from itertools import count

from lsmkv.runtime import Finalizer


class Retention:
    """While anything refers to it, the live memtable keeps old values."""

    __slots__ = ("__weakref__",)


class SnapshotList:
    """The pins of all live snapshots: ``live`` has sequence numbers by pin.

    The garbage collector may release a pin in the middle of anything, so this takes no lock: each step
    is one operation on a dict, atomic under the GIL.
    """

    def __init__(self) -> None:
        self.live: dict[int, int] = {}
        self._numbers = count()

    def pin(self, seq: int) -> Pin:
        """Keep what a reader as of ``seq`` sees."""
        return Pin(self.live, next(self._numbers), seq)

    def sequence_numbers(self) -> list[int]:
        """The pinned sequence numbers, ascending, each once."""
        return sorted(set(self.live.copy().values()))  # dict.copy() is atomic


class Pin(Finalizer):
    """Keeps one sequence number readable until it is released or dropped."""

    __slots__ = ("_live", "_number", "seq")

    def __init__(self, live: dict[int, int], number: int, seq: int) -> None:
        super().__init__(partial(live.pop, number, None))
        self._live = live
        self._number = number
        self.seq = seq
        live[number] = seq

    def release(self) -> None:
        self._live.pop(self._number, None)
