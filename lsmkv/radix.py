"""Sorting the keys of a finished memtable by their words.

A comparison of two keys costs a hundred machine instructions, and a sort makes a dozen for each key.
Where this is compiled, keys are put in order by the first bits in which they differ instead, some of
these at a time, without comparing any (radix sort: Knuth, TAOCP 3, 5.2.5); only those that share all
of these bits are compared.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import vec
from mypy_extensions import i32, i64

from lsmkv.compare import compare, is_same
from lsmkv.encoding import COMPILED, common_prefix_length
from lsmkv.sstable.index import fence

_FEWEST: Final = 256  # of fewer keys counting digits takes longer than comparing
_DIGIT_BITS: Final = 11
_DIGITS: Final = 2048  # that many bits can say
_BITS: Final = 4 * _DIGIT_BITS  # by which keys are sorted, of the 63 of a fence

Value = bytes | None


def sorted_items(live: dict[bytes, Value]) -> tuple[list[bytes], list[Value]]:
    """The keys of ``live`` in order, and the value of each.  It must not change meanwhile."""
    if not COMPILED or len(live) < _FEWEST:
        keys = sorted(live)
        return keys, list(map(live.__getitem__, keys))
    keys = list(live)
    if is_ascending(keys):  # a fill in key order, as loads often are
        return keys, list(live.values())
    order = sorted_positions(keys)
    keys = [keys[position] for position in order]
    values = list(live.values())  # not before: sorting takes enough memory
    return keys, [values[position] for position in order]


def is_ascending(keys: list[bytes]) -> bool:
    """Whether the keys are in order already.  O(n), and O(1) for most that are not."""
    at: i64 = 1
    while at < len(keys):
        before, key = keys[at - 1], keys[at]
        if compare(before, 0, len(before), key, 0, len(key)) >= 0:
            return False
        at += 1
    return True


def sorted_positions(keys: list[bytes]) -> vec[i32]:
    """The positions of at least one key, which are distinct, in the order of the keys.

    O(n), and O(m log m) comparisons where m keys differ only past the bits looked at.
    """
    count: i64 = len(keys)
    prefix_length = _shared_length(keys)
    fences = vec[i64]([0] * count)
    order = vec[i32]([0] * count)  # memtables have fewer than 2^31 keys
    spare = vec[i32]([0] * count)
    at: i64 = 0
    while at < count:
        fences[at] = fence(keys[at], prefix_length) >> (63 - _BITS)
        order[at] = i32(at)
        at += 1
    shift: i64 = 0
    while shift < _BITS:  # from the last digit to the first, each time in the order of those before
        places = vec[i64]([0] * _DIGITS)
        at = 0
        while at < count:
            digit = (fences[at] >> shift) & (_DIGITS - 1)
            places[digit] = places[digit] + 1
            at += 1
        if places[(fences[0] >> shift) & (_DIGITS - 1)] < count:  # else it is the same in all
            _sum_up(places)
            at = 0
            while at < count:
                position = order[at]
                digit = (fences[i64(position)] >> shift) & (_DIGITS - 1)
                place = places[digit]
                spare[place] = position
                places[digit] = place + 1
                at += 1
            order, spare = spare, order
        shift += _DIGIT_BITS
    _sort_ties(keys, fences, order)
    return order


def _shared_length(keys: list[bytes]) -> i64:
    """How many leading bytes all the keys share."""
    first = keys[0]
    length: i64 = len(first)
    for key in keys:
        if len(key) < length or not is_same(first, 0, key, 0, length):
            length = min(length, common_prefix_length(first, key))
    return length


def _sum_up(counts: vec[i64]) -> None:
    """Make of the number of each digit the place of the first that has it."""
    total: i64 = 0
    digit: i64 = 0
    while digit < _DIGITS:
        count = counts[digit]
        counts[digit] = total
        total += count
        digit += 1


def _sort_ties(keys: list[bytes], fences: vec[i64], order: vec[i32]) -> None:
    """Sort the positions of keys with the same bits by the keys themselves."""
    count: i64 = len(keys)
    start: i64 = 0
    at: i64 = 1
    while at <= count:
        if at == count or fences[i64(order[at])] != fences[i64(order[start])]:
            if at - start > 1:
                tied = sorted([order[place] for place in range(start, at)], key=keys.__getitem__)
                for place, position in enumerate(tied):
                    order[start + place] = position
            start = at
        at += 1
