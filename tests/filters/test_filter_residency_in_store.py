"""Filters in memory, fetched on demand or ignored: same answers, other reads."""

from __future__ import annotations

import lsmkv
from filtered_stores import (
    KEY_COUNT,
    absent,
    absent_in_blocks,
    answers,
    assert_likely,
    counted,
    loaded,
    look_up,
    present,
)
from lsmkv.storage.storage import ReadKind

# The kill switch


def test_without_filters_every_look_up_inside_a_block_reads_it(path: str) -> None:
    with loaded(path, filter_residency="off") as (db, storage):
        keys, _ = absent_in_blocks(db, per_key=1)
        storage.reset()
        counts = look_up(db, keys)
        assert storage.reads(ReadKind.DATA) == counts.unfiltered_probes == len(keys)
        assert storage.reads(ReadKind.FILTER) == 0


def test_switching_filters_off_changes_reads_and_no_answer(path: str) -> None:
    reads: list[int] = []
    found = []
    with loaded(path):
        pass
    for residency in ("resident", "off", "resident"):
        with counted(path, filter_residency=residency) as (db, storage):
            keys, _ = absent_in_blocks(db, per_key=1)
            storage.reset()
            look_up(db, keys)
            reads.append(storage.reads(ReadKind.DATA))
            found.append(answers(db))
    assert found[0] == found[1] == found[2]
    assert reads[0] == reads[2] < 0.05 * reads[1]


def test_filters_are_written_while_they_are_switched_off(path: str) -> None:
    with loaded(path, filter_residency="off") as (db, _):
        info = db.inspect()
        assert info.filter_bytes > 0
        assert info.filter_memory_bytes == db.memory_usage().filter_bytes == 0
    with counted(path) as (db, _):
        keys, expected = absent_in_blocks(db, per_key=1)
        assert_likely(look_up(db, keys).block_reads, expected)


# Filters fetched on demand


def test_filters_that_the_cache_cannot_keep_read_hardly_more_than_the_blocks_they_spare(
    path: str,
) -> None:
    options = lsmkv.Options(compression="none", read_compaction_rate_bytes=0)
    read = {}
    with lsmkv.open(path, options) as db:
        for number in range(20_000):
            db[present(number)] = b"v" * 100
        db.compact_range()
    for residency in ("off", "cached"):
        with counted(path, filter_residency=residency, block_cache_size_bytes=0) as (db, _):
            counts = look_up(db, [absent(number, 0) for number in range(0, 20_000, 40)])
            read[residency] = counts.block_read_bytes + counts.filter_read_bytes
    assert read["cached"] < 1.25 * read["off"]


def test_cached_filters_give_the_same_answers_and_reads(path: str) -> None:
    with loaded(path) as (db, _):
        keys, _ = absent_in_blocks(db, per_key=1)
        resident = look_up(db, keys).block_reads
        expected = answers(db)
    with counted(path, filter_residency="cached", block_cache_size_bytes=1 << 20) as (db, _):
        assert db.memory_usage().filter_bytes == 0
        db.multi_get([absent(number, 0) for number in range(KEY_COUNT)])
        assert answers(db) == expected
    with counted(path, filter_residency="cached") as (db, _):
        assert look_up(db, keys).block_reads == resident


def test_cached_filters_stay_within_the_budget_of_the_cache(path: str) -> None:
    with loaded(path, error_rate=1e-6, filter_policy="bloom"):
        pass
    budget = 8192
    with counted(path, filter_residency="cached", block_cache_size_bytes=budget) as (db, _):
        assert db.inspect().filter_bytes > budget
        for number in range(0, KEY_COUNT, 11):
            db.get(absent(number, 0))
            usage = db.memory_usage()
            assert usage.block_cache_bytes <= budget
            assert usage.filter_bytes == 0
        assert db.stats().block_cache_evictions > 0


# In memory


def test_filters_are_not_read_before_the_first_lookup(path: str) -> None:
    with lsmkv.open(path) as db:
        db[b"key"] = db[b"other key"] = b"value"
        db.flush()
        assert db.memory_usage().index_bytes > 0
        assert db.memory_usage().filter_bytes == 0
        assert db[b"key"] == b"value"
        assert db.memory_usage().filter_bytes > 0


def test_filters_of_new_tables_are_in_memory_once_keys_are_looked_up(path: str) -> None:
    with lsmkv.open(path) as db:
        db[b"key"] = db[b"other key"] = b"value"
        db.flush()
        assert b"other" not in db
        before = db.memory_usage().filter_bytes
        db[b"later"] = db[b"latest"] = b"value"
        db.flush()
        assert db.memory_usage().filter_bytes > before
