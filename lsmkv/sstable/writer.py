"""Writes one table file from entries in order.

With a dictionary, the first blocks wait until there are enough of them to train it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec
from librt.strings import BytesWriter
from mypy_extensions import i64

from lsmkv.encoding.checksums import checksum
from lsmkv.encoding.entries import MAX_SEQUENCE, TAG_DELETE, Value
from lsmkv.encoding.entry_batch import EntryBatch, EntrySlice, joined
from lsmkv.filters.hashing import DIGEST_BYTES
from lsmkv.filters.policy import NONE
from lsmkv.sstable.block.block import ENTRY_OVERHEAD_BYTES
from lsmkv.sstable.block.builder import BlockBuilder
from lsmkv.sstable.block.codec import Compressor, train_dictionary
from lsmkv.sstable.block.trailer import TRAILER_BYTES, BlockTrailer, encode_trailer
from lsmkv.sstable.filter_builder import FilterBuilder
from lsmkv.sstable.format import CODEC_NONE, Footer, TableMeta, TableProperties
from lsmkv.sstable.index import IndexBuilder
from lsmkv.sstable.index_codec import pack_index
from lsmkv.sstable.pages import PAGE_BYTES, PageFit
from lsmkv.sstable.reader import TableReader
from lsmkv.sstable.stored_blocks import StoredBlocks
from lsmkv.sstable.table_end import with_room
from lsmkv.storage.storage import ReadKind, Storage

WRITER: Final = "lsmkv 0.1"
NO_LIMIT: Final = 1 << 62
_WRITE_BYTES: Final = 256 * 1024  # blocks are appended to the file in pieces of about this size
_MAX_HELD_BLOCKS: Final = 16  # the last entries of a larger batch are copied, so that it can go
_SAMPLES_PER_DICTIONARY_BYTE: Final = 100  # how much zstd advises to train a dictionary on
_MAX_SECTION_BYTES: Final = 1 << 30  # keys and filters of the index are addressed with 32 bits


@dataclass(frozen=True, slots=True)
class TableFormat:
    """The options that shape a table, with its filters' error rate.

    ``filter_key`` is a :class:`~lsmkv.filters.keys.FilterKey` in its text form.  A ``plan``, a packed
    :class:`~lsmkv.sstable.filter_plan.FilterPlan`, takes the place of ``error_rate``.
    """

    block_size_bytes: int
    fit_pages: bool
    compression: str
    compression_level: int
    dictionary_size_bytes: int
    filter_key: str
    granularity: str
    policy: str
    error_rate: float
    plan: bytes = b""


class _FinishedBlock:
    """A block without its offset; no dataclass, whose ``__init__`` is never compiled."""

    def __init__(
        self,
        payload: bytes,
        first: bytes,
        last: bytes,
        entry_count: int,
        filter_bits: bytes,
        filter_key_count: int,
        probe_count: int,
        entry_bytes: int,
    ) -> None:
        self.payload = payload
        self.entry_bytes = entry_bytes
        self.first = first
        self.last = last
        self.entry_count = entry_count
        self.filter_bits = filter_bits
        self.filter_key_count = filter_key_count
        self.probe_count = probe_count


class TableWriter:
    """Writes one table: ``add`` or ``add_from``, then ``finish`` or ``abandon``.

    Entries come in key order, the versions of one key newest first.  ``finish`` syncs the file; the
    caller syncs the directory.
    """

    def __init__(
        self,
        storage: Storage,
        path: str,
        number: int,
        form: TableFormat,
    ) -> None:
        self._storage = storage
        self._path = path
        self._number = number
        self._form = form
        self._filter_builder = FilterBuilder(
            form.policy, form.filter_key, form.granularity, form.error_rate, storage.stats
        )
        # Copies: attributes of TableFormat are slow to read here.
        self._is_compressed = form.compression == "zstd"
        self._trains = form.dictionary_size_bytes > 0
        self._block_size: i64 = form.block_size_bytes
        self._pages = PageFit(form.block_size_bytes)
        self._fits_pages = form.fit_pages
        self._file = storage.create(path)
        self._index = IndexBuilder()
        self._compressor: Compressor | None = None
        self._dictionary = b""
        self._untrained: list[_FinishedBlock] = []  # blocks that wait for the dictionary's training
        self._untrained_bytes = 0
        self._pieces: list[bytes] = []  # parts of blocks not yet appended to the file
        self._pieces_bytes = 0
        self._filters = BytesWriter()
        self.filter_bytes = 0
        # The block being filled.
        self._block: list[EntrySlice] = []
        self._block_repeats = False
        self._block_bytes = 0
        self._block_limit: i64 = form.block_size_bytes
        # The table so far.
        self._table_has_versions = False
        self._smallest = b""
        self._last_key = b""
        self._smallest_seq = MAX_SEQUENCE
        self._largest_seq = 0
        self._has_entries = False
        self._entry_count = 0  # in finished blocks
        self._tombstone_count = 0
        self._raw_bytes = 0
        self._data_bytes = 0

    @property
    def entry_count(self) -> int:
        return self._entry_count

    @property
    def size_bytes(self) -> int:
        """About how long the file would be if finished now."""
        return self._data_bytes + self._untrained_bytes + self._block_bytes + self.filter_bytes

    @property
    def is_full(self) -> bool:
        """Whether index or filter cannot hold much more."""
        return (
            max(self._index.key_bytes, self.filter_bytes) > _MAX_SECTION_BYTES
            or self._filter_builder.is_full
        )

    def add(self, key: bytes, value: Value, seq: int) -> None:
        self.add_from(EntryBatch([key], [value], [seq], may_repeat=False), 0, NO_LIMIT)

    def add_from(self, versions: EntryBatch, start: i64, limit_bytes: i64) -> int:
        """Add ``versions`` from ``start``; returns the first entry not added.

        That is their count, or the first new key at which the table has ``limit_bytes`` or is full.  A
        table without entries takes at least one key.
        """
        count: i64 = versions.count
        order, tags, may_repeat = versions.order, versions.tags, versions.may_repeat
        key_ends, value_ends = versions.key_ends, versions.value_ends
        has_tags = bool(tags)
        block_size = self._block_size
        block_limit: i64 = self._block_limit
        fits_pages = self._fits_pages
        block_bytes: i64 = self._block_bytes
        tombstones: i64 = 0
        room = self._room(limit_bytes)
        has_entries = self._has_entries
        repeats = has_entries and start < count and versions.key(start) == self._last_key
        begun = number = start  # begun: the first entry that the block being filled takes from here
        while number < count:
            if block_bytes >= room and not repeats and has_entries:
                break
            position = order[number]
            size = (
                (key_ends[position + 1] - key_ends[position])
                + (value_ends[position + 1] - value_ends[position])
                + ENTRY_OVERHEAD_BYTES
            )
            ends = block_bytes + size > block_limit if fits_pages else block_bytes >= block_limit
            if ends and block_bytes > 0:
                self._fill(versions, begun, number)
                self._block_bytes = block_bytes
                self._finish_block()
                begun = number
                block_bytes = 0
                block_limit = self._block_limit
                room = self._room(limit_bytes)
            if not has_entries:
                has_entries = self._has_entries = True
                self._smallest = versions.key(number)
            elif repeats:
                self._table_has_versions = True
                self._block_repeats = number > begun or bool(self._block)
            if has_tags and tags[position] == TAG_DELETE:
                tombstones += 1
            block_bytes += size
            number += 1
            # If keys do not repeat in the batch, only its first can repeat the one added before.
            repeats = may_repeat and number < count and not versions.is_new_key(number)
        if number > start:
            self._last_key = versions.key(number - 1)
            self._tombstone_count += tombstones
            self._fill(versions, begun, number)
            self._block_bytes = block_bytes
            if begun < number and versions.size_bytes > _MAX_HELD_BLOCKS * block_size:
                self._block.append(EntrySlice(joined([self._block.pop()]), 0, number - begun))
        return number

    def copy(self, blocks: StoredBlocks, start: i64, limit_bytes: i64) -> int:
        """Add stored blocks from the one at ``start`` among them; returns the first not added.

        That is their count, or the first at which the table has ``limit_bytes`` or is full.  A table
        without entries takes at least one.  They must have this table's format, their entries one
        sequence number, none twice, and no deletion.
        """
        table, index = blocks.table, blocks.table.index
        number, end = blocks.first + start, blocks.end
        self._finish_block()
        if self._has_entries and self._room(limit_bytes) <= 0:
            return start
        base = index.offset(number)
        data = table.read_frames(number, end, ReadKind.COMPACTION)
        while number < end and (not self._has_entries or self._room(limit_bytes) > 0):
            offset, following = index.offset(number), index.offset(number + 1)
            frame = data[offset - base : following - base]
            stored, bits, trailer = table.checked_frame(frame, number)
            length = len(frame)
            if self._fits_pages and (following - self._data_bytes - length) % PAGE_BYTES:
                # Only the first one: after it the next block stands in its page as it did.
                length -= len(stored)
                stored = self._without_padding(stored, trailer, table, frame, number)
                length += len(stored)
                padding = (following - self._data_bytes - length) % PAGE_BYTES
                stored += bytes(padding)
                length += padding
            tail = encode_trailer(
                stored,
                bits,
                raw_length=trailer.raw_length,
                entry_count=trailer.entry_count,
                filter_key_count=trailer.filter_key_count,
                codec=trailer.codec,
                filter_scheme=trailer.filter_scheme,
                probe_count=trailer.probe_count,
                number=self._number,
                offset=self._data_bytes,
            )
            first, last = index.first_key(number), index.last_key(number)
            entries, probes = trailer.entry_count, trailer.probe_count
            self._index.add(first, last, length, len(bits), entries, probes)
            self._append(stored, bits, tail, length)
            if not self._has_entries:
                self._has_entries = True
                self._smallest = first
            self._last_key = last
            self._entry_count += entries
            self._raw_bytes += trailer.raw_length
            number += 1
        self._smallest_seq = min(self._smallest_seq, table.largest_seq)
        self._largest_seq = max(self._largest_seq, table.largest_seq)
        if self._fits_pages:
            self._block_limit = self._pages.entry_bytes(self._data_bytes)
        return int(number - blocks.first)

    def _without_padding(
        self, stored: bytes, trailer: BlockTrailer, table: TableReader, frame: bytes, number: i64
    ) -> bytes:
        """A stored payload without padding, which would grow with each copy."""
        if trailer.codec == CODEC_NONE:
            return stored[: trailer.raw_length]
        offset = table.index.offset(number)
        block = table.decode(frame, 0, len(frame), offset, number)
        codec, again = self._compressed(block.raw)
        return again if codec == trailer.codec else stored

    def _room(self, limit_bytes: i64) -> i64:
        """How large the block being filled may get before the table ends."""
        if self.is_full:
            return 0
        return limit_bytes - (self._data_bytes + self._untrained_bytes + self.filter_bytes)

    def _fill(self, versions: EntryBatch, start: i64, stop: i64) -> None:
        if start < stop:
            self._block.append(EntrySlice(versions, start, stop))

    def finish(
        self,
        replaces: list[int] | None = None,
        beside: list[int] | None = None,
        *,
        for_adoption: bool = False,
        sync: bool = True,
    ) -> TableMeta:
        """Write the last block and the sections after the blocks; sync, unless told not to.

        ``replaces`` and ``beside`` are as in :class:`~lsmkv.sstable.format.TableProperties`.  With
        ``for_adoption`` the file's end has room for the properties of an adopted table
        (:mod:`lsmkv.sstable.table_end`).  ValueError if nothing was added.
        """
        if not self._has_entries:
            raise ValueError("a table needs at least one entry")
        self._finish_block()
        self._train()
        self._write_pieces()
        filters = self._filters.getvalue()
        filter_key_count = probe_count = 0
        if self._form.granularity == "table":
            filters, filter_key_count, probe_count = self._filter_builder.of_table()
        self.filter_bytes = len(filters)
        properties = self._properties(
            len(filters), filter_key_count, probe_count, replaces, beside or []
        )
        index = self._index.finish(filters)
        if self._is_compressed:
            index = pack_index(index, self._form.compression_level)
        written = msgspec.json.encode(properties)
        if for_adoption:
            before = self._data_bytes + len(self._dictionary) + len(filters) + len(index)
            written = with_room(written, before)
        tail = index + written
        footer = Footer(
            data_length=self._data_bytes,
            dictionary_length=len(self._dictionary),
            filters_length=len(filters),
            index_length=len(index),
            properties_length=len(tail) - len(index),
            dictionary_checksum=checksum(self._dictionary, 0),
            tail_checksum=checksum(tail, 0),
        )
        for part in (self._dictionary, filters, tail + footer.encode()):
            self._file.append(part)
        if sync:
            self._file.sync()
        size_bytes = self._file.offset
        self._file.close()
        return properties.meta(size_bytes, footer.tail_checksum)

    def _properties(
        self,
        filter_bytes: int,
        filter_key_count: int,
        probe_count: int,
        replaces: list[int] | None,
        beside: list[int],
    ) -> TableProperties:
        policy = self._filter_builder.policy
        return TableProperties(
            number=self._number,
            smallest=self._smallest,
            largest=self._last_key,
            smallest_seq=self._smallest_seq,
            largest_seq=self._largest_seq,
            entry_count=self._entry_count,
            tombstone_count=self._tombstone_count,
            has_versions=self._table_has_versions,
            block_count=self._index.block_count,
            raw_bytes=self._raw_bytes,
            filter_bytes=filter_bytes,
            filter_key=self._form.filter_key,
            granularity=self._form.granularity,
            error_rate=self._form.error_rate,
            filter_key_count=filter_key_count,
            probe_count=probe_count,
            filter_scheme=policy.scheme,
            filter_policy=policy.name if policy.is_registered else "",
            writer=WRITER,
            replaces=replaces,
            beside=beside,
        )

    def abandon(self) -> None:
        self._file.close()
        self._storage.remove(self._path)

    # Blocks

    def _finish_block(self) -> None:
        if not self._block:
            return
        made = BlockBuilder(self._block)
        has_one_key = made.first == made.last
        builder = self._filter_builder
        filter_bits, filter_key_count, probe_count = builder.of_block(
            self._block, made.digests, has_one_key, self._block_repeats
        )
        fingerprints = made.digests[::DIGEST_BYTES]
        payload = made.finish(fingerprints, has_versions=self._block_repeats)
        self._smallest_seq = min(self._smallest_seq, made.smallest_seq)
        self._largest_seq = max(self._largest_seq, made.largest_seq)
        self._entry_count += made.count
        self._raw_bytes += len(payload)
        block = _FinishedBlock(
            payload,
            made.first,
            made.last,
            made.count,
            filter_bits,
            filter_key_count,
            probe_count,
            self._block_bytes,
        )
        self._block = []
        self._block_repeats = False
        self._block_bytes = 0
        if self._trains and self._compressor is None:
            self._untrained.append(block)
            self._untrained_bytes += len(payload)
            wanted = self._form.dictionary_size_bytes * _SAMPLES_PER_DICTIONARY_BYTE
            if self._untrained_bytes >= wanted:
                self._train()
        else:
            self._write_block(block)

    def _train(self) -> None:
        """Train the dictionary on the waiting blocks, and write them."""
        waiting, self._untrained, self._untrained_bytes = self._untrained, [], 0
        if waiting and self._form.compression == "zstd":
            self._dictionary = train_dictionary(
                [block.payload for block in waiting], self._form.dictionary_size_bytes
            )
        if self._compressor is None:
            self._compressor = Compressor(self._form.compression_level, self._dictionary)
        for block in waiting:
            self._write_block(block)

    def _write_block(self, block: _FinishedBlock) -> None:
        bits = block.filter_bits
        codec, stored = CODEC_NONE, block.payload
        if not (self._fits_pages and self._pages.is_not_worth_compressing(block.entry_bytes)):
            codec, stored = self._compressed(block.payload)
        length = len(stored) + len(bits) + TRAILER_BYTES
        if self._fits_pages:
            padding = self._pages.padding(
                block.entry_bytes, block.entry_count, self._data_bytes, length
            )
            if padding > 0:
                stored += bytes(padding)
                length += padding
            self._block_limit = self._pages.entry_bytes(self._data_bytes + length)
        tail = encode_trailer(
            stored,
            bits,
            raw_length=len(block.payload),
            entry_count=block.entry_count,
            filter_key_count=block.filter_key_count,
            codec=codec,
            filter_scheme=self._filter_builder.scheme if bits else NONE.scheme,
            probe_count=block.probe_count,
            number=self._number,
            offset=self._data_bytes,
        )
        entries, probes = block.entry_count, block.probe_count
        self._index.add(block.first, block.last, length, len(bits), entries, probes)
        self._append(stored, bits, tail, length)

    def _compressed(self, payload: bytes) -> tuple[int, bytes]:
        """Codec and stored form of a payload."""
        if not self._is_compressed:
            return CODEC_NONE, payload
        if self._compressor is None:
            self._compressor = Compressor(self._form.compression_level, b"")
        return self._compressor.compress_block(payload)

    def _append(self, stored: bytes, bits: bytes, tail: bytes, length: int) -> None:
        """Append a block's three parts, of ``length`` bytes together."""
        self._filters.write(bits)
        self.filter_bytes += len(bits)
        self._data_bytes += length
        self._pieces += (stored, bits, tail)
        self._pieces_bytes += length
        if self._pieces_bytes >= _WRITE_BYTES:
            self._write_pieces()

    def _write_pieces(self) -> None:
        self._file.append(b"".join(self._pieces))
        self._pieces = []
        self._pieces_bytes = 0
