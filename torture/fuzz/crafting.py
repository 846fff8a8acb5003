"""Takes tables apart, and puts them together with correct checksums.

A caller may change any field in between.  Lengths and offsets of blocks and all checksums are computed
again; every other field keeps the caller's value.
"""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec
import zstandard

from lsmkv.encoding.checksums import checksum
from lsmkv.sstable.block.trailer import TRAILER, TRAILER_BYTES, checksum_seed
from lsmkv.sstable.format import (
    CODEC_NONE,
    CODEC_ZSTD,
    CODEC_ZSTD_TRANSPOSED,
    FOOTER_BYTES,
    TableMeta,
    TableProperties,
    decode_footer,
)
from lsmkv.sstable.index import HEADER, array_offsets
from lsmkv.sstable.index_codec import open_index
from lsmkv.storage.file_names import CURRENT, manifest_path
from lsmkv.storage.storage import Storage
from lsmkv.tree.levels import PlacedTable
from lsmkv.tree.manifest import State, read_current, read_state
from torture.fuzz.sealing import log_of, seal_current

_MASK_32: Final = 0xFFFF_FFFF
_MASK_64: Final = 0xFFFF_FFFF_FFFF_FFFF
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ARRAYS: Final = (
    "last_fences",
    "first_fences",
    "offsets",
    "filter_ends",
    "entry_counts",
    "probe_counts",
    "key_ends",
    "chunk_starts",
    "chunk_checksums",
)
_FORMS: Final = dict(zip(_ARRAYS, "QQQIIBIIQ", strict=True))
RAW_LENGTH, ENTRIES, FILTER_KEYS, CODEC, SCHEME_AND_PROBES = 1, 3, 4, 5, 6
"""Positions in the fields of a trailer; 0 and 2, the stored lengths, are computed."""


@dataclass
class CraftedBlock:
    """A block: its payload before compression, filter and trailer.

    The payload is transposed if the codec is.
    """

    payload: bytearray
    bits: bytearray
    fields: list[int]


@dataclass
class CraftedTable:
    """A table's fields.

    Attributes:
        numbers: the arrays of the index by name, as the index has them when it is unpacked.
        is_packed: whether the index is stored so.
        properties: as JSON has them; keys are base64.
    """

    number: int
    blocks: list[CraftedBlock]
    dictionary: bytes
    filters: bytearray
    block_count: int
    prefix_length: int
    chunk_count: int
    numbers: dict[str, list[int]]
    keys: bytes
    is_packed: bool
    properties: dict[str, Any]

    # Changes that others are to follow

    def follow_blocks(self) -> None:
        """Copy numbers of entries from the trailers to index and properties."""
        counts = [block.fields[ENTRIES] for block in self.blocks]
        self.numbers["entry_counts"] = counts
        self.properties["entry_count"] = sum(counts)
        self.properties["block_count"] = self.block_count

    def follow_filters(self) -> None:
        """Rebuild the filter section and its index from the blocks' filters."""
        self.filters = bytearray().join([block.bits for block in self.blocks])
        ends = [0]
        for block in self.blocks:
            ends.append(ends[-1] + len(block.bits))
        self.numbers["filter_ends"] = ends
        self.numbers["probe_counts"] = [
            block.fields[SCHEME_AND_PROBES] & 31 for block in self.blocks
        ]
        self.properties["filter_bytes"] = len(self.filters)

    def follow_keys(self) -> None:
        """Rebuild fences, prefix and properties from the index's keys."""
        ends = self.numbers["key_ends"]
        keys = [self.keys[low:high] for low, high in pairwise(ends)]
        if not keys:
            return
        self.properties["smallest"] = base64.b64encode(keys[0]).decode()
        self.properties["largest"] = base64.b64encode(keys[-1]).decode()
        fences = [_fence(key[self.prefix_length :]) for key in keys]
        self.numbers["first_fences"], self.numbers["last_fences"] = fences[::2], fences[1::2]

    # The whole file

    def put_together(self) -> bytes:
        """The file, with correct checksums."""
        data, offsets = bytearray(), [0]
        for block in self.blocks:
            data += self._frame(block, len(data))
            offsets.append(len(data))
        self.numbers["offsets"] = offsets
        self._seal_chunks()
        index = self._packed() if self.is_packed else self._section()
        said = msgspec.json.encode(self.properties)
        tail = checksum(index + said, 0)
        lengths = (
            len(data),
            len(self.dictionary),
            len(self.filters),
            len(index),
            len(said),
        )
        head = struct.pack("<QQQQQQQI", *lengths, checksum(self.dictionary, 0), tail, 1)
        footer = head + struct.pack("<I8s", checksum(head, 0) & _MASK_32, b"lsmkvSST")
        return bytes(data) + self.dictionary + bytes(self.filters) + index + said + footer

    def meta(self, data: bytes) -> TableMeta:
        """A manifest's entry for the file ``data``, with the table's own values."""
        said = msgspec.json.decode(msgspec.json.encode(self.properties), type=TableProperties)
        (tail,) = struct.unpack_from("<Q", data, len(data) - FOOTER_BYTES + 48)
        return said.meta(len(data), tail)

    def _frame(self, block: CraftedBlock, offset: int) -> bytes:
        fields = list(block.fields)
        stored = bytes(block.payload)
        if fields[CODEC] in (CODEC_ZSTD, CODEC_ZSTD_TRANSPOSED):
            form = zstandard.ZstdCompressionDict(self.dictionary) if self.dictionary else None
            stored = zstandard.ZstdCompressor(level=1, dict_data=form).compress(stored)
            if fields[CODEC] == CODEC_ZSTD_TRANSPOSED:
                stored = stored[len(_ZSTD_MAGIC) :]
        fields[0], fields[2] = len(stored), len(block.bits)
        masked = [field & _MASK_32 for field in fields[:5]] + [
            field & 0xFF for field in fields[5:7]
        ]
        head = struct.pack("<IIIIIBBH", *masked, fields[7] & 0xFFFF)
        seed = checksum_seed(head, self.number, offset)
        sums = [checksum(part, seed) & _MASK_32 for part in (stored, bytes(block.bits))]
        return stored + bytes(block.bits) + head + struct.pack("<II", *sums)

    def _seal_chunks(self) -> None:
        ends, starts = self.numbers["filter_ends"], self.numbers["chunk_starts"]
        for chunk in range(len(self.numbers["chunk_checksums"])):
            low, high = 0, len(self.filters)
            if ends[-1] and chunk + 1 < len(starts) and max(starts[chunk : chunk + 2]) < len(ends):
                low, high = ends[starts[chunk]], ends[starts[chunk + 1]]
            bits = bytes(self.filters[low:high])
            self.numbers["chunk_checksums"][chunk] = checksum(bits, 0)

    def _head(self) -> bytes:
        counts = (self.block_count, self.prefix_length, self.chunk_count)
        return HEADER.pack(*(count & _MASK_32 for count in counts))

    def _section(self) -> bytes:
        return self._head() + b"".join(map(self._array, _ARRAYS)) + self.keys

    def _array(self, name: str) -> bytes:
        return _packed(self.numbers[name], _FORMS[name])

    def _packed(self) -> bytes:
        numbers = self.numbers
        raw = b"".join(
            (
                self._head(),
                _packed(_differences(numbers["offsets"]), "I"),
                _packed(_differences(numbers["filter_ends"]), "I"),
                self._array("entry_counts"),
                self._array("probe_counts"),
                _packed(_differences(numbers["key_ends"]), "H"),
                self._array("chunk_starts"),
                self._array("chunk_checksums"),
                self.keys,
            )
        )
        stored = zstandard.ZstdCompressor(level=1).compress(raw)
        return struct.pack("<III", 0, CODEC_ZSTD, len(raw)) + stored


