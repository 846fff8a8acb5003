"""Closing a store under asyncio: nothing stops it, and each call waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import pytest

import lsmkv
import lsmkv.aio
from event_loops import no_thread_is_left, own_threads, run
from gates import WAIT_S, GatedStorage
from storages import FaultyStorage
from time_limits import in_time

__all__ = ["no_thread_is_left"]  # a fixture


@pytest.mark.parametrize("rounds_of_the_loop", [1, 2, 3, 5])
def test_cancelling_every_task_does_not_stop_a_close(path: str, rounds_of_the_loop: int) -> None:
    async def main() -> None:
        of_the_test = asyncio.all_tasks()
        db = await lsmkv.aio.open(path)
        await db.put(b"a", b"1")
        closing = asyncio.create_task(db.close())
        for _ in range(rounds_of_the_loop):
            await asyncio.sleep(0)
        for task in asyncio.all_tasks() - of_the_test:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await closing
        assert db.closed
        lsmkv.open(path).close()
        await db.close()

    run(main())


def test_the_end_of_a_loop_leaves_no_store_locked_that_was_being_closed(path: str) -> None:
    async def main() -> None:
        db = await lsmkv.aio.open(path)
        await db.put(b"a", b"1")
        kept.extend((db, asyncio.create_task(db.close())))  # begins in the loop's last round

    kept: list[object] = []  # or the end of the last reference would close the store
    in_time(partial(asyncio.run, main()))  # wait_for would take more rounds of the loop
    lsmkv.open(path).close()


@pytest.fixture
def storage() -> Iterator[GatedStorage]:
    """Holds up the close of a store."""
    storage = GatedStorage(suffix=".log", thread="lsmkv-close")
    yield storage
    storage.open_up()


def test_a_second_close_waits_for_the_first(path: str, storage: GatedStorage) -> None:
    async def main() -> None:
        db = await lsmkv.aio.open(path, storage=storage)
        await db.put(b"a", b"1")
        storage.shut()
        first = asyncio.create_task(db.close())
        await asyncio.to_thread(storage.held_up.wait, WAIT_S)
        first.cancel()
        second = asyncio.create_task(db.close())
        await asyncio.sleep(0.01)
        assert not (first.done() or second.done() or db.closed)
        storage.open_up()
        await second
        with pytest.raises(asyncio.CancelledError):
            await first
        lsmkv.open(path).close()

    run(main())


def test_a_close_goes_on_when_its_loop_has_ended(path: str, storage: GatedStorage) -> None:
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda loop, context: None)  # of the task that never ends

    async def begin() -> asyncio.Task[None]:
        db = await lsmkv.aio.open(path, storage=storage)
        await db.put(b"a", b"1")
        storage.shut()
        closing = asyncio.create_task(db.close())
        await asyncio.to_thread(storage.held_up.wait, WAIT_S)
        return closing

    closing = loop.run_until_complete(begin())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    assert not closing.done()
    storage.open_up()
    for thread in threading.enumerate():
        if thread.name in own_threads():
            thread.join(WAIT_S)
    lsmkv.open(path).close()


@pytest.mark.parametrize("cancelled", [False, True])
def test_one_close_that_is_not_cancelled_gets_the_error(path: str, cancelled: bool) -> None:
    storage = FaultyStorage()

    async def main() -> None:
        db = await lsmkv.aio.open(path, storage=storage)
        await db.put(b"a", b"1")
        storage.fail("sync", times=None)
        closing = [asyncio.create_task(db.close()) for _ in range(3)]
        await asyncio.sleep(0)
        if cancelled:
            closing[0].cancel()
        found = await asyncio.gather(*closing, return_exceptions=True)
        assert [type(each) for each in found] == (
            [asyncio.CancelledError, OSError, type(None)]
            if cancelled
            else [OSError, type(None), type(None)]
        )
        lsmkv.open(path).close()

    run(main())
