"""One memory budget: writers are slowed, then stopped, when it is used up."""

from __future__ import annotations

import logging
import random
import subprocess
import sys
import threading
from typing import Any, cast

import pytest

import lsmkv
from gates import WAIT_S, GatedStorage
from lsmkv import MemoryUsage, Options
from lsmkv.engine.writer import SLOWED_BYTES_PER_S, Throttle
from lsmkv.sstable.block_cache import PLACE_BYTES, BlockCache, CacheItem, TableMemory
from lsmkv.stats import Stats
from threaded_stores import open_store, run_all, wait_until

KIB = 1024
BUDGET = 128 * KIB
ENTRY_BYTES = 150  # no write of the workload takes more of a log
SHAPE: dict[str, Any] = {
    "block_size_bytes": 512,
    "table_size_bytes": 32 * KIB,
    "level1_size_bytes": 128 * KIB,
    "max_immutable_memtables": 1,
    "filter_policy": "bloom",
}


def usages_of_a_workload(db: lsmkv.DB, writes: int = 5_000) -> list[MemoryUsage]:
    """What the store took, asked all along; keys are overwritten, looked up, and scanned."""
    dice = random.Random(1)
    found = []
    for number in range(writes):
        db.put(b"%08d" % dice.randrange(writes), dice.randbytes(100))
        db.get(b"%08d" % dice.randrange(writes))
        if number % 20 == 0:
            found.append(db.memory_usage())
    db.compact_range()
    for _ in range(1000):
        db.get(b"%08d" % dice.randrange(2 * writes))
    found.append(db.memory_usage())
    return found


def reserved(db: lsmkv.DB) -> int:
    return db._engine.cache.reserved_bytes


def in_tables(usage: MemoryUsage) -> int:
    return usage.filter_bytes + usage.index_bytes


@pytest.mark.parametrize("compaction", ["leveled", "tiered"])
def test_the_sum_stays_within_the_budget_all_along(path: str, compaction: Any) -> None:
    with lsmkv.open(path, memory_budget_bytes=BUDGET, compaction=compaction, **SHAPE) as db:
        usages = usages_of_a_workload(db)
        last = usages[-1]
        assert db.stats().flushes > 3 and db.stats().compactions > 0
        assert reserved(db) == in_tables(last)  # nothing of tables that are gone
    assert max(usage.total_bytes for usage in usages) <= BUDGET + 2 * ENTRY_BYTES
    assert max(usage.memtable_bytes for usage in usages) <= BUDGET // 2 + 2 * ENTRY_BYTES
    assert min(last.filter_bytes, last.index_bytes, last.block_cache_bytes) > 0
    assert last.budget_bytes == BUDGET
    assert last.block_cache_bytes <= last.block_cache_budget_bytes <= BUDGET // 2 - in_tables(last)


def test_filters_that_do_not_fit_are_read_through_the_cache_and_the_log_tells_once(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = {**SHAPE, "error_rate": 1e-9, "block_size_bytes": 2 * KIB}
    budget = 32 * KIB
    with lsmkv.open(path, memory_budget_bytes=budget, **options) as db:
        usages = usages_of_a_workload(db, 3_600)
        last, stats = usages[-1], db.stats()
        filter_bytes = sum(table.filter_bytes for table in db.inspect().tables())
        assert filter_bytes + last.index_bytes > budget // 2 // 4 * 3
        assert last.filter_bytes < filter_bytes
        assert stats.filter_negatives > 0 and stats.unfiltered_probes == 0
    assert max(usage.total_bytes for usage in usages) <= budget + 2 * ENTRY_BYTES
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "memory_budget_bytes leaves 16384 bytes" in record.getMessage()


def test_a_refreshed_reader_forgets_the_memory_of_tables_that_are_gone(path: str) -> None:
    with (
        lsmkv.open(path, **SHAPE) as writer,
        lsmkv.open(path, read_only=True, memory_budget_bytes=BUDGET) as reader,
    ):
        for round_number in range(4):
            writer.update({b"%05d" % n: b"%d" % round_number for n in range(2000)})
            writer.compact_range(force=True)
            reader.refresh()
            assert reader[b"00007"] == b"%d" % round_number
            assert reserved(reader) == in_tables(reader.memory_usage()) > 0


def test_the_budget_lowers_the_write_buffer_and_raises_nothing(path: str) -> None:
    with lsmkv.open(path, memory_budget_bytes=6 << 20) as db:
        assert db.options.write_buffer_size_bytes == 1 << 20  # of three, in half of the budget
        assert db.options.block_cache_size_bytes == 3 << 20
    with lsmkv.open(path, memory_budget_bytes=1 << 40) as db:
        assert db.options == Options(memory_budget_bytes=1 << 40)


def test_a_budget_that_memtables_alone_exceed_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="memory_budget_bytes=1000: must be 0 or at least 24576"):
        lsmkv.open(path, memory_budget_bytes=1000)
    Options(memory_budget_bytes=16384, max_immutable_memtables=1)


