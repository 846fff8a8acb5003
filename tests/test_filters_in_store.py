"""What the filters are for: reads saved, at what price, and that our numbers for both are true.

Stores are built from fixed keys, and the hash of a key is fixed too, so that every count here comes
out the same each time; the bounds say how far it may lie from what theory expects.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Final

import pytest
from scipy.stats import binom

import lsmkv
from lsmkv import DB, DelimitedPrefix, FixedPrefix, Options, Stats
from lsmkv.filters.allocation import expected_wasted_reads, memory_bits
from lsmkv.filters.sizing import exact_rate
from lsmkv.sstable.reader import TableReader
from lsmkv.storage import ReadKind
from storages import CountingStorage

THREAD_IO: Final = "/proc/thread-self/io"
RATES: Final = [0.5, 0.1, 0.01, 0.001]
KEY_COUNT: Final = 6000
CONFIDENCE: Final = 0.999
OPTIONS: Final = Options(
    block_size_bytes=2048,  # about 30 entries
    block_cache_size_bytes=0,
    compression="none",
    table_size_bytes=128 * 1024,
)


def present(number: int) -> bytes:
    return b"%07d" % number


def absent(number: int, variant: int) -> bytes:
    """A key between ``present(number)`` and the next, different for each variant."""
    return b"%07d-%d" % (number, variant)


def load(db: DB, numbers: range = range(KEY_COUNT)) -> None:
    """One run on the deepest level."""
    with db.write_batch() as batch:
        for number in numbers:
            batch.put(present(number), b"v" * 50)
    db.compact_range()


@contextmanager
def counted(path: str, **options: Any) -> Iterator[tuple[DB, CountingStorage]]:
    """A store whose reads are counted by the storage, beside its own counts."""
    storage = CountingStorage()
    with lsmkv.open(path, OPTIONS, storage=storage, **options) as db:
        yield db, storage


@contextmanager
def loaded(path: str, **options: Any) -> Iterator[tuple[DB, CountingStorage]]:
    with counted(path, **options) as (db, storage):
        load(db)
        yield db, storage


def tables_of(db: DB) -> list[TableReader]:
    return list(db._engine.usable_view().version.tables())


def block_of(tables: list[TableReader], key: bytes) -> tuple[TableReader, int] | None:
    """The one block that spans ``key``, in tables that do not overlap."""
    for table in tables:
        if table.meta.smallest <= key <= table.meta.largest:
            number = int(table.index.find(key))
            return None if number < 0 else (table, number)
    return None


def absent_in_blocks(db: DB, per_key: int) -> tuple[list[bytes], list[float]]:
    """Absent keys inside the key ranges of blocks, and the exact rate of each one's filter."""
    tables = tables_of(db)
    rates: dict[tuple[int, int], float] = {}
    for table in tables:
        for number in range(table.index.block_count):
            info = table.block_info(number)
            rates[table.meta.number, number] = exact_rate(
                info.filter_bits, info.filter_key_count, info.probe_count
            )
    keys: list[bytes] = []
    expected: list[float] = []
    for number in range(KEY_COUNT):
        for variant in range(per_key):
            key = absent(number, variant)
            place = block_of(tables, key)
            if place is not None:
                keys.append(key)
                expected.append(rates[place[0].meta.number, place[1]])
    return keys, expected


def assert_likely(successes: int, rates: list[float]) -> None:
    """Whether so many of independent events, each of its own rate, are to be expected.

    The binomial distribution of their mean rate is at least as wide as that of their sum
    (Hoeffding 1956).
    """
    low, high = binom.interval(CONFIDENCE, len(rates), math.fsum(rates) / len(rates))
    assert int(low) <= successes <= int(high)


def look_up(db: DB, keys: list[bytes]) -> Stats:
    """What is counted while each key is looked up, all of them in vain."""
    before = db.stats()
    assert not any(db.get(key) for key in keys)
    return db.stats() - before


def answers(db: DB) -> tuple[list[bytes | None], list[tuple[bytes, bytes]], list[bytes]]:
    """Look-ups in hit and miss, a range and a prefix."""
    keys = [
        key for number in range(0, KEY_COUNT, 7) for key in (present(number), absent(number, 1))
    ]
    return db.multi_get(keys), list(db.items(stop=present(100))), list(db.keys(prefix=b"00012"))


# A filter is asked before the disk


