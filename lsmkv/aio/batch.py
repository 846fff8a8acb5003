"""Write batches, committed by ``async with``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Self, SupportsIndex

import lsmkv
from lsmkv import Buffer
from lsmkv.aio.reading import copied
from lsmkv.errors import uncopyable


class AsyncBatch:
    """Operations of ``AsyncDB.write_batch``; ``commit`` or the end of ``async with`` applies all."""

    def __init__(
        self,
        batch: lsmkv.WriteBatch,
        apply: Callable[[lsmkv.WriteBatch, int, bytes | None], Awaitable[None]],
    ) -> None:
        self._batch: lsmkv.WriteBatch | None = batch  # None once committed or discarded
        self._apply = apply
        self._size_bytes = 0
        self._key: bytes | None = None

    def _open(self) -> lsmkv.WriteBatch:
        if self._batch is None:
            raise lsmkv.ClosedError("the write batch was committed or discarded already")
        return self._batch

    def put(
        self,
        key: Buffer,
        value: Buffer,
        *,
        ttl_s: float | None = None,
        expires_at: float | None = None,
    ) -> None:
        """Set ``key`` to ``value`` when the batch is committed: ``WriteBatch.put``."""
        own_key, own_value = copied(key), copied(value)
        self._open().put(own_key, own_value, ttl_s=ttl_s, expires_at=expires_at)
        self._add(own_key, len(own_value))

    def delete(self, key: Buffer) -> None:
        """Remove ``key`` when the batch is committed.  Raises as :meth:`put`."""
        own_key = copied(key)
        self._open().delete(own_key)
        self._add(own_key, 0)

    def delete_range(
        self,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        *,
        prefix: Buffer | None = None,
    ) -> None:
        """Remove the keys of a range when the batch is committed: ``WriteBatch.delete_range``."""
        self._open().delete_range(copied(start), copied(stop), prefix=copied(prefix))
        self._size_bytes += lsmkv.MAX_BATCH_BYTES  # it reads: not in the event loop

    def _add(self, key: bytes, value_bytes: int) -> None:
        self._size_bytes += len(key) + value_bytes
        if self._key is None:
            self._key = key

    def __setitem__(self, key: Buffer, value: Buffer) -> None:
        self.put(key, value)

    def __delitem__(self, key: Buffer) -> None:
        self.delete(key)

    def __len__(self) -> int:
        """Operations collected so far."""
        return len(self._open())

    def clear(self) -> None:
        """Forget the operations collected so far."""
        self._open().clear()
        self._size_bytes, self._key = 0, None

    async def commit(self) -> None:
        """Apply everything in one step.  Raises as ``DB.put``.  It takes nothing more from here on."""
        batch = self._open()
        self._batch = None
        await self._apply(batch, self._size_bytes, self._key)

    @property
    def closed(self) -> bool:
        """Whether the batch was committed or discarded."""
        return self._batch is None

    async def __aenter__(self) -> Self:
        len(self._open())  # raises if it is closed
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            self._batch = None
        elif not self.closed:
            await self.commit()

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        raise uncopyable("an AsyncBatch", "collect the operations of another in write_batch()")

    def __repr__(self) -> str:
        of = "nothing, committed or discarded" if self._batch is None else repr(self._batch)
        return f"<lsmkv.aio.AsyncBatch of {of}>"
