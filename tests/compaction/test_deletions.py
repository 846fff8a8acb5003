"""Tables of mostly deletions are merged with what these hide: the space of erased entries comes back."""

from __future__ import annotations

import pytest
from conftest import fill, number_key, open_small

from lsmkv.compaction.picker import PickState, pick
from lsmkv.options import CompactionStyle
from lsmkv.tree.levels import Levels
from made_trees import OPTIONS, STYLES, table, tree


def tree_with_deletions(deletions: int, entries: int) -> Levels:
    """A table on level 0 of 100 entries, over ``entries`` others on level 1."""
    return tree(
        {
            (0, 2): [table(2, "b", "y", entries=100, deletions=deletions, seq=9)],
            (1, 0): [table(1, "a", "z", entries=entries, seq=0)],
        }
    )


@pytest.mark.parametrize("style", STYLES)
def test_a_table_of_mostly_deletions_is_merged_with_all_in_its_range(
    style: CompactionStyle,
) -> None:
    levels = tree_with_deletions(60, 130)
    chosen = pick(levels, OPTIONS.replace(compaction=style), PickState())
    assert chosen is not None
    assert [meta.number for meta in chosen.tables()] == [2, 1]
    assert chosen.drop_deletions


@pytest.mark.parametrize(("deletions", "entries"), [(40, 50), (60, 150)])
def test_few_deletions_or_far_more_entries_than_these_wait(deletions: int, entries: int) -> None:
    assert pick(tree_with_deletions(deletions, entries), OPTIONS, PickState()) is None


def test_deletions_that_a_snapshot_needs_wait() -> None:
    levels = tree_with_deletions(60, 130)
    assert pick(levels, OPTIONS, PickState(oldest_view=8)) is None
    assert pick(levels, OPTIONS, PickState(oldest_view=9)) is not None


def test_an_emptied_store_gives_its_space_back_unasked(path: str) -> None:
    with open_small(path) as db:
        fill(db, range(1000))
        db.flush()
        for number in range(1000):
            del db[number_key(number)]
        db.flush()
        db.wait_until_settled()
        assert db.inspect().levels == ()
        assert not list(db)


def test_an_emptied_store_with_a_snapshot_settles_and_keeps_what_it_shows(path: str) -> None:
    with open_small(path) as db:
        fill(db, range(300))
        with db.snapshot() as snapshot:
            for number in range(300):
                del db[number_key(number)]
            db.flush()
            db.wait_until_settled()
            assert len(snapshot) == 300
        db.put(b"z", b"")
        db.flush()
        db.wait_until_settled()
        assert db.stats().compactions > 0
        assert list(db) == [b"z"]