@pytest.mark.parametrize("rate", RATES)
def test_an_absent_key_costs_as_many_reads_as_the_filter_errs(path: str, rate: float) -> None:
    """Look-ups of absent keys inside block ranges read a block only when its filter errs: as often
    as the exact theory says for the filters as built."""
    with loaded(path, error_rate=rate) as (db, storage):
        keys, expected = absent_in_blocks(db, per_key=8 if rate < 0.01 else 2)
        storage.reset()
        look_up(db, keys)
        reads = storage.reads(ReadKind.DATA, ".sst")
        assert_likely(reads, expected)
        assert reads == storage.reads()


@pytest.mark.parametrize("rate", RATES)
def test_the_exact_rate_of_the_blocks_is_the_one_asked_for(path: str, rate: float) -> None:
    """Filters sized for p have an exact rate near p, in spite of whole bytes and whole probes."""
    with loaded(path, error_rate=rate) as (db, _):
        for table in db.inspect().tables():
            assert table.requested_rate == rate
            assert table.expected_rate == pytest.approx(rate, rel=0.25)


@pytest.mark.parametrize("rate", RATES)
def test_a_present_key_costs_one_read(path: str, rate: float) -> None:
    """A filter never denies a key that is there, and its block is the only one read."""
    with loaded(path, error_rate=rate) as (db, storage):
        storage.reset()
        before = db.stats()
        assert all(db.get(present(number)) for number in range(0, KEY_COUNT, 3))
        counts = db.stats() - before
        assert storage.reads(ReadKind.DATA) == counts.filter_true_positives == KEY_COUNT / 3
        assert counts.filter_negatives == counts.filter_false_positives == 0


def test_our_counts_are_those_of_the_storage(path: str) -> None:
    """Reads and bytes of every kind in ``stats`` equal what reached the operating system."""
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
    """Read calls of this thread, and the bytes they brought, by the kernel's count."""
    descriptor = os.open(THREAD_IO, os.O_RDONLY)
    try:
        lines = os.read(descriptor, 4096).split()
    finally:
        os.close(descriptor)
    return int(lines[lines.index(b"syscr:") + 1]), int(lines[lines.index(b"rchar:") + 1])


@pytest.mark.skipif(not os.access(THREAD_IO, os.R_OK), reason="the kernel does not tell")
def test_our_counts_are_those_of_the_kernel(path: str) -> None:
    """Read calls and bytes of absent look-ups, by the kernel's own accounting of this thread."""
    with loaded(path, error_rate=0.1) as (db, _):
        keys, expected = absent_in_blocks(db, per_key=1)
        before = db.stats()
        first, second = _thread_reads(), _thread_reads()
        for key in keys:
            db.get(key)
        third = _thread_reads()
        calls, size_bytes = (
            (after - middle) - (middle - start)  # less what reading the count itself takes
            for start, middle, after in zip(first, second, third, strict=True)
        )
        counts = db.stats() - before
        assert calls == counts.block_reads
        assert size_bytes == pytest.approx(counts.block_read_bytes, abs=64)  # the count's digits
        assert_likely(calls, expected)


def test_every_absent_look_up_is_told_apart(path: str) -> None:
    """Each in-block look-up of an absent key is either a filter's no or its false positive."""
    with loaded(path, error_rate=0.1) as (db, _):
        keys, _ = absent_in_blocks(db, per_key=1)
        counts = look_up(db, keys)
        assert counts.filter_negatives + counts.filter_false_positives == len(keys) == counts.gets
        assert counts.filter_false_positives == counts.block_reads
        assert counts.fence_negatives == counts.unfiltered_probes == counts.get_hits == 0


def test_a_key_between_two_blocks_costs_neither_probe_nor_read(path: str) -> None:
    """The index alone answers for keys above one block's last key and below the next one's first."""
    with loaded(path) as (db, storage):
        gaps = [
            table.index.last_key(number) + b"-"
            for table in tables_of(db)
            for number in range(table.index.block_count - 1)
        ]
        storage.reset()
        counts = look_up(db, gaps)
        assert counts.fence_negatives == len(gaps) > 100
        assert counts.filter_negatives == counts.filter_false_positives == 0
        assert storage.reads() == 0


def test_a_key_outside_all_tables_costs_nothing(path: str) -> None:
    """The key ranges of the tables answer before any index is searched."""
    with loaded(path) as (db, storage):
        storage.reset()
        counts = look_up(db, [b"", b"zzz"])
        assert counts.range_negatives == 2
        assert counts.fence_negatives == counts.filter_negatives == storage.reads() == 0


