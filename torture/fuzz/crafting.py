"""Takes tables apart, and puts them together with correct checksums.

A caller may change any field in between.  Lengths and offsets of blocks and all checksums are computed
again, as are the parts of an index that follow from others; every other field keeps the caller's value.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec
import zstandard

from lsmkv.encoding.checksums import checksum
from lsmkv.encoding.words import common_prefix_length
from lsmkv.errors import CorruptionError
from lsmkv.sstable.block.block import Block
from lsmkv.sstable.block.trailer import TRAILER, TRAILER_BYTES, checksum_seed
from lsmkv.sstable.block.transposed import restore
from lsmkv.sstable.format import (
    CODEC_NONE,
    CODEC_ZSTD,
    FOOTER_BYTES,
    Footer,
    TableMeta,
    TableProperties,
    decode_footer,
    decode_properties,
)
from lsmkv.sstable.index import TableIndex
from lsmkv.sstable.index_builder import IndexBuilder
from lsmkv.sstable.index_layout import separator
from lsmkv.storage.file_names import CURRENT, manifest_path
from lsmkv.storage.storage import Storage
from lsmkv.tree.levels import PlacedTable
from lsmkv.tree.manifest import State, read_current, read_state
from torture.fuzz.index_parts import IndexParts
from torture.fuzz.sealing import log_of, seal_current

_MASK_32: Final = 0xFFFF_FFFF
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
RAW_LENGTH, ENTRIES, FILTER_KEYS, CODEC, SCHEME_AND_PROBES = 1, 3, 4, 5, 6
"""Positions in the fields of a trailer; 0 and 2, the stored lengths, are computed."""
_NUMBERS: Final = {"filter_lengths": 0xFF_FFFF, "entry_counts": 0x7FFF_FFFF, "parameters": 0xFF}
"""The numbers of an index, and the highest that its builder is given."""


@dataclass
class CraftedBlock:
    """A block: its payload before compression, transposed if the codec is; filter and trailer."""

    payload: bytearray
    bits: bytearray
    fields: list[int]


@dataclass
class CraftedTable:
    """A table's fields.

    Attributes:
        separators: those of the index, with the bytes that all share; the first is empty.
        numbers: of each block ``"filter_lengths"``, ``"entry_counts"``, ``"parameters"``, in the index.
        properties: as JSON has them; keys are base64.
        index_lie: changes the index as it stands in the file.
    """

    number: int
    blocks: list[CraftedBlock]
    dictionary: bytes
    filters: bytearray
    prefix_length: int
    separators: list[bytes]
    numbers: dict[str, list[int]]
    properties: dict[str, Any]
    index_lie: Callable[[IndexParts], object] | None = None

    # Changes that others are to follow

    def follow_blocks(self) -> None:
        """Copy numbers of entries from the trailers to index and properties."""
        counts = [block.fields[ENTRIES] for block in self.blocks]
        self.numbers["entry_counts"] = counts
        self.properties["entry_count"] = sum(counts)
        self.properties["block_count"] = len(self.blocks)

    def follow_filters(self) -> None:
        """Rebuild the filter section and its index from the blocks' filters."""
        self.filters = bytearray().join([block.bits for block in self.blocks])
        self.numbers["filter_lengths"] = [len(block.bits) for block in self.blocks]
        self.numbers["parameters"] = [block.fields[SCHEME_AND_PROBES] & 31 for block in self.blocks]
        self.properties["filter_bytes"] = len(self.filters)

    def follow_keys(self) -> None:
        """Rebuild separators, prefix and properties; CorruptionError if a block has no keys."""
        spans = [_span(block) for block in self.blocks]
        between = [separator(below[1], above[0]) for below, above in pairwise(spans)]
        self.separators = [b"", *between]
        ends = spans[0][0], spans[-1][1]
        self.prefix_length = common_prefix_length(list(ends))
        for name, key in zip(("smallest", "largest"), ends, strict=True):
            self.properties[name] = base64.b64encode(key).decode()

    # The whole file

    def put_together(self) -> bytes:
        """The file, with correct checksums."""
        data, index = bytearray(), IndexBuilder()
        columns = [[n & most for n in self.numbers[name]] for name, most in _NUMBERS.items()]
        for block, above, *numbers in zip(self.blocks, self.separators, *columns, strict=False):
            frame = self._frame(block, len(data))
            # The builder leaves the prefix out of every separator.
            index.add(above.ljust(self.prefix_length, b"\0"), len(frame), *numbers)
            data += frame
        prefix = bytes(self.prefix_length)
        section = index.finish(bytes(self.filters), prefix, prefix)
        if self.index_lie is not None:
            parts = IndexParts.of(section)
            self.index_lie(parts)
            section = parts.encoded()
        said = msgspec.json.encode(self.properties)
        sections = bytes(data), self.dictionary, bytes(self.filters), section, said
        lengths = map(len, sections)
        sums = checksum(self.dictionary, 0), checksum(section + said, 0)
        return b"".join(sections) + Footer._make((*lengths, *sums)).encode()

    def meta(self, data: bytes) -> TableMeta:
        """A manifest's entry for the file ``data``, with the table's own values."""
        said = msgspec.json.decode(msgspec.json.encode(self.properties), type=TableProperties)
        (tail,) = struct.unpack_from("<Q", data, len(data) - FOOTER_BYTES + 48)
        return said.meta(len(data), tail)

    def _frame(self, block: CraftedBlock, offset: int) -> bytes:
        fields = list(block.fields)
        stored = bytes(block.payload)
        if fields[CODEC] == CODEC_ZSTD:
            form = zstandard.ZstdCompressionDict(self.dictionary) if self.dictionary else None
            stored = zstandard.ZstdCompressor(level=1, dict_data=form).compress(stored)
            stored = stored[len(_ZSTD_MAGIC) :]
        fields[0], fields[2] = len(stored), len(block.bits)
        masked = [field & _MASK_32 for field in fields[:5]] + [
            field & 0xFF for field in fields[5:7]
        ]
        head = struct.pack("<IIIIIBBH", *masked, fields[7] & 0xFFFF)
        seed = checksum_seed(head, self.number, offset)
        sums = [checksum(part, seed) & _MASK_32 for part in (stored, bytes(block.bits))]
        return stored + bytes(block.bits) + head + struct.pack("<II", *sums)


