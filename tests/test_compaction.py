"""Compaction: what is picked (trees made by hand), what is written, and the shape of settled trees."""

from __future__ import annotations

import contextlib
import os
import random
import tempfile
import threading
from collections.abc import Callable, Iterator
from itertools import count, groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lsmkv
from columns import as_columns, as_rows
from conftest import fill, open_small
from gates import WAIT_S, GatedStorage
from lsmkv.cache import BlockCache
from lsmkv.compaction import (
    CancelledError,
    Compaction,
    PickState,
    TableJob,
    level_target_bytes,
    output_error_rate,
    pick,
    pick_range,
    write_tables,
)
from lsmkv.filters import expected_wasted_reads, memory_bits, monkey_error_rates
from lsmkv.options import CompactionStyle, Options
from lsmkv.sstable.columns import Versions
from lsmkv.sstable.layout import TableMeta
from lsmkv.sstable.reader import TableReader
from lsmkv.sstable.writer import TableFormat
from lsmkv.storage import Storage
from lsmkv.tree import PlacedTable, Tree

KIB = 1024
STYLES: tuple[CompactionStyle, ...] = ("leveled", "tiered", "lazy-leveled")

# Levels of 40 KiB, 160 KiB, ...; four runs make a level full.
OPTIONS = Options(
    size_ratio=4,
    level0_compaction_trigger=4,
    level1_size_bytes=40 * KIB,
    write_buffer_size_bytes=8 * KIB,
)
LEVELED, TIERED, LAZY = (OPTIONS.replace(compaction=style) for style in STYLES)


def table(
    number: int,
    smallest: str,
    largest: str,
    *,
    size_bytes: int = 10 * KIB,
    entries: int = 100,
    deletions: int = 0,
    seq: int = 1,
) -> TableMeta:
    return TableMeta(
        number=number,
        size_bytes=size_bytes,
        smallest=smallest.encode(),
        largest=largest.encode(),
        smallest_seq=0,
        largest_seq=seq,
        entry_count=entries,
        tombstone_count=deletions,
    )


def tree(placed: dict[tuple[int, int], list[TableMeta]]) -> Tree:
    """The tree with these tables, by level and run."""
    return Tree().changed(
        [PlacedTable(level, run, meta) for (level, run), metas in placed.items() for meta in metas],
        (),
    )


def chosen(placed: dict[tuple[int, int], list[TableMeta]], options: Options) -> Compaction:
    found = pick(tree(placed), options, PickState())
    assert found is not None
    return found


def numbers(compaction: Compaction | None) -> list[list[int]]:
    """Numbers of the input tables, run by run."""
    assert compaction is not None
    return [[meta.number for meta in run] for run in compaction.inputs]


def level0(
    run_count: int, smallest: str = "a", largest: str = "z"
) -> dict[tuple[int, int], list[TableMeta]]:
    """Level 0 with so many runs of one table; their numbers count up from 101."""
    return {
        (0, number): [table(number, smallest, largest)] for number in range(101, 101 + run_count)
    }


# --- leveled ---


@pytest.mark.parametrize("options", [LEVELED, TIERED, LAZY], ids=STYLES)
def test_an_empty_tree_is_in_shape(options: Options) -> None:
    assert pick(Tree(), options, PickState()) is None


@pytest.mark.parametrize("options", [LEVELED, TIERED, LAZY], ids=STYLES)
def test_level_0_is_left_alone_below_its_trigger(options: Options) -> None:
    assert pick(tree(level0(3)), options, PickState()) is None


@pytest.mark.parametrize("options", [LEVELED, TIERED, LAZY], ids=STYLES)
def test_level_0_is_merged_at_its_trigger_newest_run_first(options: Options) -> None:
    found = chosen(level0(4), options)
    assert numbers(found) == [[104], [103], [102], [101]]
    assert found.output_level == 1 and not found.move


def test_leveled_merges_level_0_with_the_tables_it_overlaps() -> None:
    below = [table(1, "a", "c"), table(2, "e", "g"), table(3, "m", "p")]
    found = chosen({**level0(4, "f", "m"), (1, 0): below}, LEVELED)
    assert numbers(found)[4:] == [[2, 3]]
    assert (found.output_level, found.output_run) == (1, 0)


