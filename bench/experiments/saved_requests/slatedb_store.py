"""SlateDB on the same server, by its Python package.

Every run is one flushed table of level 0: compaction, the write-ahead log and the clean-up are off, so
that the tables hold the same keys as lsmkv's runs.  Readers have a cache for indexes and filters that
holds all of them, beside one for blocks that holds the latest alone, or all.  They look for newer
manifests once an hour.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

from ...harness.object_server import BUCKET
from ...workloads.keys import Values, chunks, present_key, shuffled

_NAME: Final = "db"
_BATCH: Final = 1000
_HOUR_MS: Final = 3_600_000
_NO_CACHE_BYTES: Final = 1
_CACHE_BYTES: Final = 1 << 30
_SETTINGS: Final[dict[str, object]] = {
    "compactor_options": None,
    "garbage_collector_options": None,
    "wal_enabled": False,
    "flush_interval": "3600s",
    "manifest_poll_interval": "3600s",
    "l0_sst_size_bytes": 1 << 29,
    "l0_max_ssts": 100,
    "l0_max_ssts_per_key": 100,
}


def _library() -> Any:
    import slatedb.uniffi

    return slatedb.uniffi


def _objects() -> Any:
    return _library().ObjectStore.resolve(f"s3://{BUCKET}/")


async def write_runs(
    key_count: int, run_count: int, seed: int, value_bytes: int, bits_per_key: int
) -> None:
    """Write the entries of :func:`bench.harness.run_stores.write_runs` to the server."""
    library = _library()
    settings = library.Settings.default()
    for name, value in _SETTINGS.items():
        settings.set(name, json.dumps(value))
    builder = library.DbBuilder(_NAME, _objects())
    builder.with_settings(settings)
    builder.with_sst_block_size(library.SstBlockSize.BLOCK4_KIB)
    builder.with_filter_policies([library.FilterPolicy.bloom(bits_per_key)])
    flush = library.FlushOptions(flush_type=library.FlushType.MEM_TABLE)
    db = await builder.build()
    values = Values(value_bytes, seed)
    for part in chunks(shuffled(key_count, seed), run_count):
        for at in range(0, len(part), _BATCH):
            batch = library.WriteBatch()
            for number in part[at : at + _BATCH]:
                batch.put(present_key(number), values.of(number))
            await db.write(batch)
        await db.flush_with_options(flush)
    await db.shutdown()


def reader(bits_per_key: int, *, caches_blocks: bool) -> AbstractAsyncContextManager[Any]:
    return _reader(bits_per_key, _CACHE_BYTES if caches_blocks else _NO_CACHE_BYTES)


@asynccontextmanager
async def _reader(bits_per_key: int, block_cache_bytes: int) -> Any:
    library = _library()
    builder = library.DbReaderBuilder(_NAME, _objects())
    builder.with_options(
        library.ReaderOptions(
            manifest_poll_interval_ms=_HOUR_MS,
            checkpoint_lifetime_ms=3 * _HOUR_MS,
            max_memtable_bytes=1 << 26,
            skip_wal_replay=True,
        )
    )
    builder.with_filter_policies([library.FilterPolicy.bloom(bits_per_key)])
    caches = [
        library.DbCache.new_foyer_cache(library.FoyerCacheOptions(max_capacity=size, shards=1))
        for size in (block_cache_bytes, _CACHE_BYTES)
    ]
    builder.with_db_cache(library.DbCache.new_split_cache(*caches), 1)
    db = await builder.build()
    try:
        yield db
    finally:
        await db.shutdown()


async def ask(db: Any, keys: Iterable[bytes], are_present: bool) -> None:
    for key in keys:
        if (await db.get(key) is not None) != are_present:
            raise AssertionError(f"{key!r} is {'not ' if are_present else ''}in the store")


def first_keys(key_count: int, run_count: int, seed: int) -> Sequence[bytes]:
    """One present key of each run."""
    return [present_key(part[0]) for part in chunks(shuffled(key_count, seed), run_count)]
