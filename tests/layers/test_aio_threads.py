"""Where calls under asyncio run, what waits for what, and how a store is closed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from conftest import SMALL, open_small

import lsmkv
import lsmkv.aio
from event_loops import no_thread_is_left, own_threads, run
from gates import WAIT_S, GatedStorage
from storages import FaultyStorage
from time_limits import in_time

__all__ = ["no_thread_is_left"]  # a fixture


# Where calls run


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Each call of a store's method, and the thread that it runs in."""
    noted: list[tuple[str, str]] = []

    def watch(name: str) -> None:
        method = getattr(lsmkv.DB, name)

        def watched(*args: Any, **kwargs: Any) -> Any:
            noted.append((name, threading.current_thread().name.partition("_")[0]))
            return method(*args, **kwargs)

        monkeypatch.setattr(lsmkv.DB, name, watched)

    for name in ("get", "put", "delete", "sync", "flush"):
        watch(name)
    return noted


LOOP = "MainThread"
WRITER, SYNCER, READER = "lsmkv-aio-writer", "lsmkv-aio-syncer", "lsmkv-aio-reader"


def test_lookups_and_writes_that_are_not_large_run_in_the_loop_and_the_rest_in_threads(
    path: str, calls: list[tuple[str, str]]
) -> None:
    async def main() -> None:
        async with lsmkv.aio.open(path) as db:
            await db.put(b"a", b"1")
            await db.delete(b"b")
            await db.get(b"a")
            await db.get(b"a", in_thread=True)
            await db.put(b"a", b"2", sync=True)
            await db.flush()
            await db.put(b"a", bytes(256 * 1024 + 1))
            await db.put(b"a", bytes(256 * 1024))

    run(main())
    assert calls == [
        ("put", LOOP),
        ("delete", LOOP),
        ("get", LOOP),
        ("get", READER),
        ("put", LOOP),
        ("sync", SYNCER),
        ("flush", READER),
        ("put", WRITER),
        ("put", LOOP),
    ]


def test_a_write_that_needs_a_new_log_runs_in_a_thread(
    path: str, calls: list[tuple[str, str]]
) -> None:
    async def main() -> None:
        async with lsmkv.aio.open(path, SMALL) as db:
            while calls[-1:] != [("put", WRITER)]:
                await db.put(b"a", bytes(1000))

    run(main())
    assert [thread for _, thread in calls[:-1]] == [LOOP] * 8


