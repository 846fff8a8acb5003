"""Ranges for ``async for``: a thread fetches some entries at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sized
from typing import Final, Generic, TypeVar

from lsmkv.aio.work import Work

T = TypeVar("T")

_FIRST_ENTRIES: Final = 32
_MOST_ENTRIES: Final = 1024
_MOST_BYTES: Final = 256 * 1024
"""A longer step would hold the interpreter for milliseconds, while the event loop waits for it."""


class AsyncRange(Generic[T]):
    """Keys, values or items of a range, in order.

    Later writes do not change them.  Each ``async for`` starts anew.  A thread fetches at most 1,024
    entries or 256 KiB (and one entry more) at a time, and only once the loop has taken those before.  A
    loop that ends early, or is cancelled, leaves nothing behind.
    """

    def __init__(
        self, work: Work, view: Collection[T], size_of: Callable[[T], int], what: str
    ) -> None:
        self._work = work
        self._view = view
        self._size_of = size_of
        self._what = what

    def __aiter__(self) -> AsyncIterator[T]:
        return _Entries(self._work, iter(self._view), self._size_of)

    async def count(self) -> int:
        """The number of entries.  O(n): scans them in a thread."""
        return await self._work.read(len, self._view)

    def __repr__(self) -> str:
        return f"<lsmkv.aio.AsyncRange: {self._what}>"


class _Entries(AsyncIterator[T]):
    """One ``async for``."""

    def __init__(self, work: Work, entries: Iterator[T], size_of: Callable[[T], int]) -> None:
        self._work = work
        self._entries = entries
        self._size_of = size_of
        self._most = _FIRST_ENTRIES
        self._fetched: Iterator[T] = iter(())
        self._fetching: asyncio.Future[list[T]] | None = None

    async def __anext__(self) -> T:
        for entry in self._fetched:
            return entry
        if self._fetching is None:
            self._fetching = self._work.begin_read(self._fetch)
        # Shielded: entries that are on their way when a caller gives up are those of the next call.
        found = await asyncio.shield(self._fetching)
        self._fetching = None
        if not found:
            raise StopAsyncIteration
        self._fetched = iter(found)
        return next(self._fetched)

    def _fetch(self) -> list[T]:
        found: list[T] = []
        size_of, size = self._size_of, 0
        for entry in self._entries:
            found.append(entry)
            size += size_of(entry)
            if len(found) >= self._most or size >= _MOST_BYTES:
                break
        self._most = min(4 * self._most, _MOST_ENTRIES)
        return found


def size_of_item(item: tuple[Sized, Sized]) -> int:
    return len(item[0]) + len(item[1])
