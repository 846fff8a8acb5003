"""Entries that are due leave the tree: dropped unread, or merged away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import fill, number_key, open_small

import lsmkv
from clocks import SetClock
from columns import as_rows
from lsmkv.compaction.merge import merge_tables
from lsmkv.compaction.picker import Compaction, PickState, pick
from lsmkv.encoding.expiry import Expiring
from lsmkv.options import CompactionStyle
from lsmkv.sstable.format import TableExpiry, TableMeta, expiry_of
from lsmkv.tree.levels import Levels
from made_trees import OPTIONS, STYLES, table, tree
from table_files import Entry, Tables

DUE_S = 1060


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def db(path: str, clock: SetClock) -> Iterator[lsmkv.DB]:
    with open_small(path, clock=clock) as opened:
        yield opened


# --- merging ---


def merged(directory: Any, *runs: list[Entry], due_s: int, **rules: Any) -> list[Entry]:
    tables = Tables(directory)
    inputs = [[tables.table(run)] for run in runs]
    rules = {"snapshots": [], "drop_deletions": False, **rules}
    return as_rows(list(merge_tables(inputs, due_s=due_s, **rules)))


def test_a_merge_makes_a_deletion_of_what_is_due(tmp_path: Any) -> None:
    runs: list[list[Entry]] = [[(b"a", Expiring(b"v" * 9, 50), 2), (b"b", Expiring(b"", 51), 3)]]
    found = merged(tmp_path, *runs, due_s=50)
    assert [(key, value is None) for key, value, _ in found] == [(b"a", True), (b"b", False)]


def test_a_merge_into_the_last_run_drops_what_is_due_and_all_that_it_hid(tmp_path: Any) -> None:
    runs: list[list[Entry]] = [[(b"a", Expiring(b"new", 50), 2)], [(b"a", b"old", 1)]]
    assert merged(tmp_path, *runs, due_s=50, drop_deletions=True) == []


# --- picking ---


def expiring(
    number: int, smallest: str, largest: str, expiries: list[int], entries: int = 100
) -> TableMeta:
    """A table of which entries are due at these times, the first ones tell."""
    expiry = expiry_of(expiries, entries)
    return table(number, smallest, largest, entries=entries, expiry=expiry, seq=9)


def picked(levels: Levels, due_s: int, style: CompactionStyle = "leveled") -> Compaction | None:
    return pick(levels, OPTIONS.replace(compaction=style), PickState(due_s=due_s))


@pytest.mark.parametrize("style", STYLES)
def test_a_table_in_which_all_is_due_is_dropped_unread(style: CompactionStyle) -> None:
    levels = tree(
        {(0, 2): [expiring(2, "a", "c", [DUE_S] * 100)], (1, 0): [table(1, "d", "z", seq=0)]}
    )
    chosen = picked(levels, DUE_S, style)
    assert chosen is not None
    assert chosen.drop
    assert [meta.number for meta in chosen.tables()] == [2]
    assert picked(levels, DUE_S - 1, style) is None


def test_a_due_table_over_an_older_one_that_stays_is_merged_with_it() -> None:
    levels = tree(
        {
            (0, 2): [expiring(2, "a", "f", [DUE_S] * 100)],
            (1, 0): [table(1, "d", "z", entries=150, seq=0)],
        }
    )
    chosen = picked(levels, DUE_S)
    assert chosen is not None
    assert not chosen.drop
    assert [meta.number for meta in chosen.tables()] == [2, 1]


def test_due_tables_of_all_ages_are_dropped_at_once() -> None:
    levels = tree(
        {
            (0, 3): [expiring(3, "a", "z", [DUE_S] * 100)],
            (0, 2): [expiring(2, "a", "z", [DUE_S] * 100)],
            (1, 0): [expiring(1, "d", "f", [DUE_S] * 100)],
        }
    )
    chosen = picked(levels, DUE_S)
    assert chosen is not None
    assert chosen.drop
    assert sorted(meta.number for meta in chosen.tables()) == [1, 2, 3]


def test_a_table_with_a_deletion_is_not_dropped_unread() -> None:
    meta = table(2, "a", "c", deletions=1, expiry=expiry_of([DUE_S] * 99, 100), seq=9)
    chosen = picked(tree({(0, 2): [meta]}), DUE_S)
    assert chosen is None or not chosen.drop


def test_a_table_of_mostly_due_entries_is_merged_once_half_of_it_is_due() -> None:
    # Due: a half at 1,060, and the rest never.
    levels = tree({(1, 0): [expiring(1, "a", "z", [DUE_S] * 50)]})
    assert picked(levels, DUE_S - 1) is None
    chosen = picked(levels, DUE_S)
    assert chosen is not None
    assert not chosen.drop
    assert chosen.drop_deletions


def test_a_table_of_which_half_is_due_is_merged_though_more_will_be() -> None:
    # Due: a half at 1,060, a tenth much later, and the rest never.
    levels = tree({(1, 0): [expiring(1, "a", "z", [DUE_S] * 50 + [DUE_S + 9000] * 10)]})
    assert picked(levels, DUE_S - 1) is None
    chosen = picked(levels, DUE_S)
    assert chosen is not None
    assert not chosen.drop


def test_a_time_series_waits_and_is_dropped() -> None:
    levels = tree({(1, 0): [expiring(1, "a", "z", list(range(DUE_S, DUE_S + 100)))]})
    assert picked(levels, DUE_S + 98) is None
    chosen = picked(levels, DUE_S + 99)
    assert chosen is not None
    assert chosen.drop


def test_the_expiry_of_a_table_tells_when_half_of_all_its_entries_is_due() -> None:
    assert expiry_of([], 4) is None
    assert expiry_of([30, 10], 4) == TableExpiry(2, 10, 30, 30)
    assert expiry_of([30, 10], 5) == TableExpiry(2, 10, None, 30)
    assert expiry_of([30, 10, 20], 5) == TableExpiry(3, 10, 30, 30)


# --- a store ---


def put_due(db: lsmkv.DB, numbers: range, due_s: int = DUE_S) -> None:
    for number in numbers:
        db.put(number_key(number), b"v" * 30, expires_at=due_s)


def settled(db: lsmkv.DB) -> None:
    """The compactor looks when a flush ends."""
    db.put(b"~", b"")
    db.flush()
    db.wait_until_settled()


def stored_entries(db: lsmkv.DB) -> int:
    return db.inspect().entry_count


def test_tables_in_which_all_is_due_leave_without_a_read(
    path: str, clock: SetClock, background: dict[str, Any]
) -> None:
    with open_small(path, clock=clock, block_cache_size_bytes=0, **background) as db:
        put_due(db, range(1000))
        db.compact_range()
        before = db.stats()
        clock.now_s = DUE_S
        settled(db)
        after = db.stats()
        assert stored_entries(db) == 1
        assert after.compaction_block_reads == before.compaction_block_reads
        assert after.block_reads == before.block_reads


def test_what_is_due_does_not_uncover_what_it_hid(
    path: str, clock: SetClock, background: dict[str, Any]
) -> None:
    with open_small(path, clock=clock, **background) as db:
        fill(db, range(1000))
        db.compact_range()
        put_due(db, range(1000))
        db.flush()
        clock.now_s = DUE_S
        settled(db)
        assert list(db) == [b"~"]
        assert stored_entries(db) == 1


@pytest.mark.parametrize("view", [lambda db: db.snapshot(), lambda db: db.transaction()])
def test_tables_stay_as_long_as_the_oldest_view_does_not_find_them_due(
    db: lsmkv.DB, clock: SetClock, view: Callable[[lsmkv.DB], Any]
) -> None:
    put_due(db, range(1000))
    with view(db) as seen:
        clock.now_s = DUE_S
        settled(db)
        assert len(seen) == 1000
        assert stored_entries(db) == 1001
    settled(db)
    assert stored_entries(db) == 1


def test_a_view_that_finds_them_due_keeps_no_tables(db: lsmkv.DB, clock: SetClock) -> None:
    put_due(db, range(1000))
    db.flush()
    clock.now_s = DUE_S
    with db.snapshot() as snapshot:
        settled(db)
        assert stored_entries(db) == 1
        assert list(snapshot) == []


def test_a_flush_drops_what_is_due(path: str, clock: SetClock, background: dict[str, Any]) -> None:
    with open_small(path, clock=clock, write_buffer_size_bytes=1 << 20, **background) as db:
        put_due(db, range(10))
        put_due(db, range(10, 15), DUE_S + 1)
        clock.now_s = DUE_S
        db.flush()
        assert stored_entries(db) == 5


def test_compact_range_drops_what_is_due(
    path: str, clock: SetClock, background: dict[str, Any]
) -> None:
    with open_small(path, clock=clock, **background) as db:
        put_due(db, range(500))
        put_due(db, range(500, 1000), DUE_S + 1)
        db.compact_range()
        assert stored_entries(db) == 1000
        clock.now_s = DUE_S
        db.compact_range()
        assert stored_entries(db) == 500
        assert list(db) == [number_key(number) for number in range(500, 1000)]


def test_a_snapshot_that_comes_as_tables_are_to_be_dropped_keeps_what_it_shows(
    db: lsmkv.DB, clock: SetClock
) -> None:
    put_due(db, range(100))
    db.flush()
    db.wait_until_settled()
    compactor, current = db._engine.background.compactor, db._state.require_open()
    clock.now_s = DUE_S
    chosen = compactor.due(current.version, compactor._picked)
    assert chosen is not None
    assert chosen.drop
    clock.now_s = 1000
    with db.snapshot() as snapshot:
        with compactor.running:
            compactor._run(current, chosen, lambda: False)
        assert len(snapshot) == 100