def _span(block: CraftedBlock) -> tuple[bytes, bytes]:
    """The first and last key of a block."""
    length = block.fields[RAW_LENGTH] & _MASK_32
    is_transposed = block.fields[CODEC] == CODEC_ZSTD
    payload = bytes(block.payload)
    payload = restore(payload, length, "", 0) if is_transposed else payload[:length]
    opened = Block(payload, _fail, is_transposed)
    return opened.key(0), opened.key(opened.count - 1)


def _fail(reason: str) -> NoReturn:
    raise CorruptionError("", 0, reason)


def take_apart(data: bytes) -> CraftedTable:
    """The fields of an undamaged table."""
    footer = decode_footer(data[-FOOTER_BYTES:], "", len(data))
    said = data[footer.properties_offset : -FOOTER_BYTES]
    section = data[footer.index_offset : footer.properties_offset]
    index = TableIndex(section, "", footer, decode_properties(said, "", 0))
    count = int(index.block_count)
    dictionary = data[footer.data_length : footer.filters_offset]
    offsets = [index.offset(number) for number in range(count + 1)]
    places = [index.filter_place(number) for number in range(count)]
    return CraftedTable(
        number=msgspec.json.decode(said)["number"],
        blocks=[_block(data[low:high], dictionary) for low, high in pairwise(offsets)],
        dictionary=dictionary,
        filters=bytearray(data[footer.filters_offset : footer.index_offset]),
        prefix_length=int(index.prefix_length),
        separators=[b"", *(index.separator(number) for number in range(1, count))],
        numbers={
            "filter_lengths": [length for _, length, _ in places],
            "entry_counts": [index.entry_count(number) for number in range(count)],
            "parameters": [parameter for _, _, parameter in places],
        },
        properties=msgspec.json.decode(said),
    )


def _block(frame: bytes, dictionary: bytes) -> CraftedBlock:
    fields = list(TRAILER.unpack_from(frame, len(frame) - TRAILER_BYTES))
    payload = frame[: fields[0]]
    if fields[CODEC] != CODEC_NONE:
        form = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
        payload = zstandard.ZstdDecompressor(dict_data=form).decompress(_ZSTD_MAGIC + payload)
    bits = frame[fields[0] : fields[0] + fields[2]]
    return CraftedBlock(bytearray(payload), bytearray(bits), fields[:8])


# Stores

_MANIFEST_NUMBER: Final = 7  # that of what ``log_of`` makes


def state_of(directory: Path) -> State:
    """The state in the manifest of a store."""
    storage = Storage()
    return read_state(storage, str(directory), read_current(storage, str(directory)))


def replace_table(directory: Path, table: CraftedTable) -> None:
    """Replace the table of that number in a closed store."""
    data = table.put_together()
    (directory / f"{table.number:06}.sst").write_bytes(data)
    state = state_of(directory)
    placed = [
        PlacedTable(old.level, old.run, table.meta(data))
        if old.meta.number == table.number
        else old
        for old in state.levels.placed()
    ]
    edit = msgspec.structs.replace(state.as_edit(), added=placed)
    write_manifest(directory, msgspec.json.encode(edit))


def write_manifest(directory: Path, record: bytes) -> None:
    """Replace the store's manifest by a single record, valid or not."""
    Path(manifest_path(str(directory), _MANIFEST_NUMBER)).write_bytes(log_of([record], kind=1))
    (directory / CURRENT).write_bytes(seal_current(b"MANIFEST-%06d" % _MANIFEST_NUMBER))
