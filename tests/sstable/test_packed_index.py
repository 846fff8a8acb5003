"""A packed index: it unpacks to the original, is small, and damage is an error."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from lsmkv.encoding.entries import MAX_KEY_BYTES
from lsmkv.errors import CorruptionError, UnsupportedFormatError
from lsmkv.salvage.damaged_table import TableSalvage
from lsmkv.sstable.block.block import Block
from lsmkv.sstable.index import IndexBuilder, TableIndex
from lsmkv.sstable.index_codec import open_index, pack_index
from lsmkv.sstable.reader import TableReader
from table_files import Tables, contents, flip, numbered

if TYPE_CHECKING:
    from golden_support import Golden

PATH = "/store/000001.sst"
OFFSET = 5000


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path)


def built(keys: list[bytes], sizes: list[tuple[int, int]]) -> tuple[bytes, int, bytes]:
    """A section with a block for each pair of keys; the blocks' length; the filters."""
    builder = IndexBuilder()
    for number, (length, filter_length) in enumerate(sizes):
        first, last = keys[2 * number : 2 * number + 2]
        builder.add(
            first,
            last,
            length=length,
            filter_length=filter_length,
            entry_count=number + 1,
            probe_count=number % 30,
        )
    filters = random.Random(1).randbytes(sum(filter_length for _, filter_length in sizes))
    return builder.finish(filters), sum(length for length, _ in sizes), filters


def opened(section: bytes, data_length: int, filters_length: int) -> TableIndex:
    return open_index(section, PATH, OFFSET, data_length, filters_length)


@st.composite
def sections(draw: st.DrawFn) -> tuple[bytes, int, bytes]:
    prefix = draw(st.sampled_from([b"", b"user:", b"\0" * 9, b"p" * 500]))
    suffixes = draw(st.lists(st.binary(max_size=12), min_size=2, max_size=40))
    sizes = st.tuples(
        st.sampled_from([200, 4000, 70_000, 1 << 31, (1 << 32) - 1]),
        st.sampled_from([0, 1, 40, 70_000]),
    )
    count = len(suffixes) // 2
    keys = sorted(prefix + suffix for suffix in suffixes)
    return built(keys, draw(st.lists(sizes, min_size=count, max_size=count)))


@given(sections(), st.sampled_from([-5, 1, 19]))
def test_a_packed_index_round_trips(made: tuple[bytes, int, bytes], level: int) -> None:
    section, data_length, filters = made
    packed = opened(pack_index(section, level), data_length, len(filters))
    plain = opened(section, data_length, len(filters))
    assert packed.memory_bytes == plain.memory_bytes >= len(section)
    count = int(plain.block_count)
    for block in range(count):
        key = plain.first_key(block)
        assert packed.first_key(block) == key
        assert packed.last_key(block) == plain.last_key(block)
        assert packed.offset(block + 1) == plain.offset(block + 1)
        assert packed.filter_start(block + 1) == plain.filter_start(block + 1)
        assert packed.entry_count(block) == plain.entry_count(block)
        assert packed.probe_count(block) == plain.probe_count(block)
        assert packed.find(key) == plain.find(key)
        assert packed.seek(key) == plain.seek(key)
    for chunk in range(int(plain.chunk_count)):
        assert packed.chunk_span(chunk) == plain.chunk_span(chunk)
        assert packed.chunk_checksum(chunk) == plain.chunk_checksum(chunk)


def test_keys_of_every_length_come_back() -> None:
    lengths = [0, 1, 7, 8, 9, 255, 32_767, 32_768, MAX_KEY_BYTES - 1, MAX_KEY_BYTES]
    keys = [b"k" * length for length in lengths]
    section, data_length, filters = built(keys, [(1 << 20, 3)] * 5)
    index = opened(pack_index(section, 1), data_length, len(filters))
    found = [index.first_key(block) + index.last_key(block) for block in range(5)]
    assert found == [keys[2 * block] + keys[2 * block + 1] for block in range(5)]


def test_an_index_of_keys_in_order_is_packed_to_a_tenth() -> None:
    keys = [b"%016d" % (number * 37) for number in range(2000)]
    section, _, _ = built(keys, [(4000 + number % 50, 40) for number in range(1000)])
    assert len(pack_index(section, 1)) < len(section) / 10


# --- in tables ---


def test_the_index_of_a_compressed_table_is_packed_and_of_another_is_not(tables: Tables) -> None:
    packed = tables.table(numbered(2000), compression="zstd", fit_pages=False)
    plain = tables.table(numbered(2000), compression="none", fit_pages=False)
    assert packed.footer.index_length < plain.footer.index_length / 5
    assert packed.index.memory_bytes == plain.index.memory_bytes > plain.footer.index_length
    assert contents(packed) == contents(plain)


def test_golden_packed_table_is_read(tables: Tables, golden: Golden) -> None:
    Path(tables.path(1)).write_bytes(golden.load("packed_table_v1")["000001.sst"])
    table = TableReader(
        tables.storage, tables.path(1), tables.cache, meta=None, filter_residency="resident"
    )
    assert table.footer.index_length < table.index.memory_bytes
    assert {table.block_trailer(number).codec for number in range(table.index.block_count)} == {1}
    assert contents(table) == numbered(300)


