"""The file of a table that is being written: block after block, then the sections about them."""

from __future__ import annotations

from typing import Final

import msgspec
from librt.strings import BytesWriter

from lsmkv.encoding.checksums import checksum, running_checksum
from lsmkv.encoding.entries import MAX_SEQUENCE
from lsmkv.sstable.block.trailer import TRAILER_BYTES, encode_trailer
from lsmkv.sstable.format import Footer, TableMeta, TableProperties, blocks_checksum
from lsmkv.sstable.index_builder import IndexBuilder
from lsmkv.sstable.index_layout import separator
from lsmkv.sstable.table_end import with_room
from lsmkv.storage.storage import Storage

_WRITE_BYTES: Final = 1024 * 1024  # blocks are appended to the file in pieces of about this size
_MAX_SECTION_BYTES: Final = 1 << 30  # keys and filters of the index are addressed with 32 bits


class NewBlock:
    """A block without its place in a file; no dataclass, whose ``__init__`` is never compiled.

    With a ``separator`` it follows the block that it follows in another table; ``first`` and ``last`` are
    not needed then.
    """

    def __init__(
        self,
        first: bytes,
        last: bytes,
        stored: bytes,
        codec: int,
        raw_length: int,
        entry_count: int,
        bits: bytes,
        filter_scheme: int,
        filter_key_count: int,
        probe_count: int,
        smallest_seq: int,
        largest_seq: int,
        separator: bytes | None = None,
    ) -> None:
        self.first = first
        self.last = last
        self.stored = stored
        self.codec = codec
        self.raw_length = raw_length
        self.entry_count = entry_count
        self.bits = bits
        self.filter_scheme = filter_scheme
        self.filter_key_count = filter_key_count
        self.probe_count = probe_count
        self.smallest_seq = smallest_seq
        self.largest_seq = largest_seq
        self.separator = separator

    @property
    def length(self) -> int:
        """Bytes that it takes in the file."""
        return len(self.stored) + len(self.bits) + TRAILER_BYTES


class TableFile:
    """Appends blocks to a new file, and the sections after them.

    Attributes:
        data_bytes: where the next block starts.
        filters_bytes: the size of all filters.
        index_bytes: the size of the index, after :meth:`finish`.
        dictionary: the one that the blocks are compressed with; set before :meth:`finish`.
        smallest, largest: the first and the last key; whoever appends blocks with a separator sets
            ``largest`` after the last of them.
        smallest_seq, largest_seq, entry_count, raw_bytes: those of all blocks.
    """

    def __init__(self, storage: Storage, path: str, number: int) -> None:
        self._storage = storage
        self._path = path
        self.number = number
        self._file = storage.create(path)
        self._index = IndexBuilder()
        self._pieces: list[bytes] = []  # parts of blocks not yet appended to the file
        self._pieces_bytes = 0
        self._filters = BytesWriter()
        self.filters_bytes = 0
        self.index_bytes = 0
        self.data_bytes = 0
        self.dictionary = b""
        self.smallest = b""
        self.largest = b""
        self.smallest_seq = MAX_SEQUENCE
        self.largest_seq = 0
        self.entry_count = 0
        self.raw_bytes = 0
        self._trailers = running_checksum()

    @property
    def block_count(self) -> int:
        return int(self._index.block_count)

    @property
    def blocks_checksum(self) -> int:
        return blocks_checksum(self._trailers)

    @property
    def is_full(self) -> bool:
        """Whether the sections cannot hold much more."""
        return max(self._index.key_bytes, self.filters_bytes) > _MAX_SECTION_BYTES

    def append(self, block: NewBlock) -> None:
        stored, bits, length = block.stored, block.bits, block.length
        tail = encode_trailer(
            stored,
            bits,
            raw_length=block.raw_length,
            entry_count=block.entry_count,
            filter_key_count=block.filter_key_count,
            codec=block.codec,
            filter_scheme=block.filter_scheme,
            probe_count=block.probe_count,
            number=self.number,
            offset=self.data_bytes,
        )
        self._trailers.update(tail)
        above = block.separator
        if above is None:
            above = separator(self.largest, block.first)
        self._index.add(above, length, len(bits), block.entry_count, block.probe_count)
        if self.entry_count == 0:
            self.smallest = block.first
        self.largest = block.last
        self.smallest_seq = min(self.smallest_seq, block.smallest_seq)
        self.largest_seq = max(self.largest_seq, block.largest_seq)
        self.entry_count += block.entry_count
        self.raw_bytes += block.raw_length
        self.add_filter(bits)
        self.data_bytes += length
        self._pieces += (stored, bits, tail)
        self._pieces_bytes += length
        if self._pieces_bytes >= _WRITE_BYTES:
            self._write_pieces()

    def add_filter(self, bits: bytes) -> None:
        """Add a block's filter to the filter section, or the table's one."""
        self._filters.write(bits)
        self.filters_bytes += len(bits)

    def finish(self, properties: TableProperties, *, for_adoption: bool, sync: bool) -> TableMeta:
        """Write the sections after the blocks; see :meth:`TableWriter.finish`."""
        self._write_pieces()
        filters = self._filters.getvalue()
        index = self._index.finish(filters, self.smallest, self.largest)
        self.index_bytes = len(index)
        written = msgspec.json.encode(properties)
        if for_adoption:
            before = self.data_bytes + len(self.dictionary) + len(filters) + len(index)
            written = with_room(written, before)
        tail = index + written
        footer = Footer(
            data_length=self.data_bytes,
            dictionary_length=len(self.dictionary),
            filters_length=len(filters),
            index_length=len(index),
            properties_length=len(written),
            dictionary_checksum=checksum(self.dictionary, 0),
            tail_checksum=checksum(tail, 0),
        )
        for part in (self.dictionary, filters, tail + footer.encode()):
            self._file.append(part)
        if sync:
            self._file.sync()
        size_bytes = self._file.offset
        self._file.close()
        return properties.meta(size_bytes, footer.tail_checksum)

    def abandon(self) -> None:
        self._file.close()
        self._storage.remove(self._path)

    def _write_pieces(self) -> None:
        self._file.append(b"".join(self._pieces))
        self._pieces = []
        self._pieces_bytes = 0
