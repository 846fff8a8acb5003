"""The next compaction that each style picks, in trees made by hand."""

from __future__ import annotations

import pytest

from lsmkv.compaction.picker import Compaction, PickState, level_target_bytes, pick
from lsmkv.options import Options
from lsmkv.sstable.format import TableMeta
from lsmkv.tree.levels import Levels
from made_trees import KIB, LAZY, LEVELED, STYLES, TIERED, level0, numbers, table, tree


def chosen(placed: dict[tuple[int, int], list[TableMeta]], options: Options) -> Compaction:
    found = pick(tree(placed), options, PickState())
    assert found is not None
    return found


# --- leveled ---


@pytest.mark.parametrize("options", [LEVELED, TIERED, LAZY], ids=STYLES)
def test_an_empty_tree_is_in_shape(options: Options) -> None:
    assert pick(Levels(), options, PickState()) is None


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


def test_leveled_goes_through_a_level_in_turn() -> None:
    state = PickState()
    placed = {(1, 0): [table(number, f"{number}0", f"{number}9") for number in range(1, 6)]}
    found = [numbers(pick(tree(placed), LEVELED, state))[0] for _ in range(7)]
    assert found == [[1], [2], [3], [4], [5], [1], [2]]


def test_leveled_continues_after_the_last_compacted_key() -> None:
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


def test_leveled_keeps_deletions_over_tables_that_overlap_its_lower_inputs() -> None:
    # The inputs of level 1 reach to "m", so the table at "l" lies below them, though not below level 0.
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
