"""Stores under asyncio: where calls run, what waits for what, and what a cancellation leaves."""

from __future__ import annotations

import asyncio
import gc
import pickle
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import SMALL, open_small
from hypothesis import given, settings
from hypothesis import strategies as st

import lsmkv
import lsmkv.aio
from gates import WAIT_S, GatedStorage
from lsmkv.aio.turns import Turns
from lsmkv.storage.storage import Storage


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run it; warnings about what is never awaited or retrieved are errors of the test."""
    asyncio.run(asyncio.wait_for(main, WAIT_S))


def own_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("lsmkv-aio")]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    gc.collect()
    assert own_threads() == []


# Like a store


KEYS = st.binary(max_size=2)
STEPS = st.one_of(
    st.tuples(st.just("put"), KEYS, st.binary(max_size=3), st.booleans()),
    st.tuples(st.just("delete"), KEYS, st.booleans()),
    st.tuples(st.just("batch"), st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=3)))),
    st.tuples(st.just("get"), KEYS, st.booleans()),
    st.tuples(st.sampled_from(["scan", "flush", "clear", "popitem", "compact"])),
)


@settings(max_examples=40)
@given(st.lists(STEPS, max_size=15))
def test_it_is_a_store(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Any, ...]]
) -> None:
    model: dict[bytes, bytes] = {}
    path = tmp_path_factory.mktemp("aio")

    async def step(db: lsmkv.aio.AsyncDB, name: str, *arguments: Any) -> None:
        match name, arguments:
            case "put", (key, value, sync):
                await db.put(key, value, sync=sync)
                model[key] = value
            case "delete", (key, sync):
                await db.delete(key, sync=sync)
                model.pop(key, None)
            case "batch", (operations,):
                async with db.write_batch() as batch:
                    for key, value in operations:
                        if value is None:
                            del batch[key]
                            model.pop(key, None)
                        else:
                            batch[key] = model[key] = value
            case "get", (key, in_thread):
                assert await db.get(key, in_thread=in_thread) == model.get(key)
                assert await db.contains(key) == (key in model)
            case "clear", _:
                await db.clear()
                model.clear()
            case "popitem", _:
                if model:
                    first = min(model)
                    assert await db.popitem() == (first, model.pop(first))
            case "flush", _:
                await db.flush()
            case "compact", _:
                await db.compact_range()
        found = [item async for item in db.items()]
        assert found == sorted(model.items())

    async def main() -> None:
        async with lsmkv.aio.open(path, SMALL) as db:
            for name, *arguments in steps:
                await step(db, name, *arguments)
            assert await db.multi_get(list(model)) == list(model.values())
            assert await db.multi_get(list(model), in_thread=True) == list(model.values())

    run(main())
    with lsmkv.open(path) as db:
        assert dict(db) == model


def test_ranges_have_bounds_and_directions(path: str) -> None:
    async def main() -> None:
        async with lsmkv.aio.open(path) as db:
            for key in (b"a", b"b", b"c", b"ca"):
                await db.put(key, key.upper())
            assert [key async for key in db.keys(start=b"b", stop=b"ca")] == [b"b", b"c"]
            assert [key async for key in db.keys(prefix=b"c", reverse=True)] == [b"ca", b"c"]
            assert [value async for value in db.values(stop=b"b")] == [b"A"]
            assert await db.items(start=b"b").count() == 3

    run(main())


def test_a_long_range_comes_in_parts(path: str) -> None:
    expected = [(b"%05d" % number, b"v" * 100) for number in range(5000)]

    async def main() -> None:
        async with lsmkv.aio.open(path) as db:
            async with db.write_batch() as batch:
                for key, value in expected:
                    batch.put(key, value)
            assert [item async for item in db.items()] == expected

    run(main())


def test_a_range_shows_the_store_as_it_was(path: str) -> None:
    async def main() -> None:
        async with lsmkv.aio.open(path) as db:
            await db.put(b"a", b"1")
            seen = db.items()
            await db.put(b"b", b"2")
            for _ in range(2):
                assert [item async for item in seen] == [(b"a", b"1")]

    run(main())


def test_a_loop_that_ends_early_leaves_nothing_behind(path: str) -> None:
    async def main() -> None:
        async with lsmkv.aio.open(path) as db:
            for number in range(100):
                await db.put(b"%03d" % number, b"")
            async for key in db.keys():
                if key == b"050":
                    break

    run(main())


def test_a_snapshot_shows_the_store_as_it_was(path: str) -> None:
    async def main() -> None:
        async with lsmkv.aio.open(path) as db:
            await db.put(b"a", b"1")
            async with db.snapshot() as past:
                await db.put(b"a", b"2")
                await db.put(b"b", b"2")
                assert await past.get(b"a") == b"1"
                assert [key async for key in past] == [b"a"]
                assert past.sequence_number == 1
            assert past.closed
            with pytest.raises(lsmkv.ClosedError):
                await past.get(b"a")

    run(main())


def test_a_batch_that_raises_writes_nothing(path: str) -> None:
    async def main() -> None:
        async with lsmkv.aio.open(path) as db:
            with pytest.raises(ZeroDivisionError):
                async with db.write_batch() as batch:
                    batch.put(b"a", b"1")
                    1 / 0  # noqa: B018
            assert (await db.get(b"a"), batch.closed) == (None, True)
            batch = db.write_batch(sync=True)
            batch.put(b"a", b"1")
            batch.clear()
            batch.delete(b"b")
            assert len(batch) == 1
            await batch.commit()
            assert await db.get(b"a") is None
            with pytest.raises(lsmkv.ClosedError):
                async with batch:
                    pass

    run(main())


def test_all_of_a_store_can_be_asked(path: str) -> None:
    async def main() -> None:
        async with lsmkv.aio.open(path) as db:
            await db.put(b"a", b"1")
            await db.sync()
            await db.flush()
            await db.wait_until_settled()
            await db.resume()
            told: list[tuple[int, int]] = []
            assert (await db.verify(lambda done, of: told.append((done, of)))).ok
            await asyncio.sleep(0)
            assert told[-1] == (1, 1)
            assert (await db.inspect()).entry_count == 1
            assert (await db.explain(b"a")).value == b"1"
            assert (await db.approximate_count(), db.stats().writes) == (1, 1)
            assert await db.approximate_size() > 0
            assert db.memory_usage().memtables >= 0
            assert (db.path, db.read_only, db.options.error_rate) == (path, False, 0.01)
        async with lsmkv.aio.open(path, read_only=True) as db:
            await db.refresh()
            assert await db.get(b"a") == b"1"
            with pytest.raises(lsmkv.ReadOnlyError):
                await db.put(b"a", b"2")
            with pytest.raises(lsmkv.ReadOnlyError):
                db.write_batch()

    run(main())


@pytest.mark.parametrize("value", [1, None, "text"])
def test_bad_input_is_named_as_by_a_store(path: str, value: Any) -> None:
    async def main() -> None:
        async with lsmkv.aio.open(path) as db:
            with pytest.raises(TypeError, match="a value is bytes"):
                await db.put(b"a", value)
            with pytest.raises(TypeError, match="a key is bytes"):
                await db.get(value)

    run(main())


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


LOOP, WRITER, SYNCER, READER = (
    "MainThread",
    "lsmkv-aio-writer",
    "lsmkv-aio-syncer",
    "lsmkv-aio-reader",
)


def test_lookups_and_writes_run_in_the_loop_and_the_rest_in_threads(
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

    run(main())
    assert calls == [
        ("put", LOOP),
        ("delete", LOOP),
        ("get", LOOP),
        ("get", READER),
        ("put", LOOP),
        ("sync", SYNCER),
        ("flush", READER),
    ]


def test_a_large_write_runs_in_a_thread(path: str, calls: list[tuple[str, str]]) -> None:
    async def main() -> None:
        async with lsmkv.aio.open(path) as db:
            await db.put(b"a", bytes(256 * 1024 + 1))
            await db.put(b"a", bytes(256 * 1024))

    run(main())
    assert calls == [("put", WRITER), ("put", LOOP)]


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
        waiting = [asyncio.create_task(turns.wait()) for _ in range(40)]
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


def test_use_after_close_is_an_error(path: str) -> None:
    async def main() -> None:
        async with lsmkv.aio.open(path) as db:
            await db.put(b"a", b"1")
            keys = aiter(db.keys())
            batch = db.write_batch()
            batch.put(b"b", b"1")
        for use in uses(db):
            with pytest.raises(lsmkv.ClosedError):
                await use()
        for make in (db.keys, db.snapshot, db.write_batch, db.stats):
            with pytest.raises(lsmkv.ClosedError):
                make()
        with pytest.raises(lsmkv.ClosedError):
            await anext(keys)
        with pytest.raises(lsmkv.ClosedError):
            await batch.commit()
        await db.close()
        assert "closed" in repr(db)

    run(main())


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
        threads = [
            threading.Thread(target=asyncio.run, args=(write(shared, loop),)) for loop in (0, 1)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
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
            await lsmkv.aio.open(path, error_rat=0.1)

    run(main())


def test_it_may_be_awaited_instead(path: str) -> None:
    async def main() -> None:
        db = await lsmkv.aio.open(path)
        await db.put(b"a", b"1")
        with pytest.raises(TypeError, match="by its path"):
            pickle.dumps(db)
        await db.close()

    run(main())


def test_a_shared_store_stays_open(tmp_path: Path) -> None:
    async def main() -> None:
        with lsmkv.open(tmp_path / "store") as shared:
            async with lsmkv.aio.AsyncDB(shared) as db:
                await db.put(b"a", b"1")
            assert shared[b"a"] == b"1"

    run(main())
