"""What a flush or compaction makes of its sources: a k-way merge, and which versions survive it.

Sources are merged a stretch at a time.  Each has sorted versions at hand; what stands in all of them
up to the lowest of their last keys can be merged for good.  These are put behind one another, newest
source first; their positions are put in the order of the keys, versions of one key as they stand; and
only then keys and values are moved.  A stretch that only one source has is passed on as it is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from lsmkv.compare import compare
from lsmkv.encoding import COMPILED, MAX_SEQUENCE
from lsmkv.sstable.block import Value
from lsmkv.sstable.columns import Versions
from lsmkv.sstable.reader import TableReader
from lsmkv.storage import ReadKind

# A run is merged so many entries at a time, or so many bytes if that is fewer.
_STRETCH_ENTRIES: Final = 128
_STRETCH_BYTES: Final = 256 * 1024


def run_versions(run: list[TableReader]) -> Iterator[Versions]:
    """Every version in a run, read past the cache."""
    for table in run:
        index = table.index
        repeats = table.properties.has_versions
        number: i64 = 0
        # A block says whether it has two versions of a key, not whether the next one goes on with it.
        held = Versions([], [], [], may_repeat=repeats)
        held_bytes: i64 = 0
        for block in table.every_block(ReadKind.COMPACTION):
            held.add_block(block)
            held_bytes += len(block.raw)
            number += 1
            if number < index.block_count:
                if len(held.keys) < _STRETCH_ENTRIES and held_bytes < _STRETCH_BYTES:
                    continue
                if repeats and index.first_key(number) == index.last_key(number - 1):
                    continue
            yield held
            held = Versions([], [], [], may_repeat=repeats)
            held_bytes = 0


class _Part:
    """Some versions of one source: those from position ``start`` up to ``end``."""

    __slots__ = ("end", "start", "versions")

    def __init__(self, versions: Versions, start: i64, end: i64) -> None:
        self.versions = versions
        self.start = start
        self.end = end

    def alone(self) -> Versions:
        """The same without the others."""
        if self.start == 0 and self.end == len(self.versions.keys):
            return self.versions
        alone = Versions([], [], [], may_repeat=self.versions.may_repeat)
        alone.take(self.versions, self.start, self.end)
        return alone


class _VersionSource:
    """One sorted source of versions: those at hand from ``at`` on, and the rest to come."""

    __slots__ = ("_dated", "_rest", "at", "versions")

    def __init__(self, rest: Iterator[Versions], dated: bool) -> None:
        """``dated``: whether the sequence numbers are needed; else all are made 0."""
        self._rest = rest
        self._dated = dated
        self.versions: Versions = Versions([], [], [], may_repeat=False)
        self.at: i64 = 0

    def refill(self) -> bool:
        """Have versions at hand; False when there are no more."""
        while self.at >= len(self.versions.keys):
            following = next(self._rest, None)
            if following is None:
                return False
            if not self._dated:
                following.set_one_seq(0)
            self.versions = following
            self.at = 0
        return True

    def take(self, end: i64) -> _Part:
        """Those at hand before position ``end``."""
        part = _Part(self.versions, self.at, end)
        self.at = end
        return part


def merge_versions(
    sources: list[Iterator[Versions]], snapshots: list[int], drop_deletions: bool
) -> Iterator[Versions]:
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
            parts = [active[0].take(len(active[0].versions.keys))]
        else:
            bound = min([source.versions.keys[-1] for source in active])
            parts = []
            for source in active:
                end = bisect_right(source.versions.keys, bound, source.at)
                if end > source.at:
                    parts.append(source.take(end))
        kept = _retained(parts, snapshots, drop_deletions)
        if kept.keys:
            yield kept
        active = [source for source in active if source.refill()]


def retained_versions(
    stretches: Iterator[Versions], snapshots: list[int], drop_deletions: bool
) -> Iterator[Versions]:
    """:func:`merge_versions` of one source."""
    return merge_versions([stretches], snapshots, drop_deletions)


def _retained(parts: list[_Part], snapshots: list[int], drop_deletions: bool) -> Versions:
    """What is to be kept of the parts of one stretch, newest first."""
    keep_older = bool(snapshots)
    merged = parts[0].alone() if len(parts) == 1 else _merged(parts, keep_older)
    if merged.may_repeat or (drop_deletions and (keep_older or _has_deletions(merged))):
        return _survivors(merged, snapshots, drop_deletions)
    return merged


def _has_deletions(versions: Versions) -> bool:
    for value in versions.values:  # noqa: SIM110  # "in" would compare all that are not None
        if value is None:
            return True
    return False


def _merged(parts: list[_Part], keep_older: bool) -> Versions:
    """The parts as one; of a key that several have the newest alone, or first with ``keep_older``."""
    together = Versions([], [], [], may_repeat=False)
    ends: list[int] = []
    keep_repeats = keep_older
    for part in parts:
        together.take(part.versions, part.start, part.end)
        keep_repeats = keep_repeats or part.versions.may_repeat
        ends.append(len(together.keys))
    return _in_order(together, _order_of(together.keys, ends), keep_repeats)


def _in_order(versions: Versions, order: vec[i64], keep_repeats: bool) -> Versions:
    """The versions at these positions; of a key with several the first alone, or all."""
    keys, values = versions.keys, versions.values
    seqs = versions.seqs if versions.one_seq < 0 else []
    found_keys: list[bytes] = []
    found_values: list[Value] = []
    found_seqs: list[int] = []
    may_repeat = False
    last = b""
    for position in order:
        key = keys[position]
        if key == last and found_keys:
            if not keep_repeats:
                continue
            may_repeat = True
        last = key
        found_keys.append(key)
        found_values.append(values[position])
        if seqs:
            found_seqs.append(seqs[position])
    return Versions(
        found_keys, found_values, found_seqs, may_repeat=may_repeat, one_seq=versions.one_seq
    )


def _order_of(keys: list[bytes], ends: list[int]) -> vec[i64]:
    """The positions of ``keys`` in their order, of equal ones the first first.

    The keys are in order already up to each of ``ends``.
    """
    count: i64 = len(keys)
    if not COMPILED:
        return vec[i64](sorted(range(len(keys)), key=keys.__getitem__))
    order = vec[i64]([0] * count)
    spare = vec[i64]([0] * count)
    at: i64 = 0
    while at < count:
        order[at] = at
        at += 1
    # Neighbours are merged two by two, so that each key takes part log2(len(ends)) times.
    while len(ends) > 1:
        fewer: list[int] = []
        start: i64 = 0
        for number in range(0, len(ends), 2):
            middle: i64 = ends[number]
            end: i64 = ends[number + 1] if number + 1 < len(ends) else middle
            _merge_neighbours(keys, order, spare, start, middle, end)
            fewer.append(end)
            start = end
        ends = fewer
        order, spare = spare, order
    return order


def _merge_neighbours(
    keys: list[bytes], source: vec[i64], target: vec[i64], start: i64, middle: i64, end: i64
) -> None:
    """Merge the positions in ``source[start:middle]`` and ``[middle:end]`` to the same places."""
    left, right, at = start, middle, start
    while left < middle and right < end:
        a, b = keys[source[left]], keys[source[right]]
        if compare(a, 0, len(a), b, 0, len(b)) <= 0:
            target[at] = source[left]
            left += 1
        else:
            target[at] = source[right]
            right += 1
        at += 1
    while left < middle:
        target[at] = source[left]
        left += 1
        at += 1
    while right < end:
        target[at] = source[right]
        right += 1
        at += 1


def _survivors(versions: Versions, snapshots: list[int], drop_deletions: bool) -> Versions:
    """Those of ``versions`` that are to be kept."""
    keys, values, seqs = versions.keys, versions.values, versions.seqs
    kept = Versions([], [], [], may_repeat=False)
    kept_keys, kept_values, kept_seqs = kept.keys, kept.values, kept.seqs
    oldest = snapshots[0] if snapshots else MAX_SEQUENCE
    last: bytes = b""
    seen_from = -1  # the kept version above this one hides it from snapshots >= this number
    for position, key in enumerate(keys):
        value = values[position]
        seq = seqs[position]
        if seen_from >= 0 and key == last:
            if not snapshots or not _seen(snapshots, seq, seen_from):
                continue
            kept.may_repeat = True
        last = key
        seen_from = seq
        if drop_deletions and seq <= oldest:
            if value is None:
                continue
            seq = 0
        kept_keys.append(key)
        kept_values.append(value)
        kept_seqs.append(seq)
    return kept


def _seen(snapshots: list[int], seq: int, below: int) -> bool:
    """Whether some snapshot s has seq <= s < below."""
    at = bisect_left(snapshots, seq)
    return at < len(snapshots) and snapshots[at] < below
