"""What a flush or compaction makes of its sources: a k-way merge, and which versions survive it.

Sources are merged a stretch at a time.  Each has sorted versions at hand; what stands in all of them
up to the lowest of their last keys can be merged for good.  These are put behind one another, newest
source first; their positions are put in the order of the keys, versions of one key as they stand; and
only then keys and values are moved.  A stretch that only one source has is passed on as it is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from librt.strings import read_i64_be
from librt.vecs import vec
from mypy_extensions import i64

from lsmkv.encoding.entries import MAX_SEQUENCE, TAG_DELETE
from lsmkv.encoding.entry_batch import EntryBatch, EntrySlice, ascending, joined
from lsmkv.encoding.words import COMPILED, compare, shared_length, short_number
from lsmkv.sstable.block.block import Block
from lsmkv.sstable.read_ahead import every_block
from lsmkv.sstable.reader import TableReader

# A run is merged so many entries at a time, or so many bytes if that is fewer.
_STRETCH_ENTRIES: Final = 128
_STRETCH_BYTES: Final = 256 * 1024
_SIGN: Final = i64(-1 << 63)  # turns numbers without a sign into those with one, in their order


def run_versions(run: list[TableReader]) -> Iterator[EntryBatch]:
    """Every version in a run, read past the cache."""
    for table in run:
        index = table.index
        repeats = table.properties.has_versions
        number: i64 = 0
        held: list[Block] = []
        held_count: i64 = 0
        held_bytes: i64 = 0
        for block in every_block(table):
            held.append(block)
            held_count += block.count
            held_bytes += len(block.raw)
            number += 1
            if number < index.block_count:
                if held_count < _STRETCH_ENTRIES and held_bytes < _STRETCH_BYTES:
                    continue
                # A block says whether it has two versions of a key, not whether the next goes on with it.
                if repeats and index.first_key(number) == index.last_key(number - 1):
                    continue
            versions = versions_in(held, repeats)
            held = []
            held_count = held_bytes = 0
            yield versions


class _VersionSource:
    """One sorted source of versions: those at hand from ``at`` on, and the rest to come."""

    __slots__ = ("_dated", "_rest", "at", "versions")

    def __init__(self, rest: Iterator[EntryBatch], dated: bool) -> None:
        """``dated``: whether the sequence numbers are needed; else all are made 0."""
        self._rest = rest
        self._dated = dated
        self.versions: EntryBatch = EntryBatch([], [], [], may_repeat=False)
        self.at: i64 = 0

    def refill(self) -> bool:
        """Have versions at hand; False when there are no more."""
        while self.at >= self.versions.count:
            following = next(self._rest, None)
            if following is None:
                return False
            if not self._dated:
                following.set_one_seq(0)
            self.versions = following
            self.at = 0
        return True

    def take(self, end: i64) -> EntrySlice:
        """Those at hand before number ``end``."""
        part = EntrySlice(self.versions, self.at, end)
        self.at = end
        return part


def merge_versions(
    sources: list[Iterator[EntryBatch]], snapshots: list[int], drop_deletions: bool
) -> Iterator[EntryBatch]:
    """What a flush or compaction of ``sources``, newest first, must write, a stretch at a time.

    Kept are the newest version of each key, and every older one that a snapshot sees.

    Args:
        sources: each ascends; all versions of a key that a source has stand in one stretch.
        snapshots: sequence numbers of live snapshots, ascending.
        drop_deletions: nothing older than these entries exists anywhere, so that a deletion which
            no snapshot looks past can go, and an entry that every snapshot sees needs no sequence
            number (it gets 0).

    Yields:
        Stretches that are not empty; all the versions of a key stand in one.

    O(total log len(sources)) comparisons.
    """
    # Without snapshots only the newest version of a key is kept, and that by its place.
    dated = bool(snapshots) or not drop_deletions
    all_sources = [_VersionSource(source, dated) for source in sources]
    active = [source for source in all_sources if source.refill()]
    while active:
        if len(active) == 1:
            parts = [active[0].take(active[0].versions.count)]
        else:
            bound = min([source.versions.key(source.versions.count - 1) for source in active])
            parts = []
            for source in active:
                end = source.versions.first_above(bound, source.at)
                if end > source.at:
                    parts.append(source.take(end))
        kept = _retained(parts, snapshots, drop_deletions, False)
        if kept.count:
            yield kept
        active = [source for source in active if source.refill()]


def retained_versions(
    stretches: Iterator[EntryBatch], snapshots: list[int], drop_deletions: bool
) -> Iterator[EntryBatch]:
    """What a flush must write: :func:`merge_versions` of one source.  Sequence numbers stay."""
    source = _VersionSource(stretches, True)
    while source.refill():
        part = source.take(source.versions.count)
        kept = _retained([part], snapshots, drop_deletions, True)
        if kept.count:
            yield kept


def _retained(
    parts: list[EntrySlice], snapshots: list[int], drop_deletions: bool, keep_seqs: bool
) -> EntryBatch:
    """What is to be kept of the parts of one stretch, newest first."""
    keep_older = bool(snapshots)
    merged = parts[0].alone() if len(parts) == 1 else _merged(parts, keep_older)
    if merged.may_repeat or (drop_deletions and (keep_older or merged.tags)):
        _drop(merged, snapshots, drop_deletions, keep_seqs)
    return merged


def _merged(parts: list[EntrySlice], keep_older: bool) -> EntryBatch:
    """The parts as one; of a key that several have the newest alone, or first with ``keep_older``."""
    together = joined(parts)
    keep_repeats = keep_older or together.may_repeat
    together.may_repeat = keep_repeats
    if not COMPILED:
        _sort(together, keep_repeats)
        return together
    heads = _heads(together, _shared_length(parts))
    ends: list[int] = []
    end: i64 = 0
    for part in parts:
        end += part.end - part.start
        ends.append(end)
    together.order = _order_of(together, heads, ends, keep_repeats)
    return together


def _sort(versions: EntryBatch, keep_repeats: bool) -> None:
    """Put versions in the order of their keys; of equal ones the first comes first, or is kept alone."""
    keys = EntrySlice(versions, 0, versions.count).key_objects()
    order = sorted(range(len(keys)), key=keys.__getitem__)
    if not keep_repeats:
        order = [next(same) for _, same in groupby(order, keys.__getitem__)]
    versions.order = vec[i64](order)


def _shared_length(parts: list[EntrySlice]) -> i64:
    """How many leading bytes all keys in the parts share."""
    first = parts[0].versions.key(parts[0].start)
    length: i64 = len(first)
    for part in parts:
        low, high = part.versions.key(part.start), part.versions.key(part.end - 1)
        length = min(length, shared_length(first, low), shared_length(first, high))
    return length


def _heads(versions: EntryBatch, skipped: i64) -> vec[i64]:
    """Of each key the eight bytes after the first ``skipped``, zero-padded, as a number with a sign.

    They never descend as keys ascend.
    """
    data, ends, count = versions.key_data, versions.key_ends, i64(versions.count)
    last = i64(len(data)) - 8
    heads = vec[i64]([0] * count)
    position: i64 = 0
    end = ends[0]
    while position < count:
        at = end + skipped
        end = ends[position + 1]
        length = end - at
        rest = 64 - 8 * length
        if length <= 0:
            heads[position] = _SIGN
        elif at > last:
            heads[position] = (short_number(data, at, length) << rest) ^ _SIGN
        else:
            head = read_i64_be(data, at) ^ _SIGN
            heads[position] = head if rest <= 0 else (head >> rest) << rest
        position += 1
    return heads


def _order_of(
    versions: EntryBatch, heads: vec[i64], ends: list[int], keep_repeats: bool
) -> vec[i64]:
    """The positions of versions in the order of their keys, of equal ones the first first, or alone.

    They are in order already up to each of ``ends``.
    """
    order = versions.order
    spare = ascending(len(order))
    starts: list[int] = [0, *ends[:-1]]
    # Neighbours are merged two by two, so that each key takes part log2(len(ends)) times.
    while len(ends) > 1:
        fewer_starts: list[int] = []
        fewer_ends: list[int] = []
        for number in range(0, len(ends), 2):
            start: i64 = starts[number]
            end: i64 = ends[number]
            if number + 1 < len(ends):
                right: i64 = starts[number + 1]
                right_end: i64 = ends[number + 1]
                end = _merge_two(
                    versions, heads, order, spare, start, end, right, right_end, keep_repeats
                )
            else:
                _copy(order, start, end, spare, start)
            fewer_starts.append(start)
            fewer_ends.append(end)
        starts, ends = fewer_starts, fewer_ends
        order, spare = spare, order
    count: i64 = ends[0]
    return order if count == len(order) else order[:count]


def _merge_two(
    versions: EntryBatch,
    heads: vec[i64],
    source: vec[i64],
    target: vec[i64],
    left: i64,
    left_end: i64,
    right: i64,
    right_end: i64,
    keep_repeats: bool,
) -> i64:
    """Merge ``source[left:left_end]`` and ``[right:right_end]``, of which the first are newer.

    They go to ``target`` from ``left`` on; returns where they end there.  Without ``keep_repeats``
    neither holds a key twice, and of a key in both the first alone is kept.
    """
    data, ends = versions.key_data, versions.key_ends
    at = left
    while left < left_end and right < right_end:
        a, b = source[left], source[right]
        x, y = heads[a], heads[b]
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
    """Set ``target`` from ``at`` on to ``source[start:end]``; returns where that ends."""
    while start < end:
        target[at] = source[start]
        start += 1
        at += 1
    return at


def _drop(
    versions: EntryBatch, snapshots: list[int], drop_deletions: bool, keep_seqs: bool
) -> None:
    """Keep those of ``versions`` that are to be kept."""
    tags, may_repeat = versions.tags, versions.may_repeat
    seqs = versions.seqs_apart()
    oldest = snapshots[0] if snapshots else MAX_SEQUENCE
    kept: list[int] = []
    versions.may_repeat = False
    seen_from = -1  # the kept version above this one hides it from snapshots >= this number
    number: i64 = 0
    for position in versions.order:
        seq = seqs[position]
        if seen_from >= 0 and may_repeat and not versions.is_new_key(number):
            if not snapshots or not _seen(snapshots, seq, seen_from):
                number += 1
                continue
            versions.may_repeat = True
        number += 1
        seen_from = seq
        if drop_deletions and seq <= oldest:
            if tags and tags[position] == TAG_DELETE:
                continue
            if not keep_seqs:
                seqs[position] = 0
        kept.append(position)
    versions.order = vec[i64](kept)
    if keep_seqs:
        return
    if drop_deletions and snapshots:
        versions.seqs = seqs
        versions.one_seq = -1
    elif drop_deletions:
        versions.set_one_seq(0)


def _seen(snapshots: list[int], seq: int, below: int) -> bool:
    """Whether some snapshot s has seq <= s < below."""
    at = bisect_left(snapshots, seq)
    return at < len(snapshots) and snapshots[at] < below


def versions_in(blocks: list[Block], may_repeat: bool) -> EntryBatch:
    """Every version in at least one block, each of which goes on where the one before ends."""
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
    versions = EntryBatch([], [], seqs, may_repeat=may_repeat, one_seq=one_seq)
    versions.key_data = b"".join([block.key_data() for block in blocks])
    versions.key_ends = key_ends
    versions.value_data = b"".join([block.value_data() for block in blocks])
    versions.value_ends = value_ends
    if has_tags:
        versions.tags = b"".join([block.tags() for block in blocks])
    versions.order = ascending(count)
    return versions


def merge_tables(
    runs: list[list[TableReader]], snapshots: list[int], drop_deletions: bool
) -> Iterator[EntryBatch]:
    """The versions that a compaction of these runs, newest first, must write."""
    return merge_versions([run_versions(run) for run in runs], snapshots, drop_deletions)
