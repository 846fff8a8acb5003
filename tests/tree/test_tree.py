"""The tree as data: allowed changes, and the laws that they obey."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsmkv.sstable.format import TableMeta
from lsmkv.tree.levels import MAX_LEVELS, Levels, PlacedTable, RunMeta


def meta(number: int, smallest: bytes = b"a", largest: bytes = b"z", entries: int = 1) -> TableMeta:
    return TableMeta(
        number=number,
        size_bytes=1000 * number,
        smallest=smallest,
        largest=largest,
        smallest_seq=1,
        largest_seq=9,
        entry_count=entries,
        tombstone_count=0,
    )


def tree_of(*placed: PlacedTable) -> Levels:
    return Levels().changed(placed, ())


def numbers(tree: Levels) -> set[int]:
    return {table.number for table in tree.tables()}


@st.composite
def placements(draw: st.DrawFn) -> list[PlacedTable]:
    """Tables that fit one tree: those of a run do not overlap."""
    slots = draw(
        st.lists(
            st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 9)),
            unique=True,
            max_size=15,
        )
    )
    return [
        PlacedTable(level, run, meta(number, b"%d" % slot, b"%d~" % slot))
        for number, (level, run, slot) in enumerate(slots, 1)
    ]


# --- laws ----------------------------------------------------------------------------------------


@given(placements())
def test_a_tree_places_what_was_added_and_nothing_else(tables: list[PlacedTable]) -> None:
    tree = Levels().changed(tables, ())
    assert {table.meta.number: table for table in tree.placed()} == {
        table.meta.number: table for table in tables
    }


@given(placements(), st.randoms())
def test_the_order_of_additions_does_not_matter(tables: list[PlacedTable], dice: object) -> None:
    shuffled = list(tables)
    dice.shuffle(shuffled)  # type: ignore[attr-defined]  # st.randoms is not typed
    assert Levels().changed(shuffled, ()) == Levels().changed(tables, ())


@given(placements(), st.data())
def test_removing_what_was_added_gives_the_tree_before(
    tables: list[PlacedTable], data: st.DataObject
) -> None:
    split = data.draw(st.integers(0, len(tables)))
    before = Levels().changed(tables[:split], ())
    after = before.changed(tables[split:], ())
    assert after.changed((), [table.meta.number for table in tables[split:]]) == before


@given(placements(), st.data())
def test_changes_one_by_one_equal_all_at_once(
    tables: list[PlacedTable], data: st.DataObject
) -> None:
    gone = data.draw(st.sets(st.sampled_from(tables))) if tables else set()
    stepwise = Levels()
    for table in tables:
        stepwise = stepwise.changed([table], ())
    for table in gone:
        stepwise = stepwise.changed((), [table.meta.number])
    assert stepwise == Levels().changed([table for table in tables if table not in gone], ())


@given(placements())
def test_runs_stand_newest_first_and_their_tables_by_key(tables: list[PlacedTable]) -> None:
    tree = Levels().changed(tables, ())
    for runs in tree.by_depth:
        assert [run.number for run in runs] == sorted({run.number for run in runs}, reverse=True)
        for run in runs:
            assert run.tables
            assert all(left.largest < right.smallest for left, right in pairwise(run.tables))


@given(placements())
def test_the_deepest_level_is_never_empty(tables: list[PlacedTable]) -> None:
    tree = Levels().changed(tables, ())
    assert tree.deepest == max((table.level for table in tables), default=-1)
    assert not tree.by_depth or tree.by_depth[-1]


@given(placements())
def test_a_change_leaves_the_tree_it_started_from_alone(tables: list[PlacedTable]) -> None:
    tree = Levels().changed(tables, ())
    before = list(tree.placed())
    tree.changed((), [table.meta.number for table in tables])
    assert list(tree.placed()) == before


@given(placements())
def test_level_sizes_add_up_to_the_tables(tables: list[PlacedTable]) -> None:
    tree = Levels().changed(tables, ())
    total = sum(tree.level_bytes(level) for level in range(MAX_LEVELS))
    assert total == sum(table.meta.size_bytes for table in tables)


# --- what cannot be drawn ------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "run"), [(-1, 0), (MAX_LEVELS, 0), (0, -1)])
def test_impossible_places_are_refused(level: int, run: int) -> None:
    with pytest.raises(ValueError, match="has level"):
        tree_of(PlacedTable(level, run, meta(1)))


def test_impossible_tables_are_refused() -> None:
    with pytest.raises(ValueError, match="smallest key is above its largest"):
        tree_of(PlacedTable(0, 1, meta(1, b"z", b"a")))


# --- looking into it -----------------------------------------------------------------------------


def test_placed_tables_come_newest_data_first() -> None:
    tree = tree_of(
        PlacedTable(1, 0, meta(1)), PlacedTable(0, 4, meta(4)), PlacedTable(0, 3, meta(3))
    )
    assert [table.number for table in tree.tables()] == [4, 3, 1]


def test_sizes_and_entries_of_a_run_are_those_of_its_tables() -> None:
    run = RunMeta(1, (meta(1, b"b", b"d", entries=3), meta(2, b"f", b"h", entries=4)))
    assert (run.size_bytes, run.entry_count) == (3000, 7)
