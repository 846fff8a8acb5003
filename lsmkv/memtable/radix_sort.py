"""Sorts the keys of a sealed memtable by radix.

A comparison of two keys costs a hundred machine instructions, and a sort makes a dozen for each key.
Compiled code therefore orders keys by the first bits in which they differ, a digit at a time (radix
sort: Knuth, TAOCP 3, 5.2.5), and compares only keys that share all of these bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from librt.vecs import vec
from mypy_extensions import i32, i64

from lsmkv.encoding.entry_batch import EntryBatch, first_values
from lsmkv.encoding.expiry import Held
from lsmkv.encoding.fences import fence
from lsmkv.encoding.words import COMPILED, common_prefix_length, compare

_FEWEST: Final = 256  # keys; comparing fewer is faster than counting digits
_DIGIT_BITS: Final = 11
_DIGITS: Final = 2048  # values of one digit
_MOST_BITS: Final = 4 * _DIGIT_BITS  # sorted by radix, of the 63 of a fence


class SortedItems:
    """The items of a sealed memtable in key order; of equal keys only the last.

    Keys and values stay in the order in which they came, in which memory is read fastest.
    """

    def __init__(self, keys: Iterable[bytes], values: Iterable[Held]) -> None:
        self._keys = list(keys)
        self._order = vec[i32]()
        self._in_order = True
        if not COMPILED or len(self._keys) < _FEWEST:
            last = dict(zip(self._keys, values, strict=True))
            self._keys = sorted(last)
            self._values = list(map(last.__getitem__, self._keys))
        else:
            if not is_ascending(self._keys):  # loads often come in key order
                self._in_order = False
                self._order = sorted_positions(self._keys)
            self._values = list(values)  # only now: sorting takes memory, too
        self.count: int = len(self._keys) if self._in_order else len(self._order)

    def between(self, start: int, stop: int) -> tuple[list[bytes], list[Held]]:
        if self._in_order:
            return self._keys[start:stop], self._values[start:stop]
        order = self._order[start:stop]
        every_key, every_value = self._keys, self._values
        keys = [every_key[position] for position in order]
        return keys, [every_value[position] for position in order]

    def batches(self, most_keys: int, seq: int) -> Iterator[EntryBatch]:
        """All of them, numbered ``seq``."""
        start = 0
        while start < self.count:
            keys, values = self.between(start, start + most_keys)
            taken = first_values(values)
            start += len(taken)
            keys = keys[: len(taken)]
            yield EntryBatch.of(keys, taken, [], may_repeat=False, one_seq=seq)


def is_ascending(keys: list[bytes]) -> bool:
    at: i64 = 1
    while at < len(keys):
        before, key = keys[at - 1], keys[at]
        if compare(before, 0, len(before), key, 0, len(key)) >= 0:
            return False
        at += 1
    return True


def sorted_positions(keys: list[bytes]) -> vec[i32]:
    """The positions of at least one key, in key order; of equal keys only the last one's.

    O(n), and O(m log m) comparisons where m keys share all the bits that are sorted by radix.
    """
    count: i64 = len(keys)
    number_bits: i64 = 1  # of a position
    while count >> number_bits:
        number_bits += 1
    prefix_length = common_prefix_length(keys)
    items = vec[i64]([0] * count)
    at: i64 = 0
    while at < count:
        key = keys[at]
        items[at] = fence(key, prefix_length, len(key))
        at += 1
    bits = _squeeze(items, min(_MOST_BITS, 63 - number_bits))
    at = 0
    while at < count:  # the position follows the bits, and moves with them
        items[at] = (items[at] << number_bits) | at
        at += 1
    spare = vec[i64]([0] * count)
    shift = number_bits
    while shift < number_bits + bits:  # from the last digit to the first; ties keep their order
        places = vec[i64]([0] * _DIGITS)
        item: i64
        for item in items:
            digit = (item >> shift) & (_DIGITS - 1)
            places[digit] = places[digit] + 1
        _sum_up(places)
        for item in items:
            digit = (item >> shift) & (_DIGITS - 1)
            place = places[digit]
            spare[place] = item
            places[digit] = place + 1
        items, spare = spare, items
        shift += _DIGIT_BITS
    count = _sort_ties(keys, items, number_bits)
    order = vec[i32]([0] * count)  # memtables have fewer than 2^31 keys
    at = 0
    while at < count:
        rest = items[at] >> number_bits
        order[at] = i32(items[at] - (rest << number_bits))
        at += 1
    return order


def _squeeze(fences: vec[i64], most_bits: i64) -> i64:
    """Reduce fences to the first ``most_bits`` bits that differ among them; returns how many are left."""
    first = fences[0]
    varying: i64 = 0
    number: i64
    for number in fences:
        varying |= number ^ first
    bits: i64 = 0
    rest = varying
    while rest:
        rest &= rest - 1  # without its lowest bit
        bits += 1
    while bits > most_bits:
        varying &= varying - 1
        bits -= 1
    # Each run of neighbouring bits moves down to the one below it.
    runs: list[int] = []
    shifts: list[int] = []
    shift: i64 = 0
    at: i64 = 0
    while varying >> at:
        if (varying >> at) & 1:
            rest = (varying >> at) << at
            run = rest & ~(rest + (rest & -rest))
            runs.append(run)
            shifts.append(shift)
            while (run >> at) & 1:
                at += 1
        else:
            at += 1
            shift += 1
    masks, distances = vec[i64](runs), vec[i64](shifts)
    count: i64 = len(fences)
    at = 0
    while at < count:
        number = fences[at]
        squeezed: i64 = 0
        place: i64 = 0
        while place < len(masks):
            squeezed |= (number & masks[place]) >> distances[place]
            place += 1
        fences[at] = squeezed
        at += 1
    return bits


def _sum_up(counts: vec[i64]) -> None:
    """Turn counts of digits into the places of their first items."""
    total: i64 = 0
    digit: i64 = 0
    while digit < _DIGITS:
        count = counts[digit]
        counts[digit] = total
        total += count
        digit += 1


def _sort_ties(keys: list[bytes], items: vec[i64], number_bits: i64) -> i64:
    """Sort items with the same bits by key; of equal ones keep the last; returns how many are left."""
    count: i64 = len(items)
    left: i64 = 0
    start: i64 = 0
    at: i64 = 1
    while at <= count:
        shared = items[start] >> number_bits
        if at == count or items[at] >> number_bits != shared:
            if at - start == 1:
                items[left] = items[start]
                left += 1
            else:
                first = shared << number_bits
                # A dict keeps each key once, with its last position.
                last = {keys[items[place] - first]: items[place] for place in range(start, at)}
                for _, item in sorted(last.items()):
                    items[left] = item
                    left += 1
            start = at
        at += 1
    return left
