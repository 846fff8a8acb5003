"""Turns, cancellations, and the end of a store under asyncio."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from conftest import SMALL

import lsmkv
import lsmkv.aio
from event_loops import no_thread_is_left, own_threads, run
from gates import WAIT_S
from lsmkv.aio.turns import Turns
from lsmkv.storage.storage import Storage
from threaded_stores import run_all

__all__ = ["no_thread_is_left"]  # a fixture


# Cancelling what only reads


def test_a_range_loses_nothing_when_a_step_is_cancelled(path: str) -> None:
    async def main() -> None:
        async with lsmkv.aio.open(path) as db:
            for number in range(100):
                await db.put(b"%03d" % number, b"")
            keys = aiter(db.keys())
            seen = [await anext(keys)]
            for _ in range(31):
                seen.append(await anext(keys))
            step = asyncio.ensure_future(anext(keys))  # the next part comes from a thread
            await asyncio.sleep(0)
            step.cancel()
            with suppress(asyncio.CancelledError):
                seen.append(await step)
            seen += [key async for key in keys]
            assert seen == [b"%03d" % number for number in range(100)]

    run(main())


def test_a_cancelled_opening_closes_the_store(path: str, recwarn: pytest.WarningsRecorder) -> None:
    class Slow(Storage):
        def exists(self, path: str) -> bool:
            began.set()
            assert gate.wait(WAIT_S)
            return super().exists(path)

    began, gate = threading.Event(), threading.Event()

    async def main() -> None:
        opening = asyncio.ensure_future(lsmkv.aio.open(path, storage=Slow()).__aenter__())
        while not began.is_set():
            await asyncio.sleep(0.001)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        gate.set()
        while own_threads():
            await asyncio.sleep(0.001)
        lsmkv.open(path).close()

    run(main())
    gc.collect()
    assert [str(warning.message) for warning in recwarn] == []


# Turns


def test_other_tasks_run_while_one_writes_without_end(path: str) -> None:
    async def main() -> None:
        async with lsmkv.aio.open(path) as db:
            done = asyncio.Event()

            async def write() -> bool:
                """Whether the other task ended it."""
                for _ in range(100_000):
                    await db.put(b"a", b"1")
                    await db.get(b"a")
                    if done.is_set():
                        return True
                return False

            tasks = [asyncio.create_task(write()) for _ in range(5)]
            await asyncio.sleep(0.01)
            done.set()
            assert await asyncio.gather(*tasks) == [True] * 5

    run(main())


@pytest.fixture
def two_calls_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock takes half a turn."""
    clock = iter(range(1 << 40))
    monkeypatch.setattr("lsmkv.aio.turns.TURN_S", 2)
    monkeypatch.setattr("lsmkv.aio.turns.time.perf_counter", lambda: float(next(clock)))


@pytest.mark.usefixtures("two_calls_in_a_turn")
def test_turns_go_to_those_who_wait_in_their_order() -> None:
    calls: list[int] = []
    later: list[asyncio.Task[None]] = []

    async def call(turns: Turns, task: int) -> None:
        if turns.must_wait():
            await turns.wait()
        calls.append(task)
        if len(later) < 10:
            later.append(asyncio.create_task(call(turns, 50 + len(later))))

    async def main() -> None:
        turns = Turns(asyncio.get_running_loop())
        await asyncio.gather(*(call(turns, task) for task in range(50)))
        await asyncio.gather(*later)

    run(main())
    assert calls == list(range(60))


@pytest.mark.usefixtures("two_calls_in_a_turn")
def test_each_round_of_the_loop_has_one_turn() -> None:
    rounds: list[int] = [0]

    async def call(turns: Turns) -> None:
        for _ in range(10):
            if turns.must_wait():
                await turns.wait()
            rounds[-1] += 1

    def count(loop: asyncio.AbstractEventLoop) -> None:
        rounds.append(0)
        if sum(rounds) < 100:
            loop.call_soon(count, loop)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(count, loop)
        await asyncio.gather(*(call(Turns(loop)) for _ in range(1)))
        turns = Turns(loop)
        await asyncio.gather(*(call(turns) for _ in range(9)))

    run(main())
    assert (sum(rounds), max(rounds) <= 3) == (100, True)


