"""Stores whose filters learn: a popular absent key costs one read, and nothing else changes."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import lsmkv
from filtered_stores import KEY_COUNT, absent, counted, load, loaded, look_up, present, tables_of
from lsmkv import DB, FixedPrefix, Options, WholeKey
from lsmkv.encoding.entries import ABSENT as ABSENT_ENTRY
from lsmkv.encoding.entries import MAX_SEQUENCE
from lsmkv.filters.hashing import hash_key
from lsmkv.filters.learning import LISTED_BYTES

ADAPTIVE: Final[dict[str, Any]] = {
    "filter_policy": "ribbon",
    "adaptive_filters": True,
    "read_compaction_rate_bytes": 0,
}
ABSENT: Final = [absent(number, 1) for number in range(KEY_COUNT)]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "db")


@pytest.fixture
def db(path: str) -> Iterator[DB]:
    """A loaded store without a block cache, whose filters learn."""
    with loaded(path, **ADAPTIVE) as (db, _):
        yield db


def passing(db: DB, keys: list[bytes] = ABSENT) -> list[bytes]:
    """The absent keys that filters let pass, by a question to the filters that teaches nothing."""
    return [key for key in keys if db.explain(key).false_positives]


def taught(db: DB, keys: list[bytes] = ABSENT) -> list[bytes]:
    """Look up the keys that pass; returns them."""
    found = passing(db, keys)
    look_up(db, found)
    return found


def assert_holds_what_was_loaded(db: DB) -> None:
    assert db.multi_get([present(number) for number in range(KEY_COUNT)]) == [b"v" * 50] * KEY_COUNT


def listed_bytes(db: DB) -> int:
    """Memory of what filters could not learn: what exceeds the filters' size."""
    info = db.inspect()
    return info.filter_memory_bytes - info.filter_bytes


def block_filter_sizes(db: DB) -> list[int]:
    indexes = [table.index for table in tables_of(db)]
    return [
        index.filter_start(number + 1) - index.filter_start(number)
        for index in indexes
        for number in range(index.block_count)
    ]


# --- reads ---


def test_an_absent_key_asked_ten_thousand_times_costs_at_most_two_reads(db: DB) -> None:
    asked = passing(db)[:25]
    assert len(asked) == 25
    for key in asked:
        assert look_up(db, [key] * 10_000).block_reads <= 2


def test_every_key_that_passes_is_denied_after_its_first_lookup(db: DB) -> None:
    found = passing(db)
    for key in found:
        assert look_up(db, [key, key, key]).block_reads <= 1
    assert db.stats().filter_lessons > 40


def test_keys_that_no_filter_can_learn_to_deny_are_listed_and_cost_one_read_too(db: DB) -> None:
    for key in passing(db):
        before = listed_bytes(db)
        look_up(db, [key])
        if listed_bytes(db) > before:
            break
    else:
        pytest.fail("every filter could learn every key")
    assert listed_bytes(db) == before + LISTED_BYTES
    (step,) = [step for step in db.explain(key).runs if step.filter is not None]
    assert step.filter is not None
    assert (step.filter.verdict, step.filter.was_learnt) == ("no", True)
    assert "says no, by what it learnt" in db.explain(key).text()
    spent = look_up(db, [key] * 100)
    assert (spent.block_reads, spent.filter_negatives) == (0, 100)
    assert db.explain(key).runs[-1].outcome == "filtered"
    assert db.multi_get([key, key]) == [None, None]
    assert look_up(db, [key]).block_reads == 0


def test_all_absent_keys_in_turn_come_to_cost_few_reads(db: DB) -> None:
    first = look_up(db, ABSENT).block_reads
    for _ in range(4):
        look_up(db, ABSENT)
    assert first > 40
    assert look_up(db, ABSENT).block_reads <= first / 8


def test_multi_get_teaches_and_asks_as_get_does(db: DB) -> None:
    found = passing(db)[::7]
    before = db.stats()
    assert not any(db.multi_get(found))
    first = db.stats() - before
    assert first.block_reads == len(found)
    assert first.filter_lessons == len(found)
    before = db.stats()
    assert not any(db.multi_get(found))
    assert (db.stats() - before).block_reads <= len(found) / 8


def test_a_store_that_was_not_told_to_learn_reads_each_time(path: str) -> None:
    with loaded(path, filter_policy="ribbon") as (db, _):
        key = passing(db)[0]
        spent = look_up(db, [key] * 50)
        assert (spent.block_reads, spent.filter_lessons) == (50, 0)
        assert listed_bytes(db) == 0


