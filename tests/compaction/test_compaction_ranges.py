"""Rules for all picks, also of ranges."""

from __future__ import annotations

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from lsmkv.compaction.picker import PickState, pick, pick_range
from lsmkv.options import Options
from lsmkv.sstable.format import TableMeta
from lsmkv.tree.levels import Levels
from made_trees import LAZY, LEVELED, TIERED, table, tree


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
