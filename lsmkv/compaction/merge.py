"""The merge of a flush or compaction, and which entries survive it.

Of the entries of a key survive:

- The newest one, unless it is a deletion that may go.
- An older one, only if a live snapshot sees it: the snapshot's sequence number is not below the
  entry's, but below that of the next newer entry.

A deletion may go when nothing older than the inputs can hold its key (``drop_deletions``), and every
live snapshot sees it.  The entries that it hides are gone already, or go with it.  Under the same two
conditions a compaction sets a surviving entry's sequence number to 0, since every reader sees the entry.
A flush keeps the numbers.

Inputs are merged batch by batch.  Each has a batch at hand; all entries up to the lowest of the batches'
last keys can be merged for good.  They are joined, newest input first; their slots are put in key
order; entries that do not survive lose their slots.  Keys and values are moved only when blocks are
built.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from lsmkv.encoding.entries import MAX_SEQUENCE, TAG_DELETE
from lsmkv.encoding.entry_batch import EntryBatch, EntrySlice, ascending, joined
from lsmkv.encoding.fences import fence
from lsmkv.encoding.words import COMPILED, common_prefix_length, compare
from lsmkv.sstable.block.block import Block
from lsmkv.sstable.read_ahead import blocks_between, every_block
from lsmkv.sstable.reader import TableReader

# A table is read in batches of at least so many entries, or so many bytes if that comes first.
_BATCH_ENTRIES: Final = 128
_BATCH_BYTES: Final = 256 * 1024


def merge_tables(
    runs: list[list[TableReader]],
    snapshots: list[int],
    drop_deletions: bool,
    after: bytes | None = None,
    through: bytes | None = None,
) -> Iterator[EntryBatch]:
    """The surviving entries of ``runs``, which are given newest first.

    Only those with after < key <= through; None sets no bound.  The rest as :func:`merged_batches`.
    """
    inputs = [_run_batches(run, after, through) for run in runs]
    return merged_batches(inputs, snapshots, drop_deletions)


def merged_batches(
    inputs: list[Iterator[EntryBatch]], snapshots: list[int], drop_deletions: bool
) -> Iterator[EntryBatch]:
    """The surviving entries of ``inputs``, which are given newest first.

    The batches of an input ascend, and all entries of a key are in one batch.  The same holds for the
    batches that come out, none of which is empty.  O(total log len(inputs)) comparisons.

    ``snapshots`` are the sequence numbers of the live snapshots, ascending; ``drop_deletions`` says that
    nothing older than the inputs overlaps them.
    """
    # Without snapshots the input's age alone decides, and all numbers become 0.
    needs_seqs = bool(snapshots) or not drop_deletions
    all_inputs = [_Input(batches, needs_seqs) for batches in inputs]
    active = [source for source in all_inputs if source.refill()]
    while active:
        if len(active) == 1:
            parts = [active[0].take(active[0].batch.count)]
        else:
            bound = min([source.batch.key(source.batch.count - 1) for source in active])
            parts = []
            for source in active:
                end = source.batch.first_above(bound, source.position)
                if end > source.position:
                    parts.append(source.take(end))
        kept = _surviving(parts, snapshots, drop_deletions, False)
        if kept.count:
            yield kept
        active = [source for source in active if source.refill()]


def flushed_batches(
    batches: Iterator[EntryBatch], snapshots: list[int], drop_deletions: bool
) -> Iterator[EntryBatch]:
    """The surviving entries of a flush, with their sequence numbers; as :func:`merged_batches`."""
    for batch in batches:
        whole = EntrySlice(batch, 0, batch.count)
        kept = _surviving([whole], snapshots, drop_deletions, True)
        if kept.count:
            yield kept


class _Input:
    """One sorted input of a merge: a batch at hand, from ``position`` on, and the rest."""

    __slots__ = ("_needs_seqs", "_rest", "batch", "position")

    def __init__(self, rest: Iterator[EntryBatch], needs_seqs: bool) -> None:
        self._rest = rest
        self._needs_seqs = needs_seqs
        self.batch: EntryBatch = EntryBatch([], [], [], may_repeat=False)
        self.position: i64 = 0

    def refill(self) -> bool:
        """Load the next batch if this one is used up; False at the end."""
        while self.position >= self.batch.count:
            following = next(self._rest, None)
            if following is None:
                return False
            if not self._needs_seqs:
                following.set_one_seq(0)
            self.batch = following
            self.position = 0
        return True

    def take(self, end: i64) -> EntrySlice:
        part = EntrySlice(self.batch, self.position, end)
        self.position = end
        return part


def _run_batches(
    run: list[TableReader], after: bytes | None, through: bytes | None
) -> Iterator[EntryBatch]:
    """The entries of a run with after < key <= through.

    They are read past the cache.
    """
    for table in run:
        index = table.index
        may_repeat = table.properties.has_versions
        block_number, end = blocks_between(table, after, through)
        held: list[Block] = []
        held_count: i64 = 0
        held_bytes: i64 = 0
        for block in every_block(table, block_number, end):
            held.append(block)
            held_count += block.count
            held_bytes += len(block.raw)
            block_number += 1
            if block_number < end:
                if held_count < _BATCH_ENTRIES and held_bytes < _BATCH_BYTES:
                    continue
                # The next block may begin with more entries of the key that this one ends with.
                if may_repeat and index.first_key(block_number) == index.last_key(block_number - 1):
                    continue
            batch = _batch_of_blocks(held, may_repeat)
            if table.one_seq:
                batch.set_one_seq(table.largest_seq)
            held = []
            held_count = held_bytes = 0
            _trim(batch, after, through)
            yield batch


def _trim(batch: EntryBatch, after: bytes | None, through: bytes | None) -> None:
    """Leave only entries with after < key <= through, perhaps none."""
    start: i64 = 0 if after is None else batch.first_above(after, 0)
    end: i64 = batch.count if through is None else batch.first_above(through, start)
    if end - start < batch.count:
        batch.order = batch.order[start:end]


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
    batch = EntryBatch([], [], seqs, may_repeat=may_repeat, one_seq=one_seq)
    batch.key_data = b"".join([block.key_data() for block in blocks])
    batch.key_ends = key_ends
    batch.value_data = b"".join([block.value_data() for block in blocks])
    batch.value_ends = value_ends
    if has_tags:
        batch.tags = b"".join([block.tags() for block in blocks])
    batch.order = ascending(count)
    return batch


def _surviving(
    parts: list[EntrySlice], snapshots: list[int], drop_deletions: bool, keep_seqs: bool
) -> EntryBatch:
    """The surviving entries of parts of one key range, newest first."""
    keep_older = bool(snapshots)
    batch = parts[0].as_batch() if len(parts) == 1 else _merged(parts, keep_older)
    if batch.may_repeat or (drop_deletions and (keep_older or batch.tags)):
        _drop_hidden(batch, snapshots, drop_deletions, keep_seqs)
    return batch


def _drop_hidden(
    batch: EntryBatch, snapshots: list[int], drop_deletions: bool, keep_seqs: bool
) -> None:
    """Drop the entries that do not survive, as the module says."""
    tags, may_repeat = batch.tags, batch.may_repeat
    seqs = batch.copy_seqs()
    oldest_snapshot = snapshots[0] if snapshots else MAX_SEQUENCE
    kept: list[int] = []
    batch.may_repeat = False
    newer_seq = -1  # of the entry before, which hides older ones from snapshots >= this number
    position: i64 = 0
    for slot in batch.order:
        seq = seqs[slot]
        if newer_seq >= 0 and may_repeat and not batch.is_new_key(position):
            if not snapshots or not _is_seen(snapshots, seq, newer_seq):
                position += 1
                continue
            batch.may_repeat = True
        position += 1
        newer_seq = seq
        if drop_deletions and seq <= oldest_snapshot:
            if tags and tags[slot] == TAG_DELETE:
                continue
            if not keep_seqs:
                seqs[slot] = 0
        kept.append(slot)
    batch.order = vec[i64](kept)
    if keep_seqs:
        return
    if drop_deletions and snapshots:
        batch.seqs = seqs
        batch.one_seq = -1
    elif drop_deletions:
        batch.set_one_seq(0)


def _is_seen(snapshots: list[int], seq: int, newer_seq: int) -> bool:
    """Whether a snapshot s sees entry ``seq``: seq <= s < newer_seq."""
    at = bisect_left(snapshots, seq)
    return at < len(snapshots) and snapshots[at] < newer_seq


# Putting the entries of several parts in order


def _merged(parts: list[EntrySlice], keep_older: bool) -> EntryBatch:
    """One batch of all parts; of a key in several the newest entry, or all if ``keep_older``."""
    batch = joined(parts)
    keep_repeats = keep_older or batch.may_repeat
    batch.may_repeat = keep_repeats
    if not COMPILED:
        _sort(batch, keep_repeats)
        return batch
    outermost = [part.batch.key(at) for part in parts for at in (part.start, part.end - 1)]
    fences = _fences(batch, common_prefix_length(outermost))
    spans: list[tuple[int, int]] = []
    end: i64 = 0
    for part in parts:
        start = end
        end += part.end - part.start
        spans.append((start, end))
    batch.order = _merged_order(batch, fences, spans, keep_repeats)
    return batch


def _sort(batch: EntryBatch, keep_repeats: bool) -> None:
    """Put the entries in key order; of equal keys the first stays first, or alone."""
    keys = EntrySlice(batch, 0, batch.count).key_objects()
    order = sorted(range(len(keys)), key=keys.__getitem__)
    if not keep_repeats:
        order = [next(same) for _, same in groupby(order, keys.__getitem__)]
    batch.order = vec[i64](order)


def _fences(batch: EntryBatch, prefix_length: i64) -> vec[i64]:
    """The fence of each slot's key after its first ``prefix_length`` bytes."""
    data, ends, count = batch.key_data, batch.key_ends, i64(batch.count)
    fences = vec[i64]([0] * count)
    slot: i64 = 0
    end = ends[0]
    while slot < count:
        start = end + prefix_length
        end = ends[slot + 1]
        fences[slot] = fence(data, start, end)
        slot += 1
    return fences