def test_one_sync_serves_all_who_ask_before_it_begins(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, began = threading.Event(), threading.Event()
    syncs: list[int] = []
    sync = lsmkv.DB.sync

    def held(db: lsmkv.DB) -> None:
        syncs.append(db.stats().writes)
        began.set()
        assert gate.wait(WAIT_S)
        sync(db)

    monkeypatch.setattr(lsmkv.DB, "sync", held)

    async def main() -> None:
        async with lsmkv.aio.open(path) as db:
            first = asyncio.create_task(db.put(b"a", b"1", sync=True))
            while not began.is_set():
                await asyncio.sleep(0.001)
            rest = [asyncio.create_task(db.put(b"%d" % n, b"1", sync=True)) for n in range(20)]
            rest[7].cancel()
            while db.stats().writes < 20:
                await asyncio.sleep(0.001)
            assert not first.done()
            gate.set()
            await asyncio.gather(first, *rest, return_exceptions=True)

    run(main())
    assert syncs == [1, 20]


def test_a_write_waits_for_one_in_the_thread(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    put = lsmkv.DB.put

    def held(db: lsmkv.DB, key: bytes, value: bytes, *, sync: bool = False) -> None:
        assert len(value) < 1 << 20 or gate.wait(WAIT_S)
        put(db, key, value, sync=sync)

    monkeypatch.setattr(lsmkv.DB, "put", held)

    async def main() -> None:
        async with lsmkv.aio.open(path) as db:
            large = asyncio.create_task(db.put(b"key", bytes(1 << 20)))
            await asyncio.sleep(0)
            small = asyncio.create_task(db.put(b"key", b"last"))
            await asyncio.sleep(0.01)
            assert not small.done()
            gate.set()
            await asyncio.gather(large, small)
            assert await db.get(b"key") == b"last"

    run(main())


# Stalls


class Stalled:
    """A store whose flushes are held up, so that its writes stop."""

    def __init__(self, path: str) -> None:
        self.storage = GatedStorage(thread="lsmkv-flush")
        self.db = open_small(path, storage=self.storage, max_immutable_memtables=1)
        self.storage.shut()

    async def stop_writes(self, db: lsmkv.aio.AsyncDB) -> asyncio.Task[None]:
        """Write until a write waits, and return that write."""
        number = 0
        while True:
            writing = asyncio.create_task(db.put(b"%06d" % number, b"v" * 1000))
            number += 1
            while not writing.done():
                await asyncio.sleep(0.001)
                if self.db.stats().write_stops:
                    return writing
            await writing

    def go_on(self) -> None:
        self.storage.open_up()

    def close(self) -> None:
        self.go_on()
        self.db.close()


@pytest.fixture
def stalled(path: str) -> Iterator[Stalled]:
    store = Stalled(path)
    yield store
    store.close()


def test_the_loop_goes_on_while_a_write_is_stopped(stalled: Stalled) -> None:
    async def main() -> None:
        async with lsmkv.aio.AsyncDB(stalled.db) as db:
            writing = await stalled.stop_writes(db)
            assert stalled.db.write_room_bytes == 0
            assert await db.get(b"000000") == b"v" * 1000
            assert len([key async for key in db]) > 5
            assert not writing.done()
            stalled.go_on()
            await writing

    run(main())


def test_writes_keep_their_order_behind_a_stopped_one(stalled: Stalled) -> None:
    async def main() -> None:
        async with lsmkv.aio.AsyncDB(stalled.db) as db:
            writing = await stalled.stop_writes(db)
            later = [asyncio.create_task(db.put(b"key", b"%d" % n)) for n in range(10)]
            await asyncio.sleep(0.01)
            stalled.go_on()
            later.append(asyncio.create_task(db.put(b"key", b"last")))
            await asyncio.gather(writing, *later)
            assert await db.get(b"key") == b"last"

    run(main())


def test_cancelling_a_write_stops_the_wait_and_not_the_write(stalled: Stalled) -> None:
    async def main() -> None:
        async with lsmkv.aio.AsyncDB(stalled.db) as db:
            await stalled.stop_writes(db)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(db.put(b"queued", b"1"), 0.01)
            stalled.go_on()
            await db.put(b"after", b"1")
            assert (await db.get(b"queued"), await db.get(b"after")) == (b"1", b"1")

    run(main())


def test_closing_waits_for_writes_even_when_it_is_cancelled(stalled: Stalled) -> None:
    async def main() -> None:
        db = lsmkv.aio.AsyncDB(stalled.db)
        writing = await stalled.stop_writes(db)
        later = asyncio.create_task(db.put(b"later", b"1"))
        await asyncio.sleep(0.01)
        closing = asyncio.create_task(db.close())
        await asyncio.sleep(0.01)
        closing.cancel()
        await asyncio.sleep(0.01)
        assert not closing.done()
        with pytest.raises(lsmkv.ClosedError, match="is being closed"):
            await db.put(b"too late", b"1")
        stalled.go_on()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await asyncio.gather(writing, later)
        assert db.closed
        assert (stalled.db[b"later"], own_threads()) == (b"1", [])

    run(main())


def test_a_cancelled_task_closes_its_store(path: str) -> None:
    async def use() -> None:
        async with lsmkv.aio.open(path) as db:
            await db.put(b"a", b"1")
            written.set()
            await asyncio.sleep(WAIT_S)

    written = asyncio.Event()

    async def main() -> None:
        using = asyncio.create_task(use())
        await written.wait()
        using.cancel()
        with suppress(asyncio.CancelledError):
            await using
        with lsmkv.open(path) as db:
            assert db[b"a"] == b"1"

    run(main())


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
        expected = [OSError, type(None), type(None)]
        if cancelled:
            expected = [asyncio.CancelledError, *expected[:2]]
        assert [type(each) for each in found] == expected
        lsmkv.open(path).close()

    run(main())
