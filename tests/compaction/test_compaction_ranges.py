"""Picks for compacting a range, and rules for all picks."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsmkv.compaction.picker import Compaction, PickState, pick, pick_range
from lsmkv.options import Options
from lsmkv.sstable.format import TableMeta
from lsmkv.tree.levels import Levels
from made_trees import KIB, LAZY, LEVELED, STYLES, TIERED, level0, numbers, table, tree


def picked_range(
    placed: dict[tuple[int, int], list[TableMeta]],
    start: str | None,
    stop: str | None,
    options: Options = LEVELED,
) -> Compaction | None:
    bounds = [None if bound is None else bound.encode() for bound in (start, stop)]
    return pick_range(tree(placed), options, bounds[0], bounds[1])


def test_a_range_takes_the_tables_in_it_from_every_run() -> None:
    placed = {
        (0, 5): [table(5, "c", "d")],
        (0, 4): [table(4, "x", "y")],
        (1, 0): [table(1, "a", "b"), table(2, "c", "e"), table(3, "g", "h")],
    }
    found = picked_range(placed, "c", "f")
    assert numbers(found) == [[5], [2]]
    assert found is not None and found.drop_deletions and not found.move


def test_the_end_of_a_range_is_not_in_it() -> None:
    placed = {(0, 5): [table(5, "c", "d")], (0, 6): [table(6, "e", "f")]}
    assert numbers(picked_range(placed, "c", "e")) == [[5]]


def test_a_range_without_bounds_takes_everything() -> None:
    placed = {**level0(2), (1, 0): [table(1, "a", "b")], (3, 0): [table(3, "c", "d")]}
    assert numbers(picked_range(placed, None, None)) == [[102], [101], [1], [3]]


def test_a_range_grows_until_no_table_reaches_across_its_ends() -> None:
    placed = {
        (0, 9): [table(9, "c", "g")],
        (1, 0): [table(1, "a", "b"), table(2, "f", "k"), table(3, "q", "r")],
        (2, 0): [table(4, "b", "b"), table(5, "j", "p"), table(6, "s", "t")],
    }
    assert numbers(picked_range(placed, "d", "e")) == [[9], [2], [5]]


def test_an_empty_range_needs_no_compaction() -> None:
    assert picked_range({(1, 0): [table(1, "a", "b")]}, "x", "y") is None


@pytest.mark.parametrize("options", [LEVELED, TIERED, LAZY], ids=STYLES)
def test_one_run_at_the_deepest_level_without_deletions_or_versions_needs_no_compaction(
    options: Options,
) -> None:
    placed = {(2, 0): [table(1, "a", "b", seq=0), table(2, "c", "d", seq=0)]}
    assert picked_range(placed, None, None, options) is None


def test_a_range_with_deletions_needs_compaction() -> None:
    placed = {(1, 0): [table(1, "a", "b", seq=0, deletions=1)]}
    assert numbers(picked_range(placed, None, None)) == [[1]]


def test_a_range_with_old_versions_needs_compaction() -> None:
    assert numbers(picked_range({(1, 0): [table(1, "a", "b", seq=5)]}, None, None)) == [[1]]


def test_a_range_goes_to_a_level_whose_target_it_fits() -> None:
    placed = {(0, run): [table(run, "a", "z", size_bytes=50 * KIB)] for run in (1, 2)}
    found = picked_range(placed, None, None)
    assert found is not None
    assert (found.output_level, found.output_run) == (2, 0)


@pytest.mark.parametrize("options", [TIERED, LAZY], ids=STYLES[1:])
def test_a_range_goes_to_the_deepest_level_of_runs(options: Options) -> None:
    placed = {**level0(2), (3, 1): [table(1, "a", "z")]}
    found = picked_range(placed, None, None, options)
    assert found is not None
    assert (found.output_level, found.output_run) == (3, None)


@st.composite
def trees(draw: st.DrawFn) -> Levels:
    placed: dict[tuple[int, int], list[TableMeta]] = {}
    fresh = count(1)
    for level in range(draw(st.integers(1, 4))):
        for run in range(draw(st.integers(0, 3))):
            bounds = sorted(draw(st.sets(st.integers(10, 99), max_size=8)))
            metas = [
                table(next(fresh), str(low), str(high))
                for low, high in zip(bounds[::2], bounds[1::2], strict=False)
            ]
            if metas:
                placed[level, run + 1] = metas
    return tree(placed)


keys = st.none() | st.integers(10, 99).map(lambda number: str(number).encode())


@given(trees(), keys, keys)
def test_no_table_outside_a_picked_range_overlaps_it(
    any_tree: Levels, start: bytes | None, stop: bytes | None
) -> None:
    found = pick_range(any_tree, TIERED, start, stop)
    if found is None:
        return
    taken = found.tables()
    low = min(meta.smallest for meta in taken)
    high = max(meta.largest for meta in taken)
    overlapping = [meta for run in any_tree.runs() for meta in run.overlapping(low, high)]
    assert sorted(meta.number for meta in overlapping) == sorted(meta.number for meta in taken)


@given(trees(), st.sampled_from([LEVELED, TIERED, LAZY]))
def test_every_pick_leaves_newer_data_above_older(any_tree: Levels, options: Options) -> None:
    found = pick(any_tree, options, PickState())
    if found is None:
        return
    taken = {meta.number for meta in found.tables()}
    age = {meta.number: at for at, meta in enumerate(any_tree.tables())}  # 0 is the newest
    level_of = {placed.meta.number: placed.level for placed in any_tree.placed()}
    low = min(meta.smallest for meta in found.tables())
    high = max(meta.largest for meta in found.tables())
    for run in any_tree.runs():
        for meta in run.overlapping(low, high):
            if meta.number in taken:
                continue
            # A remaining table must not lie between the merged data and its new place.
            newest, oldest = min(age[n] for n in taken), max(age[n] for n in taken)
            if age[meta.number] > newest:
                assert level_of[meta.number] >= found.output_level
            if found.drop_deletions:
                assert age[meta.number] < oldest
