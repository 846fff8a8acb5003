"""Costs of filters in bytes, memory and time, and their allocation."""

from __future__ import annotations

import pytest

import lsmkv
from filtered_stores import (
    KEY_COUNT,
    absent_in_blocks,
    counted,
    loaded,
    look_up,
)
from lsmkv import Options
from lsmkv.storage.storage import ReadKind

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


@pytest.mark.parametrize(("residency", "held"), [("resident", 1), ("cached", 0), ("off", 0)])
def test_filter_memory_is_reported(path: str, residency: str, held: int) -> None:
    with loaded(path, filter_residency=residency) as (db, _):
        info = db.inspect()
        assert (
            info.filter_memory_bytes == held * info.filter_bytes == db.memory_usage().filter_bytes
        )


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
