"""Transposed payloads: they restore to the original, and damage is an error."""

from __future__ import annotations

import random
import struct
import tracemalloc
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

import pytest
import zstandard
from hypothesis import assume, given
from hypothesis import strategies as st

from lsmkv.encoding.entries import MAX_KEY_BYTES
from lsmkv.errors import CorruptionError
from lsmkv.filters.hashing import hash_key
from lsmkv.sstable.block.block import Block
from lsmkv.sstable.block.codec import Compressor, Decompressor
from lsmkv.sstable.block.transposed import restore, transpose
from lsmkv.sstable.format import CODEC_NONE, CODEC_ZSTD
from torture.fuzz.encoded import encode_block

if TYPE_CHECKING:
    from golden_support import Golden
    from lsmkv.encoding.entries import Value

Entries = list[tuple[bytes, "Value", int]]

PATH = "/store/000001.sst"
OFFSET = 5000


def payload_of(entries: Entries) -> bytes:
    keys = [key for key, _, _ in entries]
    return encode_block(
        keys,
        [value for _, value, _ in entries],
        [seq for _, _, seq in entries],
        bytes(hash_key(key) & 0xFF for key in keys),
        has_versions=len(set(keys)) < len(keys),
    )


def fail(reason: str) -> NoReturn:
    raise CorruptionError(PATH, OFFSET, reason)


def made_whole(transposed: bytes, raw_length: int) -> bytes:
    """The restored payload, with the fingerprints that a lookup adds."""
    raw = restore(transposed, raw_length, PATH, OFFSET)
    block = Block(raw, fail, lacks_fingerprints=True)
    at = 24 + block.prefix_length
    made = block._make_fingerprints()
    assert len(made) == at + block.count
    assert not any(raw[at : at + block.count])
    return made + raw[len(made) :]


def numbered(count: int, value_bytes: int = 3) -> Entries:
    return [(b"key%05d" % (7 * n), b"v" * value_bytes, 5) for n in range(count)]


def in_order(versions: dict[bytes, dict[int, Value]]) -> Entries:
    return [
        (key, versions[key][seq], seq)
        for key in sorted(versions)
        for seq in sorted(versions[key], reverse=True)
    ]


prefixes = st.sampled_from([b"", b"user:", b"\0" * 9, b"p" * 300, b"\xff" * 20])
values = st.none() | st.binary(max_size=20)


@st.composite
def blocks(draw: st.DrawFn) -> Entries:
    """Blocks with keys, and values, of one length or of several."""
    prefix, width = draw(prefixes), draw(st.integers(0, 20))
    suffixes = st.binary(min_size=draw(st.sampled_from([0, width])), max_size=width)
    size = draw(st.integers(0, 20))
    stored = draw(st.sampled_from([values, st.binary(min_size=size, max_size=size)]))
    seqs = st.integers(0, draw(st.sampled_from([3, 300, 1 << 40])))
    versions = st.dictionaries(seqs, stored, min_size=1, max_size=draw(st.sampled_from([1, 4])))
    found = draw(st.dictionaries(suffixes, versions, min_size=1, max_size=40))
    return in_order({prefix + suffix: held for suffix, held in found.items()})


@given(blocks())
def test_transposed_payloads_round_trip(entries: Entries) -> None:
    payload = payload_of(entries)
    transposed = transpose(payload)
    assert len(transposed) <= len(payload) - len(entries)
    assert made_whole(transposed, len(payload)) == payload


@given(blocks())
def test_every_key_of_a_restored_block_is_found(entries: Entries) -> None:
    payload = payload_of(entries)
    for key, value, seq in entries:
        raw = restore(transpose(payload), len(payload), PATH, OFFSET)
        block = Block(raw, fail, lacks_fingerprints=True)
        position = block.find_visible(key, hash_key(key), seq)
        assert (block.key(position), block.value(position)) == (key, value)


@given(blocks(), st.data())
def test_the_first_lookup_in_a_restored_block_finds_what_the_second_does(
    entries: Entries, data: st.DataObject
) -> None:
    payload = payload_of(entries)
    block = Block(restore(transpose(payload), len(payload), PATH, OFFSET), fail, True)
    key = data.draw(st.sampled_from(sorted({key for key, _, _ in entries})))
    if data.draw(st.booleans()):
        key += b"\0"  # within the block unless it is above the last
        assume(key <= entries[-1][0])
    first = block.find(key, hash_key(key))
    assert block._prints == b""
    assert block.find(key, hash_key(key)) == first
    assert block._prints != b""


