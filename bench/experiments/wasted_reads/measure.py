"""Measures the stores of one contender of ``wasted-reads``, each with filters that fill a budget.

It writes them, and counts the blocks that absent keys read.  Each engine's own counters count.
LevelDB has none, so its block cache tells: it holds what was read.
"""

from __future__ import annotations

import dataclasses
import math
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import lsmkv
from lsmkv.filters.maths.sizing import filter_bytes_for
from lsmkv.inspection.store_info import StoreInfo

from ...engines.base import MIB, Settings, engine_named
from ...engines.leveldb_engine import LevelDBStore
from ...engines.leveldb_files import Sizes, resident_sizes
from ...engines.rocksdb_engine import RocksDBStore
from ...harness.ribbon_sizes import fit
from ...harness.shapes import block_keys, exact_rate, run_count
from .outside import Outsider, rocksdb_form
from .rows import Row
from .tasks import NO_FILTER, PER_TABLE, KeySet, Task

RIBBON_BITS: Final = 1.42
"""RocksDB's ribbon filters take 0.7 of the bits that they are asked to be as good as."""

_BUFFER_BYTES: Final = 256 * MIB
_LEVELDB_CACHE_BYTES: Final = 1024 * MIB
_TRIES: Final = 12
_ENOUGH_TRIES: Final = 4  # then what fits is taken
_UNUSED: Final = 0.005  # of the filters' bytes: RocksDB's setting is tried again if more is left
_HALVINGS: Final = 50
_MOST_NATS: Final = 40.0
_LEAST_BITS: Final = 1.0  # of RocksDB's setting: it rounds less to this, or to no filter


