"""What a flush or compaction makes of its sources: a k-way merge, and which versions survive it.

Sources are merged a stretch at a time.  Each has sorted versions at hand; what stands in all of them
up to the lowest of their last keys can be merged for good.  Two neighbouring sources are merged at a
time, by stretches again: what one has before the next key of the other is moved by one slice.  A
stretch that only one source has is passed on as it is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

from mypy_extensions import i64

from lsmkv.compare import compare
from lsmkv.encoding import COMPILED, MAX_SEQUENCE
from lsmkv.sstable.columns import Versions
from lsmkv.sstable.reader import TableReader
from lsmkv.storage import ReadKind

# A run is merged so many entries at a time, or so many bytes if that is fewer.
_STRETCH_ENTRIES: Final = 128
_STRETCH_BYTES: Final = 256 * 1024
# So many neighbours are looked at one by one before the rest is searched by halving.
# (Where this is interpreted, halving is one call, and a comparison more than that.)
_NEAR: Final = 8 if COMPILED else 0


def run_versions(run: list[TableReader]) -> Iterator[Versions]:
    """Every version in a run, read past the cache."""
    for table in run:
        index = table.index
        repeats = table.properties.has_versions
        number: i64 = 0
        held = Versions([], [], [], may_repeat=False)
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
            held = Versions([], [], [], may_repeat=False)
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
    # Neighbours are merged two by two, so that each version takes part log2(len(parts)) times.
    while len(parts) > 1:
        fewer = []
        for number in range(0, len(parts) - 1, 2):
            merged = _merged(parts[number], parts[number + 1], keep_older)
            fewer.append(_Part(merged, 0, len(merged.keys)))
        if len(parts) & 1:
            fewer.append(parts[-1])
        parts = fewer
    only = parts[0].alone()
    if only.may_repeat or (drop_deletions and (keep_older or _has_deletions(only))):
        return _survivors(only, snapshots, drop_deletions)
    return only


def _has_deletions(versions: Versions) -> bool:
    for value in versions.values:  # noqa: SIM110  # "in" would compare all that are not None
        if value is None:
            return True
    return False


def _merged(newer: _Part, older: _Part, keep_older: bool) -> Versions:
    """Both in order; of a key that both have, ``newer``'s first, and ``older``'s if they are kept."""
    new, old = newer.versions, older.versions
    new_keys, old_keys = new.keys, old.keys
    new_at, new_end = newer.start, newer.end
    old_at, old_end = older.start, older.end
    repeats = new.may_repeat or old.may_repeat
    merged = Versions([], [], [], may_repeat=repeats)
    while new_at < new_end and old_at < old_end:
        # What older has before the next key of newer, then what newer has up to the next of older.
        key = new_keys[new_at]
        start = old_at
        near = min(old_at + _NEAR, old_end)
        while old_at < near and _order(old_keys[old_at], key) < 0:
            old_at += 1
        if old_at == near and near < old_end:
            old_at = bisect_left(old_keys, key, old_at, old_end)
        merged.take(old, start, old_at)
        if old_at == old_end:
            break
        bound = old_keys[old_at]
        start = new_at
        near = min(new_at + _NEAR, new_end)
        while new_at < near and _order(new_keys[new_at], bound) <= 0:
            new_at += 1
        if new_at == near and near < new_end:
            new_at = bisect_right(new_keys, bound, new_at, new_end)
        merged.take(new, start, new_at)
        if new_at > start and new_keys[new_at - 1] == bound:
            if keep_older or repeats:
                merged.may_repeat = True
            else:
                old_at += 1
    merged.take(old, old_at, old_end)
    merged.take(new, new_at, new_end)
    return merged


def _order(a: bytes, b: bytes) -> i64:
    """Negative, zero or positive as ``a`` is below, the same as, or above ``b``."""
    return compare(a, 0, len(a), b, 0, len(b))


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