def _fence(rest: bytes) -> int:
    """The fence of a key with ``rest`` after the table's common prefix."""
    return int.from_bytes(rest[:8].ljust(8, b"\0"), "big") >> 1


def _packed(numbers: list[int], form: str) -> bytes:
    mask = (1 << 8 * struct.calcsize(f"<{form}")) - 1
    return struct.pack(f"<{len(numbers)}{form}", *(number & mask for number in numbers))


def _differences(numbers: list[int]) -> list[int]:
    return [high - low for low, high in pairwise(numbers)]


def take_apart(data: bytes) -> CraftedTable:
    """The fields of an undamaged table."""
    footer = decode_footer(data[-FOOTER_BYTES:], "", len(data))
    stored = data[footer.index_offset : footer.properties_offset]
    index = open_index(stored, "", 0, footer.data_length, footer.filters_length)
    section = index.section
    count, prefix_length, chunk_count = HEADER.unpack_from(section)
    places = array_offsets(count, chunk_count)
    numbers: dict[str, list[int]] = {}
    for name, (at, end) in zip(_ARRAYS, pairwise(places), strict=True):
        form = _FORMS[name]
        length = (end - at) // struct.calcsize(f"<{form}")
        numbers[name] = list(struct.unpack_from(f"<{length}{form}", section, at))
    dictionary = data[footer.data_length : footer.filters_offset]
    said = msgspec.json.decode(data[footer.properties_offset : -FOOTER_BYTES])
    offsets = numbers["offsets"]
    return CraftedTable(
        number=said["number"],
        blocks=[_block(data[low:high], dictionary) for low, high in pairwise(offsets)],
        dictionary=dictionary,
        filters=bytearray(data[footer.filters_offset : footer.index_offset]),
        block_count=count,
        prefix_length=prefix_length,
        chunk_count=chunk_count,
        numbers=numbers,
        keys=section[places[-1] :],
        is_packed=stored[:4] == bytes(4),
        properties=said,
    )


def _block(frame: bytes, dictionary: bytes) -> CraftedBlock:
    fields = list(TRAILER.unpack_from(frame, len(frame) - TRAILER_BYTES))
    payload = frame[: fields[0]]
    if fields[CODEC] != CODEC_NONE:
        form = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
        head = _ZSTD_MAGIC if fields[CODEC] == CODEC_ZSTD_TRANSPOSED else b""
        payload = zstandard.ZstdDecompressor(dict_data=form).decompress(head + payload)
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