def test_leveled_leaves_a_level_alone_up_to_its_target() -> None:
    full = {(1, 0): [table(1, "a", "m", size_bytes=40 * KIB)]}
    assert level_target_bytes(1, LEVELED) == 40 * KIB
    assert pick(tree(full), LEVELED, PickState()) is None


def test_leveled_gives_one_table_of_a_level_over_its_target_to_the_next() -> None:
    upper = [table(number, f"{number}0", f"{number}9") for number in range(1, 6)]
    lower = [table(11, "00", "12"), table(12, "15", "25"), table(13, "30", "40")]
    found = chosen({(1, 0): upper, (2, 0): lower}, LEVELED)
    assert numbers(found) == [[1], [11, 12]]
    assert (found.output_level, found.output_run) == (2, 0)


def test_leveled_goes_through_a_level_round_and_round() -> None:
    state = PickState()
    placed = {(1, 0): [table(number, f"{number}0", f"{number}9") for number in range(1, 6)]}
    found = [numbers(pick(tree(placed), LEVELED, state))[0] for _ in range(7)]
    assert found == [[1], [2], [3], [4], [5], [1], [2]]


def test_leveled_goes_on_after_the_key_where_it_was_whatever_the_tables_are_now() -> None:
    state = PickState({1: b"35"})
    placed = {(1, 0): [table(number, f"{number}0", f"{number}9") for number in range(1, 6)]}
    assert numbers(pick(tree(placed), LEVELED, state)) == [[3]]


def test_leveled_targets_grow_by_the_size_ratio() -> None:
    targets = [level_target_bytes(level, LEVELED) for level in (1, 2, 3)]
    assert targets == [40 * KIB, 160 * KIB, 640 * KIB]


def test_leveled_does_the_most_urgent_first() -> None:
    upper = [table(1, "a", "b", size_bytes=90 * KIB), table(2, "c", "d", size_bytes=90 * KIB)]
    assert chosen({**level0(4), (1, 0): upper}, LEVELED).output_level == 2
    assert chosen({**level0(20), (1, 0): upper}, LEVELED).output_level == 1


def test_leveled_merges_a_full_level_0_though_another_level_is_just_at_its_target() -> None:
    placed = {**level0(4), (1, 0): [table(1, "a", "b", size_bytes=40 * KIB)]}
    assert chosen(placed, LEVELED).output_level == 1


def test_leveled_moves_tables_that_overlap_nothing() -> None:
    upper = [table(number, f"{number}0", f"{number}9") for number in range(1, 6)]
    found = chosen({(1, 0): upper, (2, 0): [table(9, "70", "80")]}, LEVELED)
    assert found.move
    assert (numbers(found), found.output_level, found.output_run) == ([[1]], 2, 0)


def test_leveled_moves_level_0_when_its_runs_overlap_neither_each_other_nor_level_1() -> None:
    runs = {(0, number): [table(number, f"{number}0", f"{number}9")] for number in range(1, 5)}
    assert chosen({**runs, (1, 0): [table(9, "70", "80")]}, LEVELED).move
    assert not chosen({**runs, (1, 0): [table(9, "25", "26")]}, LEVELED).move


def test_leveled_does_not_move_runs_that_overlap_each_other() -> None:
    assert not chosen(level0(4), LEVELED).move


def test_tables_that_only_touch_overlap() -> None:
    runs = {(0, number): [table(number, f"{number}0", f"{number + 1}0")] for number in range(1, 5)}
    assert not chosen(runs, LEVELED).move


# --- deletions ---


def test_leveled_drops_deletions_when_nothing_deeper_overlaps() -> None:
    placed = {**level0(4, "d", "f"), (1, 0): [table(1, "a", "e")]}
    assert chosen(placed, LEVELED).drop_deletions
    assert chosen({**placed, (2, 0): [table(2, "x", "z")]}, LEVELED).drop_deletions


