"""RocksDB, through rocksdict."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from .base import Engine, Pairs, Settings, Store, walk

_TICKERS: Final = {
    "rocksdb.bloom.filter.useful": "filter_negatives",
    "rocksdb.bloom.filter.full.positive": "filter_positives",
    "rocksdb.bloom.filter.full.true.positive": "filter_true_positives",
    "rocksdb.block.cache.data.miss": "data_block_reads",
}
_WORK_DUE: Final = (
    "rocksdb.mem-table-flush-pending",
    "rocksdb.num-running-flushes",
    "rocksdb.compaction-pending",
    "rocksdb.num-running-compactions",
)
_POLL_S: Final = 0.002


class RocksDBStore(Store):
    """An open RocksDB, with default options besides ``Settings``.

    Args:
        ribbon_bits_per_key: new tables have ribbon filters with the rate of Bloom filters of so many
            bits per key, which takes some 0.7 times the bits; 0: they have Bloom filters.
        index_restarts: an index has a key whole for each so many blocks, and of the others what differs.
        is_partitioned: index and filters are in parts, which stay in the cache while their table is on
            level 0.
        row_cache_size_bytes: the row cache, of single entries.
        table_size_bytes: of tables, and a quarter of level 1's; 0: its default.
    """

    def __init__(
        self,
        directory: str,
        settings: Settings,
        ribbon_bits_per_key: float = 0.0,
        *,
        index_restarts: int = 1,
        is_partitioned: bool = False,
        row_cache_size_bytes: int = 0,
        table_size_bytes: int = 0,
    ) -> None:
        import rocksdict

        self._batch = partial(rocksdict.WriteBatch, raw_mode=True)  # raw: bytes, not pickles
        self.options: Any = rocksdict.Options(raw_mode=True)
        options = self.options
        options.create_if_missing(True)
        options.set_write_buffer_size(settings.write_buffer_size_bytes)
        compression = rocksdict.DBCompressionType
        options.set_compression_type(
            compression.zstd() if settings.compression == "zstd" else compression.none()
        )
        options.set_use_direct_reads(settings.direct_reads)
        if settings.count:
            options.enable_statistics()
        if table_size_bytes:
            options.set_target_file_size_base(table_size_bytes)
            options.set_max_bytes_for_level_base(4 * table_size_bytes)
        if row_cache_size_bytes:
            options.set_row_cache(rocksdict.Cache(row_cache_size_bytes))
        blocks: Any = rocksdict.BlockBasedOptions()  # allows fractional bits per key
        if settings.bits_per_key > 0:
            blocks.set_bloom_filter(settings.bits_per_key, block_based=False)
        blocks.set_block_size(settings.block_size_bytes)
        blocks.set_index_block_restart_interval(index_restarts)
        if is_partitioned:
            blocks.set_index_type(rocksdict.BlockBasedIndexType.two_level_index_search())
            blocks.set_partition_filters(True)
            blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
        blocks.set_block_cache(rocksdict.Cache(settings.cache_size_bytes))
        options.set_block_based_table_factory(blocks)
        # Options apply only to new column families; those of an existing store would silently have
        # the defaults: no filter, a cache of 8 MiB.
        self._db = rocksdict.Rdict(directory, options, column_families={"default": options})
        if ribbon_bits_per_key:
            # rocksdict has no method for it, but RocksDB takes the policy by name.
            policy = f"ribbonfilter:{ribbon_bits_per_key:.6f}:-1"  # -1: at every level
            self._db.set_options({"block_based_table_factory": f"{{filter_policy={policy}}}"})
        self._synced = rocksdict.WriteOptions()
        self._synced.sync = True
        self.get = self._db.get
        self.put = self._db.put
        self.put_sync = partial(self._db.put, write_opt=self._synced)

    def put_batch(self, pairs: Pairs, sync: bool = False) -> None:
        batch = self._batch()
        put = batch.put
        for key, value in pairs:
            put(key, value)
        self._db.write(batch, self._synced if sync else None)

    def ingest(self, paths: list[str]) -> None:
        """Take over the tables that a ``rocksdict.SstFileWriter`` wrote."""
        import rocksdict

        moving: Any = rocksdict.IngestExternalFileOptions()
        moving.set_move_files(True)
        self._db.ingest_external_file(paths, moving)

    def multi_get(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        found: Sequence[bytes | None] = self._db.get(list(keys))  # a list: RocksDB's MultiGet
        return found

    def scan(self, start: bytes | None, limit: int | None, reverse: bool = False) -> int:
        return walk(self._db.items(backwards=reverse, from_key=start), limit)

    def settle(self) -> None:
        self._db.flush(True)
        while any(self._db.property_int_value(name) for name in _WORK_DUE):
            time.sleep(_POLL_S)

    def compact(self) -> None:
        """Merge everything into one sorted run."""
        self._db.flush(True)
        self._db.compact_range(None, None)
        self.settle()

    def filter_bytes(self) -> int:
        """The bytes of the filter blocks of all tables."""
        return self._table_property("filter block size")

    def index_bytes(self) -> int:
        """The bytes of the indexes of all tables."""
        return self._table_property("index block size")

    def metadata_bytes(self) -> int:
        return self.filter_bytes() + self.index_bytes()

    def metadata_memory_bytes(self) -> int:
        """The memory of open tables, and of the parts of their indexes and filters in the cache."""
        names = "estimate-table-readers-mem", "block-cache-pinned-usage"
        return sum(int(self._db.property_int_value(f"rocksdb.{name}")) for name in names)

    def data_block_count(self) -> int:
        return self._table_property("# data blocks")

    def _table_property(self, name: str) -> int:
        text = str(self._db.property_value("rocksdb.aggregated-table-properties"))
        (found,) = re.findall(rf"(?:^|; ){re.escape(name)}(?: \([^)]*\))?=(\d+);", text)
        return int(found)

    def counters(self) -> dict[str, int]:
        text = self.options.get_statistics() or ""
        found = dict(re.findall(r"^(\S+) COUNT : (\d+)$", text, re.MULTILINE))
        return {name: int(found[ticker]) for ticker, name in _TICKERS.items() if ticker in found}


class RocksDB(Engine):
    """RocksDB with a full (per-table) Bloom filter and leveled compaction, its default."""

    name = "rocksdb"
    distribution = module = "rocksdict"
    store = RocksDBStore

    def version(self) -> str:
        """The version of rocksdict, which contains RocksDB and hides its version."""
        return f"in rocksdict {super().version()}"