@pytest.mark.parametrize(
    "entries",
    [
        [(b"", b"", 0)],
        [(b"", None, 9), (b"", b"old", 3)],
        [(b"k" * MAX_KEY_BYTES, b"v", 1)],
        [(b"a" + b"k" * (MAX_KEY_BYTES - 1), b"", 1), (b"b" + b"k" * (MAX_KEY_BYTES - 1), b"", 1)],
        [(b"p" * 60_000 + b"%02d" % n, b"v", 1) for n in range(20)],
        [(b"p" * 60_000 + b"x" * n, b"v", 1) for n in range(20)],
        [(b"one", None, n) for n in range(400, 0, -1)],
        [(b"%06d" % n, b"", 1 << 50) for n in range(3000)],
        [(b"%d" % n, b"v" * (n % 3), n) for n in range(100, 1000)],
        [(b"key%03d" % n, None, 1) for n in range(50)],
    ],
    ids=["empty", "versions", "longest", "wide", "long-prefix", "long-prefix-unequal",
         "one-key", "many", "unequal", "deletions"],
)  # fmt: skip
def test_blocks_at_the_edges_are_restored(entries: Entries) -> None:
    payload = payload_of(entries)
    assert made_whole(transpose(payload), len(payload)) == payload


def test_golden_transposed_payloads_are_written_byte_for_byte(golden: Golden) -> None:
    mixed = [(b"key%d" % n, None if n % 3 == 0 else b"v" * n, n) for n in range(1, 10)]
    counted = [(key, value, 300 + 77 * n % 1000) for n, (key, value, _) in enumerate(numbered(20))]
    payloads = {
        "equal": payload_of(numbered(20)),
        "mixed": payload_of(mixed),
        "counted": payload_of(counted),
    }
    found = {name: transpose(payload) for name, payload in payloads.items()}
    golden.check("reduced_payloads_v1", found)
    for name, payload in payloads.items():
        assert made_whole(found[name], len(payload)) == payload


# --- in blocks and tables ---


@pytest.mark.parametrize("dictionary", [b"", b"a dictionary of no form: key00007"])
def test_a_compressed_block_comes_back(dictionary: bytes) -> None:
    payload = payload_of(numbered(40, value_bytes=30))
    codec, stored = Compressor(3, dictionary).compress_block(payload)
    assert codec == CODEC_ZSTD
    unpack = Decompressor(dictionary)
    found = unpack.decompress_block(codec, stored, len(payload), PATH, OFFSET)
    assert found == restore(transpose(payload), len(payload), PATH, OFFSET)


def test_a_compressed_block_keeps_the_magic_number_of_zstd_to_itself() -> None:
    payload = payload_of(numbered(40, value_bytes=30))
    _codec, stored = Compressor(3, b"").compress_block(payload)
    assert zstandard.ZstdDecompressor().decompress(b"\x28\xb5\x2f\xfd" + stored) == transpose(
        payload
    )


def test_a_block_that_compression_makes_hardly_smaller_is_stored_as_it_is() -> None:
    payload = payload_of([(b"key", random.Random(1).randbytes(2000), 1)])
    assert Compressor(3, b"").compress_block(payload) == (CODEC_NONE, payload)


# --- lies ---


def lies(change: tuple[int, bytes] = (0, b""), entries: Entries | None = None) -> bytes:
    transposed = transpose(payload_of(entries or numbered(20)))
    at, data = change
    return transposed[:at] + data + transposed[at + len(data) :]


def frame_of(transposed: bytes) -> bytes:
    """The stored form: without the magic number."""
    return zstandard.ZstdCompressor().compress(transposed)[4:]


def unpacked(stored: bytes, raw_length: int) -> bytes:
    return Decompressor(b"").decompress_block(CODEC_ZSTD, stored, raw_length, PATH, OFFSET)


def refused(transposed: bytes, raw_length: int, match: str) -> None:
    """Restoring raises an error with its place, compressed or not."""
    with pytest.raises(CorruptionError, match=match) as caught:
        made_whole(transposed, raw_length)
    assert (caught.value.path, caught.value.offset) == (PATH, OFFSET)
    with pytest.raises(CorruptionError, match=match) as caught:
        Block(unpacked(frame_of(transposed), raw_length), fail, lacks_fingerprints=True)
    assert (caught.value.path, caught.value.offset) == (PATH, OFFSET)


RAW_LENGTH = len(payload_of(numbered(20)))
UNEQUAL: Entries = [(b"k" * n, b"v" * n, 5) for n in range(1, 21)]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ((0, struct.pack("<I", 0)), "cannot hold 0 entries"),
        ((0, struct.pack("<I", 19)), "do not make a payload"),
        ((0, struct.pack("<I", 0x7FFF_FFFF)), "cannot hold"),
        ((0, struct.pack("<I", 0xFFFF_FFFF)), "cannot hold"),
        ((4, b"\x40"), "do not make a payload"),
        ((4, b"\x80"), "do not make a payload"),
        ((4, b"\xc1"), "entry tag 48"),
        ((5, b"\xff"), "do not make a payload"),
        ((6, b"\xff\xff"), "do not make a payload"),
        ((16, struct.pack("<I", 59)), "keys of a transposed payload cannot share"),
        ((16, struct.pack("<I", 121)), "do not make a payload"),
        ((16, struct.pack("<I", 0xFFFF_FFFF)), "cannot hold"),
    ],
)
def test_wrong_headers_are_errors(change: tuple[int, bytes], what: str) -> None:
    assert made_whole(lies(), RAW_LENGTH) == payload_of(numbered(20))
    refused(lies(change), RAW_LENGTH, what)


