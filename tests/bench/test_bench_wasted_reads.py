"""Block reads wasted on absent keys: budgets are met, and counts checked."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import pytest

from bench.engines.base import Settings, engine_named
from bench.engines.leveldb_engine import LevelDBStore
from bench.engines.rocksdb_engine import RocksDBStore
from bench.experiments.wasted_reads.experiment import CONTENDERS, EXPERIMENT, missing, tasks
from bench.experiments.wasted_reads.leveldb_files import filter_bytes
from bench.experiments.wasted_reads.measure import bloom_rate_within, measure
from bench.experiments.wasted_reads.rows import Row
from bench.experiments.wasted_reads.story import failures, story
from bench.experiments.wasted_reads.tables import at_budget, named
from bench.experiments.wasted_reads.tasks import NO_FILTER, Task
from bench.harness.experiment import Plan, Results, parser_for, run
from bench.harness.records import repeatable
from bench.harness.sweep import sweep
from lsmkv.filters.maths.sizing import filter_bytes_for

pytestmark = pytest.mark.slow  # every engine is measured

BITS = 8.0
TINY = ["--out", "unused", "--entries", "1000", "--passes", "3", "--bits", "8"]


@pytest.fixture(scope="module")
def results() -> Results[Row]:
    assert missing() == []
    return run(EXPERIMENT, TINY)


def row_of(results: Results[Row], name: str) -> Row:
    found = named(results.rows, name)
    assert found is not None
    return found


def test_without_filters_every_lookup_reads_a_block(results: Results[Row]) -> None:
    leveldb, rocksdb, ours = (
        row_of(results, f"{engine}, none") for engine in ("leveldb", "rocksdb", "lsmkv")
    )
    assert leveldb.block_reads == leveldb.lookups == 999
    # RocksDB reads two blocks for a key between these, which lsmkv's index answers alone.
    assert rocksdb.block_reads - 999 <= (rocksdb.block_count or 0)
    assert rocksdb.block_reads >= 999
    assert 0 < 999 - ours.block_reads <= (ours.block_count or 0)
    assert ours.block_reads == ours.filters_asked


def test_an_outsider_counts_the_same_reads_in_every_engine(results: Results[Row]) -> None:
    told = [row for row in results.rows if row.outside_reads is not None]
    if not told:
        pytest.skip("no C compiler here")
    assert {row.engine for row in told} == {"rocksdb", "leveldb", "lsmkv"}
    assert all(row.outside_reads == row.block_reads for row in results.rows)
    assert any(row.block_reads for row in told)


def test_written_filters_nearly_fill_their_budget_and_never_exceed_it(
    results: Results[Row],
) -> None:
    for row in at_budget(results.rows, BITS):
        if row.engine != "leveldb":
            assert 0.94 * BITS < row.filter_bits_per_key <= BITS, row.name
        else:
            assert BITS < row.filter_bits_per_key < 1.3 * BITS


def test_ribbon_filters_waste_fewer_reads_than_bloom_filters_in_the_same_bytes(
    results: Results[Row],
) -> None:
    for engine in ("lsmkv", "rocksdb"):
        bloom, ribbon = row_of(results, f"{engine}, bloom"), row_of(results, f"{engine}, ribbon")
        assert 2 * ribbon.block_reads < bloom.block_reads


def test_the_exact_rate_of_our_filters_lies_in_the_measured_interval(
    results: Results[Row],
) -> None:
    for filters in ("bloom", "ribbon"):
        row = row_of(results, f"lsmkv, {filters}")
        assert row.error_rate_exact is not None
        assert row.error_rate_low <= row.error_rate_exact <= row.error_rate_high
        assert row.error_rate_exact > row.bound


@pytest.mark.parametrize(("engine", "filters"), CONTENDERS)
def test_counts_repeat(engine: str, filters: str, results: Results[Row]) -> None:
    task = Task(engine, filters, BITS, 1000, 3, 4096, results.header["seed"])
    again = sweep(measure, [task], None)
    assert repeatable(again) == repeatable([row_of(results, f"{engine}, {filters}")])


def test_a_run_keeps_its_promises(results: Results[Row]) -> None:
    assert failures(results.rows) == []


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("lsmkv, ribbon", {"found": 1}, "1 absent keys were found"),
        ("lsmkv, ribbon", {"filter_bits_per_key": 8.01}, "exceed the budget"),
        ("lsmkv, bloom", {"filter_false_positives": 1}, "searches to read for"),
        ("leveldb, none", {"block_reads": 998, "outside_reads": 998}, "searches to read for"),
        ("rocksdb, none", {"block_reads": 998, "outside_reads": 998}, "searches to read for"),
        ("rocksdb, bloom", {"block_reads": 900, "outside_reads": 900}, "searches to read for"),
        ("leveldb, bloom", {"outside_reads": 1}, "an outsider counts 1"),
    ],
)
def test_a_broken_promise_fails_the_report(
    results: Results[Row], name: str, change: dict[str, int], reason: str
) -> None:
    changed = dataclasses.replace(row_of(results, name), **change)  # type: ignore[arg-type]
    (failure,) = failures([changed])
    assert reason in failure
    assert name in failure


def test_a_missing_peer_is_named_and_the_others_are_compared(
    results: Results[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(engine_named("rocksdb")), "is_installed", lambda _: False)
    assert missing() == ["rocksdb"]
    given = parser_for(EXPERIMENT).parse_args(TINY)
    planned = tasks(Plan(False, 1, given))
    assert {task.engine for task in planned} == {"leveldb", "lsmkv"}
    told = story([row for row in results.rows if row.engine != "rocksdb"])
    assert told.failures == []


def test_the_filters_of_leveldb_are_found_in_its_files(tmp_path: Path) -> None:
    sizes = {}
    for bits in (0, 10):
        path = tmp_path / str(bits)
        path.mkdir()
        store = LevelDBStore(str(path), Settings(bits_per_key=bits))
        store.put_batch([(b"%08d" % number, b"value" * 20) for number in range(2000)])
        store.compact()
        store.close()
        sizes[bits] = filter_bytes(str(path))
    assert sizes[0] == 0
    assert 10 * 2000 / 8 < sizes[10] < 13 * 2000 / 8


def test_a_file_that_is_no_table_of_leveldb_is_refused(tmp_path: Path) -> None:
    (tmp_path / "000005.ldb").write_bytes(bytes(100))
    with pytest.raises(ValueError, match=r"000005\.ldb: no table of LevelDB"):
        filter_bytes(str(tmp_path))


def test_rocksdb_takes_ribbon_filters_by_name(tmp_path: Path) -> None:
    sizes = {}
    for name, bits in (("bloom", 0.0), ("ribbon", 10.0)):
        path = tmp_path / name
        path.mkdir()
        store = RocksDBStore(str(path), Settings(bits_per_key=10), ribbon_bits_per_key=bits)
        store.put_batch([(b"%08d" % number, b"value") for number in range(20_000)])
        store.compact()
        sizes[name] = store.filter_bytes()
        store.close()
    assert 0.65 < sizes["ribbon"] / sizes["bloom"] < 0.75


def test_bloom_filters_get_the_lowest_rate_that_fits() -> None:
    filters = Counter({34: 100, 7: 1})

    def size(rate: float) -> int:
        return sum(count * filter_bytes_for(keys, rate) for keys, count in filters.items())

    rate = bloom_rate_within(filters, size(0.01))
    assert size(rate) == size(0.01)
    assert size(rate * 0.999) > size(0.01)


def test_absent_keys_lie_between_present_ones_and_differ_by_pass() -> None:
    task = Task("lsmkv", NO_FILTER, 0, 2500, 2, 4096, 1)
    present = [key for pairs in task.batches() for key, _ in pairs]
    first, second = task.absent(0), task.absent(1)
    assert len(present) == len(set(present)) == 2500
    assert first == task.absent(0) != second
    for keys in (first, second):
        pairs = zip(present, keys, present[1:], strict=False)
        assert all(before < key < after for before, key, after in pairs)
        assert len(keys) == 2499
