"""The runs that a compaction merges: entries batch by batch, or blocks as they are stored.

A stretch of blocks is copied as it is stored where no other run has a key among theirs, and if a writer
would make them the same again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from lsmkv.encoding.entry_batch import EntryBatch, EntrySlice
from lsmkv.encoding.range_deletes import RangeDeletes
from lsmkv.sstable.block.block import Block
from lsmkv.sstable.format import TableFormat
from lsmkv.sstable.read_ahead import every_block
from lsmkv.sstable.reader import TableReader
from lsmkv.sstable.stored_blocks import StoredBlocks

# A table is read in batches of at least so many entries, or so many bytes if that comes first.
_BATCH_ENTRIES: Final = 128
_BATCH_BYTES: Final = 256 * 1024
# Blocks of a stretch that is copied, at the least: before it a block ends early, and half a page is free.
_LEAST_COPIED: Final = 16
# Monkey's rates change a little with each compaction; filters of about the rate wanted may stay.
_RATES_ALIKE: Final = 2.0


class RunInput:
    """A run's entries: a batch at hand, and the blocks that follow it.

    Blocks are read past the cache.  ``form`` is that of the tables to be written; None copies nothing.
    Without ``needs_seqs`` all sequence numbers become 0.  Entries that ``erased`` hides are left out.
    """

    def __init__(
        self,
        tables: list[TableReader],
        form: TableFormat | None,
        drop_deletions: bool,
        needs_seqs: bool,
        erased: RangeDeletes | None,
    ) -> None:
        self.batch: EntryBatch = EntryBatch.of([], [], [], may_repeat=False)
        self.position: i64 = 0  # entries are left from here on
        self._tables = tables
        self._form = form
        self._drop_deletions = drop_deletions
        self._needs_seqs = needs_seqs
        self._erased = erased
        self._is_touched = False  # whether ``erased`` may hide something of the table at hand
        self._stretches: list[tuple[int, int]] = []  # of its blocks to come, the next one last
        self._number = -1  # of the table at hand
        self._may_copy = False  # its blocks
        self._block: i64 = 0  # the next block
        self._end: i64 = 0
        self._stretch_end: i64 = 0  # of the blocks that are being copied
        self._decoded: Iterator[Block] | None = None  # from the next block on

    def has_more(self) -> bool:
        """Whether an entry or a block is left; moves on to the next table."""
        if self.position < self.batch.count:
            return True
        while self._block == self._end:
            if self._stretches:
                self._block, self._end = self._stretches.pop()
                self._decoded = None
                break
            if self._number + 1 == len(self._tables):
                return False
            self._number += 1
            table = self._tables[self._number]
            self._block, self._end = 0, table.index.block_count
            self._stretch_end = 0
            self._decoded = None
            form = self._form
            self._is_touched = self._touches(table)
            self._may_copy = (
                form is not None
                and not self._is_touched
                and may_be_copied(table, form, self._drop_deletions)
            )
        return True

    def _touches(self, table: TableReader) -> bool:
        """Whether ``erased`` may hide something of a table; skips the blocks that it hides."""
        erased, stop = self._erased, table.meta.above
        if erased is None or not erased.touches(table.smallest, stop, table.meta.least_seq):
            return False
        stretches: list[tuple[int, int]] = []
        for low, high in erased.gaps(table.smallest, stop, table.newest_seq):
            first, end = table.block_range(low, high)
            if stretches and first <= stretches[-1][1]:  # one key may be in blocks of both
                first = i64(stretches.pop()[0])
            stretches.append((int(first), int(end)))
        self._block = self._end  # the first stretch comes next
        self._stretches = stretches[::-1]
        return True

    # After has_more() was true:

    def first_key(self) -> bytes:
        """The next key, or one below it."""
        if self.position < self.batch.count:
            return self.batch.key(self.position)
        table = self._tables[self._number]
        return table.smallest if self._block == 0 else table.index.separator(self._block)

    def refill(self) -> None:
        """Load the next batch if this one is used up."""
        if self.position >= self.batch.count:
            self.batch = self._next_batch()
            self.position = 0
            if self._is_touched:
                self._leave_out_hidden()
            if not self._needs_seqs:
                self.batch.set_one_seq(0)

    def _leave_out_hidden(self) -> None:
        """Leave out what ``erased`` hides: after it the batch may be empty."""
        erased, batch = self._erased, self.batch
        assert erased is not None
        seqs, newest = batch.copy_seqs(), erased.newest_seq
        applied = self._tables[self._number].meta.erased_seq
        kept: list[int] = []
        for position in range(batch.count):
            slot = batch.order[position]
            key = batch.key(position)
            if erased.newest_over(key, newest) <= max(seqs[slot], applied):
                kept.append(slot)
        if len(kept) < batch.count:
            batch.keep(vec[i64](kept), may_repeat=batch.may_repeat)

    def take(self, end: i64) -> EntrySlice:
        part = EntrySlice(self.batch, self.position, end)
        self.position = end
        return part

    def copies(self) -> bool:
        """Whether the next entries are those of blocks that may be copied."""
        return self._may_copy and self.position >= self.batch.count

    def copied_below(self, limit: bytes | None) -> StoredBlocks | None:
        """The next blocks to copy: those with all keys below ``limit``; None: no other run is left.

        They come in pieces as long as other reads; ``limit`` stays the same for all of a stretch.
        """
        table, index = self._tables[self._number], self._tables[self._number].index
        if self._block >= self._stretch_end:
            end = self._end_below(limit)
            if end - self._block < _LEAST_COPIED:
                return None
            self._stretch_end = end
        first, end = self._block, self._block + 1
        most = index.offset(first) + table.file.read_ahead_bytes
        while end < self._stretch_end and index.offset(end + 1) <= most:
            end += 1
        self._block = end
        self._decoded = None
        return StoredBlocks(table, first, end)

    def _end_below(self, limit: bytes | None) -> i64:
        """The end of the blocks with all keys below ``limit``."""
        table = self._tables[self._number]
        if limit is None or limit > table.largest:
            return self._end
        return min(self._end, table.index.find(limit))

    def _next_batch(self) -> EntryBatch:
        """The entries of the next blocks, at least one."""
        table = self._tables[self._number]
        index, may_repeat = table.index, table.properties.has_versions
        blocks = self._decoded
        if blocks is None:
            blocks = self._decoded = every_block(table, self._block, self._end)
        held: list[Block] = []
        held_count: i64 = 0
        held_bytes: i64 = 0
        while True:
            block = next(blocks)
            held.append(block)
            held_count += block.count
            held_bytes += len(block.raw)
            self._block += 1
            if self._block == self._end:
                break
            if held_count < _BATCH_ENTRIES and held_bytes < _BATCH_BYTES:
                continue
            # The next block may begin with more entries of the key that this one ends with.
            if may_repeat and index.begins_at(self._block, block.key(block.count - 1)):
                continue
            break
        batch = _batch_of_blocks(held, may_repeat)
        if table.one_seq:
            batch.set_one_seq(table.largest_seq)
        return batch


def may_be_copied(table: TableReader, form: TableFormat, drop_deletions: bool) -> bool:
    """Whether a writer would make the blocks of ``table`` the same again.

    The size of blocks and the level of compression are recorded nowhere, and not compared.
    """
    properties = table.properties
    return (
        # Entries: all survive, with the sequence numbers that they have.
        properties.smallest_seq == properties.largest_seq
        and not properties.one_seq
        and not properties.has_versions
        and not properties.tombstone_count
        and properties.expiry is None
        and not (drop_deletions and properties.largest_seq)
        # Filters.
        and not form.plan
        and form.granularity == properties.granularity == "block"
        and not table.filter_policy.is_registered
        and table.filter_policy.name == form.policy
        and properties.filter_key == form.filter_key
        and 1 / _RATES_ALIKE <= properties.error_rate / form.error_rate <= _RATES_ALIKE
        # Compression.
        and not form.dictionary_size_bytes
        and not table.footer.dictionary_length
        and properties.compression == form.compression
    )


def _batch_of_blocks(blocks: list[Block], may_repeat: bool) -> EntryBatch:
    """Every entry of neighbouring blocks, at least one."""
    count: i64 = 0
    has_tags = False
    one_seq = blocks[0].one_seq()
    for block in blocks:
        count += block.count
        has_tags = has_tags or block.has_tags
        if block.one_seq() != one_seq:
            one_seq = -1
    key_ends, value_ends = vec[i64]([0] * (count + 1)), vec[i64]([0] * (count + 1))
    seqs: list[int] = []
    at: i64 = 0
    for block in blocks:
        block.put_ends(key_ends, value_ends, at)
        if one_seq < 0:
            seqs += block.seqs()
        at += block.count
    return EntryBatch(
        b"".join([block.key_data() for block in blocks]),
        key_ends,
        b"".join([block.value_data() for block in blocks]),
        value_ends,
        b"".join([block.tags() for block in blocks]) if has_tags else b"",
        seqs,
        may_repeat=may_repeat,
        one_seq=one_seq,
    )
