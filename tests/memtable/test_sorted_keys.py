"""Sorted keys that grow, beside a sorted list of them all."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from lsmkv.memtable.memtable import SortedKeys

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
