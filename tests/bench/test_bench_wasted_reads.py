"""Block reads wasted on absent keys: budgets are met, and counts checked."""

from __future__ import annotations

import dataclasses
import math
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from bench.engines.base import Settings
from bench.engines.leveldb_engine import LevelDBStore
from bench.engines.leveldb_files import resident_sizes
from bench.experiments.wasted_reads.experiment import CONTENDERS, EXPERIMENT, missing, tasks
from bench.experiments.wasted_reads.measure import bloom_rate_within, measure
from bench.experiments.wasted_reads.rows import Row
from bench.experiments.wasted_reads.story import failures
from bench.experiments.wasted_reads.tables import at_budget, named
from bench.experiments.wasted_reads.tasks import NO_FILTER, KeySet, Task
from bench.harness.experiment import Plan, Results, parser_for, run
from bench.workloads.key_shapes import SHAPES, keys_of
from lsmkv.filters.maths.sizing import filter_bytes_for

pytestmark = pytest.mark.slow  # every engine is measured

SMALL, LARGE = 4.0, 20.0
"""Budgets: RocksDB's and LevelDB's whole indexes do not fit the first one."""

TINY = [
    *("--out", "unused", "--entries", "2000", "--passes", "3", "--shapes", "hex"),
    *("--value-bytes", "100", "--bits", f"{SMALL:g}", "--bits", f"{LARGE:g}"),
]


@pytest.fixture(scope="module")
def results() -> Results[Row]:
    assert missing() == []
    return run(EXPERIMENT, TINY)


def row_of(results: Results[Row], name: str) -> Row:
    found = named([row for row in results.rows if row.budget_bits_per_key != SMALL], name)
    assert found is not None
    return found


def test_without_filters_every_lookup_reads_a_block(results: Results[Row]) -> None:
    leveldb, rocksdb, ours = (
        row_of(results, f"{engine}, none") for engine in ("leveldb", "rocksdb", "lsmkv")
    )
    assert leveldb.block_reads == ours.block_reads == leveldb.lookups == 3 * 1999
    # RocksDB reads two blocks for a key between these.
    assert 0 <= (rocksdb.block_reads or 0) - rocksdb.lookups <= rocksdb.most_double_reads


def test_an_outsider_counts_the_same_reads_in_every_engine(results: Results[Row]) -> None:
    told = [row for row in results.rows if row.outside_reads is not None]
    if not told:
        pytest.skip("no C compiler here")
    assert {row.engine for row in told} == {"rocksdb", "leveldb", "lsmkv"}
    assert all(row.outside_reads == row.block_reads for row in results.rows)
    assert any(row.block_reads for row in told)


def test_filters_and_index_nearly_fill_their_budget_and_never_exceed_it(
    results: Results[Row],
) -> None:
    for row in at_budget(results.rows, LARGE):
        # LevelDB has whole bits for each key.
        least = LARGE - 1.2 if row.engine == "leveldb" else 0.93 * LARGE
        assert least < row.bits_per_key <= LARGE, row.name


def test_a_budget_below_the_index_is_told_and_not_measured(results: Results[Row]) -> None:
    rows = {row.name: row for row in at_budget(results.rows, SMALL)}
    assert len(rows) == len(CONTENDERS)
    for name in ("leveldb, bloom", "rocksdb, bloom", "rocksdb, ribbon"):
        row = rows[name]
        assert row.index_bits_per_key > SMALL, name
        assert row.block_reads is row.filter_bytes is row.outside_reads is None, name


def test_the_bytes_told_are_those_by_which_a_process_grows(results: Results[Row]) -> None:
    """A few hundred KiB are the engine's own, whatever the size of the store."""
    for engine in ("rocksdb", "leveldb", "lsmkv"):
        task = Task(engine, "bloom", "", "hex", False, 100, (40.0,), 60_000, 1, 4096, 1)
        sizes = {}
        for entries in (2000, 60_000):
            (row,) = _measured(dataclasses.replace(task, entries=entries))
            assert row.grown_bytes is not None
            sizes[entries] = row.index_bytes + (row.filter_bytes or 0), row.grown_bytes
        told = sizes[60_000][0] - sizes[2000][0]
        grown = sizes[60_000][1] - sizes[2000][1]
        assert 0.7 * told < grown < 1.6 * told, engine


def test_the_exact_rate_of_our_filters_is_the_measured_one() -> None:
    for filters, form in (("bloom", ""), ("ribbon", ""), ("ribbon", "per table")):
        task = Task("lsmkv", filters, form, "hex", False, 100, (9.0,), 4000, 5, 4096, 1)
        (row,) = _measured(task)
        assert row.error_rate_exact is not None and row.block_reads is not None
        expected = row.error_rate_exact * row.lookups
        assert abs(row.block_reads - expected) < 5 * math.sqrt(expected), filters


def _measured(task: Task) -> list[Row]:
    with tempfile.TemporaryDirectory() as directory:
        return measure(task, directory)