# --- the cache ------------------------------------------------------------------------------------


def filled_cache() -> BlockCache:
    cache = BlockCache(100, Stats(), budget_bytes=120)
    slots = cache.slots(10)
    for slot in range(10):
        cache.put(slots, slot, CacheItem(10 - PLACE_BYTES))
    assert cache.used_bytes == 100
    return cache


def test_what_a_table_holds_leaves_the_cache() -> None:
    cache = filled_cache()
    memory = TableMemory(cache)
    memory.hold_index(20)
    assert (cache.capacity_bytes, cache.used_bytes) == (100, 100)
    memory.hold_filters(31)
    assert (cache.capacity_bytes, cache.used_bytes) == (69, 60)
    memory.hold_filters(11)
    assert cache.capacity_bytes == 89
    memory.release()
    assert (cache.capacity_bytes, cache.reserved_bytes) == (100, 0)
    memory.hold_filters(50)  # a lookup of an old version loads them
    assert cache.reserved_bytes == 0


def test_indexes_that_exceed_the_budget_leave_the_cache_nothing() -> None:
    cache = filled_cache()
    TableMemory(cache).hold_index(500)
    assert (cache.capacity_bytes, cache.used_bytes, len(cache)) == (0, 0, 0)


def test_filters_may_take_three_quarters() -> None:
    cache = filled_cache()
    memory = TableMemory(cache)
    memory.hold_index(40)
    assert memory.residency("resident", 51) == "cached"
    assert memory.residency("off", 51) == "off"
    assert cache.reserved_bytes == 40
    assert memory.residency("resident", 50) == "resident"
    assert cache.reserved_bytes == 90
    assert (cache.is_first_refusal(), cache.is_first_refusal()) == (True, False)


