"""Scenario ``cancelled`` of the part ``load``: tasks of ``lsmkv.aio`` are cancelled at each await.

A program of random calls runs over and over, cancelled at its first step, at its second, and so on: at
once, a round of the loop later, just when what it waits for is done, or with all other tasks.  It ends
there, or goes on with its next call.  Then its store must be closed and free, and no thread left; every
acknowledged write must be there, the cancelled one as a whole or not at all, and all with the bytes that
their buffers held at the call.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final
from unittest import mock

import lsmkv
import lsmkv.aio
from torture.framework.changes import check_contents
from torture.framework.part import UnsoundError, expect
from torture.framework.store_checks import Traces, store_threads
from torture.load.interrupts import Model
from torture.load.scenario import SMALL, Job

_PREFIX: Final = b"m/"
_AFTER: Final = _PREFIX + b"after"
_CALLS: Final = 12
_LARGE_BYTES: Final = 300_000  # a thread writes it
_MANY: Final = 1500  # and a batch of so many operations
_OPENING_LIMIT_S: Final = 20.0
_POLL_S: Final = 0.0005
_WAYS: Final = ("at once", "a round later", "when done", "with all tasks")
_OPTIONS: Final = SMALL.replace(write_buffer_size_bytes=8192)


class Cancelling:
    """Awaits ``program``, and cancels its task at step ``at``; ``came``: there was such a step."""

    def __init__(self, program: Awaitable[None], at: int, way: str) -> None:
        self.came = False
        self._program = program
        self._left = at
        self._way = way

    def __await__(self) -> Generator[Any, Any, None]:
        steps = self._program.__await__()
        step = partial(next, steps)
        while True:
            try:
                awaited = step()
            except StopIteration:
                return
            self._left -= 1
            if self._left == 0:
                self.came = True
                self._cancel(awaited)
            try:
                yield awaited
                step = partial(next, steps)
            except BaseException as error:
                step = partial(steps.throw, error)

    def _cancel(self, awaited: asyncio.Future[Any] | None) -> None:
        """Cancel the task, which is about to wait; for None, until the loop's next round."""
        task = asyncio.current_task()
        assert task is not None
        if self._way == "with all tasks":
            for each in asyncio.all_tasks():
                each.cancel()
        elif self._way == "a round later":
            asyncio.get_running_loop().call_soon(task.cancel)
        elif self._way == "when done" and awaited is not None:
            awaited.add_done_callback(lambda _: task.cancel())
        else:
            task.cancel()


