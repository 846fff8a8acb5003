"""A compaction's check that keys ascend, beside comparing neighbours."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lsmkv.encoding.entries import MAX_KEY_BYTES
from lsmkv.sstable.block.block import Block
from table_files import fail
from torture.fuzz.encoded import encode_block

# Few letters, so that keys often share long prefixes or are equal.
keys_of_any_length = st.lists(st.binary(max_size=20).map(lambda key: key.replace(b"\0", b"a")))
short_keys = st.lists(st.text("ab", max_size=12).map(str.encode))
keys_of_one_length = st.integers(0, 12).flatmap(
    lambda width: st.lists(st.text("ab\xff", min_size=width, max_size=width))
)
latin_keys = keys_of_one_length.map(lambda keys: [key.encode("latin-1") for key in keys])


def block_of(keys: list[bytes]) -> Block:
    """A block of these keys, in this order, with a shared prefix."""
    whole = [b"prefix" + key for key in keys]
    # The writer takes the prefix of the first and last key, which must be that of all.
    whole = [b"prefi", *whole, b"prefiz"]
    payload = encode_block(
        whole, [b""] * len(whole), [1] * len(whole), bytes(len(whole)), has_versions=False
    )
    return Block(payload, fail)


@given(keys_of_any_length | short_keys | latin_keys)
@example([b"a" * 8, b"a" * 8])
@example([b"a" * 9, b"a" * 8])
@example([b"\x7f" * 8, b"\x80" * 8])
@example([b"\x80" * 8, b"\x7f" * 8])
def test_keys_of_any_length_ascend_as_they_compare(keys: list[bytes]) -> None:
    for ordered in (keys, sorted(keys), sorted(set(keys))):
        all_keys = block_of(ordered).keys()
        pairs = list(pairwise(all_keys))
        assert block_of(ordered).ascends(False) == all(low < high for low, high in pairs)
        assert block_of(ordered).ascends(True) == all(low <= high for low, high in pairs)


@pytest.mark.parametrize("count", [1, 3])
def test_keys_without_bytes_are_all_the_same(count: int) -> None:
    payload = encode_block(
        [b""] * count, [b""] * count, list(range(count, 0, -1)), bytes(count), has_versions=True
    )
    block = Block(payload, fail)
    assert block.ascends(True)
    assert block.ascends(False) == (count == 1)


@pytest.mark.parametrize("suffixes", [[b"k"], [b"", b"k"], [b"k", b"kk"], [b"a" * 8, b"b" * 9]])
def test_a_key_over_the_limit_does_not_pass(suffixes: list[bytes]) -> None:
    longest = max(map(len, suffixes))
    for prefix_length in (MAX_KEY_BYTES - longest, MAX_KEY_BYTES - longest + 1):
        count, keys = len(suffixes), b"".join(suffixes)
        payload = struct.pack("<IBBHQII", count, 0, 0, prefix_length, 1, len(keys), 0)
        payload += b"p" * prefix_length + bytes(count)
        payload += struct.pack(f"<{count}H", *map(len, suffixes)) + bytes(4 * count) + keys
        block = Block(payload, fail)
        assert block.ascends(False) == (prefix_length + longest <= MAX_KEY_BYTES)