@pytest.mark.parametrize("deeper", [2, 3])
def test_leveled_keeps_deletions_when_something_deeper_overlaps(deeper: int) -> None:
    placed = {**level0(4, "d", "f"), (deeper, 0): [table(2, "f", "z")]}
    placed[1, 0] = [table(1, "a", "e")]
    assert not chosen(placed, LEVELED).drop_deletions


def test_leveled_minds_what_overlaps_the_tables_below_that_it_takes_in() -> None:
    # Level 1 takes in keys up to "m"; the table at "l" is older than those, though not than level 0's.
    placed = {**level0(4, "d", "f"), (1, 0): [table(1, "e", "m")], (2, 0): [table(2, "l", "l")]}
    assert not chosen(placed, LEVELED).drop_deletions


@pytest.mark.parametrize("options", [TIERED, LAZY], ids=STYLES[1:])
def test_runs_keep_deletions_while_an_older_run_overlaps(options: Options) -> None:
    older = {(2, 1): [table(1, "m", "m")]}
    assert not chosen({**level0(4), **older}, options).drop_deletions
    apart = {(2, 1): [table(1, "~", "~")]}
    assert chosen({**level0(4), **apart}, options).drop_deletions


def test_tiered_drops_deletions_when_it_merges_the_deepest_level() -> None:
    assert chosen({(1, run): [table(run, "a", "z")] for run in range(1, 5)}, TIERED).drop_deletions


def test_deletions_are_dropped_and_not_moved_to_where_nothing_lies_below() -> None:
    upper = [table(number, f"{number}0", f"{number}9", deletions=9) for number in range(1, 6)]
    found = chosen({(1, 0): upper}, LEVELED)
    assert (found.move, found.drop_deletions) == (False, True)


def test_deletions_that_reach_the_bottom_are_dropped_and_not_moved() -> None:
    upper = [table(number, f"{number}0", f"{number}9", deletions=9) for number in range(1, 6)]
    found = chosen({(1, 0): upper, (2, 0): [table(9, "70", "80")]}, LEVELED)
    assert (found.move, found.drop_deletions) == (False, True)


def test_moved_tables_keep_their_deletions_where_something_lies_below() -> None:
    upper = [table(number, f"{number}0", f"{number}9", deletions=9) for number in range(1, 6)]
    found = chosen({(1, 0): upper, (3, 0): [table(9, "00", "99")]}, LEVELED)
    assert (found.move, found.drop_deletions) == (True, False)


# --- tiered ---


def test_tiered_merges_a_level_of_as_many_runs_as_the_size_ratio_into_a_new_run() -> None:
    placed = {(1, run): [table(run, "a", "z")] for run in range(1, 5)}
    found = chosen({**placed, (2, 9): [table(9, "a", "z")]}, TIERED)
    assert numbers(found) == [[4], [3], [2], [1]]
    assert (found.output_level, found.output_run) == (2, None)


def test_tiered_leaves_a_level_of_fewer_runs_alone() -> None:
    placed = {
        (level, run): [table(10 * level + run, "a", "z")] for level in (1, 2) for run in (1, 2, 3)
    }
    assert pick(tree(placed), TIERED, PickState()) is None


def test_tiered_leaves_the_runs_of_the_next_level_alone() -> None:
    found = chosen({**level0(4), (1, 1): [table(1, "a", "z")]}, TIERED)
    assert [1] not in numbers(found)


def test_tiered_does_the_upper_level_first() -> None:
    placed = {(1, run): [table(run, "a", "z")] for run in range(1, 5)}
    assert chosen({**level0(4), **placed}, TIERED).output_level == 1


# --- lazy-leveled ---


def test_lazy_leveled_merges_into_the_one_run_of_the_deepest_level() -> None:
    found = chosen({**level0(4), (1, 1): [table(1, "a", "z")]}, LAZY)
    assert numbers(found)[-1] == [1]
    assert (found.output_level, found.output_run, found.drop_deletions) == (1, None, True)


