"""The purpose of the filters: saved reads, counted rightly, as many as theory says."""

from __future__ import annotations

import os
from typing import Final

import pytest

from filtered_stores import (
    KEY_COUNT,
    RATES,
    absent,
    absent_in_blocks,
    assert_likely,
    counted,
    load,
    loaded,
    look_up,
    present,
    tables_of,
)
from lsmkv.storage.storage import ReadKind

THREAD_IO: Final = "/proc/thread-self/io"
LOOK_UP_COUNTERS: Final = (
    "gets",
    "get_hits",
    "memtable_hits",
    "range_negatives",
    "filter_negatives",
    "filter_true_positives",
    "filter_false_positives",
    "unfiltered_probes",
)


# A filter is asked before the disk


@pytest.mark.parametrize("rate", [*RATES[:-1], pytest.param(RATES[-1], marks=pytest.mark.slow)])
def test_an_absent_key_costs_as_many_reads_as_the_filter_errs(path: str, rate: float) -> None:
    with loaded(path, error_rate=rate) as (db, storage):
        keys, expected = absent_in_blocks(db, per_key=8 if rate < 0.01 else 2)
        storage.reset()
        look_up(db, keys)
        reads = storage.reads(ReadKind.DATA, ".sst")
        assert_likely(reads, expected)
        assert reads == storage.reads()


@pytest.mark.parametrize("rate", RATES)
def test_a_present_key_costs_one_read(path: str, rate: float) -> None:
    with loaded(path, error_rate=rate) as (db, storage):
        for table in db.inspect().tables():
            assert table.requested_rate == pytest.approx(rate)
            assert table.expected_rate == pytest.approx(rate, rel=0.25)
        storage.reset()
        before = db.stats()
        assert all(db.get(present(number)) for number in range(0, KEY_COUNT, 3))
        counts = db.stats() - before
        assert storage.reads(ReadKind.DATA) == counts.filter_true_positives == KEY_COUNT / 3
        assert counts.filter_negatives == counts.filter_false_positives == 0


@pytest.mark.parametrize("residency", ["resident", "cached", "off"])
@pytest.mark.parametrize("granularity", ["block", pytest.param("table", marks=pytest.mark.slow)])
def test_many_keys_looked_up_together_are_counted_as_one_by_one(
    path: str, granularity: str, residency: str
) -> None:
    with loaded(path, filter_granularity=granularity, filter_residency=residency) as (db, _):
        for number in range(0, KEY_COUNT, 3):  # a second run
            db.put(present(number), b"newer")
        db.flush()
        keys = [present(number) for number in range(0, KEY_COUNT, 5)]
        keys += [absent(number, 0) for number in range(0, KEY_COUNT, 5)]
        keys += [b"", b"\xff"]
        start = db.stats()
        one_by_one = [db.get(key) for key in keys]
        middle = db.stats()
        assert db.multi_get(keys) == one_by_one
        end = db.stats()
        for name in LOOK_UP_COUNTERS:
            assert getattr(end - middle, name) == getattr(middle - start, name), name


def test_our_counts_match_the_storages(path: str) -> None:
    with loaded(path, filter_residency="cached") as (db, storage):
        db.multi_get([present(number) for number in range(0, KEY_COUNT, 5)])
        db.multi_get([absent(number, 0) for number in range(0, KEY_COUNT, 5)])
        db.delete(present(5))
        db.flush()
        db.compact_range()
        db.verify()
        stats = db.stats()
        for kind, reads, size_bytes in (
            (ReadKind.DATA, stats.block_reads, stats.block_read_bytes),
            (ReadKind.FILTER, stats.filter_reads, stats.filter_read_bytes),
            (ReadKind.INDEX, stats.index_reads, stats.index_read_bytes),
        ):
            assert reads == storage.reads(kind) > 0
            assert size_bytes == storage.read_bytes(kind)
        # Neighbouring blocks are fetched together: more blocks than calls, but the same bytes.
        assert stats.compaction_block_reads >= storage.reads(ReadKind.COMPACTION) > 0
        assert stats.compaction_read_bytes == storage.read_bytes(ReadKind.COMPACTION)


def _thread_reads() -> tuple[int, int]:
    """The kernel's counts of this thread's read calls and bytes."""
    descriptor = os.open(THREAD_IO, os.O_RDONLY)
    try:
        lines = os.read(descriptor, 4096).split()
    finally:
        os.close(descriptor)
    return int(lines[lines.index(b"syscr:") + 1]), int(lines[lines.index(b"rchar:") + 1])


@pytest.mark.skipif(not os.access(THREAD_IO, os.R_OK), reason="the kernel does not tell")
def test_our_counts_match_the_kernels(path: str) -> None:
    with loaded(path, error_rate=0.1) as (db, _):
        keys, expected = absent_in_blocks(db, per_key=1)
        before = db.stats()
        first, second = _thread_reads(), _thread_reads()
        for key in keys:
            db.get(key)
        third = _thread_reads()
        calls, size_bytes = (
            (after - middle) - (middle - start)  # reading the count itself costs these
            for start, middle, after in zip(first, second, third, strict=True)
        )
        counts = db.stats() - before
        assert calls == counts.block_reads
        assert size_bytes == pytest.approx(counts.block_read_bytes, abs=64)  # the count's digits
        assert_likely(calls, expected)


def test_a_key_outside_all_tables_costs_nothing(path: str) -> None:
    with loaded(path) as (db, storage):
        storage.reset()
        counts = look_up(db, [b"", b"zzz"])
        assert counts.range_negatives == 2
        assert counts.filter_negatives == storage.reads() == 0


def test_a_filter_is_sized_for_the_distinct_keys_of_its_block(path: str) -> None:
    with counted(path) as (db, _):
        held = []
        for version in range(4):
            for number in range(200):
                db[present(number)] = b"%d" % version
            held.append(db.snapshot())
        db.flush()
        for table in tables_of(db):
            for number in range(table.index.block_count):
                info = table.read_past_cache(number)[1]
                keys = set(table.block(number, False).keys())
                assert info.filter_key_count == len(keys) < info.entry_count


# The setting


def test_a_new_rate_applies_to_what_is_written_from_then_on(path: str) -> None:
    with counted(path, error_rate=0.1, filter_allocation="uniform") as (db, _):
        load(db)
    with counted(path, error_rate=0.001, filter_allocation="uniform") as (db, _):
        db[b"new"] = b"v"
        db.flush()
        rates = {run.number: run.tables[0] for level in db.inspect().levels for run in level.runs}
        assert {table.requested_rate for table in rates.values()} == {0.1, 0.001}
        db.compact_range()
        assert {table.requested_rate for table in db.inspect().tables()} == {0.001}
