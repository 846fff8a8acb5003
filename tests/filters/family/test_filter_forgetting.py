"""Filters that keys can leave: counting, rolling and cuckoo.

They are rows A9 to A11 of the covered systems.
"""

from __future__ import annotations

import random

import pytest

from lsmkv import filters
from lsmkv.filters import (
    BloomFilter,
    CountingBloomFilter,
    CuckooFilter,
    RollingBloomFilter,
    RollingCountingFilter,
    Window,
)

# --- A9: counting ---


@pytest.mark.parametrize(("counter_bits", "largest"), [(4, 15), (8, 255)])
def test_a9_the_count_is_the_smallest_counter_until_it_saturates(
    counter_bits: int, largest: int
) -> None:
    counting = CountingBloomFilter.for_keys(1000, 0.01, counter_bits)
    for times in range(1, largest + 3):
        counting.add(b"often")
        assert counting.count_of(b"often") == min(times, largest)
    assert counting.largest_count == largest
    for _ in range(1000):  # and then never goes down
        assert counting.remove(b"often")
    assert counting.count_of(b"often") == largest


def test_a9_saturation_never_makes_a_false_negative() -> None:
    draw = random.Random("saturation")
    counting = CountingBloomFilter(64, 3, 4)  # so small that most counters saturate
    held: list[bytes] = []
    for step in range(3000):
        if held and draw.random() < 0.48:
            assert counting.remove(held.pop(draw.randrange(len(held))))
        else:
            held.append(b"key %d" % step)
            counting.add(held[-1])
        if step % 50 == 0:
            assert all(counting.may_contain(key) for key in held)
    assert all(counting.may_contain(key) for key in held)


def test_a9_removing_what_is_certainly_absent_changes_nothing() -> None:
    counting = CountingBloomFilter.for_keys(100, 0.01)
    counting.add(b"a")
    before = counting.to_bytes()
    assert not counting.remove(b"b")
    assert counting.to_bytes() == before


def test_a9_adding_and_removing_leaves_nothing_behind() -> None:
    counting = CountingBloomFilter.for_keys(100, 0.01, 8)
    empty = counting.to_bytes()
    keys = [b"key %d" % number for number in range(100)]
    counting.update(keys)
    for key in keys:
        assert counting.remove(key)
    assert counting.to_bytes() == empty


def test_a9_counters_that_are_not_zero_are_the_bits_of_a_bloom_filter() -> None:
    counting, bloom = CountingBloomFilter.for_keys(50, 0.01), BloomFilter.for_keys(50, 0.01)
    for number in range(50):
        counting.add(b"%d" % number)
        bloom.add(b"%d" % number)
    assert counting.to_bloom_filter().to_bytes() == bloom.to_bytes()
    assert counting.byte_count == 4 * bloom.byte_count


# --- A10: rolling ---


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def lives(window: int, position: int) -> int:
    """How many inserts the key at ``position`` of its window survives."""
    rolling = RollingBloomFilter.for_window(Window(inserts=window), window, 1e-9)
    rolling.update([b"before %d" % number for number in range(position)])
    rolling.add(b"key")
    inserts = 0
    while rolling.may_contain(b"key"):
        rolling.add(b"after %d" % inserts)
        inserts += 1
    return inserts


def test_a10_a_key_lives_at_least_one_and_at_most_two_windows_of_inserts() -> None:
    window = 10
    lifetimes = [lives(window, position) for position in range(window)]
    assert lifetimes == [2 * window - position for position in range(window)]
    assert min(lifetimes) > window
    assert max(lifetimes) == 2 * window


@pytest.mark.parametrize("added_at", [0.0, 3.0, 9.99])
def test_a10_a_key_lives_at_least_one_and_at_most_two_windows_of_time(added_at: float) -> None:
    clock = Clock()
    rolling = RollingBloomFilter.for_window(Window(seconds=10), 100, 0.001, clock)
    clock.now += added_at
    rolling.add(b"key")
    lifetime = 0.0
    while rolling.may_contain(b"key"):
        clock.now += 0.5
        lifetime += 0.5
    assert 10 <= lifetime <= 20 + 0.5


def test_a10_both_arrays_are_forgotten_while_no_one_asks() -> None:
    clock = Clock()
    rolling = RollingBloomFilter.for_window(Window(seconds=10), 100, 0.001, clock)
    rolling.add(b"key")
    clock.now += 20
    assert not rolling.may_contain(b"key")
    assert rolling.key_count() == 0