def test_a_look_up_of_an_absent_key_asks_every_run(path: str) -> None:
    """Over several overlapping runs, the expected reads are the sum of their exact rates."""
    with counted(path, error_rate=0.1, compaction="tiered") as (db, storage):
        for run in range(3):
            with db.write_batch() as batch:
                for number in range(run, KEY_COUNT, 3):
                    batch.put(present(number), b"v" * 50)
            db.flush()
        runs = db._engine.usable_view().version.runs
        assert len(runs) == 3
        expected: list[float] = []
        keys = [absent(number, 0) for number in range(3, KEY_COUNT - 3)]
        for run_of_tables in runs:
            tables = run_of_tables.tables
            for key in keys:
                place = block_of(tables, key)
                if place is not None:
                    info = place[0].block_info(place[1])
                    rate = exact_rate(info.filter_bits, info.filter_key_count, info.probe_count)
                    expected.append(rate)
        storage.reset()
        counts = look_up(db, keys)
        assert counts.fence_negatives + len(expected) == 3 * len(keys)
        assert_likely(storage.reads(ReadKind.DATA), expected)


def test_a_filter_is_sized_for_the_distinct_keys_of_its_block(path: str) -> None:
    """Old versions kept for snapshots do not count: n is the exact number of keys."""
    with counted(path) as (db, _):
        held = []
        for version in range(4):
            for number in range(200):
                db[present(number)] = b"%d" % version
            held.append(db.snapshot())
        db.flush()
        for table in tables_of(db):
            for number in range(table.index.block_count):
                info = table.block_info(number)
                keys = set(table.block(number, False).keys())
                assert info.filter_key_count == len(keys) < info.entry_count


# The kill switch


def test_without_filters_every_look_up_inside_a_block_reads_it(path: str) -> None:
    """With filters ignored, an absent key inside a block costs exactly one read."""
    with loaded(path, filter_residency="off") as (db, storage):
        keys, _ = absent_in_blocks(db, per_key=1)
        storage.reset()
        counts = look_up(db, keys)
        assert storage.reads(ReadKind.DATA) == counts.unfiltered_probes == len(keys)
        assert storage.reads(ReadKind.FILTER) == 0


def test_switching_filters_off_changes_reads_and_no_answer(path: str) -> None:
    """Filters can be ignored at open, on data written with them, and heeded again later."""
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
    """The switch is for reading: data written under it has filters to be used later."""
    with loaded(path, filter_residency="off") as (db, _):
        info = db.inspect()
        assert info.filter_bytes > 0
        assert info.filter_memory_bytes == db.memory_usage().filters == 0
    with counted(path) as (db, _):
        keys, expected = absent_in_blocks(db, per_key=1)
        assert_likely(look_up(db, keys).block_reads, expected)


# Filters fetched on demand


def test_cached_filters_give_the_same_answers_and_reads(path: str) -> None:
    """Fetching filters on demand changes nothing but when they are read."""
    with loaded(path) as (db, _):
        keys, _ = absent_in_blocks(db, per_key=1)
        resident = look_up(db, keys).block_reads
        expected = answers(db)
    with counted(path, filter_residency="cached", block_cache_size_bytes=1 << 20) as (db, _):
        assert db.memory_usage().filters == 0
        db.multi_get([absent(number, 0) for number in range(KEY_COUNT)])
        assert answers(db) == expected
    with counted(path, filter_residency="cached") as (db, _):
        assert look_up(db, keys).block_reads == resident


def test_cached_filters_are_read_once_while_they_fit(path: str) -> None:
    """Their reads are counted, and do not recur as long as the cache holds them."""
    with loaded(path):
        pass
    with counted(path, filter_residency="cached", block_cache_size_bytes=1 << 20) as (db, storage):
        assert db.stats().filter_reads == 0
        keys, _ = absent_in_blocks(db, per_key=1)
        cold, warm = look_up(db, keys), look_up(db, keys)
        assert cold.filter_read_bytes == db.inspect().filter_bytes
        assert cold.filter_reads == storage.reads(ReadKind.FILTER) > 0
        assert warm.filter_reads == 0


def test_cached_filters_without_a_cache_are_read_each_time(path: str) -> None:
    """With no cache at all, each look-up inside a block pays for a filter read."""
    with loaded(path):
        pass
    with counted(path, filter_residency="cached") as (db, storage):
        keys, _ = absent_in_blocks(db, per_key=1)
        counts = look_up(db, keys)
        assert counts.filter_reads == storage.reads(ReadKind.FILTER) == len(keys)


