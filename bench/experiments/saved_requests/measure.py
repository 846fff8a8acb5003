"""Measures one store of ``saved-requests``: what lookups ask of the server, by its log."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import lsmkv
from lsmkv.options import KIB, MIB, Options

from ...harness.object_server import BUCKET, ObjectServer, start
from ...harness.run_stores import VALUE_BYTES, write_runs
from ...harness.shapes import exact_rate
from ...workloads.distributions import generator
from ...workloads.keys import absent_key, present_key
from . import slatedb_store
from .rows import AT_ONCE, COLD, ONE_BY_ONE, OPENING, WARM, Row
from .slatedb_store import first_keys
from .tasks import BATCH_KEYS, BITS_PER_KEY, DELAY_S, Task

URL: Final = f"s3://{BUCKET}/store"
_EVERYTHING: Final = 1 << 40
_PORTION: Final = 100


@dataclass(frozen=True, slots=True)
class Seen:
    """Requests in the server's log."""

    gets: int
    get_bytes: int
    others: int


def measure(task: Task, directory: str) -> list[Row]:
    """The rows of one store, whose server starts and ends here."""
    with start(task.server) as server, _environment(server):
        if task.engine == "slatedb":
            return asyncio.run(_slatedb(task, server))
        exact, bits = _publish(task, os.path.join(directory, "store"))
        if task.part == "parallel":
            return _parallel(task, server, bits)
        return list(_lsmkv(task, server, exact, bits))


def keys_of(task: Task, are_present: bool) -> list[bytes]:
    """Different keys in random order, at most so many as the task wants."""
    order = generator(task.seed, "saved-requests", are_present).permutation(task.key_count - 1)
    key = present_key if are_present else absent_key
    return [key(number) for number in order[: task.most_lookups].tolist()]


@contextlib.contextmanager
def _environment(server: ObjectServer) -> Iterator[None]:
    """Lead S3 clients to the server."""
    # slatedb's library reads the endpoint under this name.
    wanted = {**server.environment, "AWS_ENDPOINT": server.endpoint}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _seen(server: ObjectServer) -> Seen:
    """The requests since the last call."""
    log = server.log()
    server.reset()
    answers = [
        found
        for found in log
        if found.method == "GET" and not found.is_list and found.status in (200, 206)
    ]
    sizes = sum(found.answer_bytes for found in answers)
    return Seen(len(answers), sizes, len(log) - len(answers))


def _row(task: Task, phase: str, keys: str, lookups: int, seen: Seen, **more: Any) -> Row:
    return Row(
        part=task.part,
        engine=task.engine,
        run_count=task.run_count,
        error_rate=task.error_rate,
        phase=phase,
        keys=keys,
        key_count=task.key_count,
        server=task.server,
        get_ms=task.get_ms,
        get_usd=task.get_usd,
        lookups=lookups,
        gets=seen.gets,
        get_bytes=seen.get_bytes,
        other_requests=seen.others,
        **more,
    )


# lsmkv


def _publish(task: Task, path: str) -> tuple[float, float]:
    """Publish a new store; the exact rate of its filters, and their bits per key."""
    is_off = task.error_rate == 1
    policy = "none" if is_off else "ribbon" if task.engine.endswith("ribbon") else "bloom"
    options = Options(
        error_rate=0.5 if is_off else task.error_rate,
        filter_policy=policy,
        block_size_bytes=4 * KIB,
        fit_pages=False,  # the same blocks with any filters
        # moto copies a whole object to answer for a part of it.
        table_size_bytes=64 * MIB if task.part == "engines" else MIB,
    )
    write_runs(path, task.key_count, task.run_count, task.seed, options)
    never = 1000  # so that opening compacts nothing
    with lsmkv.open(
        path,
        options,
        compression="none",
        level0_compaction_trigger=never,
        level0_slowdown_trigger=never,
        level0_stop_trigger=never,
    ) as db:
        db.publish(URL)
        bits = 8 * db.inspect().filter_bytes / task.key_count
        return 1.0 if is_off else exact_rate(db), bits


def _ask(db: lsmkv.DB, keys: Iterable[bytes], are_present: bool) -> None:
    for key in keys:
        if (db.get(key) is not None) != are_present:
            raise AssertionError(f"{key!r} is {'not ' if are_present else ''}in the store")


def _counted(
    task: Task, server: ObjectServer, db: lsmkv.DB, before: lsmkv.Stats, phase: str, keys: str,
    lookups: int, **more: Any,
) -> Row:  # fmt: skip
    """A row with both counts of the requests since ``before``."""
    done = db.stats() - before
    return _row(
        task,
        phase,
        keys,
        lookups,
        _seen(server),
        counted_gets=done.object_gets,
        counted_get_bytes=done.object_get_bytes,
        **more,
    )