def test_blocks_of_a_golden_packed_table_are_salvaged(tables: Tables, golden: Golden) -> None:
    cut_short = golden.load("packed_table_v1")["000001.sst"][:-1]
    Path(tables.path(1)).write_bytes(cut_short)
    found: list[bytes] = []
    for _, item in TableSalvage(tables.storage, tables.path(1), 1).blocks():
        if isinstance(item, Block):
            found += item.keys()
    assert found == [key for key, _, _ in numbered(300)]


@pytest.mark.parametrize("place", [0, 4, 8, 12, 40])
def test_damage_in_a_packed_index_is_found_when_the_table_is_opened(
    tables: Tables, place: int
) -> None:
    meta = tables.write(numbered(500), compression="zstd")
    offset = tables.open(meta).footer.index_offset
    flip(tables.path(meta.number), offset + place)
    with pytest.raises(CorruptionError, match="checksum of a table's index") as caught:
        tables.open(meta)
    assert caught.value.offset == offset


# --- lies ---

KEYS = [b"key%05d" % number for number in range(8)]
SIZES = [(1000, 10), (900, 10), (1100, 12), (1000, 10)]


def lying(
    change: tuple[int, bytes] | None = None, *, codec: int = 1, raw_length: int = -1
) -> bytes:
    """A packed section with changed contents, codec or stated length."""
    section, _, _ = built(KEYS, SIZES)
    raw = _raw(pack_index(section, 1))
    if change is not None:
        at, data = change
        raw = raw[:at] + data + raw[at + len(data) :]
    stored = raw if codec == 0 else _compressed(raw)
    return struct.pack("<III", 0, codec, len(raw) if raw_length < 0 else raw_length) + stored


def _raw(packed: bytes) -> bytes:
    codec, length = struct.unpack_from("<II", packed, 4)
    if codec == 0:
        return packed[12:]
    return zstandard.ZstdDecompressor().decompress(packed[12:], max_output_size=length)


def _compressed(raw: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(raw)


def refused(section: bytes, match: str) -> None:
    with pytest.raises(CorruptionError, match=match) as caught:
        opened(section, 4000, 42)
    assert (caught.value.path, caught.value.offset) == (PATH, OFFSET)


def test_the_unchanged_section_is_read() -> None:
    for codec in (0, 1):
        assert opened(lying(codec=codec), 4000, 42).last_key(3) == KEYS[7]


FILTER_LENGTHS = 12 + 4 * 4
KEY_LENGTHS = FILTER_LENGTHS + 9 * 4


@pytest.mark.parametrize(
    ("at", "data", "what"),
    [
        (0, struct.pack("<I", 0), "cannot hold 0 blocks"),
        (0, struct.pack("<I", 0xFFFF_FFFF), "cannot hold"),
        (8, struct.pack("<I", 0xFFFF_FFFF), "cannot hold"),
        (12, struct.pack("<I", 999), "blocks of the index"),
        (FILTER_LENGTHS, struct.pack("<I", 43), "filters of the index"),
        (FILTER_LENGTHS, struct.pack("<I", 9), "filters of the index"),
        (FILTER_LENGTHS, struct.pack("<I", 0xFFFF_FFFF), "filters of the index"),
        (KEY_LENGTHS, struct.pack("<H", 9), "keys of the index"),
        (KEY_LENGTHS, struct.pack("<H", 7), "keys of the index"),
        (KEY_LENGTHS, struct.pack("<H", 0xFFFF), "keys of the index"),
    ],
)
def test_arrays_that_do_not_fit_are_noticed(at: int, data: bytes, what: str) -> None:
    refused(lying((at, data)), what)


@pytest.mark.parametrize("codec", [0, 1])
def test_every_cut_is_noticed(codec: int) -> None:
    section = lying(codec=codec)
    for length in range(len(section)):
        with pytest.raises(CorruptionError):
            opened(section[:length], 4000, 42)


@pytest.mark.parametrize("more", [-1, 1])
def test_a_wrong_packed_length_is_noticed(more: int) -> None:
    length = len(_raw(lying()))
    refused(lying(raw_length=length + more), "another length")


def test_a_length_that_no_table_of_the_size_has_is_refused_before_memory_is_taken() -> None:
    refused(lying(raw_length=0xFFFF_FFFF), "for blocks of 4000")


def test_a_length_that_no_frame_of_the_size_has_is_refused_before_memory_is_taken() -> None:
    refused(lying(raw_length=15_000_000), "cannot hold")


def test_an_unknown_codec_is_refused() -> None:
    section = lying()
    with pytest.raises(UnsupportedFormatError):
        opened(section[:4] + struct.pack("<I", 2) + section[8:], 4000, 42)


def test_bytes_that_do_not_decompress_are_noticed() -> None:
    section = lying()
    refused(section[:-5] + b"\0" * 5, "decompress")
