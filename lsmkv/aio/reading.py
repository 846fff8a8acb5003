"""The reading part of stores and snapshots."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, SupportsIndex, TypeVar, overload

import lsmkv
from lsmkv import Buffer
from lsmkv.aio.ranges import AsyncRange, size_of_item
from lsmkv.aio.work import Work
from lsmkv.errors import uncopyable

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _async_range(
    view_of: Callable[Concatenate[lsmkv.DB, _P], Collection[_T]], size_of: Callable[[_T], int]
) -> Callable[Concatenate[AsyncReader, _P], AsyncRange[_T]]:
    """The same method of an :class:`AsyncReader`; its view is for ``async for``."""

    @wraps(view_of)
    def range_of(reader: AsyncReader, /, *args: _P.args, **kwargs: _P.kwargs) -> AsyncRange[_T]:
        reader._work.check()
        view = getattr(reader._reader, view_of.__name__)(*args, **kwargs)
        return AsyncRange(reader._work, view, size_of, view_of.__name__)

    return range_of


def copied(data: Any) -> Any:
    """``data`` as bytes; what is not bytes-like stays as it is, for the store to refuse."""
    if type(data) is bytes:
        return data
    try:
        return bytes(memoryview(data))
    except TypeError:
        return data


def all_copied(keys: Iterable[Any]) -> Iterable[Any]:
    """Each of ``keys`` as :func:`copied`; what is one key stays as it is, for the store to refuse."""
    if isinstance(keys, (bytes, bytearray, memoryview, str)):
        return keys
    return list(map(copied, keys))


class AsyncReader:
    """The reading part of a store or snapshot; RuntimeError in another event loop than its own."""

    def __init__(self, work: Work, reader: lsmkv.DB | lsmkv.Snapshot) -> None:
        self._work = work
        self._reader = reader

    @overload
    async def get(
        self, key: Buffer, default: None = None, *, in_thread: bool = False
    ) -> bytes | None: ...
    @overload
    async def get(self, key: Buffer, default: _T, *, in_thread: bool = False) -> bytes | _T: ...
    async def get(self, key: Buffer, default: Any = None, *, in_thread: bool = False) -> Any:
        """The value of ``key``, or ``default``; ``in_thread``: the block may be on a slow disk."""
        if in_thread:
            return await self._work.read(self._reader.get, copied(key), default)
        self._work.check()
        if self._work.turns.must_wait():
            key = copied(key)
            await self._work.turns.wait()
        return self._reader.get(key, default)

    async def contains(self, key: Buffer, *, in_thread: bool = False) -> bool:
        """Whether ``key`` is there.  Arguments as :meth:`get`."""
        return await self.get(key, in_thread=in_thread) is not None

    async def expires_at(self, key: Buffer, *, in_thread: bool = False) -> int | None:
        """When ``key`` goes: ``DB.expires_at``.  Arguments as :meth:`get`."""
        return await self._look(self._reader.expires_at, copied(key), in_thread)

    async def multi_get(
        self, keys: Iterable[Buffer], *, in_thread: bool = False
    ) -> list[bytes | None]:
        """The value of each key, in order, or None.  Without ``in_thread`` the event loop waits."""
        return await self._look(self._reader.multi_get, all_copied(keys), in_thread)

    async def _look(self, look_up: Callable[[Any], _T], wanted: Any, in_thread: bool) -> _T:
        if in_thread:
            return await self._work.read(look_up, wanted)
        self._work.check()
        if self._work.turns.must_wait():
            await self._work.turns.wait()
        return look_up(wanted)

    keys = _async_range(lsmkv.DB.keys, len)
    values = _async_range(lsmkv.DB.values, len)
    items = _async_range(lsmkv.DB.items, size_of_item)

    def __aiter__(self) -> AsyncIterator[bytes]:
        """All keys: ``async for key in db``."""
        return aiter(self.keys())

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        raise uncopyable(f"an {type(self).__name__}", "open the store by its path instead")


class AsyncSnapshot(AsyncReader):
    """The store as it was at ``AsyncDB.snapshot``; end it with ``async with`` or ``close``."""

    _reader: lsmkv.Snapshot

    @property
    def sequence_number(self) -> int:
        """The number of the last write that the snapshot sees."""
        return self._reader.sequence_number

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._reader.closed

    async def close(self) -> None:
        """End the snapshot, so that the store may drop old entries."""
        self._reader.close()

    async def __aenter__(self) -> Self:
        self._work.check()
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._reader.close()

    def __repr__(self) -> str:
        return f"<lsmkv.aio.AsyncSnapshot of {self._reader!r}>"