def _lsmkv(task: Task, server: ObjectServer, exact: float, bits: float) -> Iterator[Row]:
    _seen(server)
    with lsmkv.open(URL, read_only=True, block_cache_size_bytes=0) as db:
        _ask(db, first_keys(task.key_count, task.run_count, task.seed), True)
        yield _counted(
            task, server, db, lsmkv.Stats(), OPENING, "none", 1, filter_bits_per_key=bits
        )
        for kind in ("absent", "present"):
            before, asked = db.stats(), 0
            keys = keys_of(task, kind == "present")
            while asked < len(keys):
                _ask(db, keys[asked : asked + _PORTION], kind == "present")
                asked = min(len(keys), asked + _PORTION)
                if (db.stats() - before).object_gets >= task.enough_gets:
                    break
            yield _counted(
                task, server, db, before, COLD, kind, asked,
                expected_gets=_expected(db.stats() - before, exact), filter_bits_per_key=bits,
            )  # fmt: skip
    if task.part == "engines":
        with lsmkv.open(URL, read_only=True, block_cache_size_bytes=_EVERYTHING) as db:
            for kind in ("absent", "present"):
                keys = keys_of(task, kind == "present")[: task.enough_gets]
                _ask(db, keys, kind == "present")
                before = db.stats()
                _seen(server)
                _ask(db, keys, kind == "present")
                yield _counted(task, server, db, before, WARM, kind, len(keys))


def _expected(done: lsmkv.Stats, exact: float) -> float:
    """GETs in theory: one for each key found, and p for each filter of a run without the key."""
    in_vain = done.filter_negatives + done.filter_false_positives
    return done.filter_true_positives + done.unfiltered_probes + exact * in_vain


def _parallel(task: Task, server: ObjectServer, bits: float) -> list[Row]:
    """The same keys one by one and at once, each in a new handle, with latency added."""
    keys = keys_of(task, True)[:BATCH_KEYS]
    rows = []
    for phase in (ONE_BY_ONE, AT_ONCE):
        with lsmkv.open(URL, read_only=True) as db:
            before = db.stats()
            _seen(server)
            server.delay(DELAY_S)
            began = time.perf_counter()
            values = db.multi_get(keys) if phase == AT_ONCE else [db.get(key) for key in keys]
            elapsed_s = time.perf_counter() - began
            server.delay(0.0)
            if None in values:
                raise AssertionError("a key that was put is not in the store")
            rows.append(
                _counted(
                    task,
                    server,
                    db,
                    before,
                    phase,
                    "present",
                    len(keys),
                    elapsed_s=elapsed_s,
                    filter_bits_per_key=bits,
                )
            )
    return rows


# SlateDB


async def _slatedb(task: Task, server: ObjectServer) -> list[Row]:
    """As ``lsmkv``, by the server's log alone."""
    shape = (task.key_count, task.run_count, task.seed)
    await slatedb_store.write_runs(*shape, VALUE_BYTES, BITS_PER_KEY)
    _seen(server)
    rows = []
    async with slatedb_store.reader(BITS_PER_KEY, caches_blocks=False) as db:
        first = first_keys(*shape)
        await slatedb_store.ask(db, first, True)
        rows.append(_row(task, OPENING, "none", 1, _seen(server)))
        for kind in ("absent", "present"):
            keys = keys_of(task, kind == "present")
            rows.append(await _slatedb_cold(task, server, db, kind, keys))
    async with slatedb_store.reader(BITS_PER_KEY, caches_blocks=True) as db:
        for kind in ("absent", "present"):
            keys = keys_of(task, kind == "present")[: task.enough_gets]
            await slatedb_store.ask(db, keys, kind == "present")
            _seen(server)
            await slatedb_store.ask(db, keys, kind == "present")
            rows.append(_row(task, WARM, kind, len(keys), _seen(server)))
    return rows


async def _slatedb_cold(
    task: Task, server: ObjectServer, db: Any, kind: str, keys: Sequence[bytes]
) -> Row:
    asked, total = 0, Seen(0, 0, 0)
    while asked < len(keys) and total.gets < task.enough_gets:
        part = keys[asked : asked + _PORTION]
        await slatedb_store.ask(db, part, kind == "present")
        asked += len(part)
        seen = _seen(server)
        total = Seen(
            total.gets + seen.gets, total.get_bytes + seen.get_bytes, total.others + seen.others
        )
    return _row(task, COLD, kind, asked, total)