def test_lazy_leveled_is_tiered_above_the_deepest_level() -> None:
    placed = {(1, 1): [table(1, "a", "z")], (2, 2): [table(2, "a", "z")]}
    found = chosen({**level0(4), **placed}, LAZY)
    assert [1] not in numbers(found) and [2] not in numbers(found)
    assert found.output_level == 1


def test_lazy_leveled_leaves_one_run_at_the_deepest_level_alone() -> None:
    placed = {(1, run): [table(run, "a", "z")] for run in (1, 2, 3)}
    assert pick(tree({**placed, (2, 9): [table(9, "a", "z")]}), LAZY, PickState()) is None


def test_lazy_leveled_merges_two_runs_at_the_deepest_level() -> None:
    found = chosen({(1, 1): [table(1, "a", "z")], (1, 2): [table(2, "a", "z")]}, LAZY)
    assert numbers(found) == [[2], [1]]
    assert (found.output_level, found.drop_deletions) == (1, True)


def test_lazy_leveled_grows_by_a_level_when_the_deepest_is_full() -> None:
    capacity = 8 * KIB * 4 * 4  # buffer, runs of level 0, size ratio
    below = [table(1, "a", "z", size_bytes=capacity)]
    found = chosen({**level0(4), (1, 1): below}, LAZY)
    assert (numbers(found), found.output_level, found.move) == ([[1]], 2, True)
    below = [table(1, "a", "z", size_bytes=capacity - 1)]
    assert chosen({**level0(4), (1, 1): below}, LAZY).output_level == 1


# --- a change of style ---


def test_leveled_first_makes_one_run_of_the_runs_another_style_left() -> None:
    placed = {(2, run): [table(run, "a", "z")] for run in (3, 5)}
    found = chosen({**level0(9), **placed}, LEVELED)
    assert numbers(found) == [[5], [3]]
    assert (found.output_level, found.output_run) == (2, 0)


def test_leveled_takes_over_a_single_run_of_another_style() -> None:
    found = chosen({(1, 7): [table(1, "a", "z")]}, LEVELED)
    assert (found.output_level, found.output_run) == (1, 0)


@pytest.mark.parametrize("options", [TIERED, LAZY], ids=STYLES[1:])
def test_the_other_styles_take_a_leveled_tree_as_it_is(options: Options) -> None:
    placed = {(level, 0): [table(level, "a", "z")] for level in (1, 2, 3)}
    assert pick(tree(placed), options, PickState()) is None


# --- a range ---


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


def test_a_range_that_holds_nothing_is_done() -> None:
    assert picked_range({(1, 0): [table(1, "a", "b")]}, "x", "y") is None


@pytest.mark.parametrize("options", [LEVELED, TIERED, LAZY], ids=STYLES)
def test_one_run_at_the_deepest_level_without_deletions_or_versions_is_done(
    options: Options,
) -> None:
    placed = {(2, 0): [table(1, "a", "b", seq=0), table(2, "c", "d", seq=0)]}
    assert picked_range(placed, None, None, options) is None


def test_a_range_with_deletions_is_not_done() -> None:
    placed = {(1, 0): [table(1, "a", "b", seq=0, deletions=1)]}
    assert numbers(picked_range(placed, None, None)) == [[1]]


def test_a_range_that_may_hold_old_versions_is_not_done() -> None:
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
def trees(draw: st.DrawFn) -> Tree:
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
    any_tree: Tree, start: bytes | None, stop: bytes | None
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
def test_whatever_is_picked_leaves_newer_data_above_older(any_tree: Tree, options: Options) -> None:
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
            # What stays must not lie between the data that is merged and the place it goes to.
            newest, oldest = min(age[n] for n in taken), max(age[n] for n in taken)
            if age[meta.number] > newest:
                assert level_of[meta.number] >= found.output_level
            if found.drop_deletions:
                assert age[meta.number] < oldest


# --- error rates of what is written ---


def test_a_uniform_rate_is_given_to_every_table() -> None:
    assert output_error_rate(tree(level0(2)), (), 1000, LEVELED) == LEVELED.error_rate


MONKEY = LEVELED.replace(filter_allocation="monkey")


