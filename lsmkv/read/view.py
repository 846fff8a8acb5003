"""Consistent read views of a store, and lookups in them."""

from __future__ import annotations

from librt.vecs import vec
from mypy_extensions import i64

from lsmkv.encoding.entries import ABSENT, MAX_SEQUENCE, Absent, Value
from lsmkv.encoding.expiry import Clock, Expiring, Held, Moment
from lsmkv.encoding.range_deletes import RangeDeletes
from lsmkv.filters.hashing import hash_key
from lsmkv.memtable.memtable import Memtable
from lsmkv.read.bounds import Bounds
from lsmkv.read.snapshots import Retention
from lsmkv.read.visible import visible_entries
from lsmkv.sstable.block_cache import BlockCache
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
            ranges = older.range_deletes + ranges
        self.range_deletes = version.range_deletes_with(ranges)

    @property
    def memtables(self) -> tuple[Memtable, ...]:
        return (self.memtable, *self.flushing)

    def has_ranges_of(self, other: SuperVersion) -> bool:
        """Whether all range deletes of ``other`` are in force here, too."""
        ours, theirs = self.range_deletes, other.range_deletes
        if ours is None or theirs is None:
            return theirs is None
        return set(theirs.ranges) <= set(ours.ranges)

    def get(self, key: bytes, clock: Clock, cache: BlockCache, stats: Stats) -> Value:
        """The present value of ``key``; None when it has none.  ``clock`` tells whether it is due."""
        ranges = self.range_deletes
        if ranges is not None and ranges.newest_over(key, MAX_SEQUENCE):
            entries, moment = (self.memtables, self.version, ranges), Moment(clock)
            return value_at(*entries, key, MAX_SEQUENCE, moment, stats)
        stats.gets += 1
        held = self._get_in_memory(key)
        if isinstance(held, Absent):
            h = hash_key(key)
            held = cache.entries.get(key, h)
            if isinstance(held, Absent):
                miss_count = cache.miss_count
                held = self.version.get(key, h, MAX_SEQUENCE, stats)
                if cache.miss_count != miss_count and held is not None:
                    cache.put_entry(key, h, held, self.version.epoch)
            else:
                stats.entry_cache_hits += 1
        else:
            stats.memtable_hits += 1
        if isinstance(held, Expiring):
            held = Moment(clock).value_of(held)
        if held is not None:
            stats.get_hits += 1
        return held

    def _get_in_memory(self, key: bytes) -> Held | Absent:
        if not self.memtable.is_empty:  # an empty one is not worth hashing the key
            found = self.memtable.get(key)
            if not isinstance(found, Absent):
                return found
        for memtable in self.flushing:
            found = memtable.get(key)
            if not isinstance(found, Absent):
                return found
        return ABSENT

    def get_many(
        self, keys: list[bytes], moment: Moment, cache: BlockCache | None, stats: Stats
    ) -> list[Value]:
        """The value of each of ``keys`` at ``moment``; None where there is none.

        Without ``cache`` no entry cache is asked: it may know newer writes than this view.
        """
        found: list[Value] = []
        together = self.version.lookups_together
        for start in range(0, len(keys), together):
            end = start + together
            for held in self._held_by(keys[start:end], cache, stats):
                found.append(moment.value_of(held) if isinstance(held, Expiring) else held)
        stats.get_hits += len(keys) - found.count(None)
        return found

    def _held_by(self, keys: list[bytes], cache: BlockCache | None, stats: Stats) -> list[Held]:
        """:meth:`held` of each key; those beside range deletes are looked up one by one."""
        ranges = self.range_deletes
        if ranges is None:
            return self._get_together(keys, cache, stats)
        held: dict[bytes, Held] = {}
        others: list[bytes] = []
        for key in keys:
            if ranges.newest_over(key, MAX_SEQUENCE):
                held[key] = held_at(self.memtables, self.version, ranges, key, MAX_SEQUENCE, stats)
            else:
                others.append(key)
        held.update(zip(others, self._get_together(others, cache, stats), strict=True))
        return [held[key] for key in keys]

    def _get_together(
        self, keys: list[bytes], cache: BlockCache | None, stats: Stats
    ) -> list[Held]:
        count = len(keys)
        stats.gets += count
        values: list[Held] = [None] * count
        entries = None if cache is None or not len(cache.entries) else cache.entries
        asked = vec[i64]([0] * count)
        hashes = vec[i64]([0] * count)
        left: i64 = 0
        for position, key in enumerate(keys):
            known = self._get_in_memory(key)
            if isinstance(known, Absent):
                h = hash_key(key)
                if entries is not None:
                    known = entries.get(key, h)
                if isinstance(known, Absent):
                    hashes[position] = h
                    asked[left] = position
                    left += 1
                    continue
                stats.entry_cache_hits += 1
            else:
                stats.memtable_hits += 1
            values[position] = known
        asked = asked[:left]
        wanted = asked[:left]  # a copy: runs overwrite it
        miss_count: i64 = 0 if cache is None else cache.miss_count
        for run in self.version.runs:
            if len(wanted):
                wanted = run.get_many(keys, hashes, wanted, values, stats)
                self.version.charge_wasted_probes(len(wanted))
        # Keys that share blocks find them in the block cache.
        if cache is not None and cache.miss_count - miss_count >= max(1, left - len(wanted)):
            for position in asked:
                held = values[position]
                if held is not None:
                    cache.put_entry(keys[position], hashes[position], held, self.version.epoch)
        return values


