"""Ribbon filters that learn: a lesson denies one hash and changes no answer to a key."""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lsmkv.encoding.words import COMPILED
from lsmkv.filters import hashing, learning, ribbon
from lsmkv.filters.learning import LISTED_BYTES, MAX_LISTED
from lsmkv.filters.policy import RIBBON

HASHES = st.integers(0, (1 << 63) - 1)
CHECKS = 10**8 if COMPILED else 10**6
"""How often the longest test asks for a key; interpreted modules take 40 times as long."""


def packed(hashes: list[int]) -> bytes:
    """The hashes in the form of :func:`hashing.digests`."""
    return b"".join([h.to_bytes(8, "little") + bytes(8) for h in hashes])


def passes(bits: bytes, columns: int, h: int) -> bool:
    return ribbon.may_contain(bits, 0, len(bits), columns, h)


def of_one_window(count: int) -> list[int]:
    """Hashes that have one window in filters of up to 56 slots, and differ in their lowest bits."""
    inverse = pow(0x3F58_476D_1CE4_E5B9, -1, 1 << 63)
    found = []
    for low in range(count):  # all but the lowest 7 bits of the mixed hash make the window
        mixed = (0x1234_5678_9ABC_DE << 7 | low) * inverse & ((1 << 63) - 1)
        found.append(mixed ^ mixed >> 32)
    return found


@given(
    st.lists(HASHES, min_size=1, max_size=120, unique=True),
    st.integers(1, 31),
    st.lists(HASHES, max_size=20),
)
def test_lessons_deny_what_they_teach_and_never_a_key(
    hashes: list[int], columns: int, strangers: list[int]
) -> None:
    bits = ribbon.build(hashes, columns)
    assume(bits)  # hashes that differ in result bits alone have no filter
    keys = packed(hashes)
    for lesson, h in enumerate(strangers):
        if passes(bits, columns, h) and h not in hashes:
            taught = learning.denying(bits, columns, keys, h, lesson)
            if taught:
                bits = taught
                assert not passes(bits, columns, h)
        assert all(passes(bits, columns, key) for key in hashes)


@pytest.mark.parametrize("count", [1, 2, 5, 30, 60, 300])
def test_most_hashes_that_pass_can_be_taught(count: int) -> None:
    dice = random.Random(count)
    taught = tried = 0
    while tried < 300:
        hashes = [dice.getrandbits(63) for _ in range(count)]
        bits = ribbon.build(hashes, 2)
        for h in [dice.getrandbits(63) for _ in range(40)]:
            if passes(bits, 2, h):
                tried += 1
                taught += learning.denying(bits, 2, packed(hashes), h, tried) != b""
    assert taught >= 0.65 * tried  # two free slots: three of four


@given(
    st.binary(min_size=1, max_size=80),
    st.integers(1, 31),
    st.lists(HASHES, max_size=60),
    HASHES,
    st.integers(0, 1 << 62),
)
def test_a_lesson_changes_no_answer_to_a_key_of_a_filter_of_garbage(
    bits: bytes, columns: int, hashes: list[int], h: int, lesson: int
) -> None:
    if not RIBBON.is_possible(len(bits), columns):
        return
    taught = learning.denying(bits, columns, packed(hashes), h, lesson)
    if taught:
        assert len(taught) == len(bits)
        answers = [passes(bits, columns, key) for key in hashes]
        assert [passes(taught, columns, key) for key in hashes] == answers
        assert not (passes(bits, columns, h) and passes(taught, columns, h))


@given(st.lists(HASHES, min_size=1, max_size=80), st.integers(1, 31), HASHES, st.integers(0, 99))
def test_a_lesson_changes_one_column_only(
    hashes: list[int], columns: int, h: int, lesson: int
) -> None:
    bits = ribbon.build(hashes, columns)
    taught = learning.denying(bits, columns, packed(hashes), h, lesson)
    if taught:
        assert bits
        slots = 8 * len(bits) // columns
        changed = int.from_bytes(bits, "little") ^ int.from_bytes(taught, "little")
        first = lesson % columns * slots
        assert changed
        assert changed >> first << first == changed < 1 << (first + slots)


def test_lessons_choose_what_is_free_at_random() -> None:
    """In one column, so that only the choice can differ."""
    dice = random.Random(12)
    keys = packed([dice.getrandbits(63) for _ in range(20)])
    bits, h = bytes(4), dice.getrandbits(63)  # 32 slots: 11 of them are free after a lesson
    found = {learning.denying(bits, 1, keys, h, lesson) for lesson in range(100)}
    assert len(found) > 90


def test_a_filter_without_bits_learns_nothing() -> None:
    assert learning.denying(b"", 7, packed([1, 2]), 3, 1) == b""


