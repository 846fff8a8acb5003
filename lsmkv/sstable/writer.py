"""Writes one table file from entries in order: fills blocks, compresses them, and sizes them to pages.

With a dictionary, the first blocks wait until there are enough of them to train it.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from lsmkv.encoding.entries import TAG_DELETE, TAG_EXPIRING
from lsmkv.encoding.entry_batch import EntryBatch, EntrySlice, joined
from lsmkv.encoding.expiry import Held
from lsmkv.filters.hashing import DIGEST_BYTES
from lsmkv.filters.policy import NONE
from lsmkv.sstable.block.block import ENTRY_OVERHEAD_BYTES, Block
from lsmkv.sstable.block.builder import BlockBuilder
from lsmkv.sstable.block.codec import Compressor, train_dictionary
from lsmkv.sstable.filter_builder import FilterBuilder
from lsmkv.sstable.format import (
    CODEC_NONE,
    TableFormat,
    TableMeta,
    TableProperties,
    expiry_of,
)
from lsmkv.sstable.pages import PAGE_BYTES, PageFit
from lsmkv.sstable.reader import TableReader
from lsmkv.sstable.stored_blocks import StoredBlocks
from lsmkv.sstable.table_file import NewBlock, TableFile
from lsmkv.storage.storage import ReadKind, Storage

WRITER: Final = "lsmkv 0.1"
NO_LIMIT: Final = 1 << 62
_MAX_HELD_BLOCKS: Final = 16  # the last entries of a larger batch are copied, so that it can go
_SAMPLES_PER_DICTIONARY_BYTE: Final = 100  # how much zstd advises to train a dictionary on


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
        self._file = TableFile(storage, path, number)
        self._compressor: Compressor | None = None
        self._untrained: list[tuple[NewBlock, i64]] = []  # they wait for the dictionary's training
        self._untrained_bytes = 0
        # The block being filled.
        self._block: list[EntrySlice] = []
        self._block_repeats = False
        self._block_bytes: i64 = 0
        self._block_limit: i64 = form.block_size_bytes
        # The table so far.
        self._has_versions = False
        self._has_entries = False
        self._last_key = b""
        self._tombstone_count = 0
        self._expiries = vec[i64]()

    @property
    def size_bytes(self) -> int:
        """About how long the file would be if finished now."""
        file = self._file
        return file.data_bytes + file.filters_bytes + self._untrained_bytes + self._block_bytes

    @property
    def filter_bytes(self) -> int:
        return self._file.filters_bytes

    @property
    def index_bytes(self) -> int:
        return self._file.index_bytes

    def add(self, key: bytes, value: Held, seq: int) -> None:
        self.add_from(EntryBatch.of([key], [value], [seq], may_repeat=False), 0, NO_LIMIT)

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
            elif repeats:
                self._has_versions = True
                self._block_repeats = number > begun or bool(self._block)
            if has_tags:
                tag = tags[position]
                if tag == TAG_DELETE:
                    tombstones += 1
                elif tag == TAG_EXPIRING:
                    self._expiries = append(self._expiries, versions.expiry_s(position))
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
        sequence number, none twice, and no deletion or expiry.
        """
        table, index, end = blocks.table, blocks.table.index, blocks.end
        number = blocks.first + start
        self._finish_block()
        if self._has_entries and self._room(limit_bytes) <= 0:
            return start
        base = index.offset(number)
        data = table.read_frames(number, end, ReadKind.COMPACTION)
        at, frame = number, b""
        while number < end and (not self._has_entries or self._room(limit_bytes) > 0):
            offset, following = index.offset(number), index.offset(number + 1)
            frame = data[offset - base : following - base]
            first_key = _decoded(table, frame, number).key(0) if number == at else None
            block = blocks.new_block(frame, number, first_key)
            if self._fits_pages:
                self._put_in_page(block, following, table, frame, number)
            self._file.append(block)
            self._has_entries = True
            number += 1
        last = _decoded(table, frame, number - 1)
        self._last_key = self._file.largest = last.key(last.count - 1)
        if self._fits_pages:
            self._block_limit = self._pages.entry_bytes(self._file.data_bytes)
        return int(number - blocks.first)

    def _put_in_page(
        self, block: NewBlock, following: int, table: TableReader, frame: bytes, number: i64
    ) -> None:
        """Pad a copied block: the next, at ``following``, keeps its place; only the first needs it."""
        if (following - self._file.data_bytes - block.length) % PAGE_BYTES:
            self._drop_padding(block, table, frame, number)
            padding = (following - self._file.data_bytes - block.length) % PAGE_BYTES
            block.stored += bytes(padding)

    def _drop_padding(self, block: NewBlock, table: TableReader, frame: bytes, number: i64) -> None:
        """Drop the stored payload's padding, which would grow with each copy."""
        if block.codec == CODEC_NONE:
            block.stored = block.stored[: block.raw_length]
            return
        codec, again = self._compressed(_decoded(table, frame, number).raw)
        if codec == block.codec:
            block.stored = again

    def _room(self, limit_bytes: i64) -> i64:
        """How large the block being filled may get before the table ends."""
        file = self._file
        if file.is_full or self._filter_builder.is_full:
            return 0
        return limit_bytes - (file.data_bytes + self._untrained_bytes + file.filters_bytes)

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
        file, builder, form = self._file, self._filter_builder, self._form
        filter_key_count = probe_count = 0
        if form.granularity == "table":
            bits, filter_key_count, probe_count = builder.of_table()
            file.add_filter(bits)
        policy = builder.policy
        properties = TableProperties(
            number=file.number,
            smallest=file.smallest,
            largest=file.largest,
            smallest_seq=file.smallest_seq,
            largest_seq=file.largest_seq,
            entry_count=file.entry_count,
            tombstone_count=self._tombstone_count,
            expiry=expiry_of(list(self._expiries), file.entry_count),
            has_versions=self._has_versions,
            block_count=file.block_count,
            raw_bytes=file.raw_bytes,
            blocks_checksum=file.blocks_checksum,
            compression=form.compression,
            filter_bytes=file.filters_bytes,
            filter_key=form.filter_key,
            granularity=form.granularity,
            error_rate=form.error_rate,
            filter_key_count=filter_key_count,
            probe_count=probe_count,
            filter_scheme=policy.scheme,
            filter_policy=policy.name if policy.is_registered else "",
            writer=WRITER,
            replaces=replaces,
            beside=beside or [],
            erased_seq=form.erased_seq,
        )
        return file.finish(properties, for_adoption=for_adoption, sync=sync)

    def abandon(self) -> None:
        self._file.abandon()

    # Blocks

    def _finish_block(self) -> None:
        if not self._block:
            return
        made = BlockBuilder(self._block)
        builder = self._filter_builder
        bits, filter_key_count, probe_count = builder.of_block(
            self._block, made.digests, self._block_repeats
        )
        fingerprints = made.digests[::DIGEST_BYTES]
        payload = made.finish(fingerprints, has_versions=self._block_repeats)
        block = NewBlock(
            made.first,
            made.last,
            payload,
            CODEC_NONE,
            len(payload),
            made.count,
            bits,
            builder.scheme if bits else NONE.scheme,
            filter_key_count,
            probe_count,
            made.smallest_seq,
            made.largest_seq,
        )
        entry_bytes = self._block_bytes
        self._block = []
        self._block_repeats = False
        self._block_bytes = 0
        if self._trains and self._compressor is None:
            self._untrained.append((block, entry_bytes))
            self._untrained_bytes += len(payload)
            wanted = self._form.dictionary_size_bytes * _SAMPLES_PER_DICTIONARY_BYTE
            if self._untrained_bytes >= wanted:
                self._train()
        else:
            self._write_block(block, entry_bytes)

    def _train(self) -> None:
        """Train the dictionary on the waiting blocks, and write them."""
        waiting, self._untrained, self._untrained_bytes = self._untrained, [], 0
        if waiting and self._is_compressed:
            self._file.dictionary = train_dictionary(
                [block.stored for block, _ in waiting], self._form.dictionary_size_bytes
            )
        if self._compressor is None:
            self._compressor = Compressor(self._form.compression_level, self._file.dictionary)
        for block, entry_bytes in waiting:
            self._write_block(block, entry_bytes)

    def _write_block(self, block: NewBlock, entry_bytes: i64) -> None:
        """Compress and pad a block of ``entry_bytes``, and append it."""
        file, pages = self._file, self._pages
        if not (self._fits_pages and pages.is_not_worth_compressing(entry_bytes)):
            block.codec, block.stored = self._compressed(block.stored)
        if self._fits_pages:
            length = block.length
            padding = pages.padding(entry_bytes, block.entry_count, file.data_bytes, length)
            if padding > 0:
                block.stored += bytes(padding)
                length += padding
            self._block_limit = pages.entry_bytes(file.data_bytes + length)
        file.append(block)

    def _compressed(self, payload: bytes) -> tuple[int, bytes]:
        if not self._is_compressed:
            return CODEC_NONE, payload
        if self._compressor is None:
            self._compressor = Compressor(self._form.compression_level, b"")
        return self._compressor.compress_block(payload)


def _decoded(table: TableReader, frame: bytes, number: i64) -> Block:
    """A block of another table, which is stored as ``frame``."""
    return table.decode(frame, 0, len(frame), table.index.offset(number), number)
