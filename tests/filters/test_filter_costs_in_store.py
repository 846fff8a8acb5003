"""Costs of filters in bytes, memory and time, and their allocation."""

from __future__ import annotations

import pytest

import lsmkv
from filtered_stores import (
    KEY_COUNT,
    absent_in_blocks,
    counted,
    load,
    loaded,
    look_up,
    present,
    tables_of,
)
from lsmkv import DB, Options
from lsmkv.storage.storage import ReadKind

# Allocation of memory to runs


def layered(db: DB) -> None:
    """Three runs, each ten times as large as the one above."""
    load(db, range(0, 10 * KEY_COUNT, 10))
    for step in (100, 1000):
        with db.write_batch() as batch:
            for number in range(5, 10 * KEY_COUNT, step):
                batch.put(present(number), b"v" * 50)
        db.flush()


def test_monkey_gives_larger_runs_a_higher_error_rate(path: str) -> None:
    with counted(path, filter_allocation="monkey", compaction="tiered") as (db, _):
        layered(db)
        runs = [run for level in db.inspect().levels for run in level.runs]
        assert [run.entry_count for run in runs] == [30, 300, 3000]
        rates = [run.tables[0].requested_rate for run in runs]
        assert rates[0] < rates[1] < rates[2]
        assert rates[1] / rates[0] == pytest.approx(10, rel=0.3)


def test_uniform_allocation_gives_every_run_the_rate_asked_for(path: str) -> None:
    with counted(path, error_rate=0.02, filter_allocation="uniform", compaction="tiered") as (
        db,
        _,
    ):
        layered(db)
        assert {table.requested_rate for table in db.inspect().tables()} == {0.02}


# HBase's shape


def test_the_hbase_shape_costs_1_2_filter_bytes_per_cell(path: str) -> None:
    """64 KiB blocks of 200-byte cells at 1 %: about 1.2 bytes per cell.

    That is 6.43 MB for the 5.37 million cells of a 1 GiB table; measured on a 1/64 of it.
    """
    cell_count = (1 << 30) // 200 // 64
    with lsmkv.open(path, Options.hbase(), write_buffer_size_bytes=1 << 30) as db:
        with db.write_batch() as batch:
            for number in range(cell_count):
                batch.put(b"%016d" % number, bytes(184))
        db.flush()
        info = db.inspect()
        (table,) = info.tables()
        assert info.filter_bytes / cell_count == pytest.approx(1.2, abs=0.01)
        assert info.filter_bytes * 64 / 1e6 == pytest.approx(6.43, abs=0.05)
        assert table.raw_bytes / table.block_count == pytest.approx(64 * 1024, rel=0.07)
        assert table.block_count == pytest.approx(16384 / 64, rel=0.05)
        assert table.expected_rate == pytest.approx(0.01, rel=0.02)


# Costs of filters


def test_filter_bytes_on_disk_are_those_of_the_blocks(path: str) -> None:
    with loaded(path) as (db, _):
        embedded = sum(
            table.read_past_cache(number)[1].filter_length
            for table in tables_of(db)
            for number in range(table.index.block_count)
        )
        assert db.inspect().filter_bytes == embedded > 0


@pytest.mark.parametrize(("residency", "held"), [("resident", 1), ("cached", 0), ("off", 0)])
def test_filter_memory_is_reported(path: str, residency: str, held: int) -> None:
    with loaded(path, filter_residency=residency) as (db, _):
        info = db.inspect()
        assert (
            info.filter_memory_bytes == held * info.filter_bytes == db.memory_usage().filter_bytes
        )


def test_reads_of_resident_filters_are_counted(path: str) -> None:
    with loaded(path):
        pass
    with counted(path) as (db, storage):
        assert db.stats().filter_reads == storage.reads(ReadKind.FILTER) == 0
        tables = list(db.inspect().tables())
        stats = db.stats()
        assert stats.filter_reads == storage.reads(ReadKind.FILTER) == len(tables)
        assert stats.filter_read_bytes == sum(table.filter_bytes for table in tables)


def test_filters_save_far_more_than_their_own_reads(path: str) -> None:
    with loaded(path):
        pass
    costs: dict[str, tuple[int, int]] = {}
    for residency in ("off", "resident", "cached"):
        with counted(path, filter_residency=residency, block_cache_size_bytes=32 << 10) as (
            db,
            storage,
        ):
            keys, _ = absent_in_blocks(db, per_key=1)
            if residency == "cached":
                storage.reset()  # opening reads no filters
            look_up(db, keys)
            costs[residency] = (
                storage.reads(ReadKind.FILTER), storage.read_bytes(ReadKind.FILTER),
            )  # fmt: skip
    assert costs["off"] == (0, 0)
    for residency in ("resident", "cached"):
        reads, size_bytes = costs[residency]
        assert 0 < reads < 0.05 * KEY_COUNT
        assert size_bytes < 4 * KEY_COUNT
