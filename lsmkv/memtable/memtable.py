"""The memtable: the newest writes, by key.

Writes go to a plain ``dict``, which keeps no order and no versions, because neither a put nor a
get needs them:

- *Order* is made when a scan asks for it: a sorted list of the keys that is brought up to date with
  the keys that came since (they stand last in the dict).
- *Batches* are kept as they came, and put into the dict when a key is asked for or a single write
  comes after them: looking for the place of a key among half a million waits for memory twice.  Those
  that nobody asked for until the flush, as in most loads, are never put there; the flush sorts them
  anyway, and leaves of each key the last.
- *Versions* are kept only while a snapshot needs them: before a write replaces what a live snapshot
  sees, the old value goes to ``history``, under the sequence number that replaced it.  A snapshot
  sees the first of these with a greater number than its own; if there is none, the present value.

The exact sequence number of a value is known only where history tells it.  Everywhere else any
number from the memtable's first to the oldest snapshot's orders it correctly against every other
version and every snapshot, and ``first_seq`` is used.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import chain, islice
from typing import Final

from lsmkv.encoding.entries import ABSENT, Absent, Value
from lsmkv.encoding.entry_batch import EntryBatch, a_stretch
from lsmkv.memtable.ordered import SortedKeys
from lsmkv.memtable.radix_sort import SortedItems

_STRETCH_KEYS: Final = 64  # keys whose versions are handed over at a time
_FEWEST_KEPT: Final = 16  # operations of a batch, which take less memory so than in the dict


class Memtable:
    """Newest value by key.  One writer at a time (the caller's lock); any number of readers.

    Attributes:
        batches: keys and values of the newest batches, in order, that are not in the dict yet.
        first_seq: sequence number of the first write it can hold.
        log_number: the log that holds the same writes.
        log_bytes: how long that log was when it was last looked at: about the memory taken.
    """

    def __init__(self, first_seq: int, log_number: int) -> None:
        self.batches: list[tuple[list[bytes], list[Value]]] = []
        self._live: dict[bytes, Value] = {}  # newest value of each key; None is a deletion
        self.first_seq = first_seq
        self.log_number = log_number
        self.log_bytes = 0
        self._history: dict[bytes, list[tuple[int, Value | Absent]]] = {}
        self._ordered = SortedKeys()
        self._lock = threading.RLock()  # held to put batches into the dict, and to order keys
        self._is_moving = False  # whether that is being done

    def __len__(self) -> int:
        """How many keys it has: O(1), after the batches that came since the last answer."""
        if self.batches:
            self._take_in_batches()
        return len(self._live)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written yet."""
        return not self.batches and not self._live  # in this order: they move from one to the other

    @property
    def key_count_bound(self) -> int:
        """How many keys it has; more, where keys of batches that are not in the dict repeat."""
        return len(self._live) + sum([len(keys) for keys, _ in self.batches.copy()])

    def prepare(self, count: int, keep_old: bool) -> None:
        """Do what a write of ``count`` operations needs first: it may take long, and be interrupted."""
        if self.batches and (keep_old or count < _FEWEST_KEPT):
            self._take_in_batches()

    def put(self, key: bytes, value: Value, seq: int, keep_old: bool) -> None:
        """Set ``key``; with ``keep_old`` a snapshot is live, and what it sees is kept.

        Doing it again, after an interrupt, comes to the same.
        """
        if self.batches:
            self._take_in_batches()
        if keep_old:
            self._keep_old(key, seq)
        self._live[key] = value

    def _keep_old(self, key: bytes, seq: int) -> None:
        """Have the history tell what the write ``seq`` replaces, if it does not yet."""
        versions = self._history.setdefault(key, [])
        if not versions or versions[-1][0] != seq:
            versions.append((seq, self._live.get(key, ABSENT)))

    def put_all(self, operations: list[tuple[bytes, Value]], seq: int, keep_old: bool) -> None:
        """Set many keys in one step, from ``seq`` on: a ``get`` sees all of them or none.

        No snapshot lies inside a batch, so ``seq`` may stand for all of its numbers.  Doing it again,
        after an interrupt, comes to the same.
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
        of a batch, nor a write that is older than one that was seen.  Beginning anew after an
        interrupt comes to the same.
        """
        with self._lock:
            self._refuse_own_lock()
            try:
                self._is_moving = True
                count = len(self.batches)
                for number in range(count):
                    keys, values = self.batches[number]
                    self._live.update(zip(keys, values, strict=True))
                    if number + 1 < count:
                        time.sleep(0)  # other threads' turn
                del self.batches[:count]
            finally:
                self._is_moving = False

    def _refuse_own_lock(self) -> None:
        """Raise if this thread, which has the lock, had it before: in a finalizer, say."""
        if self._is_moving:
            raise RuntimeError(
                "the store is being used by this very thread, further up: a finalizer, signal handler "
                "or trace function came in between, and must leave what it does for later"
            )

    def get(self, key: bytes) -> Value | Absent:
        """The newest value; None for a deletion, ABSENT when this memtable knows nothing."""
        if self.batches:
            self._take_in_batches()
        return self._live.get(key, ABSENT)

    def get_at(self, key: bytes, seq: int) -> Value | Absent:
        """The value as of sequence number ``seq``."""
        # The value is taken first: a write after that has put what it replaced into history.
        value = self.get(key)
        versions = self._history.get(key)
        if versions is not None:
            for replaced_by, old in versions:
                if replaced_by > seq:
                    return old
        return value

    def keys_above(self, low: bytes | None, included: bool, count: int) -> list[bytes]:
        """The first ``count`` keys above ``low`` (or from it on, if ``included``), ascending.

        Keys whose value is a deletion are among them.  Writes may go on meanwhile.
        """
        if self.batches:
            self._take_in_batches()
        with self._lock:
            self._refuse_own_lock()
            try:
                self._is_moving = True
                self._refresh_order()
                return self._ordered.above(low, included, count)
            finally:
                self._is_moving = False

    def keys_below(self, high: bytes | None, count: int) -> list[bytes]:
        """The last ``count`` keys below ``high``, descending; as :meth:`keys_above`."""
        if self.batches:
            self._take_in_batches()
        with self._lock:
            self._refuse_own_lock()
            try:
                self._is_moving = True
                self._refresh_order()
                return self._ordered.below(high, count)
            finally:
                self._is_moving = False

    def _refresh_order(self) -> None:
        """Take in the keys that came since."""
        known = len(self._ordered)
        while len(self._live) > known:
            # The iterator is made before the keys are counted, so that a write which comes in
            # between is an error and not a key left out.  list() itself is never interrupted.
            newest_first = reversed(self._live)
            try:
                fresh = list(islice(newest_first, len(self._live) - known))
            except RuntimeError:  # the dict grew: look again
                continue
            self._ordered.update(fresh)
            return

    def versions(self) -> Iterator[EntryBatch]:
        """Every version, in key order and newest first, all of a key in one stretch.

        The memtable must be written to no more.
        """
        if self._history:
            if self.batches:
                self._take_in_batches()
            keys = sorted(self._live)
            for start in range(0, len(keys), _STRETCH_KEYS):
                yield self._with_history(keys[start : start + _STRETCH_KEYS])
            return
        items = self._sorted_items()
        start = 0
        while start < items.count:
            keys, values = items.stretch(start, start + _STRETCH_KEYS)
            taken = a_stretch(values)
            start += len(taken)
            keys = keys[: len(taken)]
            yield EntryBatch(keys, taken, [], may_repeat=False, one_seq=self.first_seq)

    def _sorted_items(self) -> SortedItems:
        with self._lock:  # a reader may want the batches in the dict meanwhile
            batches = [] if self._live else self.batches.copy()
        if batches:
            each_key = chain.from_iterable([keys for keys, _ in batches])
            return SortedItems(each_key, chain.from_iterable([values for _, values in batches]))
        if self.batches:
            self._take_in_batches()
        return SortedItems(self._live, self._live.values())

    def _with_history(self, keys: list[bytes]) -> EntryBatch:
        """The versions of ``keys``, which ascend."""
        found_keys: list[bytes] = []
        values: list[Value] = []
        seqs: list[int] = []
        for key in keys:
            value: Value | Absent = self._live[key]
            for replaced_by, old in reversed(self._history.get(key, ())):
                assert not isinstance(value, Absent)
                found_keys.append(key)
                values.append(value)
                seqs.append(replaced_by)
                value = old
            if not isinstance(value, Absent):
                found_keys.append(key)
                values.append(value)
                seqs.append(self.first_seq)
        return EntryBatch(found_keys, values, seqs, may_repeat=True)

    @property
    def has_history(self) -> bool:
        """Whether a write came while something had pinned what was there before."""
        return bool(self._history)

    def key_counts(self) -> tuple[int, int]:
        """How many keys have a value, and how many are deleted.  O(n)."""
        if self.batches:
            self._take_in_batches()
        values = list(self._live.values())
        deleted = values.count(None)
        return len(values) - deleted, deleted

    @property
    def history_count(self) -> int:
        """Old versions kept for snapshots."""
        return sum(map(len, list(self._history.values())))