def test_cached_filters_stay_within_the_budget_of_the_cache(path: str) -> None:
    """However many filters there are, memory is bounded by the block cache's size."""
    with loaded(path, error_rate=1e-6):
        pass
    budget = 8192
    with counted(path, filter_residency="cached", block_cache_size_bytes=budget) as (db, _):
        assert db.inspect().filter_bytes > budget
        for number in range(0, KEY_COUNT, 11):
            db.get(absent(number, 0))
            usage = db.memory_usage()
            assert usage.block_cache <= budget
            assert usage.filters == 0
        assert db.stats().block_cache_evictions > 0


# One filter for a table


@pytest.mark.parametrize("rate", RATES)
def test_a_filter_per_table_errs_at_its_exact_rate(path: str, rate: float) -> None:
    """With table granularity too, reads per absent look-up are the exact rate for (m, n, k)."""
    with loaded(path, error_rate=rate, filter_granularity="table") as (db, storage):
        tables = tables_of(db)
        rates = {
            table.meta.number: exact_rate(
                8 * table.footer.filters_length,
                table.properties.filter_key_count,
                table.properties.probe_count,
            )
            for table in tables
        }
        keys, expected = [], []
        for number in range(KEY_COUNT):
            for variant in range(8 if rate < 0.01 else 2):
                place = block_of(tables, absent(number, variant))
                if place is not None:
                    keys.append(absent(number, variant))
                    expected.append(rates[place[0].meta.number])
        storage.reset()
        counts = look_up(db, keys)
        assert_likely(storage.reads(ReadKind.DATA), expected)
        assert counts.filter_negatives + counts.filter_false_positives == len(keys)


def test_a_filter_per_table_answers_before_the_index_is_searched(path: str) -> None:
    """It denies keys between blocks as well, which the index would have answered for."""
    with loaded(path, error_rate=0.001, filter_granularity="table") as (db, storage):
        gaps = [
            table.index.last_key(number) + b"-"
            for table in tables_of(db)
            for number in range(table.index.block_count - 1)
        ]
        storage.reset()
        counts = look_up(db, gaps)
        assert counts.filter_negatives + counts.fence_negatives == len(gaps)
        assert counts.filter_negatives > 0.9 * len(gaps)
        assert storage.reads() == 0


def test_both_granularities_answer_alike_and_cost_alike(path: str) -> None:
    """One filter of a table is about as large as those of its blocks together."""
    with loaded(path) as (db, _):
        by_block = answers(db), db.inspect().filter_bytes
    with counted(path, filter_granularity="table") as (db, _):
        assert answers(db) == by_block[0]
        db.delete(present(KEY_COUNT - 1))
        db.compact_range()
        db[present(KEY_COUNT - 1)] = b"v" * 50
        db.compact_range()
        assert {table.granularity for table in db.inspect().tables()} == {"table"}
        assert answers(db) == by_block[0]
        assert db.inspect().filter_bytes == pytest.approx(by_block[1], rel=0.05)


# Memory shared out among runs


def layered(db: DB) -> None:
    """Three runs whose sizes differ by a factor of ten each, the largest deepest."""
    load(db, range(0, 10 * KEY_COUNT, 10))
    for step in (100, 1000):
        with db.write_batch() as batch:
            for number in range(5, 10 * KEY_COUNT, step):
                batch.put(present(number), b"v" * 50)
        db.flush()


def test_monkey_gives_larger_runs_a_higher_error_rate(path: str) -> None:
    """Runs are sized for rates in proportion to their keys, small ones almost never erring."""
    with counted(path, filter_allocation="monkey", compaction="tiered") as (db, _):
        layered(db)
        runs = [run for level in db.inspect().levels for run in level.runs]
        assert [run.entry_count for run in runs] == [60, 600, 6000]
        rates = [run.tables[0].requested_rate for run in runs]
        assert rates[0] < rates[1] < rates[2]
        assert rates[1] / rates[0] == pytest.approx(10, rel=0.3)


def test_monkey_wastes_fewer_reads_than_uniform_rates_of_the_same_memory(path: str) -> None:
    """At the memory that Monkey spends, one rate for all runs would waste more reads."""
    with counted(path, filter_allocation="monkey", compaction="tiered") as (db, _):
        layered(db)
        runs = [run for level in db.inspect().levels for run in level.runs]
        counts = [run.entry_count for run in runs]
        rates = [run.tables[0].requested_rate for run in runs]
        bits_per_key = memory_bits(counts, rates) / sum(counts)
        uniform = math.exp(-bits_per_key * math.log(2) ** 2)
        assert expected_wasted_reads(rates) < 0.5 * expected_wasted_reads([uniform] * len(runs))