def test_a_run_keeps_its_promises(results: Results[Row]) -> None:
    assert failures(results.rows) == []


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("lsmkv, ribbon", {"found": 1}, "1 absent keys were found"),
        ("lsmkv, ribbon", {"filter_bytes": 5000}, "exceed the budget"),
        ("lsmkv, bloom", {"passed": 4000}, "searches to read for"),
        ("leveldb, none", {"block_reads": 998, "outside_reads": 998}, "searches to read for"),
        ("rocksdb, none", {"block_reads": 998, "outside_reads": 998}, "searches to read for"),
        ("rocksdb, bloom", {"block_reads": 5000, "outside_reads": 5000}, "searches to read for"),
        ("leveldb, bloom", {"outside_reads": 4000}, "an outsider counts 4,000"),
    ],
)
def test_a_broken_promise_fails_the_report(
    results: Results[Row], name: str, change: dict[str, int], reason: str
) -> None:
    changed = dataclasses.replace(row_of(results, name), **change)  # type: ignore[arg-type]
    (failure,) = failures([changed])
    assert reason in failure
    assert name in failure


def test_filters_and_index_of_leveldb_are_found_in_its_files(tmp_path: Path) -> None:
    sizes = {}
    for bits, compression in ((0, "none"), (10, "none"), (10, "zstd")):
        path = tmp_path / f"{bits}-{compression}"
        path.mkdir()
        store = LevelDBStore(str(path), Settings(bits_per_key=bits, compression=compression))  # type: ignore[arg-type]
        store.put_batch([(b"%08d" % number, b"value" * 20) for number in range(2000)])
        store.compact()
        store.close()
        sizes[bits, compression] = resident_sizes(str(path))
    assert sizes[0, "none"].filter_bytes == 0
    assert 10 * 2000 / 8 < sizes[10, "none"].filter_bytes < 13 * 2000 / 8
    # The same blocks have nearly the same index in memory, whether the file compresses it or not.
    compressed, plain = sizes[10, "zstd"].index_bytes, sizes[10, "none"].index_bytes
    assert 0.9 * plain < compressed <= plain
    assert 50 * 12 < sizes[0, "none"].index_bytes < 70 * 40


def test_a_file_that_is_no_table_of_leveldb_is_refused(tmp_path: Path) -> None:
    (tmp_path / "000005.ldb").write_bytes(bytes(100))
    with pytest.raises(ValueError, match=r"000005\.ldb: no table of LevelDB"):
        resident_sizes(str(tmp_path))


def test_bloom_filters_get_the_lowest_rate_that_fits() -> None:
    filters = Counter({34: 100, 7: 1})

    def size(rate: float) -> int:
        return sum(count * filter_bytes_for(keys, rate) for keys, count in filters.items())

    rate = bloom_rate_within(filters, size(0.01))
    assert size(rate) == size(0.01)
    assert size(rate * 0.999) > size(0.01)
    with pytest.raises(ValueError, match="no Bloom filter of these keys fits"):
        bloom_rate_within(filters, 1)


@pytest.mark.parametrize("shape", SHAPES)
def test_keys_of_every_shape_are_sorted_distinct_and_repeat(shape: str) -> None:
    keys = keys_of(shape, 5000, 7)
    assert keys == sorted(set(keys)) == keys_of(shape, 5000, 7)
    assert len(keys) == 5000
    assert max(map(len, keys)) < 64


def test_absent_keys_lie_between_present_ones_and_differ_by_pass() -> None:
    keys = KeySet(keys_of("names", 7500, 1), 2, 100, 1)
    assert [key for pairs in keys.batches() for key, _ in pairs] == keys.present
    assert len(keys.present) == 2500
    first, second = keys.absent()
    assert set(first).isdisjoint(second)
    for absent in (first, second):
        assert len(absent) == 2499
        pairs = zip(keys.present, absent, keys.present[1:], strict=False)
        assert all(before < key < after for before, key, after in pairs)
    assert sorted(keys.lookups()) == sorted(first + second)


def test_keys_of_a_file_are_sampled_and_split_into_present_and_absent(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_bytes(b"".join(b"key %d\n" % number for number in range(5000)))
    given = parser_for(EXPERIMENT).parse_args([*TINY, "--keys", str(file), "--entries", "1000"])
    task = next(task for task in tasks(Plan(False, 1, given)) if task.filters != NO_FILTER)
    keys = task.key_set()
    assert len(keys.present) == 1000
    assert all(key.startswith(b"key ") for key in keys.present + keys.lookups())


def test_blocks_whose_ribbon_filter_has_no_bits_are_read_and_break_no_promise() -> None:
    task = Task("lsmkv", "ribbon", "", "digits", False, 1000, (9.5,), 1000, 3, 4096, 1)
    (row,) = rows = _measured(task)
    assert row.block_reads is not None and row.block_reads > 0.5 * row.lookups
    assert failures(rows) == []