def test_monkey_gives_a_run_the_rate_of_its_size_among_all_runs() -> None:
    placed = {
        (0, 9): [table(9, "a", "z", entries=100)],
        (1, 0): [table(1, "a", "b", entries=600), table(2, "c", "d", entries=400)],
    }
    rate = output_error_rate(tree(placed), (), 10, MONKEY)
    assert rate == monkey_error_rates([10, 100, 1000], MONKEY.error_rate)[0]


def test_monkey_leaves_out_the_tables_that_are_replaced() -> None:
    placed = {(0, 9): [table(9, "a", "z", entries=100)], (1, 0): [table(1, "a", "b", entries=600)]}
    rate = output_error_rate(tree(placed), [9], 100, MONKEY)
    assert rate == monkey_error_rates([100, 600], MONKEY.error_rate)[0]


def test_monkey_counts_the_whole_run_that_new_tables_become_part_of() -> None:
    placed = {
        (1, 0): [table(1, "a", "b", entries=50)],
        (2, 0): [table(2, "a", "b", entries=60), table(3, "c", "d", entries=900)],
    }
    rate = output_error_rate(tree(placed), [1, 2], 110, MONKEY, (2, 0))
    assert rate == monkey_error_rates([1010], MONKEY.error_rate)[0]


# --- writing tables ---


def job(
    directory: Path, table_size_bytes: int, is_cancelled: Callable[[], bool] = lambda: False
) -> TableJob:
    form = TableFormat.from_options(Options(block_size_bytes=512, compression="none"), 0.01)
    return TableJob(
        Storage(), str(directory), form, table_size_bytes, count(1).__next__, is_cancelled
    )


def versions_of(sizes: list[tuple[int, int]], value: bytes) -> Iterator[Versions]:
    """A stretch for each pair of a key number and how many versions it has."""
    for number, version_count in sizes:
        yield as_columns([(b"key%06d" % number, value, seq) for seq in range(version_count, 0, -1)])


def test_a_new_table_starts_at_the_table_size(tmp_path: Path) -> None:
    metas = write_tables(
        versions_of([(n, 1) for n in range(2000)], b"v" * 90), job(tmp_path, 16_384)
    )
    assert len(metas) > 5
    assert all(16_384 <= meta.size_bytes < 20_000 for meta in metas[:-1])


def test_tables_follow_each_other_and_hold_everything(tmp_path: Path) -> None:
    metas = write_tables(versions_of([(n, 1) for n in range(500)], b"v" * 90), job(tmp_path, 8192))
    cache = BlockCache(0, Storage().stats)
    found: list[bytes] = []
    for meta in metas:
        path = str(tmp_path / f"{meta.number:06}.sst")
        reader = TableReader(Storage(), path, cache, meta=meta, filter_residency="resident")
        for number in range(reader.index.block_count):
            found += reader.block(number, False).keys()
    assert found == [b"key%06d" % n for n in range(500)]


def test_a_new_table_starts_only_at_a_new_key(tmp_path: Path) -> None:
    sizes = [(1, 5), (2, 400), (3, 1), (4, 400), (5, 400)]
    metas = write_tables(versions_of(sizes, b"v" * 90), job(tmp_path, 4096))
    ranges = [(meta.smallest[-1:], meta.largest[-1:]) for meta in metas]
    assert ranges == [(b"1", b"2"), (b"3", b"4"), (b"5", b"5")]


@pytest.mark.parametrize("stretch_keys", [1, 7, 2000])
def test_tables_do_not_depend_on_how_their_entries_came(tmp_path: Path, stretch_keys: int) -> None:
    rows = as_rows(versions_of([(n, 1 + n % 3) for n in range(600)], b"v" * 90))
    keys = [list(group) for _, group in groupby(rows, key=lambda row: row[0])]
    stretches = [
        as_columns([row for group in keys[at : at + stretch_keys] for row in group])
        for at in range(0, len(keys), stretch_keys)
    ]
    expected, found = tmp_path / "expected", tmp_path / "found"
    for directory, versions in ((expected, map(as_columns, keys)), (found, iter(stretches))):
        directory.mkdir()
        write_tables(versions, job(directory, 8192))
    names = sorted(os.listdir(expected))
    assert len(names) > 5
    assert [(found / name).read_bytes() for name in sorted(os.listdir(found))] == [
        (expected / name).read_bytes() for name in names
    ]