@dataclass(frozen=True, slots=True)
class Written:
    """A closed store."""

    path: str
    setting: float
    index_bytes: int
    filter_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What the lookups of one store did."""

    found: int
    filters_asked: int
    block_reads: int
    reported_bytes: int | None = None
    block_count: int | None = None
    passed: int | None = None
    error_rate_exact: float | None = None


def measure(task: Task, directory: str) -> list[Row]:
    """Write and ask the stores of one contender below ``directory``, which is empty."""
    keys = task.key_set()
    contender = _CONTENDERS[task.engine](task, keys, directory)
    outsider = Outsider(task, keys, directory)
    rows = []
    for bits in task.budgets:
        entries = len(keys.present)
        written = contender.fitted(int(bits * entries / 8))
        row = Row(
            engine=task.engine,
            engine_version=engine_named(task.engine).version(),
            filters=task.filters,
            form=task.form,
            keys=os.path.basename(task.keys) if task.is_file else task.keys,
            value_bytes=task.value_bytes,
            budget_bits_per_key=bits,
            entries=entries,
            block_size_bytes=task.block_size_bytes,
            passes=task.passes,
            lookups=task.passes * (entries - 1),
            index_bytes=contender.least_index_bytes if written is None else written.index_bytes,
            found=0,
        )
        rows.append(row if written is None else _counted(row, contender, outsider, written))
    return rows


def _counted(row: Row, contender: Contender, outsider: Outsider, written: Written) -> Row:
    counted = contender.count(written)
    outside_reads, grown_bytes = outsider.ask(written.path, written.setting)
    return dataclasses.replace(
        row,
        setting=written.setting,
        filter_bytes=written.filter_bytes,
        outside_reads=outside_reads,
        grown_bytes=grown_bytes,
        **dataclasses.asdict(counted),
    )


def _hits(get: Callable[[bytes], bytes | None], keys: list[bytes]) -> int:
    return sum(get(key) is not None for key in keys)


class Contender(ABC):
    """Stores with the same keys, and filters of several sizes.

    Attributes:
        least_index_bytes: the smallest index of those written.
    """

    def __init__(self, task: Task, keys: KeySet, directory: str) -> None:
        self.task, self.keys = task, keys
        self._directory = directory
        self._stores: dict[float, Written] = {}

    @property
    def least_index_bytes(self) -> int:
        return min(store.index_bytes for store in self._stores.values())

    def fitted(self, budget_bytes: int) -> Written | None:
        """The store whose filters and index come nearest to the budget, from below; None if none fits."""
        if self.task.filters == NO_FILTER:
            return self.written(0.0)
        return self._fitted(budget_bytes)

    def written(self, setting: float) -> Written:
        """The store with a setting, written once."""
        if setting not in self._stores:
            path = os.path.join(self._directory, f"store-{len(self._stores)}")
            os.mkdir(path)
            sizes = self._write(path, setting)
            self._stores[setting] = Written(path, setting, sizes.index_bytes, sizes.filter_bytes)
        return self._stores[setting]

    @abstractmethod
    def _fitted(self, budget_bytes: int) -> Written | None: ...

    @abstractmethod
    def _write(self, path: str, setting: float) -> Sizes: ...

    @abstractmethod
    def count(self, written: Written) -> Counted:
        """The reads of all lookups."""


class _Lsmkv(Contender):
    """A setting is an error rate; 0: no filters."""

    _FIRST: Final = 0.01

    def _fitted(self, budget_bytes: int) -> Written | None:
        first = self.written(self._FIRST)
        if self.task.form == PER_TABLE:
            filters = Counter({len(self.keys.present): 1})
        else:
            with lsmkv.open(first.path, read_only=True) as db:
                filters = block_keys(db)  # the blocks are the same whatever the rate
        # The index holds where filters are, and so differs a little with them.
        for_filters = budget_bytes - self.least_index_bytes
        while for_filters > 0:
            try:
                if self.task.filters == "ribbon":
                    rate = fit(filters, for_filters, lambda rate: self.written(rate).filter_bytes)
                else:
                    rate = bloom_rate_within(filters, for_filters)
            except ValueError:
                return None
            written = self.written(rate)
            excess = written.index_bytes + written.filter_bytes - budget_bytes
            if excess <= 0:
                return written if written.filter_bytes else None
            for_filters -= excess
        return None

    def _write(self, path: str, setting: float) -> Sizes:
        options = lsmkv.Options(
            filter_policy=self.task.filters,
            filter_granularity="table" if self.task.form == PER_TABLE else "block",
            error_rate=setting or self._FIRST,
            filter_allocation="uniform",
            block_size_bytes=self.task.block_size_bytes,
            fit_pages=False,  # the same blocks with any filters
            write_buffer_size_bytes=_BUFFER_BYTES,
            compression="none",
        )
        with lsmkv.open(path, options) as db:
            for pairs in self.keys.batches():
                with db.write_batch() as batch:
                    for key, value in pairs:
                        batch.put(key, value)
            db.compact_range()
            for key in self.keys.present[::_TOUCHED]:  # loads every table's index and filters
                db.get(key)
            used = db.memory_usage()
            return Sizes(used.index_bytes, used.filter_bytes)

    def count(self, written: Written) -> Counted:
        with lsmkv.open(written.path, read_only=True, block_cache_size_bytes=0) as db:
            info = db.inspect()
            if run_count(info) != 1:
                raise ValueError(f"{written.path}: {run_count(info)} runs: a lookup must ask one")
            before = db.stats()
            hits = _hits(db.get, self.keys.lookups())
            counted = db.stats() - before
            used = db.memory_usage()
            return Counted(
                found=hits,
                # A block without a filter counts as asked: it is read.
                filters_asked=counted.filter_negatives
                + counted.filter_false_positives
                + counted.unfiltered_probes,
                block_reads=counted.block_reads,
                reported_bytes=used.filter_bytes + used.index_bytes,
                block_count=info.block_count,
                passed=counted.filter_false_positives + counted.unfiltered_probes,
                error_rate_exact=self._exact_rate(db, info) if written.filter_bytes else None,
            )

    def _exact_rate(self, db: lsmkv.DB, info: StoreInfo) -> float:
        if self.task.form != PER_TABLE:
            return exact_rate(db)
        expected = sum(each.entry_count * (each.expected_rate or 0.0) for each in info.tables())
        return expected / info.entry_count


_TOUCHED: Final = 500  # of so many present keys one is looked up, so that every table is open


def bloom_rate_within(filters: Counter[int], budget_bytes: int) -> float:
    """The lowest rate whose Bloom filters, one for each block, take ``budget_bytes`` or less."""
    low, high = 0.0, _MOST_NATS  # -ln of the rate
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        rate = math.exp(-middle)
        total = sum(count * filter_bytes_for(keys, rate) for keys, count in filters.items())
        low, high = (middle, high) if total <= budget_bytes else (low, middle)
    if low == 0.0:
        raise ValueError(f"{budget_bytes} bytes: no Bloom filter of these keys fits; give more")
    return math.exp(-low)


class _RocksDB(Contender):
    """A setting is bits per key; its one table is flushed, as on level 0 its index stays in memory."""

    def _fitted(self, budget_bytes: int) -> Written | None:
        # Any setting tells the index, which is the same with all of them.
        index_bytes = self.written(10.0).index_bytes
        wanted_bytes = budget_bytes - index_bytes
        setting = 8 * wanted_bytes / len(self.keys.present)
        if self.task.filters == "ribbon":
            setting *= RIBBON_BITS
        least, most = 0.0, math.inf
        best: Written | None = None
        for number in range(_TRIES):
            if setting < _LEAST_BITS:
                break
            tried = self.written(setting)
            size_bytes = tried.index_bytes + tried.filter_bytes - index_bytes
            if size_bytes > wanted_bytes:
                most = min(most, setting)
            else:
                least, best = max(least, setting), tried
                if size_bytes >= wanted_bytes * (1 - _UNUSED):
                    break
            if best is not None and number + 1 >= _ENOUGH_TRIES:
                break
            guess = setting * wanted_bytes / size_bytes * (1 - _UNUSED / 4)
            setting = guess if least < guess < most else (least + most) / 2
        return best

    def _open(self, path: str, setting: float, count: bool) -> RocksDBStore:
        settings = Settings(
            bits_per_key=setting,  # a Bloom policy; any policy asks the filters of all kinds
            cache_size_bytes=0,
            write_buffer_size_bytes=_BUFFER_BYTES,
            block_size_bytes=self.task.block_size_bytes,
            count=count,
        )
        ribbon = setting if self.task.filters == "ribbon" else 0.0
        return RocksDBStore(path, settings, ribbon, **rocksdb_form(self.task))

    def _write(self, path: str, setting: float) -> Sizes:
        store = self._open(path, setting, count=False)
        for pairs in self.keys.batches():
            store.put_batch(pairs)
        store.settle()
        sizes = Sizes(store.index_bytes(), store.filter_bytes())
        store.close()
        return sizes

    def count(self, written: Written) -> Counted:
        store = self._open(written.path, written.setting, count=True)
        before = store.counters()
        lookups = self.keys.lookups()
        hits = _hits(store.get, lookups)
        counted = {name: count - before[name] for name, count in store.counters().items()}
        found = Counted(
            found=hits,
            filters_asked=len(lookups),
            block_reads=counted["data_block_reads"],
            reported_bytes=store.metadata_memory_bytes(),
            block_count=store.data_block_count(),
            passed=counted["filter_positives"] if written.filter_bytes else len(lookups),
        )
        store.close()
        return found


class _LevelDB(Contender):
    """A setting is bits per key, a whole number; 0: no filters."""

    def _fitted(self, budget_bytes: int) -> Written | None:
        def fits(bits: int) -> bool:
            store = self.written(float(bits))
            return store.index_bytes + store.filter_bytes <= budget_bytes

        ten, entries = self.written(10.0), len(self.keys.present)
        # An offset for each filter, and the least size of a filter, are beside the bits.
        bits = max(1, 10 + 8 * (budget_bytes - ten.index_bytes - ten.filter_bytes) // entries)
        while bits > 1 and not fits(bits):
            bits -= 1
        while fits(bits + 1):
            bits += 1
        return self.written(float(bits)) if fits(bits) else None

    def _open(self, path: str, setting: float) -> LevelDBStore:
        settings = Settings(
            bits_per_key=setting,
            cache_size_bytes=_LEVELDB_CACHE_BYTES,
            write_buffer_size_bytes=_BUFFER_BYTES,
            block_size_bytes=self.task.block_size_bytes,
            compression="zstd",  # Snappy here: only compressed blocks come into the block cache
        )
        return LevelDBStore(path, settings)

    def _write(self, path: str, setting: float) -> Sizes:
        store = self._open(path, setting)
        for pairs in self.keys.batches():
            store.put_batch(pairs)
        store.compact()
        store.close()
        return resident_sizes(path)

    def count(self, written: Written) -> Counted:
        # Within a round no two keys are in the same block, so every read adds to a new block cache.
        stride = 2 * self.task.block_size_bytes // self.keys.entry_bytes + 2
        hits = reads = 0
        for keys in self.keys.absent():
            for first in range(stride):
                store = self._open(written.path, written.setting)
                found, read = _read_leveldb(store, keys[first::stride])
                store.close()
                hits, reads = hits + found, reads + read
        asked = sum(map(len, self.keys.absent()))
        return Counted(found=hits, filters_asked=asked, block_reads=reads)


def _read_leveldb(store: LevelDBStore, keys: list[bytes]) -> tuple[int, int]:
    """Keys that were found, and blocks that were read."""
    get, cached_bytes = store.get, store.cached_bytes
    hits = reads = 0
    before = cached_bytes()
    for key in keys:
        hits += get(key) is not None
        after = cached_bytes()
        reads += after != before
        before = after
    return hits, reads


_CONTENDERS: Final[dict[str, type[Contender]]] = {
    "lsmkv": _Lsmkv,
    "rocksdb": _RocksDB,
    "leveldb": _LevelDB,
}