@pytest.mark.parametrize("columns", [2, 3, 7])
def test_two_hashes_that_undo_each_other_come_to_rest(columns: int) -> None:
    """Every lesson for one of them turns the answer to the other too: their windows are equal."""
    strangers = of_one_window(2)
    hashes = [random.Random(columns).getrandbits(63) for _ in range(20)]
    bits, keys = ribbon.build(hashes, columns), packed(hashes)
    lessons = 0
    while any(passing := [h for h in strangers if passes(bits, columns, h)]):
        lessons += 1
        assert lessons < 20
        bits = learning.denying(bits, columns, keys, passing[0], lessons)
    assert not any(passes(bits, columns, h) for h in strangers)


def test_many_hashes_that_pass_come_to_rest() -> None:
    dice = random.Random(1970)
    hashes = [dice.getrandbits(63) for _ in range(33)]
    bits, keys = ribbon.build(hashes, 7), packed(hashes)
    strangers = [dice.getrandbits(63) for _ in range(200)]
    beyond: set[int] = set()
    for lesson in range(1000):
        passing = [h for h in strangers if passes(bits, 7, h) and h not in beyond]
        if not passing:
            break
        taught = learning.denying(bits, 7, keys, dice.choice(passing), lesson)
        bits = taught or bits
        if not taught:
            beyond = {h for h in strangers if not learning.denying(bits, 7, keys, h, lesson)}
    else:
        pytest.fail("there is always one that passes")


def test_a_hash_whose_window_is_that_of_a_key_cannot_be_taught() -> None:
    key, *others = of_one_window(4)
    hashes = [key, 5, 6, 7]
    bits = ribbon.build(hashes, 1)
    for h in [key, *others]:
        assert learning.denying(bits, 1, packed(hashes), h, 0) == b""


def test_a_lesson_needs_the_hashes_only_once() -> None:
    dice = random.Random(3)
    hashes = [dice.getrandbits(63) for _ in range(30)]
    bits = ribbon.build(hashes, 5) + b"\0\0\0"  # some slots more, which make a lesson possible
    once = learning.denying(bits, 5, packed(hashes), 12345, 1)
    assert learning.denying(bits, 5, packed(hashes + hashes[:9]), 12345, 1) == once != b""


def test_keys_are_found_among_digests() -> None:
    keys = [b"key %d" % number for number in range(50)]
    digests = hashing.digests(keys)
    assert all(learning.holds(digests, hashing.hash_key(key)) for key in keys)
    assert not learning.holds(digests, hashing.hash_key(b"another"))
    assert not learning.holds(b"", hashing.hash_key(keys[0]))


# --- lists ---


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3) | HASHES), max_size=40))
def test_a_list_has_what_was_put_in_for_its_block_alone(entries: list[tuple[int, int]]) -> None:
    listed = b""
    for lesson, (block_number, h) in enumerate(entries):
        listed = learning.with_listed(listed, block_number, h, lesson)
    assert len(listed) == LISTED_BYTES * len(entries)
    for block_number in range(5):
        for _, h in entries:
            found = learning.is_listed(listed, block_number, h)
            assert found == ((block_number, h) in entries)


def test_a_full_list_forgets_the_earliest() -> None:
    dice = random.Random(7)
    entries = [(dice.randrange(1 << 20), dice.getrandbits(63)) for _ in range(MAX_LISTED + 3)]
    listed = b""
    for lesson, (block_number, h) in enumerate(entries):
        listed = learning.with_listed(listed, block_number, h, lesson)
    assert len(listed) == LISTED_BYTES * MAX_LISTED
    kept = [learning.is_listed(listed, block_number, h) for block_number, h in entries]
    assert kept == [False] * 3 + [True] * MAX_LISTED


# --- at length ---


@pytest.mark.slow
def test_a_hundred_million_questions_for_keys_are_never_denied() -> None:
    """After each lesson every key of the filter is asked for: 10^8 questions, 10^6 if interpreted."""
    dice = random.Random(1970)
    may_contain = ribbon.may_contain
    asked = 0
    while asked < CHECKS:
        columns = dice.randint(1, 10)
        hashes = [dice.getrandbits(63) for _ in range(dice.choice((5, 30, 60, 200, 600, 2000)))]
        bits, keys = ribbon.build(hashes, columns), packed(hashes)
        size = len(bits)
        for lesson in range(30):
            taught = learning.denying(bits, columns, keys, dice.getrandbits(63), lesson)
            bits = taught or bits
            denied = [h for h in hashes if not may_contain(bits, 0, size, columns, h)]
            assert denied == []
            asked += len(hashes)