def test_nothing_to_write_makes_no_table(tmp_path: Path) -> None:
    assert write_tables(iter(()), job(tmp_path, 4096)) == []
    assert os.listdir(tmp_path) == []


def test_a_cancelled_job_removes_what_it_wrote(tmp_path: Path) -> None:
    calls = count()
    with pytest.raises(CancelledError):
        write_tables(
            versions_of([(n, 1) for n in range(2000)], b"v" * 90),
            job(tmp_path, 8192, lambda: next(calls) > 10),
        )
    assert os.listdir(tmp_path) == []


def test_a_job_asks_before_each_stretch_whether_it_is_cancelled(tmp_path: Path) -> None:
    taken = count()

    def versions() -> Iterator[Versions]:
        for stretch in versions_of([(n, 1) for n in range(2000)], b"v" * 16_384):
            next(taken)
            yield stretch

    calls = count()
    with pytest.raises(CancelledError):
        write_tables(versions(), job(tmp_path, 1 << 20, lambda: next(calls) > 0))
    assert next(taken) == 2


def test_an_error_while_merging_removes_what_was_written(tmp_path: Path) -> None:
    def versions() -> Iterator[Versions]:
        yield from versions_of([(n, 1) for n in range(2000)], b"v" * 90)
        raise RuntimeError("a block is damaged")

    with pytest.raises(RuntimeError):
        write_tables(versions(), job(tmp_path, 8192))
    assert os.listdir(tmp_path) == []


# --- stores ---


def open_store(path: str | Path, style: CompactionStyle, **options: Any) -> lsmkv.DB:
    """A store small enough that a few thousand keys make several levels."""
    chosen_options: dict[str, Any] = {
        "write_buffer_size_bytes": 8 * KIB,
        "block_size_bytes": 512,
        "table_size_bytes": 8 * KIB,
        "level1_size_bytes": 32 * KIB,
        "size_ratio": 4,
        "level0_compaction_trigger": 2,
        "compression": "none",
        **options,
    }
    return lsmkv.open(path, compaction=style, **chosen_options)


def load(
    db: lsmkv.DB, seed: int, count: int, key_space: int, before: dict[bytes, bytes] | None = None
) -> dict[bytes, bytes]:
    """Random puts and deletes, flushed and settled now and then: the same tree for a seed.

    Returns what the store holds afterwards, if it held ``before``.
    """
    chances = random.Random(seed)
    model = dict(before or {})
    for number in range(count):
        key = b"key%06d" % chances.randrange(key_space)
        if chances.random() < 0.2:
            db.delete(key)
            model.pop(key, None)
        else:
            model[key] = b"%d:" % number + b"v" * chances.randrange(100)
            db.put(key, model[key])
        if number % 90 == 89:
            db.flush()
            db.wait_until_settled()
    db.flush()
    db.wait_until_settled()
    return model


def run_counts(db: lsmkv.DB) -> list[int]:
    return [len(level.runs) for level in db.inspect().levels]


def assert_in_shape(db: lsmkv.DB, style: CompactionStyle) -> None:
    """What the style promises of a settled tree."""
    counts = run_counts(db)
    options = db.options
    assert not counts or counts[0] < options.level0_compaction_trigger
    if style == "leveled":
        for level in db.inspect().levels[1:]:
            assert len(level.runs) <= 1
            assert level.size_bytes <= level_target_bytes(level.number, options)
    else:
        assert all(runs < options.size_ratio for runs in counts[1:])
    if style == "lazy-leveled" and len(counts) > 1:
        assert counts[-1] == 1


@pytest.mark.parametrize("style", STYLES)
@settings(max_examples=6)
@given(st.integers(0, 1 << 30), st.sampled_from([100, 500, 3000]))
def test_a_settled_tree_has_the_shape_of_its_style_and_all_its_data(
    style: CompactionStyle, seed: int, key_space: int
) -> None:
    with tempfile.TemporaryDirectory() as path, open_store(path, style) as db:
        model = load(db, seed, 1500, key_space)
        assert_in_shape(db, style)
        assert dict(db) == model


