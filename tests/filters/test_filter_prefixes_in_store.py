"""Prefix filters: scans skip blocks without the prefix, and no answer changes."""

from __future__ import annotations

import pytest

import lsmkv
from filtered_stores import assert_likely, block_of, counted, look_up, tables_of
from lsmkv import DB, DelimitedPrefix, FixedPrefix
from lsmkv.filters.maths.sizing import exact_rate
from lsmkv.storage.storage import ReadKind


def cell(row: int, column: int) -> bytes:
    return b"row%05d/col%02d" % (row, column)


def load_rows(db: DB) -> None:
    """One run of the even rows, with five columns each."""
    with db.write_batch() as batch:
        for row in range(0, 3000, 2):
            for column in range(5):
                batch.put(cell(row, column), b"v" * 30)
    db.compact_range()


def absent_rows(db: DB) -> list[bytes]:
    """Prefixes of odd rows inside a block: a scan reads it unless its filter denies them."""
    tables = tables_of(db)
    prefixes = [b"row%05d/" % row for row in range(1, 3000, 2)]
    return [prefix for prefix in prefixes if block_of(tables, prefix) is not None]


PREFIX_FILTERS = pytest.mark.parametrize(
    "filter_key", [FixedPrefix(8), DelimitedPrefix(b"/")], ids=["fixed", "delimited"]
)


@PREFIX_FILTERS
def test_a_prefix_scan_skips_blocks_whose_filter_denies_the_prefix(
    path: str, filter_key: lsmkv.FilterKey
) -> None:
    with counted(path, filter_key=filter_key) as (db, storage):
        load_rows(db)
        prefixes = absent_rows(db)
        tables = tables_of(db)
        infos = [
            place[0].read_past_cache(place[1])[1]
            for p in prefixes
            if (place := block_of(tables, p))
        ]
        storage.reset()
        before = db.stats()
        assert not any(found for prefix in prefixes for found in db.items(prefix=prefix))
        counts = db.stats() - before
        assert counts.prefix_filter_skips + counts.block_reads == len(prefixes) > 1000
        assert_likely(
            storage.reads(ReadKind.DATA),
            [exact_rate(i.filter_length * 8, i.filter_key_count, i.probe_count) for i in infos],
        )


@PREFIX_FILTERS
def test_a_prefix_filter_answers_look_ups_of_absent_rows(
    path: str, filter_key: lsmkv.FilterKey
) -> None:
    with counted(path, filter_key=filter_key) as (db, storage):
        load_rows(db)
        tables = tables_of(db)
        strangers = [cell(row, 1) for row in range(1, 3000, 2)]
        neighbours = [
            key for row in range(0, 3000, 2) if block_of(tables, key := cell(row, 1) + b"!")
        ]
        storage.reset()
        denied = look_up(db, strangers)
        assert storage.reads() < 0.05 * denied.filter_negatives
        storage.reset()
        look_up(db, neighbours)
        assert storage.reads(ReadKind.DATA) == len(neighbours)


def test_a_prefix_scan_reads_only_the_runs_that_hold_the_prefix(path: str) -> None:
    with counted(path, filter_key=DelimitedPrefix(b"/"), compaction="tiered", error_rate=1e-6) as (
        db,
        storage,
    ):
        for start in range(3):
            for row in range(start, 300, 3):
                db[cell(row, 0)] = b"v" * 30
            db.flush()
        storage.reset()
        for row in range(3, 297):
            assert [*iter(db.keys(prefix=b"row%05d/" % row))] == [cell(row, 0)]
        assert storage.reads(ReadKind.DATA) == 294


def test_a_prefix_shorter_than_the_filters_is_scanned_without_them(path: str) -> None:
    with counted(path, filter_key=FixedPrefix(8)) as (db, _):
        load_rows(db)
        before = db.stats()
        assert len(list(db.keys(prefix=b"row0001"))) == 25
        assert (db.stats() - before).prefix_filter_skips == 0


def test_prefix_filters_are_smaller(path: str) -> None:
    with counted(path, filter_key=DelimitedPrefix(b"/")) as (db, _):
        load_rows(db)
        entries = db.inspect().entry_count
        assert db.inspect().filter_bytes < 0.4 * entries * 9.6 / 8


def test_tables_keep_the_filter_key_they_were_written_with(path: str) -> None:
    with counted(path, filter_key=FixedPrefix(8)) as (db, _):
        load_rows(db)
    with counted(path) as (db, _):
        assert {table.filter_key for table in db.inspect().tables()} == {"fixed:8"}
        assert all(db.get(cell(row, 3)) for row in range(0, 3000, 2))
        before = db.stats()
        assert not [*iter(db.keys(prefix=b"row00001/"))]
        assert (db.stats() - before).prefix_filter_skips == 1
