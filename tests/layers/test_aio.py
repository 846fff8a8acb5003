"""Stores under asyncio do what stores do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from conftest import SMALL
from hypothesis import given, settings
from hypothesis import strategies as st

import lsmkv
import lsmkv.aio
from event_loops import no_thread_is_left, run

__all__ = ["no_thread_is_left"]  # a fixture


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


def test_a_long_range_comes_in_parts(path: str) -> None:
    expected = [(b"%05d" % number, b"v" * 100) for number in range(5000)]

    async def main() -> None:
        async with lsmkv.aio.open(path) as db:
            async with db.write_batch() as batch:
                for key, value in expected:
                    batch.put(key, value)
            assert [item async for item in db.items()] == expected

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
            assert await db.disk_bytes() > await db.approximate_size()
            assert db.memory_usage().memtable_bytes >= 0
            assert (db.path, db.read_only, db.options.error_rate) == (path, False, 0.001)
        async with lsmkv.aio.open(path, read_only=True) as db:
            assert await db.refresh() is False
            assert await db.get(b"a") == b"1"
            with pytest.raises(lsmkv.ReadOnlyError):
                await db.put(b"a", b"2")
            with pytest.raises(lsmkv.ReadOnlyError):
                db.write_batch()

    run(main())
