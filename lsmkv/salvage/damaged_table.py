"""Reads a damaged table: every whole block, and where the others were.

A whole index locates the blocks.  If index or footer are lost, the file is searched for the magic of
block trailers.  A trailer counts if the checksum of the payload before it holds, which depends on the
offset.  Of nested blocks the outer one counts, because a value may hold a copy of a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NoReturn

from lsmkv.encoding.checksums import checksum
from lsmkv.errors import CorruptionError, untraced
from lsmkv.sstable.block.block import Block
from lsmkv.sstable.block.codec import Decompressor
from lsmkv.sstable.block.layout import MAX_BLOCK_BYTES
from lsmkv.sstable.block.trailer import (
    BLOCK_MAGIC,
    TRAILER_BYTES,
    check_filter,
    check_payload,
    checksum_seed,
    decode_trailer,
)
from lsmkv.sstable.format import (
    CODEC_ZSTD,
    FOOTER_BYTES,
    Footer,
    TableProperties,
    decode_footer,
    decode_properties,
)
from lsmkv.sstable.index import TableIndex
from lsmkv.storage.file_names import table_path
from lsmkv.storage.storage import RandomFile, ReadKind, Storage

_MAGIC_AT: Final = 22  # in a trailer
_MAGIC: Final = BLOCK_MAGIC.to_bytes(2, "little")
_SCAN_BYTES: Final = 1 << 20
_SECTOR_BYTES: Final = 512  # the smallest unit that a device fails to read


@dataclass(frozen=True, slots=True)
class LostBlock:
    """A damaged range of a table; ``first`` and ``last`` bound its keys if known."""

    offset: int
    reason: str
    first: bytes | None = None
    last: bytes | None = None
    entry_count: int | None = None


class TableSalvage:
    """A damaged table; ``problems`` is the damage apart from blocks, lost parts are None."""

    def __init__(self, storage: Storage, path: str, number: int, sealed_number: int = 0) -> None:
        """``sealed_number``: the one in the properties, if others know it."""
        self.path = path
        self._number = number
        self._seal = sealed_number or number
        self.footer: Footer | None = None
        self.properties: TableProperties | None = None
        self.problems: list[CorruptionError] = []
        self._index: TableIndex | None = None
        self._dictionary_lost = False
        self._file: RandomFile = storage.open_random(path)
        self._decompressor = Decompressor(b"")
        try:
            size = self._file.size
            at = max(0, size - FOOTER_BYTES)
            self.footer = decode_footer(self._pread(at, size - at), path, size)
            self._read_dictionary(self.footer)
            self._read_index(self.footer)
        except CorruptionError as error:
            self.problems.append(untraced(error))

    def blocks(self) -> Iterator[tuple[int, Block | LostBlock]]:
        """Whole blocks, whose entries ascend, and lost ranges, with their offsets."""
        found = self._scanned() if self._index is None else self._indexed(self._index)
        last: tuple[bytes, int] | None = None
        gap: LostBlock | None = None
        for offset, item in found:
            if isinstance(item, Block):
                keys, seqs = item.keys(), item.seqs()
                if last is None or last < (keys[0], -seqs[0]):
                    if gap is not None:
                        yield gap.offset, _bounded(gap, last, keys[0])
                        gap = None
                    last = keys[-1], -seqs[-1]
                    yield offset, item
                    continue
                reason = "block does not follow the one before it"
                item = LostBlock(offset, reason, keys[0], keys[-1], len(keys))
            if gap is not None:
                yield gap.offset, _bounded(gap, last, item.first)
            gap = item
        if gap is not None:
            yield gap.offset, _bounded(gap, last, None)

    # Sections

    def _read_dictionary(self, footer: Footer) -> None:
        try:
            data = self._pread(footer.data_length, footer.dictionary_length)
            if checksum(data, 0) != footer.dictionary_checksum and data:
                reason = "checksum of a table's dictionary fails"
                raise CorruptionError(self.path, footer.data_length, reason)
        except CorruptionError as error:
            self._dictionary_lost = True
            self.problems.append(untraced(error))
        else:
            self._decompressor = Decompressor(data)

    def _read_index(self, footer: Footer) -> None:
        path = self.path
        tail = self._pread(footer.index_offset, footer.index_length + footer.properties_length)
        if checksum(tail, 0) != footer.tail_checksum:
            reason = "checksum of a table's index fails"
            raise CorruptionError(path, footer.index_offset, reason)
        data = tail[footer.index_length :]
        properties = decode_properties(data, path, footer.properties_offset)
        self.properties = properties
        if properties.number == self._number:
            self._seal = properties.seal
        self._index = TableIndex(tail[: footer.index_length], path, footer, self.properties)

    def _pread(self, offset: int, length: int) -> bytes:
        """Read a range; what the device cannot read is damaged."""
        try:
            return self._file.pread(offset, length, ReadKind.COMPACTION)
        except OSError as error:
            raise CorruptionError(self.path, offset, f"it cannot be read: {error}") from error

    # Blocks by the index

    def _indexed(self, index: TableIndex) -> Iterator[tuple[int, Block | LostBlock]]:
        assert self.properties is not None
        first = self.properties.smallest
        for number in range(index.block_count):
            offset, count = index.offset(number), index.entry_count(number)
            last = self.properties.largest
            if number + 1 < index.block_count:
                last = index.separator(number + 1)
            try:
                block = self._block(self._pread(offset, index.offset(number + 1) - offset), offset)
                keys = block.keys()
                if not (first <= keys[0] and keys[-1] <= last and len(keys) == count):
                    raise CorruptionError(self.path, offset, "block is not the index's")
            except CorruptionError as error:
                yield offset, LostBlock(offset, error.reason, first, last, count)
            else:
                yield offset, block
            first = last

    def _block(self, frame: bytes, offset: int) -> Block:
        """Check and decode a block; damage to its filter is only noted."""

        def fail(reason: str) -> NoReturn:
            raise CorruptionError(self.path, offset, reason)

        end = len(frame) - TRAILER_BYTES
        if end < 0:
            fail(f"block of {len(frame)} bytes is shorter than its trailer")
        trailer = decode_trailer(frame, end)
        length = trailer.payload_length
        if frame[end + _MAGIC_AT :][:2] != _MAGIC or length + trailer.filter_length != end:
            fail("block trailer does not fit its block")
        seed = checksum_seed(frame[end:], self._seal, offset)
        payload = frame[:length]
        check_payload(payload, frame, end, seed, self.path, offset)
        if trailer.raw_length > MAX_BLOCK_BYTES:
            fail(f"block states {trailer.raw_length} bytes")
        try:
            raw = self._decompressor.decompress_block(
                trailer.codec, payload, trailer.raw_length, self.path, offset
            )
        except CorruptionError:
            if self._dictionary_lost or self.footer is None:
                fail("block needs the table's dictionary, which is lost")
            raise
        block = Block(raw, fail, trailer.codec == CODEC_ZSTD)
        if block.count != trailer.entry_count:
            fail(f"block of {block.count} entries whose trailer states {trailer.entry_count}")
        block.check_order(fail)
        try:
            check_filter(frame[length:end], frame, end, seed, self.path, offset + length)
        except CorruptionError as error:
            self.problems.append(untraced(error))
        return block

    # Blocks by their trailers

    def _scanned(self) -> Iterator[tuple[int, Block | LostBlock]]:
        limit = self._file.size if self.footer is None else self.footer.data_length
        reached = 0
        for start, stop in _outermost(self._candidates(limit)):
            if start > reached:
                yield reached, LostBlock(reached, "no whole block is found here")
            reached = stop
            try:
                yield start, self._block(self._pread(start, stop - start), start)
            except CorruptionError as error:
                yield start, LostBlock(start, error.reason)
        if self.footer is None:
            reason = "the footer is lost: nothing tells where the blocks end"
            yield reached, LostBlock(reached, reason)
        elif reached < limit:
            yield reached, LostBlock(reached, "no whole block is found here")

    def _candidates(self, limit: int) -> Iterator[tuple[int, int]]:
        """Start and end of each range that ends in a valid trailer."""
        for base in range(0, limit, _SCAN_BYTES):
            # Pieces overlap, so that each trailer is whole in the piece that it starts in.
            data = self._zero_filled(base, min(_SCAN_BYTES + TRAILER_BYTES, limit - base))
            at = data.find(_MAGIC, _MAGIC_AT)
            while at >= 0:
                trailer = at - _MAGIC_AT
                if trailer >= _SCAN_BYTES or trailer + TRAILER_BYTES > len(data):
                    break
                found = data[trailer : trailer + TRAILER_BYTES]
                length = self._checked_length(found, base + trailer)
                if length is not None:
                    yield base + trailer - length, base + trailer + TRAILER_BYTES
                at = data.find(_MAGIC, at + 1)

    def _zero_filled(self, offset: int, length: int) -> bytes:
        """A range of the file, with zeros for sectors that are unreadable."""
        try:
            return self._pread(offset, length)
        except CorruptionError:
            if offset // _SECTOR_BYTES == (offset + length - 1) // _SECTOR_BYTES:
                return bytes(length)
        first = -(-offset // _SECTOR_BYTES) * _SECTOR_BYTES  # rounded up
        sectors = range(first, offset + length, _SECTOR_BYTES)
        bounds = sorted({offset, *sectors, offset + length})
        return b"".join(self._zero_filled(low, high - low) for low, high in pairwise(bounds))

    def _checked_length(self, data: bytes, offset: int) -> int | None:
        """Length of the block before a trailer; None if it is no trailer."""
        trailer = decode_trailer(data, 0)
        length = trailer.payload_length + trailer.filter_length
        if (
            length > offset
            or not trailer.payload_length
            or not trailer.entry_count
            or trailer.raw_length > MAX_BLOCK_BYTES
            or trailer.codec > CODEC_ZSTD
        ):
            return None
        start = offset - length
        seed = checksum_seed(data, self._seal, start)
        try:
            payload = self._pread(start, trailer.payload_length)
            check_payload(payload, data, 0, seed, self.path, start)
        except CorruptionError:
            return None
        return length


def holds_whole_block(storage: Storage, directory: str, number: int) -> bool:
    """Whether a block tells that lsmkv wrote this table."""
    try:
        table = TableSalvage(storage, table_path(directory, number), number)
    except OSError:
        return False
    return any(isinstance(item, Block) for _, item in table.blocks())


def _bounded(lost: LostBlock, before: tuple[bytes, int] | None, after: bytes | None) -> LostBlock:
    """``lost`` with the neighbouring keys where it has no bounds."""
    first = before[0] if lost.first is None and before is not None else lost.first
    last = after if lost.last is None else lost.last
    return replace(lost, first=first, last=last)


def _outermost(ranges: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    reached = 0
    for start, stop in sorted(ranges, key=lambda found: (found[0], -found[1])):
        if start >= reached:
            yield start, stop
            reached = stop
