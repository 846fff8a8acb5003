"""A record of what is written while transactions are open.

By it a commit tells whether something that its transaction read has changed.

The record is a chain of parts.  A transaction refers to the part in which it began, and so to all that
follow; the store refers to the last one weakly.  So the record reaches back to the beginning of the
oldest open transaction, and nothing is left to tidy up when a transaction is dropped.

Beyond :data:`MOST_BYTES` the oldest part is emptied, and a transaction that began there cannot be checked
any more.  Writers call this with the mutex held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final
from weakref import ref

from lsmkv.encoding.range_deletes import KeyRange
from lsmkv.errors import ClosedError, ConflictError
from lsmkv.log.batch import Operation

MOST_BYTES: Final = 64 * 1024 * 1024
_PART_BYTES: Final = 1024 * 1024
_KEY_BYTES: Final = 56  # of memory, besides the key itself

Written = bytes | KeyRange
"""A key that was written, or a range of which any key may have been."""


class _Part:
    """``written`` is None once it is emptied; nothing is added when something is ``following``."""

    __slots__ = ("__weakref__", "following", "size_bytes", "written")

    def __init__(self) -> None:
        self.written: list[Written] | None = []
        self.size_bytes = 0
        self.following: _Part | None = None


_NO_PART: Final = ref(_Part())  # dead already


class Place:
    """Where a transaction began, or up to where it has been checked.  For one thread at a time."""

    __slots__ = ("_at", "_part")

    def __init__(self, part: _Part) -> None:
        self._part: _Part | None = part
        self._at = len(part.written or ())

    def release(self) -> None:
        """Let go of the record, whoever still refers to this place: the traceback of a conflict, say."""
        self._part = None

    def written_since(self) -> Iterator[Written]:
        """Yield the writes since this place, and advance it.  Needs no lock.

        ConflictError: the record does not reach back to it.  ClosedError: it was released.
        """
        while True:
            if self._part is None:
                raise ClosedError("the transaction was committed or discarded already")
            following = self._part.following  # first: then nothing more is added to this one
            written = self._part.written
            if written is None:
                following = None  # the traceback would keep it
                raise ConflictError(None)
            fresh = written[self._at :]
            yield from fresh
            self._at += len(fresh)
            if following is None:
                return
            self._part, self._at = following, 0


class RecentWrites:
    """The record of one store."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._part_bytes = min(_PART_BYTES, most_bytes // 4)
        self._known: Callable[[], _Part | None] = _NO_PART
        self._parts: list[Callable[[], _Part | None]] = []  # oldest first

    def begin(self) -> Place:
        """Keep what is written from now on, while the place lives."""
        return Place(self._last() or self._begin_part(None))

    def add(self, key: bytes) -> None:
        """Note a write, if any transaction is open."""
        part = self._last()
        if part is not None:
            self._add(part, [key], len(key) + _KEY_BYTES)

    def admit(
        self,
        operations: list[Operation],
        ranges: list[KeyRange],
        check: Callable[[], None] | None,
    ) -> None:
        """Note a batch as :meth:`add` does, unless ``check`` raises."""
        if check is not None:
            check()
        part = self._last()
        if part is not None:
            keys: list[Written] = [key for key, _ in operations]
            self._add(part, keys, sum(map(len, keys)) + len(keys) * _KEY_BYTES)
            self.add_ranges(ranges)

    def add_ranges(self, ranges: list[KeyRange]) -> None:
        """Note writes of unknown keys."""
        part = self._last()
        if part is not None and ranges:
            size_bytes = sum(len(low) + len(high or b"") + 3 * _KEY_BYTES for low, high in ranges)
            self._add(part, [*ranges], size_bytes)

    @property
    def size_bytes(self) -> int:
        return sum(part.size_bytes for part in self._kept())

    def _last(self) -> _Part | None:
        """The part to add to; None if no transaction is open."""
        part = self._known()
        while part is not None and part.following is not None:  # an interrupt came in _begin_part
            part = part.following
        return part

    def _add(self, part: _Part, written: list[Written], size_bytes: int) -> None:
        assert part.written is not None  # the last one is never emptied
        part.written.extend(written)
        part.size_bytes += size_bytes
        if part.size_bytes >= self._part_bytes:
            self._begin_part(part)
            self._bound()

    def _begin_part(self, before: _Part | None) -> _Part:
        part = _Part()
        if before is None:
            self._parts = []  # all of them are gone: an older one would refer to the last
        else:
            before.following = part  # this makes it the last one
        self._known = ref(part)
        self._parts.append(self._known)
        return part

    def _kept(self) -> list[_Part]:
        """The parts that someone refers to, and that are not emptied; oldest first."""
        parts = [part() for part in self._parts]
        return [part for part in parts if part is not None and part.written is not None]

    def _bound(self) -> None:
        """Empty the oldest parts while all take too much memory."""
        kept = self._kept()
        left_bytes = sum(part.size_bytes for part in kept)
        while left_bytes > self._most_bytes:
            oldest = kept.pop(0)
            left_bytes -= oldest.size_bytes
            oldest.written, oldest.size_bytes = None, 0
        self._parts = [ref(part) for part in kept]
