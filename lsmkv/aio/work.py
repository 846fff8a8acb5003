"""Where the calls of one store run: in the event loop, or in threads of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

from lsmkv.aio.turns import Turns
from lsmkv.errors import ClosedError

P = ParamSpec("P")
T = TypeVar("T")

_READERS: Final = 4


class Work:
    """The threads of one store, and the order of its writes.

    One thread writes, so that writes take place in the order of the calls.  One syncs, so that syncs do
    not wait for a stalled write.  The others do all that only reads or waits.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._writer = ThreadPoolExecutor(1, "lsmkv-aio-writer")
        self._syncer = ThreadPoolExecutor(1, "lsmkv-aio-syncer")
        self._readers = ThreadPoolExecutor(_READERS, "lsmkv-aio-reader")
        self._unfinished_writes = 0
        self._closer = ThreadPoolExecutor(1, "lsmkv-aio-closer")
        self._ending: Future[None] | None = None
        self._error: BaseException | None = None  # of the end, until a caller is told
        self.turns = Turns(self._loop)

    def check(self) -> None:
        """Raise in another event loop, and once the end has begun."""
        if self._ending is not None:
            raise ClosedError("the store is closed, or is being closed")
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError(
                "the store belongs to the event loop that opened it: open it once with lsmkv.open, "
                "and make an lsmkv.aio.AsyncDB(db) in each loop"
            )

    @property
    def is_writing(self) -> bool:
        """Whether a write in the loop could overtake one in the thread."""
        return self._unfinished_writes > 0

    async def read(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``function`` in a thread.  A cancellation drops it if it has not begun."""
        self.check()
        return await asyncio.wrap_future(self._readers.submit(function, *args, **kwargs))

    def begin_read(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Start ``function`` in a thread."""
        self.check()
        return asyncio.wrap_future(self._readers.submit(function))

    async def write(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``function`` in the writing thread, also when the caller gives up."""
        running = asyncio.wrap_future(self._writer.submit(function, *args, **kwargs))
        self._unfinished_writes += 1
        running.add_done_callback(self._wrote)
        return await asyncio.shield(running)

    def _wrote(self, _done: asyncio.Future[T]) -> None:
        self._unfinished_writes -= 1

    def begin_sync(self, function: Callable[[], None]) -> Future[None]:
        """Start ``function`` in the thread that syncs, right after a check."""
        return self._syncer.submit(function)

    @property
    def has_ended(self) -> bool:
        return self._ending is not None and self._ending.done()

    async def end(self, finish: Callable[[], None]) -> None:
        """Wait for all work, then run ``finish``; in a second call, wait for the first.

        A thread does it, which starts before the first ``await``: no cancellation stops it.  One of this
        call is raised after it; what ``finish`` raises, in the first call that is not cancelled.
        """
        if self._ending is None:
            self.check()
            self._ending = self._closer.submit(self._end, finish)
            self._closer.shutdown(wait=False)  # its thread ends with that
        ending, cancelled = asyncio.wrap_future(self._ending), False
        while not ending.done():
            try:
                await asyncio.wait({ending})
            except asyncio.CancelledError:
                cancelled = True
        self._closer.shutdown()  # wait for the thread's last instructions
        if cancelled:
            raise asyncio.CancelledError
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # or its traceback would keep it, and its callers' frames, alive

    def _end(self, finish: Callable[[], None]) -> None:
        for threads in (self._writer, self._syncer, self._readers):
            threads.shutdown()
        try:
            finish()
        except BaseException as error:
            self._error = error