class Program:
    """Random calls of one store; ``model`` has what they wrote.

    Attributes:
        db: the store, unless its opening was cancelled.
    """

    def __init__(self, path: Path, model: Model, dice: random.Random, goes_on: bool) -> None:
        self.db: Any = None
        self._path = path
        self._model = model
        self._dice = dice
        self._goes_on = goes_on

    async def run(self) -> None:
        """Open the store, make the calls, and close it."""
        async with lsmkv.aio.open(self._path, _OPTIONS) as self.db:
            for _ in range(_CALLS):
                try:
                    await self._call()
                except asyncio.CancelledError:
                    if not self._goes_on:
                        raise
                    await self._settle()

    async def _settle(self) -> None:
        """Find out whether the cancelled write took place."""
        await self.db.put(_AFTER, b"")  # behind what a thread still writes
        found = {key: await self.db.get(key) for key in self._model.unsure}
        self._model.look({key: value for key, value in found.items() if value is not None})
        self._model.values[_AFTER] = b""

    async def _call(self) -> None:
        calls = (self._write, self._commit, self._pop, self._look_up, self._scan, self._upkeep)
        await self._dice.choices(calls, (8, 3, 1, 3, 2, 2))[0]()

    async def _write(self) -> None:
        key, value = self._model.change()
        if value is not None and self._dice.random() < 0.05:
            value += bytes(_LARGE_BYTES)
        buffers = bytearray(key), bytearray(value or b"")
        sync = self._dice.random() < 0.3
        self._model.unsure = {key: value}
        asyncio.get_running_loop().call_soon(_use_again, *buffers)  # as soon as the call waits
        if value is None:
            await self.db.delete(buffers[0], sync=sync)
        else:
            await self.db.put(*buffers, sync=sync)
        self._model.settle(True)

    async def _commit(self) -> None:
        changes = [self._model.change() for _ in range(self._dice.choice((2, 20, _MANY)))]
        self._model.unsure = dict(changes)
        async with self.db.write_batch(sync=self._dice.random() < 0.3) as batch:
            for key, value in changes:
                if value is None:
                    batch.delete(key)
                else:
                    batch.put(key, value)
        self._model.settle(True)

    async def _pop(self) -> None:
        if self._model.values:
            first = min(self._model.values.items())
            self._model.unsure = {first[0]: None}
            found = await self.db.popitem()
            expect(found == first, f"popitem returned {found!r:.100}, not {first!r:.100}")
            self._model.settle(True)

    async def _look_up(self) -> None:
        keys = [self._model.key() for _ in range(5)]
        in_thread = self._dice.random() < 0.5
        found = await self.db.multi_get(keys, in_thread=in_thread)
        found.append(await self.db.get(keys[0], in_thread=in_thread))
        expected = [self._model.values.get(key) for key in (*keys, keys[0])]
        expect(found == expected, f"lookups of {keys} found {found!r:.300}")

    async def _scan(self) -> None:
        async with self.db.snapshot() as past:
            check_contents({key: value async for key, value in past.items()}, self._model.values)

    async def _upkeep(self) -> None:
        db = self.db
        await self._dice.choice((db.flush, db.sync, db.compact_range, db.wait_until_settled))()


def _use_again(*buffers: bytearray) -> None:
    for buffer in buffers:
        buffer[:] = b"used again"


def attempt(job: Job, model: Model, dice: random.Random, at: int) -> bool:
    """Run a program, cancelled at step ``at``, and check its store; False without such a step."""
    goes_on, way = dice.random() < 0.5, job.dice(at).choice(_WAYS)
    before = store_threads()
    program = Program(job.path, model, dice, goes_on)
    cancelling = Cancelling(program.run(), at, way)
    tasks: list[asyncio.Task[None]] = []

    async def main() -> None:
        tasks.append(asyncio.ensure_future(cancelling))
        await asyncio.wait(tasks)

    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(main())
    with contextlib.suppress(asyncio.CancelledError):
        tasks[0].result()
    tasks.clear()
    if program.db is None:  # a thread opens the store, and closes it
        give_up = time.monotonic() + _OPENING_LIMIT_S
        while store_threads() - before and time.monotonic() < give_up:
            time.sleep(_POLL_S)
    else:
        expect(program.db.closed, "the program has ended, and its store is not closed")
    left = store_threads() - before
    expect(not left, f"the program has ended ({way}), and threads of its store have not: {left}")
    try:
        with lsmkv.open(job.path, _OPTIONS) as db:
            model.look(db)
            model.check(db)
    except lsmkv.LockedError as error:
        raise UnsoundError(f"the program has ended ({way}): {error}") from error
    return cancelling.came


def run(job: Job) -> None:
    """Cancel until the time is up."""
    deadline = job.deadline()
    work(job, lambda: time.monotonic() < deadline)


def work(job: Job, goes_on: Callable[[], bool]) -> None:
    """Cancel programs as long as ``goes_on()`` is true."""
    lsmkv.open(job.path, _OPTIONS).close()
    model = Model(_PREFIX, job.dice("model"))
    traces = Traces()
    with mock.patch("lsmkv.aio.turns.TURN_S", 0.0):  # calls await their turns
        for number in count(1):
            for at in count(1):
                if not goes_on():
                    return
                if not attempt(job, model, job.dice(number), at):
                    break
                job.counts["cancellations"] += 1
            traces.check()
            job.counts["programs"] += 1
