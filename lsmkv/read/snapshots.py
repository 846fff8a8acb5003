"""Pinned sequence numbers, and who needs old values in the memtable.

Flushes and compactions keep the entries that a snapshot sees.  A scan keeps its own tables and
memtables alive; only the live memtable must keep the values that writes replace.  For that, all scans
share one :class:`Retention`.
"""

from __future__ import annotations

from functools import partial
from itertools import count

from lsmkv.encoding.expiry import Moment
from lsmkv.runtime import Finalizer


class Retention:
    """While anything refers to it, the live memtable keeps old values."""

    __slots__ = ("__weakref__",)


class SnapshotList:
    """The pins of all live snapshots: ``live`` has sequence number and time by pin.

    The garbage collector may release a pin in the middle of anything, so this takes no lock: each step
    is one operation on a dict, atomic under the GIL.
    """

    def __init__(self) -> None:
        self.live: dict[int, tuple[int, int]] = {}
        self._numbers = count()

    def pin(self, seq: int, moment: Moment) -> Pin:
        """Keep what a reader as of ``seq`` sees at ``moment``."""
        return Pin(self.live, next(self._numbers), seq, moment)

    def sequence_numbers(self) -> list[int]:
        """The pinned sequence numbers, ascending, each once."""
        return sorted({seq for seq, _ in self.live.copy().values()})  # dict.copy() is atomic

    def due_s(self, now_s: int) -> int:
        """By which time entries are due for all, if it is ``now_s``."""
        return min([now_s, *[at_s for _, at_s in self.live.copy().values()]])


class Pin(Finalizer):
    """Keeps what is seen as of ``seq`` at ``moment``, until released."""

    __slots__ = ("_live", "_number", "moment", "seq")

    def __init__(
        self, live: dict[int, tuple[int, int]], number: int, seq: int, moment: Moment
    ) -> None:
        super().__init__(partial(live.pop, number, None))
        self._live = live
        self._number = number
        self.seq = seq
        self.moment = moment
        live[number] = seq, moment.now_s()

    def release(self) -> None:
        self._live.pop(self._number, None)
