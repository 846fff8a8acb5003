"""The memtable: the newest writes, by key; the only user of ``sortedcontainers``.

Writes go to a plain ``dict``, which keeps no order and no versions, because neither a put nor a
get needs them:

- *Order* is made when a scan asks for it: a sorted list of the keys that is brought up to date with
  the keys that came since (they stand last in the dict).
- *Versions* are kept only while a snapshot needs them: before a write replaces what a live snapshot
  sees, the old value goes to ``history``, under the sequence number that replaced it.  A snapshot
  sees the first of these with a greater number than its own; if there is none, the present value.

The exact sequence number of a value is known only where history tells it.  Everywhere else any
number from the memtable's first to the oldest snapshot's orders it correctly against every other
version and every snapshot, and ``first_seq`` is used.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import islice
from typing import Final

from sortedcontainers import SortedList

from lsmkv.sstable.block import ABSENT, Absent
from lsmkv.sstable.columns import Versions

Value = bytes | None  # None is a deletion
_SCAN_KEYS: Final = 256  # keys a scan takes from the sorted list at a time
_STRETCH_KEYS: Final = 64  # keys whose versions are handed over at a time


class Memtable:
    """Newest value by key.  One writer at a time (the caller's lock); any number of readers.

    Attributes:
        live: newest value of each key; None is a deletion.
        first_seq: sequence number of the first write it can hold.
        log_number: the log that holds the same writes.
        log_bytes: how long that log was when it was last looked at: about the memory taken.
    """

    def __init__(self, first_seq: int, log_number: int) -> None:
        self.live: dict[bytes, Value] = {}
        self.first_seq = first_seq
        self.log_number = log_number
        self.log_bytes = 0
        self._history: dict[bytes, list[tuple[int, Value | Absent]]] = {}
        self._ordered: SortedList[bytes] = SortedList()
        self._order_lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.live)

    def put(self, key: bytes, value: Value, seq: int, keep_old: bool) -> None:
        """Set ``key``; with ``keep_old`` a snapshot is live, and what it sees is kept."""
        if keep_old:
            self._history.setdefault(key, []).append((seq, self.live.get(key, ABSENT)))
        self.live[key] = value

    def put_all(self, operations: list[tuple[bytes, Value]], seq: int, keep_old: bool) -> None:
        """Set many keys in one step, from ``seq`` on: a ``get`` sees all of them or none.

        No snapshot lies inside a batch, so ``seq`` may stand for all of its numbers.
        """
        if keep_old:
            for key in dict(operations):
                self._history.setdefault(key, []).append((seq, self.live.get(key, ABSENT)))
        self.live.update(operations)  # one uninterrupted call

    def get(self, key: bytes) -> Value | Absent:
        """The newest value; None for a deletion, ABSENT when this memtable knows nothing."""
        return self.live.get(key, ABSENT)

    def get_at(self, key: bytes, seq: int) -> Value | Absent:
        """The value as of sequence number ``seq``."""
        # The value is taken first: a write after that has put what it replaced into history.
        value = self.live.get(key, ABSENT)
        versions = self._history.get(key)
        if versions is not None:
            for replaced_by, old in versions:
                if replaced_by > seq:
                    return old
        return value

    def scan(
        self, seq: int, start: bytes | None, stop: bytes | None, reverse: bool
    ) -> Iterator[list[tuple[bytes, Value]]]:
        """Entries as of ``seq`` with start <= key < stop, in lists, each in ascending order.

        With ``reverse`` the lists come from the last to the first.  Writes may go on meanwhile.
        """
        low, high, include_low, include_high = start, stop, True, False
        while True:
            with self._order_lock:
                self._refresh_order()
                keys = list(
                    islice(
                        self._ordered.irange(low, high, (include_low, include_high), reverse),
                        _SCAN_KEYS,
                    )
                )
            if not keys:
                return
            entries = [
                (key, value)
                for key in (reversed(keys) if reverse else keys)
                if not isinstance(value := self.get_at(key, seq), Absent)
            ]
            if entries:
                yield entries
            if reverse:
                high, include_high = keys[-1], False
            else:
                low, include_low = keys[-1], False

    def _refresh_order(self) -> None:
        """Take the keys that came since into the sorted list.  O(m log n) for m new keys."""
        known = len(self._ordered)
        while len(self.live) > known:
            # The iterator is made before the keys are counted, so that a write which comes in
            # between is an error and not a key left out.  list() itself is never interrupted.
            newest_first = reversed(self.live)
            try:
                fresh = list(islice(newest_first, len(self.live) - known))
            except RuntimeError:  # the dict grew: look again
                continue
            self._ordered.update(fresh)
            return

    def versions(self) -> Iterator[Versions]:
        """Every version, in key order and newest first, all of a key in one stretch.

        The memtable must be written to no more.
        """
        keys = sorted(self.live)
        for start in range(0, len(keys), _STRETCH_KEYS):
            stretch = keys[start : start + _STRETCH_KEYS]
            if self._history:
                yield self._with_history(stretch)
            else:
                values = list(map(self.live.__getitem__, stretch))
                seqs = [self.first_seq] * len(stretch)
                yield Versions(stretch, values, seqs, may_repeat=False)

    def _with_history(self, keys: list[bytes]) -> Versions:
        """The versions of ``keys``, which ascend."""
        found = Versions([], [], [], may_repeat=True)
        for key in keys:
            value: Value | Absent = self.live[key]
            for replaced_by, old in reversed(self._history.get(key, ())):
                assert not isinstance(value, Absent)
                found.extend(Versions([key], [value], [replaced_by], may_repeat=True))
                value = old
            if not isinstance(value, Absent):
                found.extend(Versions([key], [value], [self.first_seq], may_repeat=True))
        return found

    def balance(self) -> int:
        """Keys with a value less keys deleted.  O(n)."""
        values = list(self.live.values())
        return len(values) - 2 * values.count(None)

    @property
    def history_count(self) -> int:
        """Old versions kept for snapshots."""
        return sum(map(len, list(self._history.values())))