def _merged_order(
    batch: EntryBatch, fences: vec[i64], spans: list[tuple[int, int]], keep_repeats: bool
) -> vec[i64]:
    """The slots in key order; of equal keys the first stays first, or alone.

    ``spans``: where each part, in order by itself, starts and ends.
    """
    order = batch.order
    spare = ascending(len(order))
    # Neighbours are merged two by two, so that each slot is moved log2(len(spans)) times.
    while len(spans) > 1:
        merged: list[tuple[int, int]] = []
        for number in range(0, len(spans), 2):
            start, end = spans[number]
            if number + 1 < len(spans):
                right, right_end = spans[number + 1]
                end = _merge_two(
                    batch, fences, order, spare, start, end, right, right_end, keep_repeats
                )
            else:
                _copy(order, start, end, spare, start)
            merged.append((start, end))
        spans = merged
        order, spare = spare, order
    count: i64 = spans[0][1]
    return order if count == len(order) else order[:count]


def _merge_two(
    batch: EntryBatch,
    fences: vec[i64],
    source: vec[i64],
    target: vec[i64],
    left: i64,
    left_end: i64,
    right: i64,
    right_end: i64,
    keep_repeats: bool,
) -> i64:
    """Merge ``source[left:left_end]``, which is newer, and ``[right:right_end]`` into ``target``.

    The result starts at ``left``; returns where it ends.  Without ``keep_repeats`` neither half has a
    key twice, and of a key in both only the newer entry is kept.
    """
    data, ends = batch.key_data, batch.key_ends
    at = left
    while left < left_end and right < right_end:
        a, b = source[left], source[right]
        x, y = fences[a], fences[b]
        if x == y:
            order = compare(data, ends[a], ends[a + 1], data, ends[b], ends[b + 1])
            if order == 0 and not keep_repeats:
                right += 1
                continue
        else:
            order = -1 if x < y else 1
        if order <= 0:
            target[at] = a
            left += 1
        else:
            target[at] = b
            right += 1
        at += 1
    at = _copy(source, left, left_end, target, at)
    return _copy(source, right, right_end, target, at)


def _copy(source: vec[i64], start: i64, end: i64, target: vec[i64], at: i64) -> i64:
    """Copy ``source[start:end]`` to ``target[at:]``; returns where it ends there."""
    while start < end:
        target[at] = source[start]
        start += 1
        at += 1
    return at
