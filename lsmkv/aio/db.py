"""Opens a store, and shows it as an event loop sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial, wraps
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

import lsmkv
from lsmkv import Buffer
from lsmkv.aio.batch import AsyncBatch
from lsmkv.aio.reading import AsyncReader, AsyncSnapshot, copied
from lsmkv.aio.work import Work

P = ParamSpec("P")
T = TypeVar("T")

_INLINE_BYTES: Final = 256 * 1024
"""The largest write in the event loop: it takes below a millisecond."""

_INLINE_OPERATIONS: Final = 1000


class _Sync:
    """One sync, for all who ask before it begins."""

    has_begun = False
    future: Future[None]


def _in_thread(
    method: Callable[Concatenate[lsmkv.DB, P], T], *, writes: bool = False
) -> Callable[Concatenate[AsyncDB, P], Coroutine[Any, Any, T]]:
    """The same method of an ``AsyncDB``: it runs in a thread, on copies of its buffers.

    One that ``writes`` runs in the order of writes.
    """

    @wraps(method)
    async def run(db: AsyncDB, /, *args: P.args, **kwargs: P.kwargs) -> T:
        call: Callable[..., T] = getattr(db._reader, method.__name__)
        own = {name: copied(value) for name, value in kwargs.items()}
        run_on_copies = partial(call, *map(copied, args), **own)
        if not writes:
            return await db._work.read(run_on_copies)
        await db._begin_write()
        return await db._work.write(run_on_copies)

    return run


class AsyncDB(AsyncReader):
    """An open store for one event loop; :func:`lsmkv.aio.open` makes it.

    ``AsyncDB(db)`` shares a store that is open already with other event loops, threads and synchronous
    code.  Closing it then leaves ``db`` open.

    Methods raise what those of :class:`lsmkv.DB` raise; ClosedError once closing has begun; and
    RuntimeError in another event loop.
    """

    _reader: lsmkv.DB

    def __init__(self, db: lsmkv.DB, *, close_db: bool = False) -> None:
        super().__init__(Work(), db)
        self._close_db = close_db
        self._next_sync: _Sync | None = None

    # Writing

    async def put(
        self,
        key: Buffer,
        value: Buffer,
        *,
        ttl_s: float | None = None,
        expires_at: float | None = None,
        sync: bool = False,
    ) -> None:
        """Set ``key`` to ``value``; ``ttl_s`` and ``expires_at`` are as for ``DB.put``.

        Writes of one task take place in their order.  ``sync``: return once the write is safe from a
        power failure; one fdatasync serves all tasks that wait.
        """
        if type(key) is not bytes or type(value) is not bytes:
            key, value = copied(key), copied(value)
        await self._begin_write()
        put: Callable[..., None] = self._reader.put
        if ttl_s is not None or expires_at is not None:
            put = partial(put, ttl_s=ttl_s, expires_at=expires_at)
        if not self._may_write_inline(len(value) if type(value) is bytes else 0):
            await self._work.write(put, key, value, sync=sync)
            return
        put(key, value)
        if sync:
            await self._sync()

    async def delete(self, key: Buffer, *, sync: bool = False) -> None:
        """Remove ``key`` if it is there.  Arguments as :meth:`put`."""
        key = copied(key)
        await self._begin_write()
        if not self._may_write_inline(0):
            await self._work.write(self._reader.delete, key, sync=sync)
            return
        self._reader.delete(key)
        if sync:
            await self._sync()

    touch = _in_thread(lsmkv.DB.touch, writes=True)
    delete_range = _in_thread(lsmkv.DB.delete_range, writes=True)
    popitem = _in_thread(lsmkv.DB.popitem, writes=True)
    clear = _in_thread(lsmkv.DB.clear, writes=True)

    def write_batch(self, *, sync: bool = False) -> AsyncBatch:
        """Operations that the end of the ``async with`` applies, all or none."""
        self._work.check()

        async def apply(batch: lsmkv.WriteBatch, size_bytes: int, key: bytes | None) -> None:
            await self._begin_write()
            if len(batch) > _INLINE_OPERATIONS or not self._may_write_inline(size_bytes):
                await self._work.write(self._commit, batch, key, sync)
                return
            batch.commit()
            if sync:
                await self._sync()

        return AsyncBatch(self._reader.write_batch(), apply)

    def _commit(self, batch: lsmkv.WriteBatch, key: bytes | None, sync: bool) -> None:
        """Commit a large batch, and have the memtable sort it: by a lookup."""
        batch.commit()
        if key is not None:
            self._reader.get(key)
        if sync:
            self._reader.sync()

    async def _begin_write(self) -> None:
        self._work.check()
        if self._work.turns.must_wait():
            await self._work.turns.wait()
            self._work.check()

    def _may_write_inline(self, size_bytes: int) -> bool:
        """Whether a write may run in the loop: it neither waits, nor blocks, nor overtakes another."""
        return (
            size_bytes <= _INLINE_BYTES
            and not self._work.is_writing
            and self._reader.write_room_bytes > 0
        )

    async def sync(self) -> None:
        """Make every write that has returned survive a power failure."""
        self._work.check()
        await self._sync()

    async def _sync(self) -> None:
        waiting = self._next_sync
        if waiting is None or waiting.has_begun:
            waiting = _Sync()
            waiting.future = self._work.begin_sync(partial(self._sync_for, waiting))
            self._next_sync = waiting
        # Shielded: other tasks may wait for the same sync.
        await asyncio.shield(asyncio.wrap_future(waiting.future))

    def _sync_for(self, waiting: _Sync) -> None:
        waiting.has_begun = True  # first: whoever asks from here on may have written after it
        self._reader.sync()

    # Reading one state

    def snapshot(self) -> AsyncSnapshot:
        """The store as it is now, unchanged by later writes: ``async with db.snapshot() as past``."""
        self._work.check()
        return AsyncSnapshot(self._work, self._reader.snapshot())

    # Upkeep, in threads

    flush = _in_thread(lsmkv.DB.flush)
    compact_range = _in_thread(lsmkv.DB.compact_range)
    wait_until_settled = _in_thread(lsmkv.DB.wait_until_settled)
    resume = _in_thread(lsmkv.DB.resume)
    refresh = _in_thread(lsmkv.DB.refresh)

    # Looking inside

    def stats(self) -> lsmkv.Stats:
        """All counters since the store was opened; two results can be subtracted."""
        self._work.check()
        return self._reader.stats()

    def memory_usage(self) -> lsmkv.MemoryUsage:
        """Memory by purpose."""
        self._work.check()
        return self._reader.memory_usage()

    approximate_count = _in_thread(lsmkv.DB.approximate_count)
    approximate_size = _in_thread(lsmkv.DB.approximate_size)
    disk_bytes = _in_thread(lsmkv.DB.disk_bytes)
    explain = _in_thread(lsmkv.DB.explain)
    inspect = _in_thread(lsmkv.DB.inspect)

    async def verify(self, progress: Callable[[int, int], None] | None = None) -> Any:
        """As :meth:`DB.verify`, which calls ``progress`` in the event loop."""
        if progress is None:
            return await self._work.read(self._reader.verify)
        loop = asyncio.get_running_loop()

        def tell(done: int, of: int) -> None:
            loop.call_soon_threadsafe(progress, done, of)

        return await self._work.read(self._reader.verify, tell)

    # The handle

    @property
    def path(self) -> str:
        """The store's directory."""
        return self._reader.path

    @property
    def options(self) -> lsmkv.Options:
        """The options in force."""
        return self._reader.options

    @property
    def read_only(self) -> bool:
        """Whether the store was opened with ``read_only=True``."""
        return self._reader.read_only

    @property
    def closed(self) -> bool:
        """Whether the store is closed."""
        return self._work.has_ended

    async def close(self) -> None:
        """Wait for all work, close the store and end its threads.

        All writes are synced.  No cancellation stops it, not even of all tasks: it is raised when the
        store is closed.  A second call waits for the first.  OSError: syncing failed; the store is closed
        anyway, and one call that is not cancelled gets the error.
        """
        await self._work.end(self._reader.close if self._close_db else lambda: None)

    async def __aenter__(self) -> Self:
        self._work.check()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<lsmkv.aio.AsyncDB of {self._reader!r}>"


