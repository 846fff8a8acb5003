"""The tree as data: allowed changes, and the laws that they obey."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawn_trees import Drawing
from lsmkv.tree.levels import MAX_LEVELS, Levels, PlacedTable, RunMeta
from made_trees import table
from texts import CheckText, Command, Commands, Section, sections, title


def tree_of(*placed: PlacedTable) -> Levels:
    return Levels().changed(placed, ())


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
        PlacedTable(level, run, table(number, f"{slot}", f"{slot}~"))
        for number, (level, run, slot) in enumerate(slots, 1)
    ]


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
    for added in tables:
        stepwise = stepwise.changed([added], ())
    for removed in gone:
        stepwise = stepwise.changed((), [removed.meta.number])
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


@pytest.mark.parametrize(("level", "run"), [(-1, 0), (MAX_LEVELS, 0), (0, -1)])
def test_impossible_places_are_refused(level: int, run: int) -> None:
    with pytest.raises(ValueError, match="has level"):
        tree_of(PlacedTable(level, run, table(1, "a", "z")))


def test_impossible_tables_are_refused() -> None:
    with pytest.raises(ValueError, match="smallest key is above its largest"):
        tree_of(PlacedTable(0, 1, table(1, "z", "a")))


def test_placed_tables_come_newest_data_first() -> None:
    tree = tree_of(
        *(PlacedTable(level, n, table(n, "a", "z")) for level, n in ((1, 1), (0, 4), (0, 3)))
    )
    assert [table.number for table in tree.tables()] == [4, 3, 1]


def test_sizes_and_entries_of_a_run_are_those_of_its_tables() -> None:
    run = RunMeta(1, (table(1, "b", "d", entries=3), table(2, "f", "h", size_bytes=7, entries=4)))
    assert (run.size_bytes, run.entry_count) == (10 * 1024 + 7, 7)


class Changes:
    def __init__(self) -> None:
        self.drawing = Drawing()
        self.levels = Levels()
        self.commands: Commands = {"change": self.change, "overlapping": self.overlapping}

    def change(self, command: Command) -> str:
        removed = [int(number) for number in (command.option("remove") or "").split(",") if number]
        try:
            self.levels = self.levels.changed(self.drawing.read(command.input), removed)
        except ValueError as error:
            return f"refused: {error}"
        return self.drawing.draw(self.levels)

    def overlapping(self, command: Command) -> str:
        smallest, largest = (word.encode() for word in command.words)
        found = [
            " ".join(str(meta.number) for meta in run.overlapping(smallest, largest)) or "none"
            for run in self.levels.runs()
        ]
        return ", ".join(found)


@pytest.mark.parametrize("section", sections(__file__), ids=title)
def test_levels(section: Section, check_text: CheckText) -> None:
    check_text(section, Changes().commands)
