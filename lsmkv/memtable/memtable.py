"""The memtable: the newest writes, by key.

Writes go to a plain ``dict``, which keeps neither order nor old values:

- *Order* is made when a scan asks for it: a sorted list of keys takes in the keys that came since,
  which are the last ones of the dict.
- *Batches* are kept as they came, and put into the dict when a lookup or a single write follows them.
  A flush sorts the batches itself, and keeps the last entry of each key.
- *Old values* are kept only while a reader needs them: before a write replaces what a live snapshot or
  scan sees, the old value goes to ``history``, under the sequence number that replaced it.  A reader
  sees the first of these with a greater number than its own; if there is none, the present value.

The exact sequence number of a value is known only where history has it.  Everywhere else any number
from the memtable's first to the oldest snapshot's orders the entry correctly against every other
entry and every snapshot, and ``entry_seq`` is used.

Range deletes begin a memtable: all of its entries are newer than they.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import chain, islice
from operator import itemgetter
from typing import Final

from mypy_extensions import i64

from lsmkv.encoding.entries import ABSENT, Absent
from lsmkv.encoding.entry_batch import EntryBatch
from lsmkv.encoding.expiry import Held
from lsmkv.encoding.range_deletes import KeyRange, RangeDelete
from lsmkv.memtable.radix_sort import SortedItems

_BATCH_KEYS: Final = 64  # in one batch of a flush
_FEWEST_KEPT: Final = 16  # operations; a smaller write batch takes less memory in the dict
_FEWEST_FRESH: Final = 256  # new keys to gather before they join the long list
_FRESH_DIVISOR: Final = 64  # or a 64th of that list, if that is more
_SEQ: Final = itemgetter(0)


class SortedKeys:
    """Distinct keys in order.  Not thread-safe.

    New keys go into a short sorted list, which is merged into the long one when it has grown to a 64th
    of it.  ``sortedcontainers.SortedList.irange`` takes 5 to 10 microseconds to begin, more than a seek.
    """

    def __init__(self) -> None:
        self._settled: list[bytes] = []
        self._fresh: list[bytes] = []

    def __len__(self) -> int:
        return len(self._settled) + len(self._fresh)

    def update(self, keys: list[bytes]) -> None:
        """Add keys that are not here yet, the last one first; an interrupt may leave some out.

        O(n / 64 + log n) for one among n, amortised.
        """
        most = max(_FEWEST_FRESH, len(self._settled) // _FRESH_DIVISOR)
        if len(self._fresh) + len(keys) <= most:
            for key in reversed(keys):
                insort(self._fresh, key)
        else:
            settled = [*self._settled, *self._fresh, *keys]
            settled.sort()
            fresh: list[bytes] = []
            self._settled, self._fresh = settled, fresh

    def above(self, low: bytes | None, included: bool, count: i64) -> list[bytes]:
        """The first ``count`` keys above ``low``, or from it on, ascending."""
        settled = _above(self._settled, low, included, count)
        fresh = _above(self._fresh, low, included, count)
        return sorted(settled + fresh)[:count] if fresh else settled

    def below(self, high: bytes | None, count: i64) -> list[bytes]:
        """The last ``count`` keys below ``high``, descending."""
        settled = _below(self._settled, high, count)
        fresh = _below(self._fresh, high, count)
        return sorted(settled + fresh, reverse=True)[:count] if fresh else settled


def _above(keys: list[bytes], low: bytes | None, included: bool, count: i64) -> list[bytes]:
    start: i64 = 0
    if low is not None:
        start = bisect_left(keys, low) if included else bisect_right(keys, low)
    return keys[start : start + count]


def _below(keys: list[bytes], high: bytes | None, count: i64) -> list[bytes]:
    end: i64 = len(keys) if high is None else bisect_left(keys, high)
    start = max(0, end - count)
    found = keys[start:end]
    found.reverse()
    return found


class Memtable:
    """The newest value of each key.

    One writer at a time (the caller's lock); any number of readers.  A write that an interrupt cut short
    may be done again, to the same effect.
    """

    def __init__(self, first_seq: int, log_number: int) -> None:
        # Keys and values of the newest write batches, in order, that are not in the dict yet.
        self.batches: list[tuple[list[bytes], list[Held]]] = []
        self._live: dict[bytes, Held] = {}  # newest value of each key
        # Sequence number of the first write it can hold.
        # A number that none of its entries is below, and none of its range deletes above.
        self.first_seq = self.entry_seq = first_seq
        # Those that came before all of its entries.
        self.range_deletes: tuple[RangeDelete, ...] = ()
        self.log_number = log_number  # the log that holds the same writes
        self.log_bytes = 0  # about how long that log is, and so how much memory this takes
        self._history: dict[bytes, list[tuple[int, Held | Absent]]] = {}
        self._sorted_keys = SortedKeys()
        self._lock = threading.RLock()  # held while batches move into the dict, or keys are sorted
        self._is_moving = False  # whether one of these is under way

    def __len__(self) -> int:
        self._take_in_batches()
        return len(self._live)

    @property
    def is_empty(self) -> bool:
        return not self.batches and not self._live  # in this order: they move from one to the other

    @property
    def key_count_bound(self) -> int:
        """An upper bound of the number of keys; keys in batches may repeat."""
        return len(self._live) + sum([len(keys) for keys, _ in self.batches.copy()])

    def begin_with(self, ranges: list[KeyRange], seq: int) -> None:
        """Hold range deletes numbered ``seq``; there are no entries yet."""
        self.range_deletes += tuple([(start, stop, seq) for start, stop in ranges])
        self.entry_seq = seq

    def prepare(self, count: int, keep_old: bool) -> None:
        """Make way for a write of ``count`` operations; may take long, or be interrupted."""
        if self.batches and (keep_old or count < _FEWEST_KEPT):
            self._take_in_batches()

    def put(self, key: bytes, value: Held, seq: int, keep_old: bool) -> None:
        """Set ``key``; with ``keep_old`` the old value stays readable."""
        if self.batches:
            self._take_in_batches()
        if keep_old:
            self._keep_old(key, seq)
        self._live[key] = value

    def _keep_old(self, key: bytes, seq: int) -> None:
        """Keep what the write ``seq`` replaces, unless it is kept already."""
        replaced = self._history.setdefault(key, [])
        if not replaced or replaced[-1][0] != seq:
            replaced.append((seq, self._live.get(key, ABSENT)))

    def put_all(self, operations: list[tuple[bytes, Held]], seq: int, keep_old: bool) -> None:
        """Set many keys in one step, from ``seq`` on: a ``get`` sees all of them or none.

        No snapshot is inside a write batch, so ``seq`` stands for all of its numbers.
        """
        if not keep_old and len(operations) >= _FEWEST_KEPT:
            keys = [key for key, _ in operations]
            values = [value for _, value in operations]
            self.batches.append((keys, values))  # one uninterrupted call
            return
        self.prepare(len(operations), keep_old)
        if keep_old:
            for key in dict(operations):
                self._keep_old(key, seq)
        self._live.update(operations)  # one uninterrupted call

    def _take_in_batches(self) -> None:
        """Put the batches into the dict.

        As long as one is left, readers and the writer come here first, and wait: so none sees a part
        of a batch, nor an older write after a newer one.  Where time counts they look for one before.
        """
        if not self.batches:
            return
        with self._lock:
            self._refuse_own_lock()
            try:
                self._is_moving = True
                count = len(self.batches)
                for number in range(count):
                    keys, values = self.batches[number]
                    self._live.update(zip(keys, values, strict=True))
                    if number + 1 < count:
                        time.sleep(0)  # lets other threads run
                del self.batches[:count]
            finally:
                self._is_moving = False

    def _refuse_own_lock(self) -> None:
        """Raise if this thread had the lock before, in a finalizer, say."""
        if self._is_moving:
            raise RuntimeError(
                "this thread is already inside a call on the store: a finalizer, signal handler or "
                "trace function came in between, and must leave its work for later"
            )

    def with_newer(self, newer: Memtable) -> Memtable:
        """A memtable of both, which have no history; the newer one has no range deletes."""
        merged = Memtable(self.first_seq, newer.log_number)
        merged.range_deletes, merged.entry_seq = self.range_deletes, self.entry_seq
        self._take_in_batches()
        newer._take_in_batches()
        merged._live = {**self._live, **newer._live}
        merged.log_bytes = self.log_bytes + newer.log_bytes
        return merged

    def get(self, key: bytes) -> Held | Absent:
        """The newest value; None for a deletion, ABSENT when there is no entry."""
        if self.batches:
            self._take_in_batches()
        return self._live.get(key, ABSENT)

    def get_at(self, key: bytes, seq: int) -> Held | Absent:
        """The value as of sequence number ``seq``."""
        # The value is read first: a later write has put what it replaced into history.
        value = self.get(key)
        replaced = self._history.get(key)
        if replaced and replaced[-1][0] > seq:
            return replaced[bisect_right(replaced, seq, key=_SEQ)][1]
        return value

    def newest(self) -> list[tuple[bytes, Held]]:
        """Each key with its newest value, in the order of first writes."""
        self._take_in_batches()
        return list(self._live.items())

    def written_keys(self) -> list[bytes]:
        """Every key, in no order; those in batches may repeat."""
        batches = self.batches.copy()  # before the dict: they move from one to the other
        keys = list(self._live)
        for some, _ in batches:
            keys += some
        return keys

    def keys_beyond(
        self, border: bytes | None, included: bool, count: int, reverse: bool
    ) -> list[bytes]:
        """The next ``count`` keys, also deleted ones, while writes may go on.

        They ascend from above ``border``, or from it on if ``included``.  If ``reverse``, they descend
        from below it.
        """
        if self.batches:
            self._take_in_batches()
        with self._lock:
            self._refuse_own_lock()
            try:
                self._is_moving = True
                self._sort_new_keys()
                if reverse:
                    return self._sorted_keys.below(border, count)
                return self._sorted_keys.above(border, included, count)
            finally:
                self._is_moving = False

    def _sort_new_keys(self) -> None:
        known = len(self._sorted_keys)
        while len(self._live) > known:
            # The iterator is made before the keys are counted, so that a write which comes in
            # between is an error and not a key left out.  list() itself is never interrupted.
            newest_first = reversed(self._live)
            try:
                fresh = list(islice(newest_first, len(self._live) - known))
            except RuntimeError:  # the dict grew: look again
                continue
            self._sorted_keys.update(fresh)
            return

    def entry_batches(self) -> Iterator[EntryBatch]:
        """Every entry, in key order and newest first; the memtable must be sealed."""
        if self._history:
            self._take_in_batches()
            keys = sorted(self._live)
            for start in range(0, len(keys), _BATCH_KEYS):
                yield self._with_history(keys[start : start + _BATCH_KEYS])
            return
        yield from self._sorted_items().batches(_BATCH_KEYS, self.entry_seq)

    def _sorted_items(self) -> SortedItems:
        with self._lock:  # a reader may be moving the batches into the dict
            batches = [] if self._live else self.batches.copy()
        if batches:
            each_key = chain.from_iterable([keys for keys, _ in batches])
            return SortedItems(each_key, chain.from_iterable([values for _, values in batches]))
        self._take_in_batches()
        return SortedItems(self._live, self._live.values())

    def _with_history(self, keys: list[bytes]) -> EntryBatch:
        found_keys: list[bytes] = []
        values: list[Held] = []
        seqs: list[int] = []
        for key in keys:
            value: Held | Absent = self._live[key]
            for replaced_by, old in reversed(self._history.get(key, ())):
                assert not isinstance(value, Absent)
                found_keys.append(key)
                values.append(value)
                seqs.append(replaced_by)
                value = old
            if not isinstance(value, Absent):
                found_keys.append(key)
                values.append(value)
                seqs.append(self.entry_seq)
        return EntryBatch.of(found_keys, values, seqs, may_repeat=True)

    @property
    def has_history(self) -> bool:
        return bool(self._history)

    def key_counts(self) -> tuple[int, int]:
        """How many keys have a value, and how many are deleted.  O(n)."""
        self._take_in_batches()
        values = list(self._live.values())
        deleted = values.count(None)
        return len(values) - deleted, deleted

    @property
    def history_count(self) -> int:
        """How many old values are kept for readers."""
        return sum(map(len, list(self._history.values())))
