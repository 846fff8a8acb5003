"""A data block's payload: it decodes to its entries, and lookups are right."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsmkv.encoding.entries import (
    MAX_SEQUENCE,
    TAG_DELETE,
    TAG_EXPIRING,
    TAG_PUT,
    Value,
)
from lsmkv.encoding.expiry import EXPIRY_BYTES
from lsmkv.filters.hashing import hash_key
from lsmkv.sstable.block.block import Block
from lsmkv.sstable.block.layout import HEADER_BYTES
from table_files import BadBlockError, Entry, fail
from torture.fuzz.encoded import encode_block

Entries = list[tuple[bytes, Value, int]]  # key, value, sequence number; in the order of a block


def encode(entries: Entries, fingerprints: bytes | None = None) -> bytes:
    keys = [key for key, _, _ in entries]
    if fingerprints is None:
        fingerprints = bytes(hash_key(key) & 0xFF for key in keys)
    return encode_block(
        keys,
        [value for _, value, _ in entries],
        [seq for _, _, seq in entries],
        fingerprints,
        has_versions=len(set(keys)) < len(keys),
    )


def block_of(entries: Entries) -> Block:
    return Block(encode(entries), fail)


def in_order(versions: dict[bytes, dict[int, Value]]) -> Entries:
    return [
        (key, versions[key][seq], seq)
        for key in sorted(versions)
        for seq in sorted(versions[key], reverse=True)
    ]


def visible(entries: Entries, key: bytes, max_seq: int) -> int:
    """Position of the newest version of ``key`` up to ``max_seq``, or -1."""
    for position, (found, _, seq) in enumerate(entries):
        if found == key and seq <= max_seq:
            return position
    return -1


short_keys = st.binary(max_size=12)
prefixes = st.sampled_from([b"", b"user:", b"\0" * 9, b"p" * 300, b"\xff" * 20])
keys = st.builds(bytes.__add__, prefixes, short_keys)
values = st.none() | st.binary(max_size=40)
sequence_numbers = st.integers(0, MAX_SEQUENCE) | st.integers(0, 300)
entry_lists = st.dictionaries(
    keys, st.dictionaries(sequence_numbers, values, min_size=1, max_size=4), min_size=1, max_size=25
).map(in_order)


@given(entry_lists)
def test_entries_round_trip(entries: Entries) -> None:
    block = block_of(entries)
    block.check_order(fail)
    found = list(zip(block.keys(), block.values(), block.seqs(), strict=True))
    assert found == entries
    assert block.count == len(entries)
    one_by_one = [(block.key(at), block.value(at), block.seq(at)) for at in range(block.count)]
    assert one_by_one == entries
    assert block.charge_bytes >= len(block.raw)


@given(entry_lists)
def test_find_gives_the_newest_version_of_each_key(entries: Entries) -> None:
    block = block_of(entries)
    for key, _, _ in entries:
        assert block.find(key, hash_key(key)) == visible(entries, key, MAX_SEQUENCE)


@given(entry_lists, keys)
def test_find_denies_absent_keys_between_first_and_last(entries: Entries, key: bytes) -> None:
    if entries[0][0] <= key <= entries[-1][0]:
        expected = visible(entries, key, MAX_SEQUENCE)
        assert block_of(entries).find(key, hash_key(key)) == expected


@given(st.integers(1, 9), st.booleans(), st.data())
def test_end_before_among_equally_long_keys(
    length: int, reverse: bool, data: st.DataObject
) -> None:
    digits = st.lists(st.sampled_from(b"\0a\x80\xff"), min_size=length, max_size=length).map(bytes)
    names = data.draw(st.lists(digits, min_size=2, max_size=40, unique=True).map(sorted))
    near = st.sampled_from(names)
    longer, shorter = near.map(lambda name: name + b"\0"), near.map(lambda name: name[:-1])
    bound = data.draw(st.one_of(near, longer, shorter, keys))
    block = block_of([(b"prefix" + name, b"v", 1) for name in names])
    before = [(name > bound) if reverse else (name < bound) for name in names]
    for at in range(len(names)):
        end = -1 if reverse else len(names)
        places = range(at, end, -1 if reverse else 1)
        if before[at]:
            expected = next((place for place in places if not before[place]), end)
            assert block.end_before(at, end, b"prefix" + bound, reverse) == expected


@given(entry_lists, st.data())
def test_prefetched_bytes_lie_within_the_payload(entries: Entries, data: st.DataObject) -> None:
    block = block_of(entries)
    high = data.draw(st.integers(0, len(entries)))
    block.prefetch_values(data.draw(st.integers(0, high)), high)
    block.prefetch_value(data.draw(st.integers(0, len(entries) - 1)))
    block.prefetch()
    block.prefetch_keys()


@given(st.integers(1, 20), st.data())
def test_lower_bound_among_equally_long_keys(length: int, data: st.DataObject) -> None:
    digits = st.lists(st.sampled_from(b"\0a\x80\xff"), min_size=length, max_size=length).map(bytes)
    found = data.draw(st.lists(digits, min_size=1, max_size=40, unique=True).map(sorted))
    near = st.sampled_from(found)
    longer, shorter = near.map(lambda key: key + b"\0"), near.map(lambda key: key[:-1])
    wanted = data.draw(st.one_of(digits, near, longer, shorter, keys))
    block = block_of([(key, b"v", 1) for key in found])
    assert block.lower_bound(wanted) == sum(key < wanted for key in found)


@given(entry_lists, keys)
def test_lower_bound_is_where_a_key_belongs(entries: Entries, key: bytes) -> None:
    block = block_of(entries)
    for wanted in (key, *(found for found, _, _ in entries)):
        assert block.lower_bound(wanted) == sum(found < wanted for found, _, _ in entries)


@given(entry_lists, keys, st.booleans(), st.data())
def test_end_before_is_where_a_bound_is_reached(
    entries: Entries, bound: bytes, reverse: bool, data: st.DataObject
) -> None:
    names = [key for key, _, _ in entries]
    before = [(name > bound) if reverse else (name < bound) for name in names]
    if any(before):
        at = data.draw(st.sampled_from([place for place, fits in enumerate(before) if fits]))
        end = data.draw(st.integers(-1, at - 1) if reverse else st.integers(at + 1, len(names)))
        places = range(at, end, -1 if reverse else 1)
        expected = next((place for place in places if not before[place]), end)
        assert block_of(entries).end_before(at, end, bound, reverse) == expected


@given(entry_lists, st.data())
def test_append_entries_leaves_deletions_out(entries: Entries, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(entries) - 1))
    step = data.draw(st.sampled_from([1, -1]))
    end = data.draw(st.integers(at + 1, len(entries)) if step > 0 else st.integers(-1, at - 1))
    found: list[tuple[bytes, bytes]] = []
    block = block_of(entries)
    block.append_entries(found, block.prefix(), block.key(at), at, end, step, 0)
    wanted = [entries[place][:2] for place in range(at, end, step)]
    assert found == [(key, value) for key, value in wanted if value is not None]


@given(entry_lists, sequence_numbers)
def test_find_visible_gives_the_newest_version_up_to_a_number(
    entries: Entries, max_seq: int
) -> None:
    block = block_of(entries)
    for key, _, _ in entries:
        found = block.find_visible(key, hash_key(key), max_seq)
        assert found == visible(entries, key, max_seq)


@given(entry_lists, st.integers(0, 255))
def test_find_is_right_when_every_fingerprint_is_the_same(entries: Entries, byte: int) -> None:
    block = Block(encode(entries, bytes([byte]) * len(entries)), fail)
    for key, _, _ in entries:
        assert block.find(key, byte) == visible(entries, key, MAX_SEQUENCE)


# --- special entries ---


@pytest.mark.parametrize("count", [1024, 1025, 3000])
def test_more_entries_of_one_length_than_are_taken_apart_at_a_time(count: int) -> None:
    entries: Entries = [(b"key%06d" % number, b"%06d" % number, 1) for number in range(count)]
    block = block_of(entries)
    assert list(zip(block.keys(), block.values(), block.seqs(), strict=True)) == entries


@pytest.mark.parametrize(
    ("spread", "width"),
    [(0, 0), (1, 1), (255, 1), (256, 2), (65_535, 2), (65_536, 4), (1 << 32, 8), (MAX_SEQUENCE, 8)],
)
def test_sequence_numbers_take_as_many_bytes_as_their_spread_needs(spread: int, width: int) -> None:
    payload = encode([(b"a", b"", spread), (b"b", b"", 0)])
    assert payload[5] == width
    assert Block(payload, fail).seqs() == [spread, 0]


def test_golden_payload() -> None:
    entries: Entries = [(b"key1", b"one", 5), (b"key1", None, 3), (b"key22", b"", 300)]
    fields = struct.pack("<IBBHQII", 3, 0b11, 2, 3, 3, 4, 3)
    fingerprints = bytes(hash_key(key) & 0xFF for key in (b"key1", b"key1", b"key22"))
    lengths = struct.pack("<3H3I", 1, 1, 2, 3, 0, 0)
    numbers = struct.pack("<3H", 2, 0, 297)
    expected = fields + b"key" + fingerprints + lengths + b"\1\0\1" + numbers + b"1122" + b"one"
    assert encode(entries) == expected


# --- damage ---

SOUND: Entries = [(b"key1", b"one", 5), (b"key1", None, 3), (b"key22", b"", 300)]


def patched(at: int, data: bytes) -> bytes:
    payload = encode(SOUND)
    return payload[:at] + data + payload[at + len(data) :]


def test_every_cut_is_noticed() -> None:
    payload = encode(SOUND)
    for length in range(len(payload)):
        with pytest.raises(BadBlockError):
            Block(payload[:length], fail)


def test_bytes_too_many_are_noticed() -> None:
    with pytest.raises(BadBlockError, match="sections"):
        Block(encode(SOUND) + b"\0", fail)


@pytest.mark.parametrize(
    ("at", "data", "reason"),
    [
        (0, struct.pack("<I", 0), "bad block header"),
        (0, struct.pack("<I", 2), "sections"),
        (0, struct.pack("<I", 0xFFFF_FFFF), "sections"),
        (4, b"\x83", "bad block header"),
        (5, b"\3", "bad block header"),
        (6, struct.pack("<H", 0xFFFF), "sections"),
        (16, struct.pack("<I", 0xFFFF_FFFF), "sections"),
        (HEADER_BYTES + 3 + 3, b"\2", "do not add up"),
        (HEADER_BYTES + 3 + 3 + 6, b"\2", "do not add up"),
    ],
)
def test_numbers_that_do_not_add_up_are_noticed(at: int, data: bytes, reason: str) -> None:
    with pytest.raises(BadBlockError, match=reason):
        Block(patched(at, data), fail)


@pytest.mark.parametrize(("tag", "meaning"), [(2, "range delete"), (3, "merge"), (9, "unknown")])
def test_tags_of_later_releases_are_refused_by_name(tag: int, meaning: str) -> None:
    tags = HEADER_BYTES + 3 + 3 + 6 + 12
    with pytest.raises(BadBlockError, match=f"tag {tag} .{meaning}."):
        Block(patched(tags, bytes([tag])), fail)


@pytest.mark.parametrize("length", range(EXPIRY_BYTES))
def test_an_expiry_that_is_cut_short_is_noticed(length: int) -> None:
    entries: list[Entry] = [(b"a", b"v" * 9, 1), (b"b", bytes(length), 1), (b"c", None, 1)]
    keys, values, seqs = (list(column) for column in zip(*entries, strict=True))
    payload = bytearray(encode_block(keys, values, seqs, bytes(3), has_versions=False))
    at = payload.index(bytes((TAG_PUT, TAG_PUT, TAG_DELETE)))
    payload[at + 1] = TAG_EXPIRING
    with pytest.raises(BadBlockError, match="entry 1 of a block has no room for its expiry"):
        Block(bytes(payload), fail)


@pytest.mark.parametrize(
    "entries",
    [
        [(b"b", b"", 1), (b"a", b"", 1)],
        [(b"a", b"", 1), (b"a", b"", 2)],
        [(b"a", b"", 1), (b"a", b"", 1)],
    ],
    ids=["keys descend", "numbers ascend", "twice the same"],
)
def test_the_check_notices_entries_out_of_order(entries: Entries) -> None:
    with pytest.raises(BadBlockError, match="out of order"):
        block_of(entries).check_order(fail)


def test_a_block_counts_the_bits_that_a_hash_shares_with_its_keys() -> None:
    keys = [b"%04d" % number for number in range(1000)]
    block = block_of([(key, b"", 1) for key in keys])
    dice = random.Random(3)
    for h in [*map(hash_key, keys[::100]), *(dice.getrandbits(63) for _ in range(300))]:
        differing = [hash_key(key) ^ h for key in keys]
        expected = max(int(different & -different).bit_length() - 1 for different in differing)
        if 0 in differing:
            expected = 63
        assert block.shared_hash_bits(h) == (expected if expected >= 8 else 0)