GROWTH = """
import random, re, sys
import lsmkv
def resident():  # memory of its own, as the kernel counts it
    with open("/proc/self/status") as file:
        return int(re.search(r"RssAnon:\\s+(\\d+)", file.read())[1]) * 1024
path, budget, value_bytes, entries = sys.argv[1], *map(int, sys.argv[2:])
values = [random.Random(number).randbytes(value_bytes) for number in range(64)]
dice = random.Random(1)
began = most = resident()
with lsmkv.open(path, memory_budget_bytes=budget) as db:
    for number in range(entries):
        db.put(b"%016d" % dice.randrange(entries), values[number % 64])
        if not number % 5000:
            most = max(most, resident())
    db.compact_range()
    for number in range(entries // 4):
        db.get(b"%016d" % dice.randrange(entries))
        if not number % 5000:
            most = max(most, resident())
    sum(1 for _ in db.keys())
    most = max(most, resident())
print(most - began)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("value_bytes", "entries"), [(8, 600_000), (400, 150_000)])
def test_the_process_grows_by_little_more_than_the_budget(
    path: str, value_bytes: int, entries: int
) -> None:
    budget = 32 << 20
    arguments = [str(number) for number in (budget, value_bytes, entries)]
    command = [sys.executable, "-c", GROWTH, path, *arguments]
    grown = int(subprocess.run(command, check=True, capture_output=True, timeout=300).stdout)
    assert 4 << 20 < grown <= 1.1 * budget + (20 << 20)


def scattered(count: int) -> list[int]:
    """Shuffled numbers, whose runs overlap: no table can be just moved down."""
    numbers = list(range(count))
    random.Random(count).shuffle(numbers)
    return numbers


def write_until_done(db: lsmkv.DB, done: threading.Event, count: int = 300) -> None:
    for number in scattered(count):
        db.put(b"key%05d" % number, b"v" * 1000)
    done.set()


def test_writers_stop_at_the_level_0_trigger_and_go_on_when_compaction_has_caught_up(
    path: str,
) -> None:
    storage = GatedStorage(thread="lsmkv-compact")
    done = threading.Event()
    with open_store(path, storage=storage, level0_slowdown_trigger=3, level0_stop_trigger=4) as db:
        storage.shut()

        def watch() -> None:
            assert storage.held_up.wait(WAIT_S)
            wait_until(lambda: len(db.inspect().levels[0].runs) >= 4)
            wait_until(lambda: db.stats().write_stops > 0)
            assert not done.is_set()
            assert db.get(b"key%05d" % scattered(300)[0]) == b"v" * 1000  # reads go on
            storage.open_up()

        run_all(lambda: write_until_done(db, done), watch)
        stats = db.stats()
        assert stats.write_stops >= 1 and stats.write_stop_s > 0.0
        assert len(db) == 300


def test_writers_stop_when_too_many_memtables_wait_to_be_flushed(path: str) -> None:
    storage = GatedStorage(thread="lsmkv-flush")
    done = threading.Event()
    with open_store(path, storage=storage, max_immutable_memtables=2) as db:
        storage.shut()

        def watch() -> None:
            wait_until(lambda: db.stats().write_stops > 0)
            assert not done.is_set()
            assert len(db.inspect().memtable_key_counts) == 3
            storage.open_up()

        run_all(lambda: write_until_done(db, done), watch)
        assert db.stats().write_stop_s > 0.0
        assert len(db) == 300


def test_writers_are_slowed_down_before_they_are_stopped(path: str) -> None:
    storage = GatedStorage(thread="lsmkv-compact")
    with open_store(
        path, storage=storage, level0_slowdown_trigger=2, level0_stop_trigger=1000
    ) as db:
        storage.shut()
        for number in scattered(100):
            db.put(b"key%05d" % number, b"v" * 1000)
        db.flush()
        assert len(db.inspect().levels[0].runs) >= 2
        before = db.stats().write_slowdowns
        db.put(b"slow", b"v" * 40_000)
        stats = db.stats()
        assert stats.write_slowdowns == before + 1
        assert stats.write_slowdown_s > 0.0
        storage.open_up()
        db.wait_until_settled()
        db.put(b"fast", b"")
        assert db.stats().write_slowdowns == before + 1


class NotedTicket:
    def __init__(self) -> None:
        self.waits: list[float] = []

    def acquire(self, *, timeout: float) -> bool:
        self.waits.append(timeout)
        return False


def delays(sizes_bytes: list[int]) -> list[float]:
    ticket = NotedTicket()
    throttle = Throttle(Stats())
    for size_bytes in sizes_bytes:
        throttle.delay(size_bytes, cast(threading.Lock, ticket))
    return ticket.waits


def test_a_throttled_write_waits_as_long_as_it_takes_at_the_rate() -> None:
    assert delays([SLOWED_BYTES_PER_S // 2]) == [0.5]


def test_throttled_writes_save_up_waits_that_are_too_short() -> None:
    waits = delays([1024] * 1000)
    assert len(waits) < 1000
    assert sum(waits) == pytest.approx(1000 * 1024 / SLOWED_BYTES_PER_S, abs=0.001)
