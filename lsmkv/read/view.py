"""Consistent read views of a store, and lookups in them."""

from __future__ import annotations

from librt.vecs import vec
from mypy_extensions import i64

from lsmkv.encoding.entries import ABSENT, MAX_SEQUENCE, Absent, Value
from lsmkv.filters.hashing import hash_key
from lsmkv.memtable.memtable import Memtable
from lsmkv.read.snapshots import Retention
from lsmkv.stats import Stats
from lsmkv.tree.version import Version


class SuperVersion:
    """One consistent set of memtables and tables; ``flushing`` is newest first."""

    def __init__(
        self, memtable: Memtable, flushing: tuple[Memtable, ...], version: Version
    ) -> None:
        self.memtable = memtable
        self.flushing = flushing
        self.version = version

    @property
    def memtables(self) -> tuple[Memtable, ...]:
        return (self.memtable, *self.flushing)

    def get(self, key: bytes, stats: Stats) -> Value:
        """The present value of ``key``; None when it has none."""
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
        return value_at(self.memtables, self.version, key, seq, stats)


def value_at(
    memtables: tuple[Memtable, ...], version: Version, key: bytes, seq: int, stats: Stats
) -> Value:
    """The value that ``key`` had as of ``seq``, which is still readable."""
    stats.gets += 1
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


class ReadView:
    """The store as it was after the write ``seq``.

    ``memtables`` are newest first, without a live one that was empty.  ``retention``, if needed, makes
    the live one keep old values while this view exists.
    """

    def __init__(
        self,
        memtables: tuple[Memtable, ...],
        version: Version,
        seq: int,
        retention: Retention | None,
    ) -> None:
        self.memtables = memtables
        self.version = version
        self.seq = seq
        self.retention = retention

    def get(self, key: bytes, stats: Stats) -> Value:
        return value_at(self.memtables, self.version, key, self.seq, stats)