def test_values_that_cannot_be_equally_long_are_an_error() -> None:
    (keys_length,) = struct.unpack_from("<I", lies(), 16)
    lie = struct.pack("<I", keys_length - 20)
    restore(lies((16, lie)), RAW_LENGTH, PATH, OFFSET)  # a wrong but valid payload
    entries: Entries = [(b"k" * n, b"vv", 5) for n in range(1, 21)]
    (keys_length,) = struct.unpack_from("<I", lies(entries=entries), 16)
    lie = struct.pack("<I", keys_length - 1)
    shorter = lies((20 + 1 + 2 * 19, struct.pack("<H", 18)), entries)  # the last key's length
    shorter = shorter[:16] + lie + shorter[20:]
    refused(shorter, len(payload_of(entries)), "values of a transposed payload cannot share")


@pytest.mark.parametrize("length", [0, 3, 0xFFFF])
def test_key_lengths_that_do_not_add_up_are_errors(length: int) -> None:
    change = (20 + 1 + 2, struct.pack("<H", length))  # the second key's, behind a prefix of a byte
    refused(lies(change, UNEQUAL), len(payload_of(UNEQUAL)), "do not add up")


def test_keys_longer_than_any_are_an_error() -> None:
    width = MAX_KEY_BYTES + 1
    head = struct.pack("<IBBHQI", 1, 64 | 128, 0, 0, 0, width)
    refused(head + bytes(width), 24 + 7 + width, "cannot share")


@pytest.mark.parametrize("more", [-1, 1, 1 << 20])
def test_a_wrong_transposed_length_is_an_error(more: int) -> None:
    refused(lies(), RAW_LENGTH + more, "do not make a payload")


@pytest.mark.parametrize("entries", [numbered(20), UNEQUAL], ids=["equal", "unequal"])
def test_every_cut_is_noticed(entries: Entries) -> None:
    transposed, raw_length = lies(entries=entries), len(payload_of(entries))
    for length in range(len(transposed)):
        with pytest.raises(CorruptionError):
            restore(transposed[:length], raw_length, PATH, OFFSET)


@pytest.mark.parametrize("entries", [numbered(20), UNEQUAL], ids=["equal", "unequal"])
def test_any_byte_changed_gives_a_payload_of_that_length_or_the_error(entries: Entries) -> None:
    transposed, raw_length = lies(entries=entries), len(payload_of(entries))
    for at in range(len(transposed)):
        for mask in (1, 0x10, 0x40, 0x80, 0xFF):
            changed = transposed[:at] + bytes([transposed[at] ^ mask]) + transposed[at + 1 :]
            try:
                assert len(restore(changed, raw_length, PATH, OFFSET)) == raw_length
            except CorruptionError:
                assert at < 20 + 1 + 2 * len(entries)


@given(st.binary(max_size=120), st.integers(0, 1000))
def test_any_bytes_give_a_payload_of_that_length_or_the_error(data: bytes, length: int) -> None:
    with suppress(CorruptionError):
        assert len(restore(data, length, PATH, OFFSET)) == length


def test_keys_with_a_long_prefix_are_not_made_all_at_once() -> None:
    count = 200
    head = struct.pack("<IBBHQI", count, 64 | 128, 0, 0xFFFF, 0, count)
    transposed = head + bytes(0xFFFF + count)
    tracemalloc.start()
    try:
        made_whole(transposed, len(transposed) + 4 + 7 * count)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def header_alone(count: int, prefix_length: int, keys_length: int = 0) -> bytes:
    return struct.pack(
        "<IBBHQI", count, 64 | 128, prefix_length and 1, prefix_length, 0, keys_length
    )


@pytest.mark.parametrize(
    ("stored", "raw_length"),
    [
        (frame_of(header_alone(3_000_000, 0)), 24 + 7 * 3_000_000),
        (frame_of(header_alone(50_000, 0xFFFF) + bytes(0xFFFF + 50_000)), 20 + 0xFFFF + 400_004),
        (frame_of(bytes(64 << 20)), 1000),
        *(
            (b"\xe0" + struct.pack("<Q", stated) + b"\x01\x00\x00", (1 << 31) - 1)
            for stated in (0, 1 << 30, (1 << 32) - 1)
        ),
    ],
    ids=["entries of no bytes", "a long prefix", "a longer payload", "0", "a GiB", "4 GiB"],
)
def test_what_states_more_than_it_holds_is_an_error_and_takes_no_memory(
    stored: bytes, raw_length: int
) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(CorruptionError):
            unpacked(stored, raw_length)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
