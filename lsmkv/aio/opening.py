"""Opens stores without blocking the event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Unpack

import lsmkv
from lsmkv.aio.db import AsyncDB


class Opening:
    """Result of :func:`lsmkv.aio.open`: ``async with`` it, or await it for an ``AsyncDB``."""

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


def open(
    path: str | os.PathLike[str],
    options: lsmkv.Options | None = None,
    *,
    create_if_missing: bool = True,
    error_if_exists: bool = False,
    read_only: bool = False,
    wait_s: float = 0.0,
    refresh_every_s: float | None = None,
    on_event: Callable[[lsmkv.Event], object] | None = None,
    **overrides: Unpack[lsmkv.OptionsDict],
) -> Opening:
    """Open the store in the directory ``path``, in a thread.

    ``async with`` the result, which closes the store at the end, or await it.  If that is cancelled, the
    store is closed once it is open.  Arguments and errors are those of :func:`lsmkv.open`.
    """
    return Opening(
        partial(
            lsmkv.open,
            path,
            options,
            create_if_missing=create_if_missing,
            error_if_exists=error_if_exists,
            read_only=read_only,
            wait_s=wait_s,
            refresh_every_s=refresh_every_s,
            on_event=on_event,
            **overrides,
        )
    )
