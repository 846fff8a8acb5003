"""Stores under asyncio do what stores do, with their arguments as they were."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import lsmkv
import lsmkv.aio
from event_loops import no_thread_is_left, run
from gates import WAIT_S
from lsmkv.aio.turns import Turns

__all__ = ["no_thread_is_left"]  # a fixture


def test_a_loop_that_ends_early_leaves_nothing_behind(path: str) -> None:
    async def main() -> None:
        async with lsmkv.aio.open(path) as db:
            for number in range(100):
                await db.put(b"%03d" % number, b"")
            async for key in db.keys():
                if key == b"050":
                    break

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
            batch.put(b"c", b"1", expires_at=9e9)
            assert len(batch) == 2
            await batch.commit()
            assert (await db.get(b"a"), await db.expires_at(b"c", in_thread=True)) == (None, 9e9)
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
            assert await db.disk_bytes() > await db.approximate_size()
            assert db.memory_usage().memtable_bytes >= 0
            assert (db.path, db.read_only, db.options.error_rate) == (path, False, 0.001)
            with pytest.raises(TypeError, match="by its path"):
                pickle.dumps(db)
        assert "closed" in repr(db)
        for use in (db.sync, db.flush, db.verify):
            with pytest.raises(lsmkv.ClosedError):
                await use()
        async with lsmkv.aio.open(path, read_only=True) as db:
            assert await db.refresh() is False
            assert await db.get(b"a") == b"1"
            with pytest.raises(lsmkv.ReadOnlyError):
                await db.put(b"a", b"2")
            with pytest.raises(lsmkv.ReadOnlyError):
                db.write_batch()

    run(main())


Buffer = bytes | bytearray
Call = Callable[[lsmkv.aio.AsyncDB, Buffer, Buffer], Awaitable[Any]]


async def commit(db: lsmkv.aio.AsyncDB, key: Buffer, value: Buffer) -> None:
    async with db.write_batch() as batch:
        batch.put(key, value)
        batch.delete(value)


async def compact(db: lsmkv.aio.AsyncDB, key: Buffer, value: Buffer) -> int:
    await db.compact_range(key, value, force=True)
    return db.stats().compactions


async def explain(db: lsmkv.aio.AsyncDB, key: Buffer, value: Buffer) -> object:
    return (await db.explain(key)).key


async def scan(db: lsmkv.aio.AsyncDB, key: Buffer, value: Buffer) -> object:
    return [found async for found in db.items(start=key, stop=value)]


CALLS: dict[str, Call] = {
    "put": lambda db, key, value: db.put(key, value),
    "synced put": lambda db, key, value: db.put(key, value, sync=True),
    "delete": lambda db, key, value: db.delete(key),
    "batch": commit,
    "get": lambda db, key, value: db.get(key),
    "get in a thread": lambda db, key, value: db.get(key, in_thread=True),
    "contains": lambda db, key, value: db.contains(key),
    "multi_get": lambda db, key, value: db.multi_get([key, value]),
    "multi_get in a thread": lambda db, key, value: db.multi_get(
        iter([key, value]), in_thread=True
    ),
    "get of a snapshot": lambda db, key, value: db.snapshot().get(key),
    "compact_range": compact,
    "approximate_size": lambda db, key, value: db.approximate_size(key, value),
    "explain": explain,
    "items": scan,
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("is_writing", [False, True])
def test_buffers_may_be_used_again_once_a_call_waits(
    tmp_path: Path, call: str, is_writing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For its turn, or for a thread."""

    async def use(path: Path, kind: type[Buffer]) -> tuple[object, list[tuple[bytes, bytes]]]:
        async with lsmkv.aio.open(path) as db:
            for key in (b"key", b"other", b"value"):
                await db.put(key, b"old " + key)
            await db.flush()
            gate = threading.Event()
            pools = [db._work._readers] * 4 + [db._work._syncer]
            if is_writing:
                asyncio.create_task(db._work.write(gate.wait, WAIT_S))  # noqa: RUF006
            for pool in pools:
                pool.submit(gate.wait, WAIT_S)
            buffers = kind(b"key"), kind(b"value")
            calling = asyncio.ensure_future(CALLS[call](db, *buffers))
            await asyncio.sleep(0)
            for buffer in buffers:
                if isinstance(buffer, bytearray):
                    buffer[:] = b"zzz"
            gate.set()
            found = await calling
            return found, [item async for item in db.items()]

    async def main() -> None:
        with monkeypatch.context() as patches:
            patches.setattr(Turns, "must_wait", lambda turns: True)
            expected = await use(tmp_path / "bytes", bytes)
            assert await use(tmp_path / "bytearray", bytearray) == expected

    run(main())


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_batch_takes_nothing_more_once_its_commit_has_begun(
    path: str, is_cancelled: bool
) -> None:
    async def main() -> None:
        async with lsmkv.aio.open(path) as db:
            gate = threading.Event()
            writing = asyncio.create_task(db._work.write(gate.wait, WAIT_S))
            batch = db.write_batch()
            batch.put(b"a", b"1")
            await asyncio.sleep(0)
            committing = asyncio.create_task(batch.commit())
            await asyncio.sleep(0)
            if is_cancelled:
                committing.cancel()
            assert batch.closed and "committed" in repr(batch)
            for use in (lambda: batch.put(b"b", b"1"), batch.clear, lambda: len(batch)):
                with pytest.raises(lsmkv.ClosedError):
                    use()
            gate.set()
            await asyncio.gather(writing, committing, return_exceptions=True)
            stored = [key async for key in db]
            # A commit that was cancelled before it had its turn stores nothing.
            assert stored == [b"a"] or (is_cancelled and stored == [])

    run(main())


@pytest.mark.parametrize("wrong", ["a", 1, None, [b"a"]])
def test_what_is_no_buffer_is_refused_on_the_way_to_a_thread(path: str, wrong: Any) -> None:
    async def main() -> None:
        async with lsmkv.aio.open(path) as db:
            for call in (db.get(wrong, in_thread=True), db.multi_get([wrong], in_thread=True)):
                with pytest.raises(TypeError, match="a key is bytes"):
                    await call
            with pytest.raises(TypeError, match="not one key"):
                await db.multi_get(b"a", in_thread=True)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="key is bytes"):
                db.write_batch().put(wrong, b"1")

    run(main())
