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
from gates import WAIT_S
from lsmkv import DB, FixedPrefix
from lsmkv.encoding.entries import ABSENT as ABSENT_ENTRY
from lsmkv.encoding.entries import MAX_SEQUENCE
from lsmkv.filters.hashing import hash_key
from table_files import first_key
from time_limits import join

ADAPTIVE: Final[dict[str, Any]] = {
    "adaptive_filters": True,
    "error_rate": 0.01,
    "filter_policy": "bloom",
    "read_compaction_rate_bytes": 0,
}
ABSENT: Final = [absent(number, 1) for number in range(KEY_COUNT)]


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
    """Memory of the keys learnt: what exceeds the filters' size."""
    info = db.inspect()
    return info.filter_memory_bytes - info.filter_bytes


# --- reads ---


def test_every_key_that_passes_is_denied_after_its_first_lookup(db: DB) -> None:
    found = passing(db)
    for key in found:
        assert look_up(db, [key, key, key]).block_reads <= 1
    assert db.stats().filter_lessons > 20


def test_what_was_learnt_is_explained_and_counts_as_a_filters_no(db: DB) -> None:
    key = passing(db)[0]
    assert listed_bytes(db) == 0
    look_up(db, [key])
    assert 0 < listed_bytes(db) <= 16
    (step,) = [step for step in db.explain(key).runs if step.filter is not None]
    assert step.filter is not None
    assert (step.filter.verdict, step.filter.was_learnt) == ("no", True)
    assert "says no (learnt)" in db.explain(key).text()
    spent = look_up(db, [key] * 100)
    assert (spent.block_reads, spent.filter_negatives) == (0, 100)
    assert db.explain(key).runs[-1].outcome == "filtered"
    assert db.multi_get([key, key]) == [None, None]
    assert look_up(db, [key]).block_reads == 0


def test_multi_get_teaches_and_asks_as_get_does(db: DB) -> None:
    found = passing(db)[::7]
    before = db.stats()
    assert not any(db.multi_get(found))
    first = db.stats() - before
    assert first.block_reads == len(found)
    assert first.filter_lessons == len(found)
    before = db.stats()
    assert not any(db.multi_get(found))
    assert (db.stats() - before).block_reads == 0


def test_a_store_that_was_not_told_to_learn_reads_each_time(path: str) -> None:
    with loaded(path) as (db, _):
        key = passing(db)[0]
        spent = look_up(db, [key] * 50)
        assert (spent.block_reads, spent.filter_lessons) == (50, 0)
        assert listed_bytes(db) == 0


def test_blocks_in_the_cache_teach_too(path: str) -> None:
    with loaded(path, **ADAPTIVE, block_cache_size_bytes=1 << 26) as (db, _):
        for number in range(KEY_COUNT):
            db.get(present(number))
        found = passing(db)
        spent = look_up(db, found * 3)
        assert spent.block_reads == 0
        assert spent.filter_lessons == spent.filter_false_positives == len(found)


@pytest.mark.parametrize(
    "written",
    [
        {"filter_policy": "ribbon"},
        {"filter_policy": "grafite"},
        {"filter_policy": "ribbon", "filter_granularity": "table"},
        {"filter_residency": "cached"},
        {"filter_key": FixedPrefix(7)},
    ],
    ids=str,
)
def test_every_kind_of_filter_learns(path: str, written: dict[str, Any]) -> None:
    with loaded(path, **ADAPTIVE | written | {"error_rate": 0.1}) as (db, _):
        first = look_up(db, ABSENT)
        assert first.block_reads == first.filter_lessons > 5
        again = look_up(db, ABSENT)
        assert (again.block_reads, again.filter_lessons) == (0, 0)
        assert again.filter_negatives >= first.filter_lessons
        key = next(key for key in ABSENT if "(learnt)" in db.explain(key).text())
        assert db.explain(key).runs[-1].outcome == "filtered"
        assert list(db.keys(prefix=present(7))) == [present(7)]
        assert_holds_what_was_loaded(db)


# --- present keys ---


