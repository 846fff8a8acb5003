"""A budget of filters and indexes: it is kept, and spent where lookups ask for absent keys."""

from __future__ import annotations

import math
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import lsmkv
from filtered_stores import tables_of
from lsmkv import DB, Options
from lsmkv.filters.maths.allocation import monkey_error_rates
from lsmkv.salvage.repair import repair
from lsmkv.storage.storage import Storage
from lsmkv.tree.manifest import State, read_current, read_state
from repair_stores import lose_manifest

KEYS: Final = 8000
HOT: Final = KEYS // 10
LOOKUPS: Final = 8000
MEMORY_BYTES: Final = 10 * KEYS // 8
WITHIN: Final = 0.02
FORM: Final = Options(
    table_size_bytes=24 * 1024,
    compression="none",
    block_cache_size_bytes=0,
    read_compaction_rate_bytes=0,
    background="thread",
    filter_policy="bloom",  # ribbon filters have few sizes
)


def present(number: int) -> bytes:
    return b"%06d" % number


def absent(number: int) -> bytes:
    return present(number) + b"-"


def opened(path: Path, **options: Any) -> DB:
    return lsmkv.open(path, FORM, **{"filter_memory_bytes": MEMORY_BYTES, **options})


def fill(db: DB, numbers: range = range(KEYS)) -> None:
    with db.write_batch() as batch:
        for number in random.Random(1).sample(numbers, len(numbers)):
            batch.put(present(number), b"v" * 30)
    db.flush()


def ask(db: DB, count: int = LOOKUPS, *, hot: bool = True) -> None:
    """Look absent keys up: nine of ten in the first tenth of the keys, or anywhere alike."""
    dice = random.Random(2)
    for _ in range(count):
        among = HOT if hot and dice.random() < 0.9 else KEYS
        db.get(absent(dice.randrange(among)))


def index_bytes(db: DB) -> int:
    return sum(table.footer.index_length for table in tables_of(db))


def taken_bytes(db: DB) -> int:
    """The size of filters and indexes."""
    return index_bytes(db) + db.inspect().filter_bytes


def expected_waste(db: DB, *, hot: bool) -> float:
    """The exact chance that such a lookup reads a block, in a tree of one run."""
    low, high = [0.0, 0], [0.0, 0]
    for table in db.tables():
        for block in range(table.block_count):
            part = low if table.separator(block) < present(HOT) else high
            rate = table.filter(block).expected_rate
            assert rate is not None
            part[0] += rate * table.entries(block)
            part[1] += table.entries(block)
    uniform = (low[0] + high[0]) / (low[1] + high[1])
    return 0.9 * low[0] / low[1] + 0.1 * uniform if hot else uniform


def counts(path: Path) -> State:
    storage = Storage()
    return read_state(storage, str(path), read_current(storage, str(path)))


def total(state: State) -> int:
    return sum(absent for absent, _ in state.asks.values())


@pytest.fixture(scope="module")
def monkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DB]:
    """One run with Monkey's rates, whose filters take ten bits a key."""
    path = tmp_path_factory.mktemp("monkey")
    with opened(
        path / "db", filter_memory_bytes=0, filter_allocation="monkey", error_rate=0.0082
    ) as db:
        fill(db)
        db.compact_range()
        yield db


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "db"


# --- the memory ----------------------------------------------------------------------------------


@pytest.mark.parametrize("granularity", ["block", "table"])
@pytest.mark.parametrize(
    ("policy", "hot"), [("bloom", True), ("bloom", False), ("ribbon", True)], ids=str
)
def test_filters_and_indexes_of_a_compacted_store_take_the_budget(
    path: Path, granularity: str, policy: str, hot: bool
) -> None:
    with opened(path, filter_granularity=granularity, filter_policy=policy) as db:
        fill(db)
        ask(db, 4000, hot=hot)
        db.compact_range()
        assert taken_bytes(db) == pytest.approx(MEMORY_BYTES, rel=WITHIN)


