"""Reading a damaged table: every block that still checks out, and where the others stood.

Blocks are found by the index where it is whole.  Where index or footer are lost, the file is
searched for block trailers by their magic; a trailer is only believed when the checksum of the
payload before it, which depends on the trailer and on the place in the file, holds.  Of blocks
found inside others the outer ones are taken, because a value may hold anything, a copy of a block
included.  (Only a block forged for its very offset, inside a block that is itself damaged, in a
table that lost its index, would be taken for one of the table's.)

The layout is that of :mod:`lsmkv.sstable.format`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NoReturn

from lsmkv.encoding.checksums import checksum
from lsmkv.errors import CorruptionError
from lsmkv.sstable.block.block import MAX_BLOCK_BYTES, Block
from lsmkv.sstable.block.codec import Decompressor
from lsmkv.sstable.block.trailer import BLOCK_MAGIC, TRAILER, TRAILER_BYTES, checksum_seed
from lsmkv.sstable.format import (
    CODEC_ZSTD_REDUCED,
    FOOTER_BYTES,
    Footer,
    TableProperties,
    decode_footer,
    decode_properties,
)
from lsmkv.sstable.index import TableIndex
from lsmkv.sstable.index_codec import checked_index
from lsmkv.storage.storage import RandomFile, ReadKind, Storage

_MAGIC_AT: Final = 22
_MAGIC_BYTES: Final = BLOCK_MAGIC.to_bytes(2, "little")
_SCAN_BYTES: Final = 1 << 20
_SECTOR_BYTES: Final = 512  # the least that a device fails to read
_MASK_32: Final = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class LostBlock:
    """A stretch of a table that does not check out: one block, or, without an index, any number.

    Attributes:
        offset: where it starts.
        first, last: no key of it lies below or above these; None: nothing is known.
        entry_count: the entries in it; None when nothing tells.
        reason: what does not hold.
    """

    offset: int
    first: bytes | None
    last: bytes | None
    entry_count: int | None
    reason: str


class TableSalvage:
    """The file of table ``number``, read as far as it checks out.

    Attributes:
        properties: what the table says of itself; None when that is lost.
        footer: None when it is lost.
        problems: what is wrong with the file, apart from lost blocks; ``blocks`` adds to them.

    Raises:
        UnsupportedFormatError: another format version.
        OSError: the file cannot be opened.
    """

    def __init__(self, storage: Storage, path: str, number: int) -> None:
        self.path = path
        self._number = number
        self.footer: Footer | None = None
        self.properties: TableProperties | None = None
        self.problems: list[CorruptionError] = []
        self._index: TableIndex | None = None
        self._dictionary_lost = False
        self._file: RandomFile = storage.open_random(path)
        self._decompressor = Decompressor(b"")
        try:
            self._read_footer()
            self._read_dictionary()
            self._read_index()
        except CorruptionError as error:
            self.problems.append(error)

    def blocks(self) -> Iterator[tuple[int, Block | LostBlock]]:
        """Offsets, and whole blocks or lost stretches, in the order of the file.

        The entries of the whole blocks are in order throughout.

        Raises:
            UnsupportedFormatError: a block has an unknown codec.
        """
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
                item = LostBlock(
                    offset, keys[0], keys[-1], len(keys), "block does not follow the one before it"
                )
            if gap is not None:
                yield gap.offset, _bounded(gap, last, item.first)
            gap = item
        if gap is not None:
            yield gap.offset, _bounded(gap, last, None)

    # Sections

    def _read_footer(self) -> None:
        size = self._file.size
        at = max(0, size - FOOTER_BYTES)
        self.footer = decode_footer(self._pread(at, size - at), self.path, size)

    def _read_dictionary(self) -> None:
        footer = self.footer
        assert footer is not None
        try:
            data = self._pread(footer.data_length, footer.dictionary_length)
            if checksum(data, 0) != footer.dictionary_checksum and data:
                reason = "checksum of a table's dictionary fails"
                raise CorruptionError(self.path, footer.data_length, reason)
        except CorruptionError as error:
            self._dictionary_lost = True
            self.problems.append(error)
        else:
            self._decompressor = Decompressor(data)

    def _read_index(self) -> None:
        footer, path = self.footer, self.path
        assert footer is not None
        tail = self._pread(footer.index_offset, footer.index_length + footer.properties_length)
        if checksum(tail, 0) != footer.tail_checksum:
            reason = "checksum of a table's index fails"
            raise CorruptionError(path, footer.index_offset, reason)
        data = tail[footer.index_length :]
        self.properties = decode_properties(data, path, footer.properties_offset)
        self._index = checked_index(tail[: footer.index_length], path, footer, self.properties)

    def _pread(self, offset: int, length: int) -> bytes:
        """A range of the file; what the device cannot read is damage like any other."""
        try:
            return self._file.pread(offset, length, ReadKind.COMPACTION)
        except OSError as error:
            raise CorruptionError(self.path, offset, f"it cannot be read: {error}") from error

    # Blocks by the index

    def _indexed(self, index: TableIndex) -> Iterator[tuple[int, Block | LostBlock]]:
        for number in range(index.block_count):
            offset = index.offset(number)
            first, last = index.first_key(number), index.last_key(number)
            count = index.entry_count(number)
            try:
                block = self._block(self._pread(offset, index.offset(number + 1) - offset), offset)
                keys = block.keys()
                if (keys[0], keys[-1], len(keys)) != (first, last, count):
                    raise CorruptionError(self.path, offset, "block is not the index's")
            except CorruptionError as error:
                yield offset, LostBlock(offset, first, last, count, error.reason)
            else:
                yield offset, block

    def _block(self, frame: bytes, offset: int) -> Block:
        """The block in ``frame``.  Its filter need not be whole: a new one will be built."""

        def fail(reason: str) -> NoReturn:
            raise CorruptionError(self.path, offset, reason)

        end = len(frame) - TRAILER_BYTES
        if end < 0:
            fail(f"block of {len(frame)} bytes is shorter than its trailer")
        payload_length, raw_length, filter_length, entries, _, codec, _, magic, *sums = (
            TRAILER.unpack_from(frame, end)
        )
        if magic != BLOCK_MAGIC or payload_length + filter_length != end:
            fail("block trailer does not fit its block")
        seed = checksum_seed(frame[end:], self._number, offset)
        payload = frame[:payload_length]
        if checksum(payload, seed) & _MASK_32 != sums[0]:
            fail("checksum of a block's payload fails")
        if raw_length > MAX_BLOCK_BYTES:
            fail(f"block states {raw_length} bytes")
        try:
            raw = self._decompressor.decompress_block(codec, payload, raw_length, self.path, offset)
        except CorruptionError:
            if self._dictionary_lost or self.footer is None:
                fail("block needs the table's dictionary, which is lost")
            raise
        block = Block(raw, fail, codec == CODEC_ZSTD_REDUCED)
        if block.count != entries:
            fail(f"block of {block.count} entries whose trailer states {entries}")
        block.check_order(fail)
        if checksum(frame[payload_length:end], seed) & _MASK_32 != sums[1]:
            place = offset + payload_length
            self.problems.append(
                CorruptionError(self.path, place, "checksum of a block's filter fails")
            )
        return block

    # Blocks by their trailers

    def _scanned(self) -> Iterator[tuple[int, Block | LostBlock]]:
        """The blocks that a search finds; stretches between them count as lost."""
        limit = self._file.size if self.footer is None else self.footer.data_length
        reached = 0
        for start, stop in _outermost(self._candidates(limit)):
            if start > reached:
                yield reached, _gap(reached, "no whole block is found here")
            reached = stop
            try:
                yield start, self._block(self._pread(start, stop - start), start)
            except CorruptionError as error:
                yield start, _gap(start, error.reason)
        if self.footer is None:
            yield reached, _gap(reached, "the footer is lost: nothing tells where the blocks end")
        elif reached < limit:
            yield reached, _gap(reached, "no whole block is found here")

    def _candidates(self, limit: int) -> Iterator[tuple[int, int]]:
        """Start and end of everything below ``limit`` that ends like a block and checks out."""
        for base in range(0, limit, _SCAN_BYTES):
            # Pieces overlap, so that each trailer is whole in the one that it starts in.
            data = self._readable(base, min(_SCAN_BYTES + TRAILER_BYTES, limit - base))
            at = data.find(_MAGIC_BYTES, _MAGIC_AT)
            while at >= 0:
                trailer = at - _MAGIC_AT
                if trailer >= _SCAN_BYTES or trailer + TRAILER_BYTES > len(data):
                    break
                length = self._checked_length(
                    data[trailer : trailer + TRAILER_BYTES], base + trailer
                )
                if length is not None:
                    yield base + trailer - length, base + trailer + TRAILER_BYTES
                at = data.find(_MAGIC_BYTES, at + 1)

    def _readable(self, offset: int, length: int) -> bytes:
        """A range of the file, with zeros for the sectors that the device cannot read."""
        try:
            return self._pread(offset, length)
        except CorruptionError:
            if offset // _SECTOR_BYTES == (offset + length - 1) // _SECTOR_BYTES:
                return bytes(length)
        first = -(-offset // _SECTOR_BYTES) * _SECTOR_BYTES  # rounded up
        sectors = range(first, offset + length, _SECTOR_BYTES)
        bounds = sorted({offset, *sectors, offset + length})
        return b"".join(self._readable(low, high - low) for low, high in pairwise(bounds))

    def _checked_length(self, trailer: bytes, at: int) -> int | None:
        """Length of what stands before the trailer found at ``at``; None when it is no trailer."""
        payload_length, raw_length, filter_length, entries, _, codec, _, _, payload_sum, _ = (
            TRAILER.unpack(trailer)
        )
        length: int = payload_length + filter_length
        if (
            length > at
            or not payload_length
            or not entries
            or raw_length > MAX_BLOCK_BYTES
            or codec > CODEC_ZSTD_REDUCED
        ):
            return None
        seed = checksum_seed(trailer, self._number, at - length)
        try:
            payload = self._pread(at - length, payload_length)
        except CorruptionError:
            return None
        return length if checksum(payload, seed) & _MASK_32 == payload_sum else None


def _gap(offset: int, reason: str) -> LostBlock:
    return LostBlock(offset, None, None, None, reason)


def _bounded(lost: LostBlock, before: tuple[bytes, int] | None, after: bytes | None) -> LostBlock:
    """The same, with the keys around it for bounds where it has none of its own."""
    first = before[0] if lost.first is None and before is not None else lost.first
    last = after if lost.last is None else lost.last
    return LostBlock(lost.offset, first, last, lost.entry_count, lost.reason)


def _outermost(ranges: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Those that lie inside no other, in order."""
    reached = 0
    for start, stop in sorted(ranges, key=lambda found: (found[0], -found[1])):
        if start >= reached:
            yield start, stop
            reached = stop