@pytest.mark.parametrize("after", STYLES)
@pytest.mark.parametrize("before", STYLES)
def test_a_store_may_change_its_style(
    tmp_path: Path, before: CompactionStyle, after: CompactionStyle
) -> None:
    with open_store(tmp_path, before) as db:
        model = load(db, 1, 2000, 3000)
    with open_store(tmp_path, after) as db:
        db.wait_until_settled()
        assert_in_shape(db, after)
        assert dict(db) == model
        model = load(db, 2, 500, 3000, model)
        assert_in_shape(db, after)
        assert dict(db) == model


def test_write_amplification_falls_and_runs_rise_from_leveled_to_lazy_to_tiered(
    tmp_path: Path,
) -> None:
    amplification, runs = {}, {}
    for style in STYLES:
        with open_store(tmp_path / style, style) as db:
            seen = []
            for seed in range(12):
                load(db, seed, 500, 20_000)
                seen.append(sum(run_counts(db)))
            stats = db.stats()
            amplification[style] = (
                stats.flush_bytes + stats.compaction_write_bytes
            ) / stats.flush_bytes
            runs[style] = sum(seen) / len(seen)
    assert 1.0 < amplification["tiered"] <= amplification["lazy-leveled"]
    assert amplification["lazy-leveled"] <= amplification["leveled"]
    assert runs["leveled"] <= runs["lazy-leveled"] <= runs["tiered"]


def test_keys_in_order_are_moved_and_never_rewritten(tmp_path: Path) -> None:
    with open_store(tmp_path, "leveled") as db:
        for number in range(2000):
            db.put(b"key%06d" % number, b"v" * 50)
        db.flush()
        db.wait_until_settled()
        stats = db.stats()
        assert stats.tables_moved > 10
        assert stats.compactions == stats.compaction_write_bytes == 0
        assert len(db) == 2000


def test_compacting_everything_leaves_one_run_without_deletions(tmp_path: Path) -> None:
    with open_store(tmp_path, "tiered") as db:
        model = load(db, 5, 1500, 300)
        db.compact_range()
        assert sum(run_counts(db)) == 1
        tables = list(db.inspect().tables())
        assert sum(info.tombstone_count for info in tables) == 0
        assert sum(info.entry_count for info in tables) == len(model)
        assert dict(db) == model


def test_compacting_what_is_compacted_does_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path, "leveled") as db:
        load(db, 5, 500, 300)
        db.compact_range()
        before = db.stats()
        db.compact_range()
        assert (db.stats() - before).compactions == 0


def test_a_snapshot_keeps_old_versions_through_compaction(tmp_path: Path) -> None:
    with open_store(tmp_path, "leveled") as db:
        model = load(db, 6, 800, 200)
        with db.snapshot() as snapshot:
            load(db, 7, 800, 200)
            db.compact_range()
            assert dict(snapshot) == model


def test_compacting_after_a_snapshot_is_closed_drops_what_it_kept(tmp_path: Path) -> None:
    with open_store(tmp_path, "leveled") as db:
        db.put(b"key", b"old")
        with db.snapshot():
            db.put(b"key", b"new")
            db.compact_range()
            assert db.inspect().entry_count == 2
        db.compact_range()
        assert db.inspect().entry_count == 1
        assert db[b"key"] == b"new"


def test_compacting_a_range_leaves_the_rest_alone(tmp_path: Path) -> None:
    with open_store(tmp_path, "tiered") as db:
        model = load(db, 8, 1500, 3000)
        db.compact_range(b"key001000", b"key002000")
        assert dict(db) == model


def rates_by_run(db: lsmkv.DB) -> list[tuple[int, float]]:
    """Entries of each run, and the error rate its filters were sized for."""
    return [
        (run.entry_count, sum(info.requested_rate for info in run.tables) / len(run.tables))
        for level in db.inspect().levels
        for run in level.runs
    ]


