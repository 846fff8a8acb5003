"""Consistent read views of a store, and lookups in them."""

from __future__ import annotations

from librt.vecs import vec
from mypy_extensions import i64

from lsmkv.encoding.entries import ABSENT, MAX_SEQUENCE, Absent, Value
from lsmkv.encoding.expiry import Clock, Expiring, Held, Moment
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

    def get(self, key: bytes, clock: Clock, stats: Stats) -> Value:
        """The present value of ``key``; None when it has none.  ``clock`` tells whether it is due."""
        stats.gets += 1
        held = self._get_in_memory(key)
        if isinstance(held, Absent):
            held = self.version.get(key, hash_key(key), MAX_SEQUENCE, stats)
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

    def get_many(self, keys: list[bytes], moment: Moment, stats: Stats) -> list[Value]:
        """The value of each of ``keys`` at ``moment``; None where there is none."""
        found: list[Value] = []
        together = self.version.lookups_together
        for start in range(0, len(keys), together):
            end = start + together
            for held in self._get_together(keys[start:end], stats):
                found.append(moment.value_of(held) if isinstance(held, Expiring) else held)
        stats.get_hits += len(keys) - found.count(None)
        return found

    def _get_together(self, keys: list[bytes], stats: Stats) -> list[Held]:
        count = len(keys)
        stats.gets += count
        values: list[Held] = [None] * count
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
        return values


def value_at(
    memtables: tuple[Memtable, ...],
    version: Version,
    key: bytes,
    seq: int,
    moment: Moment,
    stats: Stats,
) -> Value:
    """The value of ``key`` as of ``seq``, at ``moment``."""
    value = moment.value_of(held_at(memtables, version, key, seq, stats))
    if value is not None:
        stats.get_hits += 1
    return value


def held_at(
    memtables: tuple[Memtable, ...], version: Version, key: bytes, seq: int, stats: Stats
) -> Held:
    """The entry of ``key`` as of ``seq``, which is still readable.

    It may be due; None: there is none.
    """
    stats.gets += 1
    for memtable in memtables:
        found = memtable.get_at(key, seq)
        if not isinstance(found, Absent):
            stats.memtable_hits += 1
            return found
    return version.get(key, hash_key(key), seq, stats)


class ReadView:
    """The store as it was after the write ``seq``, at one ``moment``.

    ``memtables`` are newest first, without a live one that was empty.  ``retention``, if needed, makes
    the live one keep old values while this view exists.
    """

    def __init__(
        self,
        memtables: tuple[Memtable, ...],
        version: Version,
        seq: int,
        moment: Moment,
        retention: Retention | None,
    ) -> None:
        self.moment = moment
        self.memtables = memtables
        self.version = version
        self.seq = seq
        self.retention = retention

    def get(self, key: bytes, stats: Stats) -> Value:
        return value_at(self.memtables, self.version, key, self.seq, self.moment, stats)