def test_who_waits_for_a_turn_may_give_up(path: str) -> None:
    async def main() -> None:
        turns = Turns(asyncio.get_running_loop())

        async def wait() -> None:
            await turns.wait()

        waiting = [asyncio.create_task(wait()) for _ in range(40)]
        await asyncio.sleep(0)
        for task in waiting[:39]:
            task.cancel()
        await waiting[39]

    run(main())


# The end, and other loops


def uses(db: lsmkv.aio.AsyncDB) -> list[Callable[[], Any]]:
    return [
        lambda: db.get(b"a"), lambda: db.get(b"a", in_thread=True), lambda: db.put(b"a", b"1"),
        lambda: db.delete(b"a"), db.sync, db.flush, db.popitem, db.clear, db.verify,
        lambda: db.multi_get([b"a"]),
    ]  # fmt: skip


def test_a_store_belongs_to_the_loop_that_opened_it(path: str) -> None:
    async def use_elsewhere(db: lsmkv.aio.AsyncDB) -> None:
        for use in uses(db):
            with pytest.raises(RuntimeError, match="belongs to the event loop that opened it"):
                await use()
        with pytest.raises(RuntimeError, match="belongs to the event loop"):
            await db.close()

    async def main() -> None:
        async with lsmkv.aio.open(path) as db:
            with ThreadPoolExecutor(1) as other:
                await asyncio.wrap_future(other.submit(asyncio.run, use_elsewhere(db)))

    run(main())


def test_two_loops_share_a_store(path: str) -> None:
    async def write(shared: lsmkv.DB, loop: int) -> None:
        async with lsmkv.aio.AsyncDB(shared) as db:
            await asyncio.gather(
                *(db.put(b"%d-%03d" % (loop, n), b"v" * 500, sync=n % 10 == 0) for n in range(200))
            )

    with lsmkv.open(path, SMALL) as shared:
        run_all(*[partial(asyncio.run, write(shared, loop)) for loop in (0, 1)])
        assert len(shared) == 400


def test_many_tasks_lose_nothing(path: str) -> None:
    async def main() -> None:
        async with lsmkv.aio.open(path, SMALL) as db:

            async def write(task: int) -> None:
                for number in range(100):
                    key = b"%02d-%03d" % (task, number)
                    await db.put(key, b"v" * 100, sync=number % 50 == 0)
                    assert await db.get(key) == b"v" * 100

            await asyncio.gather(*(write(task) for task in range(20)))
            assert await db.keys().count() == 2000

    run(main())


def test_a_failure_comes_to_who_writes(path: str) -> None:
    class Full(Storage):
        def sync_directory(self, path: str) -> None:
            if fails.is_set():
                raise OSError(28, "No space left on device")
            super().sync_directory(path)

    fails = threading.Event()

    async def main() -> None:
        async with lsmkv.aio.open(path, SMALL, storage=Full()) as db:
            fails.set()
            with pytest.raises(OSError, match="No space"):
                for _ in range(20):
                    await db.put(b"a", bytes(1000))
            with pytest.raises(lsmkv.BackgroundError):
                await db.put(b"a", bytes(1000))
            fails.clear()
            await db.resume()
            await db.put(b"a", b"1")
            assert await db.get(b"a") == b"1"

    run(main())


def test_a_store_that_cannot_be_opened_says_so(path: str) -> None:
    async def main() -> None:
        with pytest.raises(lsmkv.NotAStoreError):
            async with lsmkv.aio.open(path, create_if_missing=False):
                pass
        with pytest.raises(TypeError, match="error_rat"):
            await lsmkv.aio.open(path, error_rat=0.1)  # type: ignore[call-arg]

    run(main())