def test_monkey_gives_larger_runs_higher_rates_and_wastes_fewer_reads(tmp_path: Path) -> None:
    with open_store(
        tmp_path, "tiered", filter_allocation="monkey", error_rate=0.05, size_ratio=3
    ) as db:
        load(db, 9, 3000, 100_000)
        found = sorted(rates_by_run(db))
        counts, rates = [entries for entries, _ in found], [rate for _, rate in found]
    assert len(found) >= 3 and counts[-1] > 5 * counts[0]
    assert rates[0] < 0.05 < rates[-1]
    # Runs are given their rate when they are written, so the memory is about the uniform one's.
    assert memory_bits(counts, rates) < 1.3 * memory_bits(counts, [0.05] * len(counts))
    assert expected_wasted_reads(rates) < expected_wasted_reads([0.05] * len(rates))


def test_monkey_takes_the_memory_of_the_uniform_rate_in_a_leveled_tree(tmp_path: Path) -> None:
    with open_store(tmp_path, "leveled", filter_allocation="monkey") as db:
        load(db, 1, 8000, 50_000)
        info = db.inspect()
        assert len(info.levels) >= 4
        uniform = memory_bits([info.entry_count], [db.options.error_rate])
        # Rates are given when tables are written, and sizes are rounded up to bytes.
        assert 0.85 * uniform < 8 * info.filter_bytes < 1.15 * uniform


@pytest.mark.parametrize("style", STYLES)
def test_a_compaction_that_close_cuts_short_leaves_no_file_behind(
    tmp_path: Path, style: CompactionStyle
) -> None:
    storage = GatedStorage()
    path = tmp_path / "store"
    db = open_store(path, style, storage=storage, level0_compaction_trigger=4)
    model = {}
    for seed in range(3):
        chances = random.Random(seed)
        for _ in range(600):
            key = b"key%06d" % chances.randrange(10_000)
            model[key] = b"%d" % seed
            db.put(key, model[key])
        db.flush()

    def compact() -> None:
        with contextlib.suppress(lsmkv.ClosedError):
            db.compact_range()

    compacting, closing = threading.Thread(target=compact), threading.Thread(target=db.close)
    storage.shut()
    compacting.start()
    assert storage.held_up.wait(WAIT_S)
    closing.start()
    while closing.is_alive():
        storage.let_one_pass()
        closing.join(0.01)
    compacting.join(WAIT_S)
    with lsmkv.open(path, read_only=True) as db:  # a writer might begin to compact
        tables = {info.file_name for info in db.inspect().tables()}
        assert {name for name in os.listdir(path) if name.endswith(".sst")} == tables
        assert dict(db) == model


def test_forced_compaction_gives_tidy_data_the_form_of_the_present_options(tmp_path: Path) -> None:
    with open_small(tmp_path / "db", error_rate=0.5) as db:
        fill(db, range(200))
        db.compact_range()
    with open_small(tmp_path / "db", error_rate=0.001) as db:
        db.compact_range()
        assert {table.requested_rate for table in db.inspect().tables()} == {0.5}
        db.compact_range(force=True)
        assert {table.requested_rate for table in db.inspect().tables()} == {0.001}
        assert len(db) == 200


def test_versions_of_a_key_that_straddle_blocks_stay_in_one_table(tmp_path: Path) -> None:
    # Each version fills a block, so that no block has two of a key, and a table but a few.
    options = Options(
        compression="none",
        block_size_bytes=512,
        table_size_bytes=4096,
        write_buffer_size_bytes=1 << 20,
    )
    with lsmkv.open(tmp_path / "db", options) as db:
        snapshots = []
        for number in range(20):
            for key in (b"a", b"b", b"c"):
                db.put(key, b"%d" % number + b"v" * 1000)
            snapshots.append(db.snapshot())
        db.compact_range()
        db.put(b"b", b"newest")
        db.compact_range()
        for number, snapshot in enumerate(snapshots):
            assert snapshot[b"c"] == b"%d" % number + b"v" * 1000
            snapshot.close()
        db.compact_range(force=True)
        assert db.inspect().entry_count == 3
