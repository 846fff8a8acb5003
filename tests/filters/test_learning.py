"""Lists of learnt keys: they deny what was added, and never a hash that a block holds."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from lsmkv.filters.learning import MAX_LIST_BYTES, LearntKeys

HASHES = st.integers(0, (1 << 63) - 1)


def shared_bits(hashes: list[int], h: int) -> int:
    """The definition that :meth:`Block.shared_hash_bits` follows."""
    return max(
        (63 if h == other else ((h ^ other) & -(h ^ other)).bit_length() - 1 for other in hashes),
        default=0,
    )


@given(
    st.lists(st.lists(HASHES, max_size=12), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 11), st.integers(0, 63)), max_size=40),
    st.integers(1, 10**7),
)
def test_no_hash_of_a_block_is_ever_denied(
    blocks: list[list[int]], near: list[tuple[int, int, int]], entry_count: int
) -> None:
    """Each hash that is added has the low bits of one in the block, up to all of them."""
    learnt = LearntKeys(len(blocks), entry_count)
    for number, position, bit in near:
        block_number = number % len(blocks)
        held = blocks[block_number]
        h = (held[position % len(held)] if held else position) ^ (1 << bit)
        h &= (1 << 63) - 1
        shared = shared_bits(held, h)
        denied = learnt.add(block_number, h, shared)
        assert denied or shared >= 24
        assert learnt.has(block_number, h) == denied
    for block_number, held in enumerate(blocks):
        assert not any(learnt.has(block_number, h) for h in held)


@given(st.lists(st.tuples(st.integers(0, 3), HASHES), max_size=40), st.lists(HASHES, max_size=9))
def test_what_was_added_is_denied_for_its_block_alone(
    entries: list[tuple[int, int]], others: list[int]
) -> None:
    learnt = LearntKeys(4, 1 << 24)
    for block_number, h in entries:
        assert learnt.add(block_number, h, 0)
    low = {(block_number, h & 0xFFFF) for block_number, h in entries}
    for block_number in range(4):
        for h in [*others, *(h for _, h in entries)]:
            if (block_number, h) in entries:
                assert learnt.has(block_number, h)
            elif (block_number, h & 0xFFFF) not in low:
                assert not learnt.has(block_number, h)


def test_a_hash_added_twice_takes_no_more_memory() -> None:
    learnt = LearntKeys(100, 3000)
    learnt.add(7, 12345, 0)
    before = learnt.memory_bytes
    learnt.add(7, 12345, 0)
    assert learnt.memory_bytes == before


def test_entries_have_three_bytes_for_a_hundred_thousand_keys() -> None:
    learnt = LearntKeys(2942, 100_000)
    dice = random.Random(1)
    empty_and_one = learnt.add(0, dice.getrandbits(63), 0) and learnt.memory_bytes
    for number in range(1, 1001):
        learnt.add(number, dice.getrandbits(63), 0)
    assert learnt.memory_bytes == empty_and_one + 3 * 1000


def test_a_hash_near_that_of_a_key_has_a_longer_entry() -> None:
    learnt = LearntKeys(2942, 100_000)  # 12 low bits, or 28
    learnt.add(1, 5, 0)
    short = learnt.memory_bytes
    assert learnt.add(1, 1 << 12, 12) and learnt.has(1, 1 << 12) and not learnt.has(1, 0)
    assert learnt.memory_bytes > short
    assert learnt.add(1, 1 << 27, 27) and learnt.has(1, 1 << 27) and not learnt.has(1, 0)
    assert not learnt.add(1, 1 << 28, 28)
    assert not learnt.has(1, 1 << 28)


def test_a_full_list_forgets_one_for_each_new_one() -> None:
    dice = random.Random(7)
    learnt = LearntKeys(1 << 15, 1 << 20)
    entries = [(dice.randrange(1 << 15), dice.getrandbits(63)) for _ in range(12_000)]
    for count, (block_number, h) in enumerate(entries):
        learnt.add(block_number, h, 0)
        assert learnt.has(block_number, h)
        assert learnt.memory_bytes <= MAX_LIST_BYTES, count
    assert learnt.memory_bytes > MAX_LIST_BYTES - 8
    kept = [learnt.has(block_number, h) for block_number, h in entries]
    assert sum(kept) == learnt.memory_bytes // 4 - 2
    assert sum(kept[:6000]) > 1000  # not the oldest