def test_a_block_that_stays_in_the_cache_teaches_once(path: str) -> None:
    with loaded(path, **ADAPTIVE, error_rate=0.5, block_cache_size_bytes=1 << 26) as (db, _):
        for number in range(KEY_COUNT):
            db.get(present(number))
        before = db.stats()
        spent = look_up(db, ABSENT * 3)
        blocks = sum(table.index.block_count for table in tables_of(db))
        assert spent.block_reads == 0
        assert blocks / 2 < (db.stats() - before).filter_lessons <= blocks
        assert spent.filter_false_positives > 10 * blocks


# --- present keys ---


def test_no_present_key_is_denied_after_many_lessons(db: DB) -> None:
    for variant in range(1, 6):
        look_up(db, [absent(number, variant) for number in range(KEY_COUNT)])
    assert db.stats().filter_lessons > 200
    assert_holds_what_was_loaded(db)
    assert all(db.get(present(number)) for number in range(0, KEY_COUNT, 5))


def test_threads_that_teach_one_block_at_once_deny_no_present_key(path: str) -> None:
    with loaded(path, **ADAPTIVE, error_rate=0.5) as (db, _):
        wrong: list[bytes] = []
        start = threading.Barrier(4)

        def teach(first: int) -> None:
            start.wait()
            for variant in range(first, first + 40):
                for number in range(30):
                    if db.get(absent(number, variant)) is not None:
                        wrong.append(absent(number, variant))

        def ask() -> None:
            start.wait()
            for _ in range(60):
                wrong.extend(key for key in map(present, range(31)) if db.get(key) != b"v" * 50)

        threads = [threading.Thread(target=teach, args=(first,)) for first in (0, 20)]
        threads += [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert db.stats().filter_lessons > 100
        assert_holds_what_was_loaded(db)


def test_a_key_missing_at_an_old_snapshot_is_no_false_positive(path: str) -> None:
    with loaded(path, **ADAPTIVE) as (db, _), db.snapshot() as old:
        fresh = [absent(number, 2) for number in range(0, KEY_COUNT, 3)]
        with db.write_batch() as batch:
            for key in fresh:
                batch.put(key, b"new")
        db.compact_range()
        before = db.stats()
        assert not any(old.get(key) for key in fresh)
        spent = db.stats() - before
        assert spent.block_reads >= len(fresh)
        assert spent.filter_lessons == spent.filter_false_positives == 0
        assert db.multi_get(fresh) == [b"new"] * len(fresh)


def test_a_key_whose_versions_fill_several_blocks_is_found_at_each_snapshot(path: str) -> None:
    key = present(100)
    with counted(path, **ADAPTIVE, error_rate=0.3) as (db, _):
        load(db, range(90, 111))
        snapshots = []
        for number in range(120):
            db.put(key, b"%060d" % number)
            snapshots.append(db.snapshot())
        db.compact_range()
        (table,) = tables_of(db)
        firsts = [table.index.first_key(number) for number in range(table.index.block_count)]
        assert firsts.count(key) > 2
        for variant in range(300):
            look_up(db, [absent(number, variant) for number in (97, 98, 99, 100, 101)])
        assert db.stats().filter_lessons > 20
        for number, snapshot in enumerate(snapshots):
            assert snapshot.get(key) == b"%060d" % number
            snapshot.close()
        assert db[key] == b"%060d" % 119


def test_a_deleted_key_whose_deletion_is_there_counts_as_present(path: str) -> None:
    with loaded(path, **ADAPTIVE) as (db, _), db.snapshot():
        gone = [present(number) for number in range(0, KEY_COUNT, 10)]
        with db.write_batch() as batch:
            for key in gone:
                batch.delete(key)
        db.compact_range()
        before = db.stats()
        assert not any(db.get(key) for key in gone)
        assert (db.stats() - before).filter_lessons == 0


# --- what does not learn ---


@pytest.mark.parametrize(
    "written",
    [
        {"filter_policy": "bloom"},
        {"filter_policy": "ribbon", "filter_granularity": "table"},
        pytest.param({"filter_policy": "none"}, marks=pytest.mark.slow),
        pytest.param(
            {"filter_policy": "ribbon", "filter_key": FixedPrefix(8)}, marks=pytest.mark.slow
        ),
    ],
    ids=str,
)
def test_tables_with_other_filters_are_read_and_learn_nothing(
    path: str, written: dict[str, Any]
) -> None:
    with loaded(path, **written, error_rate=0.1):
        pass
    with counted(path, **ADAPTIVE) as (db, _):
        spent = look_up(db, ABSENT)
        assert spent.block_reads > KEY_COUNT / 20
        assert spent.filter_lessons == 0
        assert_holds_what_was_loaded(db)


@pytest.mark.parametrize(
    ("name", "choice", "needed"),
    [
        ("filter_policy", "bloom", "ribbon"),
        ("filter_policy", "none", "ribbon"),
        ("filter_residency", "cached", "resident"),
        ("filter_residency", "off", "resident"),
        ("filter_granularity", "table", "block"),
        ("filter_key", FixedPrefix(6), WholeKey()),
    ],
)
def test_options_that_cannot_learn_are_refused_before_anything_is_touched(
    path: str, name: str, choice: object, needed: object
) -> None:
    with pytest.raises(ValueError, match=re.escape(f"needs {name}={needed!r}, not {choice!r}")):
        lsmkv.open(path, **(ADAPTIVE | {name: choice}))
    assert not Path(path).exists()


def test_a_large_filter_learns_nothing(path: str) -> None:
    with lsmkv.open(path, **ADAPTIVE, error_rate=0.1, block_size_bytes=4 << 20) as db:
        load(db, range(20_000))
        db.compact_range()
        assert min(block_filter_sizes(db)) > 1024
        spent = look_up(db, [absent(number, 1) for number in range(300)])
        assert spent.filter_false_positives > 10
        assert (spent.filter_lessons, listed_bytes(db)) == (0, 0)


def test_filters_do_not_learn_by_default() -> None:
    assert not Options(filter_policy="ribbon").adaptive_filters


# --- what learns in memory only ---


def test_closing_forgets_what_was_learnt(path: str) -> None:
    with loaded(path, **ADAPTIVE) as (db, _):
        found = taught(db)
        assert len(passing(db, found)) < len(found) / 4
    with counted(path, **ADAPTIVE) as (db, _):
        assert passing(db, found) == found
        assert listed_bytes(db) == 0


def test_verify_sees_what_is_on_disk(db: DB) -> None:
    before = {file: file.read_bytes() for file in Path(db.path).glob("*.table")}
    assert taught(db)
    report = db.verify()
    assert report.problems == ()
    assert {file: file.read_bytes() for file in Path(db.path).glob("*.table")} == before


def test_a_compaction_forgets_and_its_tables_learn_anew(db: DB) -> None:
    found = taught(db)
    with db.snapshot() as old:
        for number in range(0, KEY_COUNT, 3):
            db.put(present(number), b"v" * 50)
        db.put(absent(7, 9), b"w")
        db.compact_range()
        again = taught(db, found)
        assert len(passing(db, again)) <= len(again) / 4
        assert old.get(absent(7, 9)) is None
    assert_holds_what_was_loaded(db)
    assert db[absent(7, 9)] == b"w"


def test_a_table_that_left_the_tree_learns_while_it_is_read(db: DB) -> None:
    tables = tables_of(db)
    key = passing(db)[0]
    (table,) = [table for table in tables if table.smallest <= key <= table.largest]
    for number in range(KEY_COUNT):
        db.put(present(number), b"v" * 50)
    db.compact_range()
    assert table not in tables_of(db)
    for _ in range(3):
        assert table.get(key, hash_key(key), MAX_SEQUENCE) is ABSENT_ENTRY
    assert db.stats().filter_lessons == 1


def test_learning_takes_no_memory_but_for_what_is_listed(db: DB) -> None:
    taught(db)
    lessons = db.stats().filter_lessons
    assert 0 <= listed_bytes(db) <= LISTED_BYTES * lessons * 0.6


def test_the_hash_of_a_present_key_is_never_learnt(db: DB) -> None:
    """As when an absent key has the hash of a present one."""
    for number in range(0, KEY_COUNT, 97):
        key = present(number)
        (table,) = [one for one in tables_of(db) if one.smallest <= key <= one.largest]
        block_number = table.index.find(key)
        table.filters.learn(block_number, table.block(block_number, False).keys(), hash_key(key))
        assert db.get(key) == b"v" * 50
    assert db.stats().filter_lessons == 0


def test_a_second_lesson_of_the_same_key_does_not_undo_the_first(path: str) -> None:
    """As when two threads find the same false positive at once; with one column, each lesson turns it."""
    with loaded(path, **ADAPTIVE, error_rate=0.5) as (db, _):
        key = passing(db, ABSENT[:100])[0]
        (table,) = [one for one in tables_of(db) if one.smallest <= key <= one.largest]
        number, h = table.index.find(key), hash_key(key)
        keys = table.block(number, False).keys()
        for _ in range(4):
            table.filters.learn(number, keys, h)
            assert not table.filters.may_hold(number, h)
        assert db.stats().filter_lessons == 1
