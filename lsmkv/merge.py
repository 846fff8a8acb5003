"""K-way merge of sorted sources, and what survives it: visibility, versions, deletions.

Sources are merged a stretch at a time.  Each has a sorted list of entries at hand; what stands in
all of them up to the lowest of their last keys can be merged for good.  The lists are put behind
one another, newest source first, and sorted by key with Python's sort, which is stable (versions
of one key stay newest first) and merges sorted stretches in linear time.  A stretch that only one
source has is passed on as it is.

Scans merge lists of tuples of key and value; flushes and compactions, which need sequence numbers,
merge columns (:class:`~lsmkv.sstable.columns.Versions`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Final

from mypy_extensions import i64, mypyc_attr

from lsmkv.encoding import MAX_SEQUENCE
from lsmkv.sstable.columns import Versions, versions_of
from lsmkv.sstable.reader import TableReader
from lsmkv.storage import ReadKind

Value = bytes | None  # None is a deletion
Entry = tuple[bytes, Value]

_KEY: Final = itemgetter(0)
# A run is merged so many entries at a time, or so many bytes if that is fewer.
_STRETCH_ENTRIES: Final = 128
_STRETCH_BYTES: Final = 256 * 1024


@mypyc_attr(native_class=False)  # mypyc's own classes cannot inherit from list
class PlainEntries(list[Entry]):
    """Entries of which none is a deletion and no key stands twice: nothing to be left out."""


class _Source:
    """One sorted source: the stretch at hand, and the rest to come."""

    __slots__ = ("_rest", "entries")

    def __init__(self, stretches: Iterator[list[tuple[bytes, ...]]]) -> None:
        self._rest = stretches
        self.entries: list[tuple[bytes, ...]] = []

    def refill(self) -> bool:
        """Have entries at hand; False when there are no more."""
        while not self.entries:
            following = next(self._rest, None)
            if following is None:
                return False
            self.entries = following
        return True


def merge_stretches(sources: list[Iterator[list]], reverse: bool = False) -> Iterator[list]:  # type: ignore[type-arg]
    """Merge sources, newest first, into lists of entries.

    Args:
        sources: iterators of lists of tuples that start with a key.  Each list ascends by key; the
            lists of a source follow each other upwards, or with ``reverse`` downwards.  All
            versions of a key that a source has stand in one list, newest first.
        reverse: produce the lists from the last to the first.

    Yields:
        Non-empty lists, each ascending; all the versions of a key stand in one list, newest first.

    O(total log len(sources)) comparisons.
    """
    active = [source for source in map(_Source, sources) if source.refill()]
    while active:
        if len(active) == 1:
            yield active[0].entries
            active[0].entries = []
        else:
            parts = _take_down(active) if reverse else _take_up(active)
            if len(parts) == 1:
                yield parts[0]
            else:
                merged = [entry for part in parts for entry in part]
                merged.sort(key=_KEY)
                yield merged
        active = [source for source in active if source.refill()]


def _take_up(active: list[_Source]) -> list[list[tuple[bytes, ...]]]:
    bound = min([source.entries[-1][0] for source in active])
    parts = []
    for source in active:
        entries = source.entries
        if entries[-1][0] <= bound:
            parts.append(entries)
            source.entries = []
        elif entries[0][0] <= bound:
            end = bisect_right(entries, bound, key=_KEY)
            parts.append(entries[:end])
            source.entries = entries[end:]
    return parts


def _take_down(active: list[_Source]) -> list[list[tuple[bytes, ...]]]:
    bound = max([source.entries[0][0] for source in active])
    parts = []
    for source in active:
        entries = source.entries
        if entries[0][0] >= bound:
            parts.append(entries)
            source.entries = []
        elif entries[-1][0] >= bound:
            start = bisect_left(entries, bound, key=_KEY)
            parts.append(entries[start:])
            source.entries = entries[:start]
    return parts


def newest_values(merged: Iterable[list[Entry]]) -> Iterator[list[tuple[bytes, bytes]]]:
    """Of each key its newest value; deleted keys are left out.  Lists that end up empty too."""
    for entries in merged:
        if type(entries) is PlainEntries:
            yield entries  # type: ignore[misc]  # no value is None
            continue
        kept: list[tuple[bytes, bytes]] = []
        last: bytes | None = None
        for entry in entries:
            key, value = entry
            if key != last:
                last = key
                if value is not None:
                    kept.append(entry)  # type: ignore[arg-type]  # its value is not None
        if kept:
            yield kept


def run_versions(run: list[TableReader]) -> Iterator[Versions]:
    """Every version in a run, read past the cache."""
    for table in run:
        index = table.index
        repeats = table.properties.has_versions
        number: i64 = 0
        held = Versions([], [], [], may_repeat=False)
        held_bytes: i64 = 0
        for block in table.blocks_ahead(
            range(int(index.block_count)), ReadKind.COMPACTION, cached_first=0
        ):
            held.extend(versions_of(block))
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


class _VersionSource:
    """One sorted source of versions: those at hand from ``at`` on, and the rest to come."""

    __slots__ = ("_rest", "at", "versions")

    def __init__(self, rest: Iterator[Versions]) -> None:
        self._rest = rest
        self.versions: Versions = Versions([], [], [], may_repeat=False)
        self.at: i64 = 0

    def refill(self) -> bool:
        """Have versions at hand; False when there are no more."""
        while self.at >= len(self.versions.keys):
            following = next(self._rest, None)
            if following is None:
                return False
            self.versions = following
            self.at = 0
        return True

    def take(self, end: i64) -> Versions:
        """Those at hand before position ``end``."""
        versions, start = self.versions, self.at
        self.at = end
        if start == 0 and end == len(versions.keys):
            return versions
        return Versions(
            versions.keys[start:end],
            versions.values[start:end],
            versions.seqs[start:end],
            may_repeat=versions.may_repeat,
        )


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
    active = [source for source in map(_VersionSource, sources) if source.refill()]
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


def _retained(parts: list[Versions], snapshots: list[int], drop_deletions: bool) -> Versions:
    """What is to be kept of the parts of one stretch, newest first."""
    if len(parts) == 1:
        only = parts[0]
        if not (only.may_repeat or drop_deletions):
            return only
        return _survivors(only, range(len(only.keys)), snapshots, drop_deletions)
    together = Versions([], [], [], may_repeat=False)
    for part in parts:
        together.extend(part)
    # Stable: versions of one key stay newest first.
    order = sorted(range(len(together.keys)), key=together.keys.__getitem__)
    return _survivors(together, order, snapshots, drop_deletions)


def _survivors(
    versions: Versions, order: Sequence[int], snapshots: list[int], drop_deletions: bool
) -> Versions:
    """Those of ``versions``, looked at in ``order``, that are to be kept."""
    keys, values, seqs = versions.keys, versions.values, versions.seqs
    kept = Versions([], [], [], may_repeat=False)
    kept_keys, kept_values, kept_seqs = kept.keys, kept.values, kept.seqs
    oldest = snapshots[0] if snapshots else MAX_SEQUENCE
    last: bytes = b""
    seen_from = -1  # the kept version above this one hides it from snapshots >= this number
    for position in order:
        key = keys[position]
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
