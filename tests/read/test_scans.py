"""Ranges of keys, values and items: their entries, order, snapshot and cost."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path

import pytest
from conftest import fill, number_key, open_small
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lsmkv
from damage import flip
from lsmkv import DB
from lsmkv.read.bounds import Bounds
from lsmkv.read.scan import Scan
from table_files import first_key, last_key

Contents = dict[bytes, bytes]


def model(
    contents: Contents, start: bytes | None, stop: bytes | None, prefix: bytes | None, reverse: bool
) -> list[tuple[bytes, bytes]]:
    found = sorted(
        (key, value)
        for key, value in contents.items()
        if (start is None or key >= start)
        and (stop is None or key < stop)
        and (prefix is None or key.startswith(prefix))
    )
    return found[::-1] if reverse else found


# Costs


def test_a_scan_reads_only_the_blocks_it_gets_to(path: str) -> None:
    with open_small(path, block_cache_size_bytes=0) as db:
        fill(db, range(2000))
        db.compact_range()
        before = db.stats()
        walk = iter(db.items(start=number_key(1000)))
        assert (db.stats() - before).block_reads == 0
        next(walk)
        assert (db.stats() - before).block_reads == 1
        list(islice(walk, 20))
        assert (db.stats() - before).block_reads <= 4


@pytest.mark.parametrize("reverse", [False, True])
def test_a_bounded_scan_reads_the_blocks_of_its_range(path: str, reverse: bool) -> None:
    with open_small(path, block_cache_size_bytes=0) as db:
        fill(db, range(2000))
        db.compact_range()
        per_block = 2000 / sum(table.block_count for table in db.inspect().tables())
        before = db.stats()
        wanted = db.items(start=number_key(500), stop=number_key(700), reverse=reverse)
        assert sum(1 for _ in wanted) == 200
        assert (db.stats() - before).block_reads <= 200 / per_block + 2


def test_a_long_scan_does_not_evict_the_blocks_of_lookups(path: str) -> None:
    with open_small(path, block_cache_size_bytes=32768, table_size_bytes=1 << 20) as db:
        fill(db, range(3000))
        db.compact_range()
        hot = [number_key(number) for number in range(1000, 1200)]
        db.multi_get(hot)
        assert sum(1 for _ in db.items()) == sum(1 for _ in db.items(reverse=True)) == 3000
        before = db.stats()
        db.multi_get(hot)
        assert (db.stats() - before).block_reads == 0


# Pins


def pinned(db: DB) -> bool:
    gc.collect()
    return db._engine.readers.need_old_values()


def test_a_view_pins_its_entries_until_it_is_dropped(db: DB) -> None:
    fill(db, range(300))
    items = db.items()
    assert pinned(db)
    del items
    assert not pinned(db)


def test_a_view_of_an_empty_memtable_pins_nothing_and_shows_no_later_write(db: DB) -> None:
    contents = fill(db, range(300))
    db.flush()
    items = db.items()
    assert not pinned(db)
    db[number_key(7)] = b"later"
    db[b"new"] = b"later"
    assert list(iter(items)) == model(contents, None, None, None, False)
    assert (number_key(7), b"later") not in items


def test_an_iterator_dropped_early_releases_its_view(db: DB) -> None:
    fill(db, range(300))
    walk = iter(db.items())
    next(walk)
    assert pinned(db)
    del walk
    assert not pinned(db)


# Many versions of one key


@pytest.fixture(scope="module")
def mixed(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[DB, Contents, lsmkv.Snapshot, Contents]]:
    """One run in which tables with two versions of a key stand between tables without."""
    path = tmp_path_factory.mktemp("mixed")
    before = {number_key(number): b"old" + bytes(500) for number in range(300)}
    with open_small(path, compression="none", table_size_bytes=4096) as db:
        db.update(before)
        snapshot = db.snapshot()
        newer = {number_key(number): b"new" for number in range(0, 300, 30)}
        db.update(newer)
        after = before | newer
        for number in range(15, 300, 30):
            del db[number_key(number)], after[number_key(number)]
        db.compact_range(force=True)
        yield db, after, snapshot, before
        snapshot.close()


def test_the_mixed_run_has_tables_of_both_kinds_by_turns(
    mixed: tuple[DB, Contents, lsmkv.Snapshot, Contents],
) -> None:
    (run,) = mixed[0]._state.require_open().version.runs
    kinds = [table.has_versions for table in run.tables]
    assert sum(here != after for here, after in pairwise(kinds)) >= 20


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.none() | st.integers(0, 300), st.none() | st.integers(0, 300), st.booleans())
def test_any_range_of_a_mixed_run_is_what_a_sorted_dict_gives(
    mixed: tuple[DB, Contents, lsmkv.Snapshot, Contents],
    first: int | None,
    end: int | None,
    reverse: bool,
) -> None:
    db, after, snapshot, before = mixed
    start = None if first is None else number_key(first)
    stop = None if end is None else number_key(end)
    for view, contents in ((db, after), (snapshot, before)):
        found = list(view.items(start=start, stop=stop, reverse=reverse))
        assert found == model(contents, start, stop, None, reverse)


@pytest.mark.parametrize("reverse", [False, True])
def test_tables_of_one_run_are_not_compared_with_each_other(
    mixed: tuple[DB, Contents, lsmkv.Snapshot, Contents], reverse: bool
) -> None:
    scan = Scan(mixed[0]._engine.readers.read_view(), Bounds(reverse=reverse))
    for _ in scan:
        assert len(scan._sources) <= 1


# Damage


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_that_met_damage_is_over(path: str, reverse: bool) -> None:
    with open_small(path, table_size_bytes=1 << 30, block_cache_size_bytes=0) as db:
        fill(db, range(2000))
        db.compact_range()
        db.delete(number_key(1999))  # the other source must not continue alone
        db[number_key(2500)] = b"v"
        (table,) = db.inspect().tables()
        middle = list(db.blocks(table.number))[table.block_count // 2]
        flip(Path(path) / f"{table.number:06}.sst", middle.offset)
        scan = Scan(db._engine.readers.read_view(), Bounds(reverse=reverse))
        with pytest.raises(lsmkv.CorruptionError):
            for _ in scan:
                pass
        assert next(scan, None) is None


def test_a_seek_reads_no_more_than_a_block_per_table(path: str) -> None:
    with open_small(path, block_cache_size_bytes=0) as db:
        fill(db, range(2000))
        db.compact_range()
        with db.cursor() as cursor:
            before = db.stats()
            assert cursor.seek(number_key(1234))
            assert (db.stats() - before).block_reads == 1


def test_steps_and_seeks_within_a_block_read_nothing(path: str) -> None:
    with open_small(path, block_cache_size_bytes=0) as db:
        fill(db, range(2000))
        db.compact_range()
        with db.cursor() as cursor:
            assert cursor.first()
            before = db.stats()
            assert cursor.next()
            assert cursor.next()
            assert cursor.prev()
            assert cursor.seek(number_key(0))
            assert cursor.seek_for_prev(number_key(3))
            assert (db.stats() - before).block_reads == 0


@pytest.mark.parametrize("reverse", [False, True])
def test_a_newer_value_of_the_key_that_a_block_begins_with_counts(path: str, reverse: bool) -> None:
    with open_small(path) as db:
        fill(db, range(2000))
        db.compact_range()
        contents = dict(db.items())
        table = next(db._state.require_open().version.tables())
        ends = [end(table, number) for end in (first_key, last_key) for number in range(1, 20)]
        for key in ends[::2]:
            del db[key], contents[key]
        for key in ends[1::2]:
            db[key] = contents[key] = b"new"
        db.flush()
        assert list(db.items(reverse=reverse)) == sorted(contents.items(), reverse=reverse)