def value_at(
    memtables: tuple[Memtable, ...],
    version: Version,
    range_deletes: RangeDeletes | None,
    key: bytes,
    seq: int,
    moment: Moment,
    stats: Stats,
) -> Value:
    """The value of ``key`` as of ``seq``, at ``moment``."""
    value = moment.value_of(held_at(memtables, version, range_deletes, key, seq, stats))
    if value is not None:
        stats.get_hits += 1
    return value


def held_at(
    memtables: tuple[Memtable, ...],
    version: Version,
    range_deletes: RangeDeletes | None,
    key: bytes,
    seq: int,
    stats: Stats,
) -> Held:
    """The entry of ``key`` as of ``seq``, still readable, maybe due; None: there is none."""
    stats.gets += 1
    erased_seq = 0 if range_deletes is None else range_deletes.newest_over(key, seq)
    for memtable in memtables:
        if memtable.entry_seq < erased_seq:  # so are all that follow, and all tables
            return None
        found = memtable.get_at(key, seq)
        if not isinstance(found, Absent):
            stats.memtable_hits += 1
            return found
    if range_deletes is None or not erased_seq:
        return version.get(key, hash_key(key), seq, stats)
    h, only = hash_key(key), Bounds(key, key + b"\0")
    for run in version.runs:
        table = run.table_for(key)
        if table is None or table.newest_seq < erased_seq:
            continue
        if table.meta.least_seq >= erased_seq:
            found = table.get(key, h, seq)
            if not isinstance(found, Absent):
                return found
        else:  # the number of the entry decides
            for entries in visible_entries([table], seq, only, range_deletes.as_of(seq)):
                return entries[0][1]
    return None


class ReadView:
    """The store as it was after the write ``seq``, at one ``moment``.

    ``memtables`` are newest first, without a live one that was empty.  ``retention``, if needed, makes
    the live one keep old values while this view exists.  ``range_deletes`` may have newer ones, too.
    """

    def __init__(
        self,
        memtables: tuple[Memtable, ...],
        version: Version,
        seq: int,
        moment: Moment,
        retention: Retention | None,
        range_deletes: RangeDeletes | None = None,
    ) -> None:
        self.moment = moment
        self.memtables = memtables
        self.version = version
        self.seq = seq
        self.retention = retention
        self.range_deletes = range_deletes

    def get(self, key: bytes, stats: Stats) -> Value:
        ranges = self.range_deletes
        return value_at(self.memtables, self.version, ranges, key, self.seq, self.moment, stats)
