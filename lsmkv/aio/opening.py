"""Opens stores without blocking the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial, wraps
from typing import Any, ParamSpec

import lsmkv
from lsmkv.aio.db import AsyncDB

P = ParamSpec("P")


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


def _in_thread(opened: Callable[P, lsmkv.DB]) -> Callable[P, Opening]:
    @wraps(opened)
    def open(*args: P.args, **kwargs: P.kwargs) -> Opening:
        return Opening(partial(opened, *args, **kwargs))

    return open


open = _in_thread(lsmkv.open)