def test_keys_that_a_merge_drops_get_no_memory(path: Path) -> None:
    with opened(path) as db:
        fill(db)
        fill(db, range(KEYS // 2))
        db.update({present(number): b"w" for number in range(0, KEYS, 10)})
        for number in range(0, KEYS, 4):
            del db[present(number)]
        db.flush()
        db.compact_range()
        rates = [table.requested_rate for table in db.inspect().tables()]
        # The last table has few keys, and an index of 280 bytes all the same.
        assert taken_bytes(db) == pytest.approx(MEMORY_BYTES, rel=0.025)
        assert max(rates[:-1]) < 5 * min(rates)  # none paid for the others; the last may be tiny


def test_filters_that_err_often_do_not_make_keys_look_repeated(path: Path) -> None:
    runs = 8
    poor = {"error_rate": 0.1, "filter_allocation": "uniform", "filter_memory_bytes": 0}
    with opened(path, level0_compaction_trigger=runs + 1, **poor) as db:
        for first in range(runs):
            fill(db, range(first, KEYS, runs))
    with opened(path) as db:
        db.compact_range()
        assert taken_bytes(db) == pytest.approx(MEMORY_BYTES, rel=0.04)  # keys are sampled


def test_keys_beyond_those_of_the_largest_run_get_no_more_memory(path: Path) -> None:
    with opened(path) as db:
        fill(db, range(KEYS * 3 // 4))
        db.compact_range()
        fill(db, range(KEYS * 3 // 4, KEYS))
        db.compact_range(force=True)
        assert taken_bytes(db) == pytest.approx(MEMORY_BYTES, rel=WITHIN)


def test_without_lookups_all_blocks_of_a_run_have_one_rate(path: Path) -> None:
    with opened(path) as db:
        fill(db)
        db.compact_range()
        rates = [table.requested_rate for table in db.inspect().tables()][:-1]
        assert max(rates) < 1.15 * min(rates)


def test_runs_without_lookups_get_monkeys_rates(path: Path) -> None:
    with opened(path, level0_compaction_trigger=10) as db:
        fill(db)
        db.compact_range()
        fill(db, range(0, KEYS, 20))
        small, large = (run for level in db.inspect().levels for run in level.runs)
        sizes = [small.entry_count, large.entry_count]
        bits = 8 * (MEMORY_BYTES - index_bytes(db))
        uniform = math.exp(-bits / sum(sizes) * math.log(2) ** 2)
        best, _ = monkey_error_rates(sizes, uniform)
        assert small.tables[0].requested_rate == pytest.approx(best, rel=0.15)


def test_a_large_budget_stops_at_the_floor_rate(path: Path) -> None:
    with opened(path, filter_memory_bytes=1 << 40) as db:
        fill(db)
        rates = [table.requested_rate for table in db.inspect().tables()]
        assert rates == pytest.approx([1e-6] * len(rates), rel=0.2)


def test_a_smaller_budget_is_kept_from_the_next_compaction_on(path: Path) -> None:
    with opened(path) as db:
        fill(db)
    with opened(path, filter_memory_bytes=MEMORY_BYTES // 2) as db:
        db.compact_range(force=True)
        assert taken_bytes(db) == pytest.approx(MEMORY_BYTES / 2, rel=0.025)


def test_a_bulk_load_into_an_empty_store_takes_the_budget(path: Path) -> None:
    with opened(path) as db:
        db.bulk_load([(present(number), b"v" * 30) for number in range(KEYS)])
        assert taken_bytes(db) == pytest.approx(MEMORY_BYTES, rel=WITHIN)


def test_a_bulk_load_of_unknown_length_uses_the_error_rate(path: Path) -> None:
    with opened(path, error_rate=0.25) as db:
        db.bulk_load((present(number), b"v") for number in range(KEYS))
        assert {table.requested_rate for table in db.inspect().tables()} == {0.25}


# --- the reads -----------------------------------------------------------------------------------


def test_a_tenth_of_the_keys_with_nine_tenths_of_the_lookups_gets_better_filters(
    path: Path, monkey: DB
) -> None:
    with opened(path, filter_memory_bytes=taken_bytes(monkey)) as db:
        fill(db)
        db.compact_range()
        ask(db)
        db.compact_range(force=True)
        assert expected_waste(db, hot=True) < 0.7 * expected_waste(monkey, hot=True)


def test_lookups_that_are_uniform_cost_what_they_do_with_monkey(path: Path, monkey: DB) -> None:
    with opened(path, filter_memory_bytes=taken_bytes(monkey)) as db:
        fill(db)
        db.compact_range()
        ask(db, 3 * LOOKUPS, hot=False)
        db.compact_range(force=True)
        assert expected_waste(db, hot=False) < 1.02 * expected_waste(monkey, hot=False)


def test_a_flush_gives_better_filters_where_lookups_ask(path: Path) -> None:
    with opened(path, level0_compaction_trigger=10) as db:
        fill(db)
        db.compact_range()
        ask(db)
        fill(db, range(0, KEYS, 2))
        (flushed,) = db.inspect().levels[0].runs
        rates = [table.requested_rate for table in flushed.tables]
        assert 5 * rates[0] < rates[-2]


def test_what_nobody_asked_for_keeps_filters(path: Path) -> None:
    with opened(path) as db:
        fill(db)
        db.compact_range()
        for number in range(LOOKUPS):
            db.get(absent(number % HOT))
        db.compact_range(force=True)
        *_, cold, _ = db.tables()
        assert all(cold.filter(block).bit_count > 0 for block in range(cold.block_count))


# --- who writes the tables -----------------------------------------------------------------------


def test_helper_processes_spend_the_budget_alike(path: Path, tmp_path: Path) -> None:
    with opened(path, background="process", process_job_size_bytes=0) as db:
        fill(db)
        db.compact_range()
        ask(db)
        db.compact_range(force=True)
        assert taken_bytes(db) == pytest.approx(MEMORY_BYTES, rel=WITHIN)
        rates = [table.requested_rate for table in db.inspect().tables()]
        assert 5 * rates[0] < rates[-2]


# --- the counts ----------------------------------------------------------------------------------


def test_tables_count_what_filters_deny_and_let_pass(path: Path) -> None:
    with opened(path) as db:
        fill(db)
        db.compact_range()
        ask(db)
        db.multi_get([absent(number) for number in range(100)])
        stats, tables = db.stats(), list(db.tables())
        assert sum(table.filter_negatives for table in tables) == stats.filter_negatives
        assert sum(table.false_positives for table in tables) == stats.filter_false_positives
        assert sum(table.absent_asks for table in tables) == (
            stats.filter_negatives + stats.filter_false_positives
        )


def test_tables_without_filters_count_absent_keys_too(path: Path) -> None:
    with opened(path, filter_memory_bytes=0, filter_policy="none") as db:
        fill(db)
        ask(db, 100)
        db.get(present(1))
        assert sum(table.absent_asks for table in db.tables()) > 90
        assert {table.filter_negatives for table in db.tables()} == {0}


def test_counts_survive_reopening(path: Path) -> None:
    with opened(path) as db:
        fill(db)
        db.compact_range()
        ask(db)
        before = sum(table.absent_asks for table in db.tables())
    assert total(counts(path)) == before
    with opened(path) as db:
        ask(db, 10)
        db.compact_range(force=True)
        rates = [table.requested_rate for table in db.inspect().tables()]
        assert 5 * rates[0] < rates[-2]


@pytest.mark.parametrize("is_read_only", [False, True])
def test_closing_without_new_lookups_and_reading_alone_write_nothing(
    path: Path, is_read_only: bool
) -> None:
    with opened(path) as db:
        fill(db)
        ask(db, 10)
    before = {name: (path / name).read_bytes() for name in os.listdir(path)}
    with opened(path, read_only=is_read_only) as db:
        ask(db, 100 if is_read_only else 0)
    assert {name: (path / name).read_bytes() for name in os.listdir(path)} == before


def test_a_compaction_inherits_half_of_the_counts_by_key(path: Path) -> None:
    with opened(path) as db:
        fill(db)
        db.compact_range()
        ask(db)
        before = sum(table.absent_asks for table in db.tables())
        db.compact_range(force=True)
    state = counts(path)
    asks = [state.asks[table.number] for table in state.levels.tables()]
    assert total(state) == pytest.approx(before / 2, rel=0.01)
    assert {round(lookups / LOOKUPS, 2) for _, lookups in asks} == {0.5}
    assert 5 * asks[-2][0] < asks[0][0]


def test_a_move_keeps_the_counts(path: Path) -> None:
    with opened(path) as db:
        fill(db)
        ask(db, 100)
    before = counts(path).asks
    with opened(path, level0_compaction_trigger=1) as db:
        db[b"x"] = b""
        db.flush()
        db.wait_until_settled()
        assert db.stats().tables_moved > len(before)
    assert before.items() <= counts(path).asks.items()


def test_a_crash_loses_only_the_counts_since(path: Path, tmp_path: Path) -> None:
    crashed = tmp_path / "crashed"
    with opened(path) as db:
        fill(db)
        db.compact_range()
        ask(db)
        db.compact_range(force=True)
        ask(db)
        db.wait_until_settled()  # no file is removed during the copy
        shutil.copytree(path, crashed)
    assert 0 < total(counts(crashed)) < total(counts(path))
    with opened(crashed) as db:
        assert len(db) == KEYS


def test_a_store_without_a_budget_writes_no_counts(path: Path) -> None:
    with opened(path, filter_memory_bytes=0) as db:
        fill(db)
        ask(db, 100)
        db.compact_range(force=True)
    assert counts(path).asks == {}


def test_counts_of_an_earlier_budget_stay_readable_without_one(path: Path) -> None:
    with opened(path) as db:
        fill(db)
        ask(db, 100)
    with opened(path, filter_memory_bytes=0) as db:
        assert len(db) == KEYS
        db[b"x"] = b""
    assert total(counts(path)) > 0


def test_a_checkpoint_and_a_backup_keep_the_counts(path: Path, tmp_path: Path) -> None:
    with opened(path) as db:
        fill(db)
        ask(db)
    with opened(path) as db:
        db.checkpoint(tmp_path / "checkpoint")
        lsmkv.backup(path, tmp_path / "backup")
    for copy in ("checkpoint", "backup"):
        assert total(counts(tmp_path / copy)) == total(counts(path)) > 0


def test_repair_without_a_manifest_loses_counts_alone(path: Path, tmp_path: Path) -> None:
    with opened(path) as db:
        fill(db)
        ask(db)
        db.compact_range(force=True)
    lose_manifest(path)
    repair(path, tmp_path / "repaired")
    with opened(tmp_path / "repaired") as db:
        assert len(db) == KEYS
        db.compact_range(force=True)
        assert taken_bytes(db) == pytest.approx(MEMORY_BYTES, rel=WITHIN)