def test_a10_windows_of_time_stay_in_step_with_the_clock() -> None:
    clock = Clock()
    rolling = RollingBloomFilter.for_window(Window(seconds=10), 100, 0.001, clock)
    clock.now += 39
    rolling.add(b"key")  # in the window from 30 to 40
    clock.now += 20.5  # the one from 50 to 60
    assert not rolling.may_contain(b"key")


@pytest.mark.parametrize(("promote", "found"), [(True, True), (False, False)])
def test_a10_promotion_keeps_a_key_that_is_asked_for(promote: bool, found: bool) -> None:
    clock = Clock()
    window = Window(seconds=10, promote=promote)
    rolling = RollingBloomFilter.for_window(window, 100, 0.001, clock)
    rolling.add(b"key")
    clock.now += 15
    assert rolling.may_contain(b"key")
    clock.now += 10
    assert rolling.may_contain(b"key") is found


def test_a10_deletes_go_to_the_new_array() -> None:
    clock = Clock()
    rolling = RollingCountingFilter.for_window(Window(seconds=10), 100, 0.001, clock=clock)
    rolling.add(b"old")
    clock.now += 10
    rolling.add(b"new")
    assert rolling.remove(b"new")
    assert not rolling.may_contain(b"new")
    assert not rolling.remove(b"old")
    assert rolling.may_contain(b"old")
    clock.now += 10
    assert not rolling.may_contain(b"old")


def test_a10_a_saved_window_is_as_old_when_it_is_loaded() -> None:
    then, now = Clock(), Clock()
    now.now = 5.0
    rolling = RollingBloomFilter.for_window(Window(seconds=10), 100, 0.001, then)
    rolling.add(b"key")
    then.now += 7
    loaded = RollingBloomFilter.from_bytes(rolling.to_bytes())
    loaded.use_clock(now)
    now.now += 12.5  # 19.5 seconds old
    assert loaded.may_contain(b"key")
    now.now += 1
    assert not loaded.may_contain(b"key")


# --- A11: cuckoo ---


def test_a11_removing_one_of_two_leaves_the_other() -> None:
    cuckoo = CuckooFilter.for_keys(100, 0.001)
    cuckoo.add(b"a")
    cuckoo.add(b"a")
    assert cuckoo.remove(b"a")
    assert cuckoo.may_contain(b"a")
    assert cuckoo.remove(b"a")
    assert not cuckoo.may_contain(b"a")
    assert not cuckoo.remove(b"a")
    assert cuckoo.key_count() == 0


@pytest.mark.parametrize("buckets", [1, 2, 7, 100])
def test_a11_a_full_filter_says_so_and_loses_nothing(buckets: int) -> None:
    cuckoo = CuckooFilter(buckets, 12)
    stored = []
    refused = 0
    for number in range(buckets * 4 + 20):
        key = b"key %d" % number
        before = cuckoo.to_bytes()[40:-8]  # the buckets
        try:
            cuckoo.add(key)
            stored.append(key)
        except filters.FilterFullError as error:
            refused += 1
            assert f"it holds {len(stored)} keys" in str(error)
            assert cuckoo.to_bytes()[40:-8] == before
        assert cuckoo.key_count() == len(stored)
    assert refused >= 20
    assert all(cuckoo.may_contain(key) for key in stored)
    for key in stored:
        assert cuckoo.remove(key)
    assert cuckoo.key_count() == 0


def test_a11_ninety_five_percent_of_the_slots_can_be_filled() -> None:
    cuckoo = CuckooFilter(5000, 12)
    cuckoo.update([b"key %d" % number for number in range(19_000)])
    assert cuckoo.load == 0.95


@pytest.mark.parametrize("key_count", [8, 30, 120, 600])
def test_a11_sets_that_a_filter_is_sized_for_hardly_ever_fail_to_fit(key_count: int) -> None:
    draw = random.Random(f"{key_count} keys")
    refused = 0
    for _ in range(12_000 // key_count):
        cuckoo = CuckooFilter.for_keys(key_count, 0.01)
        try:
            for _ in range(key_count):
                cuckoo.add_hash(draw.getrandbits(63))
        except filters.FilterFullError:
            refused += 1
    assert refused <= 0.01 * (12_000 // key_count)
