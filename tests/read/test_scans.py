"""Ranges of keys, values and items: their entries, order, snapshot and cost."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator
from itertools import islice, pairwise, product
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

Contents = dict[bytes, bytes]

# Every key of up to three bytes out of four.
ALPHABET = [0x00, 0x61, 0x62, 0xFF]
ALL_KEYS = [bytes(key) for length in range(4) for key in product(ALPHABET, repeat=length)]
bounds = st.none() | st.sampled_from([*ALL_KEYS, b"`", b"c", b"a\1", b"\xff" * 4])


@pytest.fixture(scope="module")
def layered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DB, Contents]]:
    """A store with entries and deletions in several runs; and its contents."""
    contents: Contents = {}
    chance = random.Random(3)
    path = tmp_path_factory.mktemp("layered")
    with open_small(path, level0_compaction_trigger=6, table_size_bytes=4096) as db:
        for layer in range(5):
            for key in chance.sample(ALL_KEYS, 50):
                if chance.random() < 0.3:
                    db.delete(key)
                    contents.pop(key, None)
                else:
                    value = b"%d:" % layer + bytes(chance.randrange(150))
                    db[key] = contents[key] = value
            if layer == 1:
                db.compact_range()
            elif layer < 4:
                db.flush()
        yield db, contents


def model(
    contents: Contents,
    start: bytes | None,
    stop: bytes | None,
    prefix: bytes | None,
    reverse: bool,
) -> list[tuple[bytes, bytes]]:
    found = sorted(
        (key, value)
        for key, value in contents.items()
        if (start is None or key >= start)
        and (stop is None or key < stop)
        and (prefix is None or key.startswith(prefix))
    )
    return found[::-1] if reverse else found


def test_the_layered_store_has_several_sources(layered: tuple[DB, Contents]) -> None:
    info = layered[0].inspect()
    assert info.memtable_key_counts[0] > 0
    assert len(info.levels[0].runs) == 2
    assert len(info.levels[1].runs[0].tables) > 1
    assert any(table.tombstone_count for table in info.tables())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bounds, bounds, bounds, st.booleans())
def test_any_range_is_what_a_sorted_dict_gives(
    layered: tuple[DB, Contents],
    start: bytes | None,
    stop: bytes | None,
    prefix: bytes | None,
    reverse: bool,
) -> None:
    db, contents = layered
    expected = model(contents, start, stop, prefix, reverse)
    wanted = {"start": start, "stop": stop, "prefix": prefix}
    assert list(db.items(**wanted, reverse=reverse)) == expected
    assert list(db.keys(**wanted, reverse=reverse)) == [key for key, _ in expected]
    assert list(db.values(**wanted, reverse=reverse)) == [value for _, value in expected]
    assert list(reversed(db.items(**wanted, reverse=reverse))) == expected[::-1]
    assert len(db.items(**wanted, reverse=reverse)) == len(expected)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bounds, bounds, bounds, st.sampled_from(ALL_KEYS))
def test_membership_in_any_range_is_that_of_a_sorted_dict(
    layered: tuple[DB, Contents],
    start: bytes | None,
    stop: bytes | None,
    prefix: bytes | None,
    key: bytes,
) -> None:
    db, contents = layered
    expected = {key for key, _ in model(contents, start, stop, prefix, False)}
    assert (key in db.keys(start=start, stop=stop, prefix=prefix)) == (key in expected)


# Edge cases


@pytest.fixture
def letters(db: DB) -> DB:
    """b"" and a to e, half of them in a table."""
    db.update({b"": b"0", b"b": b"2", b"d": b"4"})
    db.flush()
    db.update({b"a": b"1", b"c": b"3", b"e": b"5"})
    return db


def test_start_is_included_and_stop_is_not(letters: DB) -> None:
    assert list(letters.keys(start=b"b", stop=b"d")) == [b"b", b"c"]


def test_reverse_keeps_start_the_lower_bound(letters: DB) -> None:
    assert list(letters.keys(start=b"b", stop=b"d", reverse=True)) == [b"c", b"b"]


@pytest.mark.parametrize("reverse", [False, True])
def test_a_range_from_a_key_to_itself_is_empty(letters: DB, reverse: bool) -> None:
    assert not list(letters.keys(start=b"b", stop=b"b", reverse=reverse))


@pytest.mark.parametrize("reverse", [False, True])
def test_a_range_that_starts_above_its_stop_is_empty(letters: DB, reverse: bool) -> None:
    assert not list(letters.keys(start=b"d", stop=b"b", reverse=reverse))
    assert len(letters.keys(start=b"d", stop=b"b", reverse=reverse)) == 0


def test_no_key_is_below_the_empty_one(letters: DB) -> None:
    assert not list(letters.keys(stop=b""))
    assert not list(letters.keys(stop=b"", reverse=True))


def test_the_empty_key_is_the_first(letters: DB) -> None:
    assert next(iter(letters)) == b""
    assert list(letters.keys(reverse=True))[-1] == b""
    assert list(letters.keys(stop=b"\0")) == [b""]


def test_the_empty_prefix_is_no_bound(letters: DB) -> None:
    assert list(letters.keys(prefix=b"")) == [b"", b"a", b"b", b"c", b"d", b"e"]


def test_ranges_beyond_either_end_are_empty(letters: DB) -> None:
    assert not list(letters.keys(start=b"f"))
    assert not list(letters.keys(start=b"f", reverse=True))
    assert not list(letters.keys(start=b"\0", stop=b"a"))


def test_ranges_over_an_empty_store_are_empty(db: DB) -> None:
    assert not list(db.items())
    assert not list(db.items(reverse=True))


@pytest.mark.parametrize("flush", [False, True])
def test_a_prefix_of_all_ones_has_no_upper_bound(db: DB, flush: bool) -> None:
    keys = [b"\xfe\xff", b"\xff", b"\xff\0", b"\xff\xfe", b"\xff\xff", b"\xff\xff\xff"]
    for key in keys:
        db[key] = b"v"
    if flush:
        db.flush()
    assert list(db.keys(prefix=b"\xff")) == keys[1:]
    assert list(db.keys(prefix=b"\xff\xff")) == keys[4:]
    assert list(db.keys(prefix=b"\xff", reverse=True)) == keys[:0:-1]


def test_a_prefix_narrows_start_and_stop(db: DB) -> None:
    for key in (b"a", b"ab", b"aba", b"abb", b"abc", b"ac", b"b"):
        db[key] = b"v"
    assert list(db.keys(prefix=b"ab", start=b"aba", stop=b"abc")) == [b"aba", b"abb"]
    assert list(db.keys(prefix=b"ab", start=b"", stop=b"z")) == [b"ab", b"aba", b"abb", b"abc"]
    assert not list(db.keys(prefix=b"ab", start=b"ac"))
    assert not list(db.keys(prefix=b"ab", stop=b"aa"))


# Snapshots


def test_a_view_shows_the_store_as_it_was_when_it_was_asked_for(db: DB) -> None:
    contents = fill(db, range(300))
    items, iterator = db.items(), iter(db.items(reverse=True))
    for number in range(0, 300, 3):
        db.delete(number_key(number))
        db[number_key(number + 1)] = b"changed"
    fill(db, range(300, 600))
    db.flush()
    db.compact_range()
    assert list(items) == list(contents.items())
    assert list(iterator) == list(contents.items())[::-1]
    assert list(items) == list(contents.items())


def test_an_iteration_under_way_does_not_see_what_is_written(db: DB) -> None:
    contents = fill(db, range(300))
    walk = iter(db.items())
    found = list(islice(walk, 100))
    db.clear()
    db.compact_range()
    assert found + list(walk) == list(contents.items())


def test_views_taken_at_two_times_differ(db: DB) -> None:
    db[b"k"] = b"1"
    first = db.items()
    db[b"k"] = b"2"
    second = db.items()
    db.delete(b"k")
    assert (list(first), list(second), list(db)) == ([(b"k", b"1")], [(b"k", b"2")], [])


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


def test_a_full_scan_reads_every_block_once(path: str) -> None:
    with open_small(path, block_cache_size_bytes=0) as db:
        fill(db, range(2000))
        db.compact_range()
        before = db.stats()
        assert sum(1 for _ in db.items()) == 2000
        blocks = sum(table.block_count for table in db.inspect().tables())
        assert (db.stats() - before).block_reads == blocks


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


def test_a_scan_profits_from_blocks_in_the_cache(db: DB) -> None:
    contents = fill(db, range(600))
    db.compact_range()
    db.multi_get(list(contents))
    before = db.stats()
    assert list(db.items()) == list(contents.items())
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


def test_a_scan_still_shows_entries_that_compactions_dropped(db: DB) -> None:
    contents = fill(db, range(300))
    walk = iter(db.items())
    begun = next(walk)
    for key in contents:
        db[key] = b"later"
    db.compact_range()
    assert db.inspect().entry_count == 300
    assert [begun, *walk] == model(contents, None, None, None, False)


def test_a_scan_of_a_snapshot_outlives_it(db: DB) -> None:
    contents = fill(db, range(300))
    with db.snapshot() as snapshot:
        db[number_key(1)] = b"between"
        items = snapshot.items()
    for key in contents:
        db[key] = b"later"
    assert list(iter(items)) == model(contents, None, None, None, False)


def test_an_iterator_dropped_early_releases_its_view(db: DB) -> None:
    fill(db, range(300))
    walk = iter(db.items())
    next(walk)
    assert pinned(db)
    del walk
    assert not pinned(db)


def test_an_exhausted_iterator_releases_its_view(db: DB) -> None:
    fill(db, range(300))
    walk = iter(db.items())
    assert sum(1 for _ in walk) == 300
    assert not pinned(db)


def test_len_bool_and_equality_leave_no_pin(db: DB) -> None:
    contents = fill(db, range(300))
    assert len(db) == 300
    assert db
    assert db == contents
    assert not pinned(db)


# Many versions of one key


@pytest.fixture
def overwritten(path: str) -> Iterator[tuple[DB, list[tuple[lsmkv.Snapshot, Contents]]]]:
    """A key with 60 versions, and a snapshot of each.

    Its versions fill dozens of blocks, between neighbours.
    """
    held: list[tuple[lsmkv.Snapshot, Contents]] = []
    contents: Contents = {}
    with open_small(path, write_buffer_size_bytes=1 << 20, table_size_bytes=1 << 20) as db:
        for version in range(60):
            for key in (b"j%02d" % version, b"k"):
                contents[key] = db[key] = b"%d:" % version + bytes(200)
            if version % 7 == 3:
                db.delete(b"k")
                del contents[b"k"]
            contents[b"l%02d" % version] = db[b"l%02d" % version] = b"after"
            held.append((db.snapshot(), dict(contents)))
        yield db, held


@pytest.mark.parametrize("upkeep", ["memtable", "flush", "compact"])
@pytest.mark.parametrize("reverse", [False, True])
def test_versions_of_a_key_in_several_blocks_are_distinguished(
    overwritten: tuple[DB, list[tuple[lsmkv.Snapshot, Contents]]], upkeep: str, reverse: bool
) -> None:
    db, held = overwritten
    if upkeep == "flush":
        db.flush()
    elif upkeep == "compact":
        db.compact_range()
    for snapshot, contents in held:
        expected = model(contents, None, None, None, reverse)
        assert list(snapshot.items(reverse=reverse)) == expected
        assert snapshot.get(b"k") == contents.get(b"k")
        for wanted in (
            {"start": b"k"}, {"stop": b"k"}, {"start": b"k", "stop": b"k\0"}, {"prefix": b"k"},
        ):  # fmt: skip
            bounded = model(
                contents, wanted.get("start"), wanted.get("stop"), wanted.get("prefix"), reverse
            )
            assert list(snapshot.items(**wanted, reverse=reverse)) == bounded


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


def test_the_versions_of_these_tests_fill_several_blocks(
    overwritten: tuple[DB, list[tuple[lsmkv.Snapshot, Contents]]],
) -> None:
    db, _ = overwritten
    db.flush()
    (table,) = db._state.require_open().version.tables()
    index = table.index
    shared = [
        number
        for number in range(1, index.block_count)
        if index.first_key(number) == index.last_key(number - 1) == b"k"
    ]
    assert len(shared) > 10


def test_the_present_version_is_found_among_many(
    overwritten: tuple[DB, list[tuple[lsmkv.Snapshot, Contents]]],
) -> None:
    db, _ = overwritten
    db[b"k"] = b"newest"
    db.flush()
    assert db[b"k"] == dict(db)[b"k"] == b"newest"


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
