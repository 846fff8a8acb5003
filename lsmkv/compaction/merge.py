"""The merge of a flush or compaction, and which entries survive it.

Of the entries of a key survive:

- The newest one, unless it is a deletion that may go.  One that is due for every reader counts as a
  deletion, and becomes one.
- An older one, only if a live snapshot sees it: the snapshot's sequence number is not below the
  entry's, but below that of the next newer entry.

A deletion may go when nothing older than the inputs can hold its key (``drop_deletions``), and every
live snapshot sees it.  The entries that it hides are gone already, or go with it.  Under the same two
conditions a compaction sets a surviving entry's sequence number to 0, since every reader sees the entry.
A flush keeps the numbers.

Inputs are merged batch by batch.  Each has a batch at hand; all entries up to the lowest of the batches'
last keys can be merged for good.  They are joined, newest input first; their slots are put in key
order; entries that do not survive lose their slots.  Keys and values are moved only when blocks are
built.  Blocks that nothing overlaps may be copied as they are (:mod:`lsmkv.compaction.runs`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import groupby

from librt.vecs import vec
from mypy_extensions import i64

from lsmkv.compaction.runs import RunInput
from lsmkv.encoding.entries import MAX_SEQUENCE, TAG_DELETE, TAG_EXPIRING
from lsmkv.encoding.entry_batch import EntryBatch, EntrySlice, ascending, joined
from lsmkv.encoding.fences import fence
from lsmkv.encoding.range_deletes import RangeDeletes
from lsmkv.encoding.words import COMPILED, common_prefix_length, compare
from lsmkv.sstable.format import TableFormat
from lsmkv.sstable.reader import TableReader
from lsmkv.sstable.stored_blocks import StoredBlocks


def compact_tables(
    runs: list[list[TableReader]],
    snapshots: list[int],
    drop_deletions: bool,
    form: TableFormat | None,
    due_s: int = 0,
    erased: RangeDeletes | None = None,
) -> Iterator[EntryBatch | StoredBlocks]:
    """As :func:`merge_tables`, with stretches of blocks as they are stored.

    These are blocks that no other run overlaps, and that have the format ``form`` of the tables to be
    written; with None there are none.  What ``erased`` hides is left out: every snapshot sees those.
    """
    # Without snapshots the run's age alone decides, and all numbers become 0.
    needs_seqs = bool(snapshots) or not drop_deletions
    inputs = [RunInput(run, form, drop_deletions, needs_seqs, erased) for run in runs]
    return _merge(inputs, snapshots, drop_deletions, due_s)


def merge_tables(
    runs: list[list[TableReader]], snapshots: list[int], drop_deletions: bool, due_s: int = 0
) -> Iterator[EntryBatch]:
    """The surviving entries of ``runs``, which are given newest first.

    The batches ascend, and all entries of a key are in one; none is empty.  O(total log len(runs))
    comparisons.  ``snapshots`` are the sequence numbers of the live snapshots, ascending;
    ``drop_deletions`` says that nothing older than the runs overlaps them, ``due_s`` by which time
    entries are due for every reader.
    """
    for batch in compact_tables(runs, snapshots, drop_deletions, None, due_s):
        assert isinstance(batch, EntryBatch), "no format to copy blocks in"
        yield batch


def _merge(
    inputs: list[RunInput], snapshots: list[int], drop_deletions: bool, due_s: int
) -> Iterator[EntryBatch | StoredBlocks]:
    while active := [source for source in inputs if source.has_more()]:
        copied = _copied(active)
        if copied is not None:
            yield copied
            continue
        for source in active:
            source.refill()
        if min([source.batch.count for source in active]) == 0:  # range deletes hide all of one
            continue
        if len(active) == 1:
            parts = [active[0].take(active[0].batch.count)]
        else:
            bound = min([source.batch.key(source.batch.count - 1) for source in active])
            parts = []
            for source in active:
                end = source.batch.first_above(bound, source.position)
                if end > source.position:
                    parts.append(source.take(end))
        kept = surviving(parts, snapshots, drop_deletions, False, due_s)
        if kept.count:
            yield kept


def _copied(active: list[RunInput]) -> StoredBlocks | None:
    """The next stretch of blocks to copy: no other input overlaps it."""
    if not any(source.copies() for source in active):
        return None
    lowest = active[0]
    first = lowest.first_key()
    limit: bytes | None = None  # the lowest first key of the others
    for source in active[1:]:
        key = source.first_key()
        if key < first:
            lowest, first, limit = source, key, first
        elif limit is None or key < limit:
            limit = key
    return lowest.copied_below(limit) if lowest.copies() else None


def flushed_batches(
    batches: Iterator[EntryBatch], snapshots: list[int], drop_deletions: bool, due_s: int = 0
) -> Iterator[EntryBatch]:
    """The surviving entries of a flush, with their sequence numbers; as :func:`merge_tables`."""
    for batch in batches:
        whole = EntrySlice(batch, 0, batch.count)
        kept = surviving([whole], snapshots, drop_deletions, True, due_s)
        if kept.count:
            yield kept


def surviving(
    parts: list[EntrySlice],
    snapshots: list[int],
    drop_deletions: bool,
    keep_seqs: bool,
    due_s: i64 = 0,
) -> EntryBatch:
    """The surviving entries of parts of one key range, given newest first."""
    keep_older = bool(snapshots)
    batch = parts[0].as_batch() if len(parts) == 1 else _merged(parts, keep_older)
    tags = batch.tags
    if tags and TAG_EXPIRING in tags:
        _delete_due(batch, due_s)
    if batch.may_repeat or (drop_deletions and (keep_older or tags)):
        _drop_hidden(batch, snapshots, drop_deletions, keep_seqs)
    return batch


def _delete_due(batch: EntryBatch, due_s: i64) -> None:
    tags = batch.tags
    due: list[int] = []
    for slot in batch.order:
        if tags[slot] == TAG_EXPIRING and batch.expiry_s(slot) <= due_s:
            due.append(slot)
    if due:
        batch.delete(due)


def _drop_hidden(
    batch: EntryBatch, snapshots: list[int], drop_deletions: bool, keep_seqs: bool
) -> None:
    """Drop the entries that do not survive, as the module says."""
    tags, may_repeat = batch.tags, batch.may_repeat
    seqs = batch.copy_seqs()
    oldest_snapshot = snapshots[0] if snapshots else MAX_SEQUENCE
    kept: list[int] = []
    keeps_repeats = False
    newer_seq = -1  # of the entry before, which hides older ones from snapshots >= this number
    position: i64 = 0
    for slot in batch.order:
        seq = seqs[slot]
        if newer_seq >= 0 and may_repeat and not batch.is_new_key(position):
            if not snapshots or not _is_seen(snapshots, seq, newer_seq):
                position += 1
                continue
            keeps_repeats = True
        position += 1
        newer_seq = seq
        if drop_deletions and seq <= oldest_snapshot:
            if tags and tags[slot] == TAG_DELETE:
                continue
            if not keep_seqs:
                seqs[slot] = 0
        kept.append(slot)
    batch.keep(vec[i64](kept), may_repeat=keeps_repeats)
    if keep_seqs or not drop_deletions:
        return
    if snapshots:
        batch.set_seqs(seqs)
    else:
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
    if COMPILED:
        outermost = [part.batch.key(at) for part in parts for at in (part.start, part.end - 1)]
        fences = _fences(batch, common_prefix_length(outermost))
        spans: list[tuple[int, int]] = []
        end: i64 = 0
        for part in parts:
            start = end
            end += part.end - part.start
            spans.append((start, end))
        order = _merged_order(batch, fences, spans, keep_repeats)
    else:
        order = _sorted(batch, keep_repeats)
    batch.keep(order, may_repeat=keep_repeats)
    return batch


def _sorted(batch: EntryBatch, keep_repeats: bool) -> vec[i64]:
    """The slots in key order; of equal keys the first stays first, or alone."""
    keys = EntrySlice(batch, 0, batch.count).key_objects()
    order = sorted(range(len(keys)), key=keys.__getitem__)
    if not keep_repeats:
        order = [next(same) for _, same in groupby(order, keys.__getitem__)]
    return vec[i64](order)


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
    """As :func:`_sorted`, compiled: merges parts in order, which lie between ``spans``."""
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
