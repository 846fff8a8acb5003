"""K-way merge of sorted sources, and what survives it: visibility, versions, deletions.

Sources are merged a stretch at a time.  Each has a sorted list of entries at hand; what stands in
all of them up to the lowest of their last keys can be merged for good.  The lists are put behind
one another, newest source first, and sorted by key with Python's sort, which is stable (versions
of one key stay newest first) and merges sorted stretches in linear time.  A stretch that only one
source has is passed on as it is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Final

from mypy_extensions import mypyc_attr

Value = bytes | None  # None is a deletion
Entry = tuple[bytes, Value]
Version = tuple[bytes, Value, int]

_KEY: Final = itemgetter(0)


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


def retained_versions(
    merged: Iterable[list[Version]], snapshots: list[int], drop_deletions: bool
) -> Iterator[Version]:
    """What a flush or compaction must write: the newest version of each key, and every older one
    that a snapshot sees.

    Args:
        snapshots: sequence numbers of live snapshots, ascending.
        drop_deletions: nothing older than these entries exists anywhere, so that a deletion which
            no snapshot looks past can go, and an entry that every snapshot sees needs no sequence
            number (it gets 0).
    """
    oldest = snapshots[0] if snapshots else None
    for entries in merged:
        last: bytes | None = None
        seen_from = 0  # the kept version above this one hides it from snapshots >= this number
        for entry in entries:
            key, value, seq = entry
            if key == last:
                if oldest is None or not _seen(snapshots, seq, seen_from):
                    continue
            else:
                last = key
            seen_from = seq
            if drop_deletions and (oldest is None or seq <= oldest):
                if value is not None:
                    yield key, value, 0
            else:
                yield entry


def _seen(snapshots: list[int], seq: int, below: int) -> bool:
    """Whether some snapshot s has seq <= s < below."""
    at = bisect_left(snapshots, seq)
    return at < len(snapshots) and snapshots[at] < below
