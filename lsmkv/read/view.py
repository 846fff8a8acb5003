"""Consistent read views of a store, and lookups in them."""

from __future__ import annotations

from librt.vecs import vec
from mypy_extensions import i64

from lsmkv.encoding.entries import ABSENT, MAX_SEQUENCE, Absent, Value
from lsmkv.encoding.range_deletes import RangeDeletes, united
from lsmkv.filters.hashing import hash_key
from lsmkv.memtable.memtable import Memtable
from lsmkv.read.snapshots import Retention
from lsmkv.stats import Stats
from lsmkv.tree.version import Version


class SuperVersion:
    """One consistent set of memtables and tables; ``flushing`` is newest first.

    ``range_deletes`` are those of its memtables and of its version; None without any.
    """

    def __init__(
        self, memtable: Memtable, flushing: tuple[Memtable, ...], version: Version
    ) -> None:
        self.memtable = memtable
        self.flushing = flushing
        self.version = version
        ranges = memtable.range_deletes
        for older in flushing:
            ranges += older.range_deletes
        self.range_deletes = united(version.range_deletes, ranges)

    @property
    def memtables(self) -> tuple[Memtable, ...]:
        return (self.memtable, *self.flushing)

    def get(self, key: bytes, stats: Stats) -> Value:
        """The present value of ``key``; None when it has none."""
        if self.range_deletes is not None:
            return self.get_at(key, MAX_SEQUENCE, stats)
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
        ranges = self.range_deletes
        if ranges is not None:
            erased = [key for key in keys if ranges.newest_over(key, MAX_SEQUENCE)]
            if erased:
                values = {key: self.get_at(key, MAX_SEQUENCE, stats) for key in erased}
                others = [key for key in keys if key not in values]
                values.update(zip(others, self._get_all(others, stats), strict=True))
                return [values[key] for key in keys]
        return self._get_all(keys, stats)

    def _get_all(self, keys: list[bytes], stats: Stats) -> list[Value]:
        """:meth:`get_many` of keys that no range delete covers."""
        found: list[Value] = []
        together = self.version.lookups_together
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
        return value_at(self.memtables, self.version, self.range_deletes, key, seq, stats)


def value_at(
    memtables: tuple[Memtable, ...],
    version: Version,
    range_deletes: RangeDeletes | None,
    key: bytes,
    seq: int,
    stats: Stats,
) -> Value:
    """The value that ``key`` had as of ``seq``, which is still readable."""
    stats.gets += 1
    if range_deletes is not None:
        erased_seq = range_deletes.newest_over(key, seq)
        if erased_seq:
            return _value_unerased(memtables, version, key, seq, erased_seq, stats)
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


def _value_unerased(
    memtables: tuple[Memtable, ...],
    version: Version,
    key: bytes,
    seq: int,
    erased_seq: int,
    stats: Stats,
) -> Value:
    """:func:`value_at` beside range deletes of the key, the newest numbered ``erased_seq``."""
    for memtable in memtables:
        if memtable.entry_seq < erased_seq:  # so are all that follow, and all tables
            return None
        found = memtable.get_at(key, seq)
        if not isinstance(found, Absent):
            stats.memtable_hits += 1
            break
    else:
        found = version.get_unerased(key, hash_key(key), seq, erased_seq, stats)
    if found is not None:
        stats.get_hits += 1
    return found


class ReadView:
    """The store as it was after the write ``seq``.

    ``memtables`` are newest first, without a live one that was empty.  ``retention``, if needed, makes
    the live one keep old values while this view exists.  ``range_deletes`` may have newer ones, too.
    """

    def __init__(
        self,
        memtables: tuple[Memtable, ...],
        version: Version,
        seq: int,
        retention: Retention | None,
        range_deletes: RangeDeletes | None = None,
    ) -> None:
        self.memtables = memtables
        self.version = version
        self.seq = seq
        self.retention = retention
        self.range_deletes = range_deletes

    def get(self, key: bytes, stats: Stats) -> Value:
        ranges = self.range_deletes
        return value_at(self.memtables, self.version, ranges, key, self.seq, stats)
