"""RocksDB's own counts of filter reads, in tables of the same keys.

Each table of the store becomes a table of RocksDB's level 0, so both ask the same runs.  Filters,
partitions and their top-level index go through RocksDB's block cache, and so does the index of blocks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from ...engines.rocksdb_engine import RocksDB
from ...workloads.keys import Values, key_number
from .orders import ORDERS, passes
from .shapes import BLOCK_BYTES, VALUE_BYTES, Load

_BATCH: Final = 1000
_LOAD_CACHE_BYTES: Final = 1 << 20
_TICKERS: Final = {
    "rocksdb.block.cache.filter.miss": "filter_reads",
    "rocksdb.block.cache.filter.bytes.insert": "filter_read_bytes",
}


def is_installed() -> bool:
    return RocksDB().is_installed()


@dataclass(frozen=True, slots=True)
class RocksFilters:
    """The settings of RocksDB's filters: ``partitioned`` in 4 KiB, its default, or one per table."""

    bits_per_key: float
    partitioned: bool


def count_filter_reads(
    directory: str,
    tables: Sequence[Sequence[bytes]],
    filters: RocksFilters,
    load: Load,
    lookups: int,
    cache_bytes: int,
) -> dict[str, float]:
    """Filter reads and bytes of absent keys by order, each in a cache that was warmed as long."""
    path = os.path.join(directory, "rocksdb")
    values = Values(VALUE_BYTES, load.seed)
    with _opened(path, filters, _LOAD_CACHE_BYTES) as (db, _):
        for keys in reversed(tables):
            _put(db, keys, values)
            db.flush(True)
        if db.property_value("rocksdb.num-files-at-level0") != str(len(tables)):
            raise RuntimeError("RocksDB merged tables that were to stay apart")
        text = str(db.property_value("rocksdb.aggregated-table-properties"))
    (filter_bytes,) = re.findall(r"; filter block size=(\d+);", text)
    found = {"rocksdb_filter_bits_per_key": int(filter_bytes) * 8 / load.entries}
    for name in ORDERS:
        warming, counted = passes(name, load.entries, lookups, load.seed)
        with _opened(path, filters, cache_bytes) as (db, options):
            for key in warming:
                db.get(key)
            before = _counts(options)
            for key in counted:
                db.get(key)
            after = _counts(options)
        for what in _TICKERS.values():
            found[f"rocksdb_{name}_{what}_per_lookup"] = (after[what] - before[what]) / lookups
    return found


@contextmanager
def _opened(path: str, filters: RocksFilters, cache_bytes: int) -> Iterator[tuple[Any, Any]]:
    import rocksdict

    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_disable_auto_compactions(True)
    options.set_write_buffer_size(1 << 30)  # flushed by hand
    options.set_compression_type(rocksdict.DBCompressionType.none())
    options.enable_statistics()
    blocks: Any = rocksdict.BlockBasedOptions()
    blocks.set_bloom_filter(filters.bits_per_key, block_based=False)
    blocks.set_block_size(BLOCK_BYTES)
    blocks.set_block_cache(rocksdict.Cache(cache_bytes))
    blocks.set_cache_index_and_filter_blocks(True)
    if filters.partitioned:  # of 4 KiB, RocksDB's default metadata_block_size
        blocks.set_index_type(rocksdict.BlockBasedIndexType.two_level_index_search())
        blocks.set_partition_filters(True)
    options.set_block_based_table_factory(blocks)
    db: Any = rocksdict.Rdict(path, options, column_families={"default": options})
    try:
        yield db, options
    finally:
        db.close()


def _put(db: Any, keys: Sequence[bytes], values: Values) -> None:
    import rocksdict

    for start in range(0, len(keys), _BATCH):
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key in keys[start : start + _BATCH]:
            batch.put(key, values.of(key_number(key)))
        db.write(batch)


def _counts(options: Any) -> dict[str, int]:
    text = options.get_statistics() or ""
    found = dict(re.findall(r"^(\S+) COUNT : (\d+)$", text, re.MULTILINE))
    return {name: int(found[ticker]) for ticker, name in _TICKERS.items()}