class Opening:
    """Result of :func:`lsmkv.aio.open`, which opens a store in a thread.

    ``async with`` it, which closes the store at the end, or await it for an ``AsyncDB``.  If that is
    cancelled, the store is closed once it is open.
    """

    def __init__(self, opened: partial[lsmkv.DB]) -> None:
        self._open = opened
        self._db: AsyncDB | None = None

    async def _opened(self) -> AsyncDB:
        opener = ThreadPoolExecutor(1, "lsmkv-aio-opener")
        opening = opener.submit(self._open)
        opener.shutdown(wait=False)  # its thread ends with the opening
        try:
            db = await asyncio.shield(asyncio.wrap_future(opening))
        except asyncio.CancelledError:
            opening.add_done_callback(_close)
            raise
        finally:
            if opening.done():
                opener.shutdown()  # at once: wait for the thread's last instructions
        return AsyncDB(db, close_db=True)

    def __await__(self) -> Generator[Any, None, AsyncDB]:
        return self._opened().__await__()

    async def __aenter__(self) -> AsyncDB:
        self._db = await self._opened()
        return self._db

    async def __aexit__(self, *_error: object) -> None:
        assert self._db is not None
        await self._db.close()


def _close(opening: Future[lsmkv.DB]) -> None:
    """Close a store that was opened after its caller had gone."""
    if opening.exception() is None:
        opening.result().close()


def _opening(opened: Callable[P, lsmkv.DB]) -> Callable[P, Opening]:
    @wraps(opened)
    def open(*args: P.args, **kwargs: P.kwargs) -> Opening:
        return Opening(partial(opened, *args, **kwargs))

    return open


open = _opening(lsmkv.open)