def test_threads_that_teach_one_block_at_once_deny_no_present_key(path: str) -> None:
    with loaded(path, **ADAPTIVE | {"error_rate": 0.5}) as (db, _):
        wrong: list[bytes] = []
        start = threading.Barrier(4)

        def teach(first: int) -> None:
            start.wait(WAIT_S)
            for variant in range(first, first + 40):
                for number in range(30):
                    if db.get(absent(number, variant)) is not None:
                        wrong.append(absent(number, variant))

        def ask() -> None:
            start.wait(WAIT_S)
            for _ in range(60):
                wrong.extend(key for key in map(present, range(31)) if db.get(key) != b"v" * 50)

        threads = [threading.Thread(target=teach, args=(first,)) for first in (0, 20)]
        threads += [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        join(*threads)
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
    with counted(path, **ADAPTIVE | {"error_rate": 0.3}) as (db, _):
        load(db, range(90, 111))
        snapshots = []
        for number in range(120):
            db.put(key, b"%060d" % number)
            snapshots.append(db.snapshot())
        db.compact_range()
        (table,) = tables_of(db)
        firsts = [first_key(table, number) for number in range(table.index.block_count)]
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


def test_tables_without_filters_are_read_and_learn_nothing(path: str) -> None:
    with loaded(path, filter_policy="none"):
        pass
    with counted(path, **ADAPTIVE) as (db, _):
        spent = look_up(db, ABSENT[:50] * 2)
        assert (spent.block_reads, spent.filter_lessons) == (spent.unfiltered_probes, 0)
        assert spent.block_reads > 50
        assert_holds_what_was_loaded(db)


@pytest.mark.parametrize(
    ("name", "choice"), [("filter_policy", "none"), ("filter_residency", "off")]
)
def test_options_without_filters_are_refused_before_anything_is_touched(
    path: str, name: str, choice: str
) -> None:
    with pytest.raises(
        ValueError, match=re.escape(f"{name}={choice!r} leaves no filters to learn")
    ):
        lsmkv.open(path, **(ADAPTIVE | {name: choice}))
    assert not Path(path).exists()


# --- what learns in memory only ---


def test_closing_forgets_what_was_learnt(path: str) -> None:
    with loaded(path, **ADAPTIVE) as (db, _):
        found = taught(db)
        assert passing(db, found) == []
    with counted(path, **ADAPTIVE) as (db, _):
        assert passing(db, found) == found
        assert listed_bytes(db) == 0


def test_a_compaction_forgets_and_its_tables_learn_anew(db: DB) -> None:
    found = taught(db)
    with db.snapshot() as old:
        for number in range(0, KEY_COUNT, 3):
            db.put(present(number), b"v" * 50)
        db.put(absent(7, 9), b"w")
        db.compact_range()
        again = taught(db, found)
        assert again
        assert passing(db, again) == []
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


def test_what_was_learnt_takes_three_bytes_or_four_of_the_memory_of_filters(db: DB) -> None:
    before = db.memory_usage().filter_bytes
    taught(db)
    assert db.memory_usage().filter_bytes == before + listed_bytes(db)
    lessons, tables = db.stats().filter_lessons, len(tables_of(db))
    assert 2 * lessons <= listed_bytes(db) <= 4 * lessons + 16 * tables


def test_the_hash_of_a_present_key_is_never_learnt(db: DB) -> None:
    """As when an absent key has the hash of a present one, or all but its highest bits."""
    for number in range(0, KEY_COUNT, 97):
        key = present(number)
        (table,) = [one for one in tables_of(db) if one.smallest <= key <= one.largest]
        number_of_block = table.index.find(key)
        block = table.block(number_of_block, False)
        for bit in range(63):
            table.asks.learn(table.filters, block, number_of_block, hash_key(key) ^ 1 << bit)
        before = db.stats().filter_lessons
        table.asks.learn(table.filters, block, number_of_block, hash_key(key))
        assert db.stats().filter_lessons == before
        assert db.get(key) == b"v" * 50
    assert db.stats().filter_lessons > 1000
    assert_holds_what_was_loaded(db)
