"""Filters of chunks beside a store: their lookups, and RocksDB's own counts."""

from __future__ import annotations

from pathlib import Path

import pytest

import lsmkv
from bench.experiments.granularity import rocksdb
from bench.experiments.granularity.chunks import ChunkedStore, ChunkFile, write_chunks
from bench.experiments.granularity.contenders import Contender, keys_within
from bench.experiments.granularity.orders import passes
from bench.experiments.granularity.shapes import Load
from bench.workloads.keys import absent_key, key_number, present_key
from granularity_trees import built, tiny_load
from lsmkv.inspection.store_info import StoreInfo

RATE = 0.02


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, StoreInfo]:
    """A store without filters; its keys are those of every tiny leveled tree."""
    path = tmp_path_factory.mktemp("bare") / "store"
    none = Contender("block", "none", "uniform")
    return str(path), built(path, tiny_load("leveled"), none)


def chunked(bare: tuple[str, StoreInfo], file: Path, chunk_bytes: int) -> ChunkFile:
    path, info = bare
    return write_chunks(path, info, [RATE] * len(list(info.tables())), chunk_bytes, str(file))


def counted(store: ChunkedStore | lsmkv.DB, keys: list[bytes]) -> dict[str, int]:
    before = store.stats()
    for key in keys:
        store.get(key)
    found = store.stats() - before
    names = [
        "gets", "get_hits", "range_negatives", "filter_negatives",
        "filter_true_positives", "filter_false_positives", "unfiltered_probes",
        "block_reads", "block_read_bytes", "filter_reads", "filter_read_bytes",
        "block_cache_hits", "block_cache_misses", "block_cache_evictions",
    ]  # fmt: skip
    return {name: getattr(found, name) for name in names}


@pytest.mark.parametrize(
    "share", [None, 0.3, *(pytest.param(share, marks=pytest.mark.slow) for share in (0.75, 2.0))]
)
def test_a_chunk_of_a_whole_table_counts_as_the_filters_per_table_of_the_store(
    bare: tuple[str, StoreInfo], tmp_path: Path, share: float | None
) -> None:
    load = tiny_load("leveled")
    per_table = Contender("table", "bloom", "uniform")
    info = built(tmp_path / "store", load, per_table, RATE)
    filters = chunked(bare, tmp_path / "filters", 1 << 20)
    assert [len(chunks) for chunks in filters.tables] == [1] * len(filters.tables)
    assert filters.filter_bytes == info.filter_memory_bytes
    cache_bytes = None if share is None else round(info.filter_memory_bytes * share)
    warming, keys = passes("hot", load.entries, 400, 1)
    keys += [present_key(number) for number in range(0, load.entries, 50)]
    with lsmkv.open(
        tmp_path / "store",
        read_only=True,
        filter_residency="resident" if cache_bytes is None else "cached",
        block_cache_size_bytes=cache_bytes or 0,
    ) as db:
        db.get(warming[0])  # indexes and resident filters are read before anything is counted
        expected = [counted(db, warming[1:]), counted(db, keys)]
    with ChunkedStore(*bare, filters, cache_bytes) as store:
        store.get(warming[0])
        found = [counted(store, warming[1:]), counted(store, keys)]
        assert store.chunk_searches == 0
    assert found == expected
    assert found[1]["filter_false_positives"] > 0
    assert (found[0]["filter_reads"] > 0) == (share is not None)


@pytest.mark.parametrize("cache_bytes", [None, 600])
def test_every_present_key_is_found_through_its_chunk(
    bare: tuple[str, StoreInfo], tmp_path: Path, cache_bytes: int | None
) -> None:
    filters = chunked(bare, tmp_path / "filters", 200)
    assert max(len(chunks) for chunks in filters.tables) > 10
    with ChunkedStore(*bare, filters, cache_bytes) as store:
        for number in range(tiny_load("leveled").entries):
            assert store.get(present_key(number)) is not None
            assert store.get(absent_key(number)) is None


def test_chunks_hold_as_many_keys_as_fit(bare: tuple[str, StoreInfo], tmp_path: Path) -> None:
    filters = chunked(bare, tmp_path / "filters", 200)
    assert (tmp_path / "filters").stat().st_size == filters.filter_bytes
    for table, chunks in zip(bare[1].tables(), filters.tables, strict=True):
        assert sum(chunk.key_count for chunk in chunks) == table.entry_count
        assert {chunk.key_count for chunk in chunks[:-1]} <= {keys_within(200, RATE)}
        assert all(chunk.length <= 200 for chunk in chunks)
    # A table with one chunk needs no index; an entry is a key of 16 bytes, offset and length.
    assert filters.index_bytes == sum(
        28 * len(chunks) for chunks in filters.tables if len(chunks) > 1
    )


def test_no_filter_is_made_where_monkey_wants_none(
    bare: tuple[str, StoreInfo], tmp_path: Path
) -> None:
    path, info = bare
    rates = [RATE] * (len(list(info.tables())) - 1)
    filters = write_chunks(path, info, [*rates, 1.0], 200, str(tmp_path / "filters"))
    (last,) = filters.tables[-1]
    assert (last.length, last.exact_rate) == (0, 1.0)
    with ChunkedStore(path, info, filters) as store:
        found = counted(store, [absent_key(number) for number in range(0, 3000, 7)])
    assert found["unfiltered_probes"] > 0


# RocksDB


def test_rocksdb_counts_the_filters_that_it_reads(tmp_path: Path) -> None:
    load = Load("leveled", 1, 8000, 1)
    keys = [present_key(number) for number in range(load.entries)]
    tables = [keys[::3], [key for key in keys if key_number(key) % 3]]
    found = {
        partitioned: rocksdb.count_filter_reads(
            str(tmp_path / str(partitioned)),
            tables,
            rocksdb.RocksFilters(10, partitioned),
            load,
            300,
            1024,
        )
        for partitioned in (False, True)
    }
    for partitioned, counts in found.items():
        assert 9.9 < counts["rocksdb_filter_bits_per_key"] < 11, partitioned
        # Nothing fits into so small a cache: each of two tables is asked.
        assert counts["rocksdb_uniform_filter_reads_per_lookup"] == pytest.approx(2, abs=0.05)
    bytes_name = "rocksdb_uniform_filter_read_bytes_per_lookup"
    assert found[False][bytes_name] == pytest.approx(10_000, rel=0.05)
    assert found[True][bytes_name] < 2 * 4096