def test_uniform_allocation_gives_every_run_the_rate_asked_for(path: str) -> None:
    """Without Monkey every table is sized for the one rate."""
    with counted(path, error_rate=0.02, compaction="tiered") as (db, _):
        layered(db)
        assert {table.requested_rate for table in db.inspect().tables()} == {0.02}


# Filters of prefixes


def cell(row: int, column: int) -> bytes:
    return b"row%05d/col%02d" % (row, column)


def load_rows(db: DB) -> None:
    """Even rows alone, of five columns each, in one run."""
    with db.write_batch() as batch:
        for row in range(0, 3000, 2):
            for column in range(5):
                batch.put(cell(row, column), b"v" * 30)
    db.compact_range()


def absent_rows(db: DB) -> list[bytes]:
    """Prefixes of odd rows that lie inside a block; a scan must read it, if no filter denies it."""
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
    """Scans of absent prefixes read a block only when its filter errs, where each would read one."""
    with counted(path, filter_key=filter_key) as (db, storage):
        load_rows(db)
        prefixes = absent_rows(db)
        tables = tables_of(db)
        infos = [place[0].block_info(place[1]) for p in prefixes if (place := block_of(tables, p))]
        storage.reset()
        before = db.stats()
        assert not any(found for prefix in prefixes for found in db.items(prefix=prefix))
        counts = db.stats() - before
        assert counts.prefix_filter_skips + counts.block_reads == len(prefixes) > 1000
        assert_likely(
            storage.reads(ReadKind.DATA),
            [exact_rate(i.filter_bits, i.filter_key_count, i.probe_count) for i in infos],
        )


@PREFIX_FILTERS
def test_a_prefix_filter_answers_look_ups_of_absent_rows(
    path: str, filter_key: lsmkv.FilterKey
) -> None:
    """A look-up in a row that is not there is denied; in one that is, the block must be read."""
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


@PREFIX_FILTERS
@pytest.mark.parametrize("granularity", ["block", "table"])
@pytest.mark.parametrize("residency", ["resident", "cached", "off"])
def test_prefix_filters_change_no_answer(
    path: str, filter_key: lsmkv.FilterKey, granularity: str, residency: str
) -> None:
    """Any column of a row, whole ranges and single look-ups are found whatever the filters hold."""
    expected = {cell(row, column): b"v" * 30 for row in range(0, 3000, 2) for column in range(5)}
    with counted(
        path, filter_key=filter_key, filter_granularity=granularity, filter_residency=residency
    ) as (db, _):
        load_rows(db)
        assert dict(db) == expected
        for row in range(200):
            found = list(db.keys(prefix=b"row%05d/" % row))
            assert found == [key for column in range(5) if (key := cell(row, column)) in expected]
            assert list(db.keys(prefix=b"row%05d/" % row, reverse=True)) == found[::-1]
        assert (
            sum(1 for _ in db.keys(prefix=b"row0")) == sum(1 for _ in db.keys(prefix=b"")) == 7500
        )
        keys = list(expected)[::13]
        assert db.multi_get(keys) == [expected[key] for key in keys]


def test_a_prefix_scan_reads_only_the_runs_that_hold_the_prefix(path: str) -> None:
    """Of several runs that span a row, those without it are passed over."""
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
    """Filters that cannot answer for a prefix are not asked, and everything is found."""
    with counted(path, filter_key=FixedPrefix(8)) as (db, _):
        load_rows(db)
        before = db.stats()
        assert len(list(db.keys(prefix=b"row0001"))) == 25
        assert (db.stats() - before).prefix_filter_skips == 0


def test_prefix_filters_are_smaller(path: str) -> None:
    """Each prefix is held once, whatever the number of keys that share it."""
    with counted(path, filter_key=DelimitedPrefix(b"/")) as (db, _):
        load_rows(db)
        entries = db.inspect().entry_count
        assert db.inspect().filter_bytes < 0.4 * entries * 9.6 / 8


def test_tables_keep_the_filter_key_they_were_written_with(path: str) -> None:
    """Opened with another filter key, old tables are asked by the one that made them."""
    with counted(path, filter_key=FixedPrefix(8)) as (db, _):
        load_rows(db)
    with counted(path) as (db, _):
        assert {table.filter_key for table in db.inspect().tables()} == {"fixed:8"}
        assert all(db.get(cell(row, 3)) for row in range(0, 3000, 2))
        before = db.stats()
        assert not [*iter(db.keys(prefix=b"row00001/"))]
        assert (db.stats() - before).prefix_filter_skips == 1


