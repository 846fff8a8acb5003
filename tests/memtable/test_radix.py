"""Radix sort of keys gives the order of ``sorted``; sorted keys grow as a sorted list does."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lsmkv.memtable.memtable import SortedKeys
from lsmkv.memtable.radix_sort import SortedItems, is_ascending, sorted_positions

# Keys that share much or little, end early, or differ in zeros alone.
_TAILS = st.binary(max_size=3) | st.binary(max_size=12) | st.integers(0, 40).map(bytes)


@st.composite
def _distinct_keys(draw: st.DrawFn) -> list[bytes]:
    start = draw(st.binary(max_size=10))
    keys = draw(st.sets(_TAILS, min_size=1, max_size=40))
    return draw(st.permutations([start + key for key in keys]))


@given(_distinct_keys())
@example([b"\xff\xfe", b"\xff", b"", b"\x80", b"\x7f"])
def test_positions_are_those_of_the_sorted_keys(keys: list[bytes]) -> None:
    assert [keys[position] for position in sorted_positions(keys)] == sorted(keys)


@given(_distinct_keys(), st.data())
def test_only_the_last_position_of_equal_keys_is_kept(
    distinct: list[bytes], data: st.DataObject
) -> None:
    keys = data.draw(st.lists(st.sampled_from(distinct), min_size=1, max_size=60))
    last = {key: position for position, key in enumerate(keys)}
    assert list(sorted_positions(keys)) == [last[key] for key in sorted(last)]


@pytest.mark.parametrize(
    "form", [b"user%012d", b"%d", b"the same first bytes, all of them %d", b"%x"]
)
def test_many_numbered_keys_come_in_order(form: bytes) -> None:
    keys = [form % (number * number) for number in range(3000)]
    random.Random(form).shuffle(keys)
    assert [keys[position] for position in sorted_positions(keys)] == sorted(keys)


@pytest.mark.parametrize("count", [0, 1, 255, 256, 2000])
def test_items_keep_their_values(count: int) -> None:
    numbers = list(range(count))
    random.Random(count).shuffle(numbers)
    live = {b"%d" % number: None if number % 7 == 0 else b"v%d" % number for number in numbers}
    keys, values = SortedItems(live, live.values()).between(0, len(live))
    assert keys == sorted(live)
    assert values == [live[key] for key in keys]


@pytest.mark.parametrize("different", [1, 20, 1000])
@pytest.mark.parametrize("form", [b"%d", b"%030d"])
def test_the_last_of_equal_keys_is_kept(different: int, form: bytes) -> None:
    draw = random.Random(different)
    keys = [form % draw.randrange(different) for _ in range(2000)]
    values: list[bytes | None] = [b"v%d" % number for number in range(2000)]
    items = SortedItems(keys, values)
    live = dict(zip(keys, values, strict=True))
    assert items.count == len(live)
    assert items.between(0, items.count) == (sorted(live), [live[key] for key in sorted(live)])


@given(st.sets(_TAILS, min_size=2, max_size=8).map(sorted), st.data())
def test_keys_are_ascending_unless_any_two_are_out_of_order(
    keys: list[bytes], data: st.DataObject
) -> None:
    assert is_ascending(keys)
    place = data.draw(st.integers(1, len(keys) - 1))
    keys[place - 1], keys[place] = keys[place], keys[place - 1]
    assert not is_ascending(keys)


_KEYS = st.binary(max_size=2)


@given(st.lists(st.sets(_KEYS, max_size=8), max_size=8), st.none() | _KEYS, st.integers(1, 9))
def test_both_directions_give_what_a_sorted_list_does(
    arrivals: list[set[bytes]], border: bytes | None, count: int
) -> None:
    known: set[bytes] = set()
    keys = SortedKeys()
    for arrived in arrivals:
        keys.update(list(arrived - known))
        known |= arrived
        wanted = sorted(known)
        assert len(keys) == len(wanted)
        from_it = [key for key in wanted if border is None or key >= border]
        assert keys.above(border, True, count) == from_it[:count]
        beyond = [key for key in wanted if border is None or key > border]
        assert keys.above(border, False, count) == beyond[:count]
        below = [key for key in wanted if border is None or key < border]
        assert keys.below(border, count) == below[::-1][:count]


def test_many_keys_one_by_one_stay_in_order() -> None:
    numbers = list(range(5000))
    random.Random(1).shuffle(numbers)
    keys = SortedKeys()
    for number in numbers:
        keys.update([b"%04d" % number])
    wanted = [b"%04d" % number for number in range(5000)]
    assert keys.above(None, True, 6000) == wanted
    assert keys.below(None, 6000) == wanted[::-1]