# HBase's shape


def test_the_hbase_shape_costs_1_2_filter_bytes_per_cell(path: str) -> None:
    """64 KiB blocks of 200-byte cells at 1 %: about 1.2 bytes per cell, 6.43 MB for the 5.37 million
    cells of a 1 GiB table; measured on a 1/64 of it."""
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


# The setting


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.5, 2.0, math.nan])
def test_an_error_rate_outside_zero_and_one_opens_nothing(path: str, rate: float) -> None:
    """The rate must lie between 0 and 1, both excluded, or the store is not even made."""
    with pytest.raises(ValueError, match="error_rate"):
        lsmkv.open(path, error_rate=rate)
    assert not os.path.exists(path)


def test_the_rate_is_one_percent_unless_set(path: str) -> None:
    """What is written without setting it has filters for 1 %."""
    with lsmkv.open(path) as db:
        db[b"k"] = b"v"
        db.flush()
        assert [table.requested_rate for table in db.inspect().tables()] == [0.01]


def test_a_new_rate_applies_to_what_is_written_from_then_on(path: str) -> None:
    """Old tables keep theirs until a compaction rewrites them."""
    with counted(path, error_rate=0.1) as (db, _):
        load(db)
    with counted(path, error_rate=0.001) as (db, _):
        db[b"new"] = b"v"
        db.flush()
        rates = {run.number: run.tables[0] for level in db.inspect().levels for run in level.runs}
        assert {table.requested_rate for table in rates.values()} == {0.1, 0.001}
        db.compact_range()
        assert {table.requested_rate for table in db.inspect().tables()} == {0.001}


# What filters cost


def test_filter_bytes_on_disk_are_those_of_the_blocks(path: str) -> None:
    """The reported size is the sum of the filters embedded in the blocks."""
    with loaded(path) as (db, _):
        embedded = sum(
            table.block_info(number).filter_bits // 8
            for table in tables_of(db)
            for number in range(table.index.block_count)
        )
        assert db.inspect().filter_bytes == embedded > 0


@pytest.mark.parametrize(("residency", "held"), [("resident", 1), ("cached", 0), ("off", 0)])
def test_filter_memory_is_reported(path: str, residency: str, held: int) -> None:
    """Resident filters take their size in memory for good, others none."""
    with loaded(path, filter_residency=residency) as (db, _):
        info = db.inspect()
        assert info.filter_memory_bytes == held * info.filter_bytes == db.memory_usage().filters


def test_time_spent_on_building_filters_is_reported(path: str) -> None:
    """Every table says how long its filters took."""
    with loaded(path) as (db, _):
        assert db.stats().filter_build_ns > 0


def test_reads_of_filters_at_open_are_counted(path: str) -> None:
    """Resident filters are read when a table is opened: once, and all of them."""
    with loaded(path):
        pass
    with counted(path) as (db, storage):
        stats = db.stats()
        tables = list(db.inspect().tables())
        assert stats.filter_reads == storage.reads(ReadKind.FILTER) == len(tables)
        assert stats.filter_read_bytes == sum(table.filter_bytes for table in tables)


def test_net_of_their_own_reads_filters_save_most(path: str) -> None:
    """Block reads saved exceed by far the reads and bytes of the filters that saved them."""
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
                storage.reset()  # fences alone are read at open
            look_up(db, keys)
            costs[residency] = (
                storage.reads(ReadKind.FILTER), storage.read_bytes(ReadKind.FILTER),
            )  # fmt: skip
    assert costs["off"] == (0, 0)
    for residency in ("resident", "cached"):
        reads, size_bytes = costs[residency]
        assert 0 < reads < 0.05 * KEY_COUNT
        assert size_bytes < 4 * KEY_COUNT


def test_error_rate_buys_reads_with_memory(path: str, tmp_path_factory: Any) -> None:
    """Each lower rate takes more filter bytes and wastes fewer reads."""
    sizes, reads = [], []
    for rate in RATES:
        place = str(tmp_path_factory.mktemp("rate"))
        with loaded(place, error_rate=rate) as (db, _):
            keys, _ = absent_in_blocks(db, per_key=1)
            sizes.append(db.inspect().filter_bytes)
            reads.append(look_up(db, keys).block_reads)
    assert all(low < high for low, high in pairwise(sizes))
    assert all(high > low for high, low in pairwise(reads))
