"""Our counts of requests and bytes, and the server's log, for programs of random operations."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import number_key, open_small

import lsmkv
from bench.harness.object_server import ObjectServer, Request
from layered_stores import fill_in_runs, open_published

_WAIT_S = 30.0


class Counted:
    """Requests and bytes by kind, as the store counts them or as the server logs them."""

    @staticmethod
    def by_stats(stats: lsmkv.Stats) -> dict[str, int]:
        return {
            "gets": stats.object_gets,
            "get bytes": stats.object_get_bytes,
            "lists": stats.object_lists,
            "puts": stats.object_puts,
            "put bytes": stats.object_put_bytes,
            "deletes": stats.object_deletes,
        }

    @staticmethod
    def by_log(log: list[Request]) -> dict[str, int]:
        gets = [found for found in log if found.method == "GET" and not found.is_list]
        deletes = [found for found in log if found.query.startswith("delete")]
        puts = [found for found in log if found.method in ("PUT", "POST") and found not in deletes]
        assert len(log) == len(gets) + len(deletes) + len(puts) + sum(r.is_list for r in log)
        return {
            "gets": len(gets),
            "get bytes": sum(found.answer_bytes for found in gets),
            "lists": sum(found.is_list for found in log),
            "puts": len(puts),
            "put bytes": sum(found.body_bytes for found in puts if found.method == "PUT"),
            "deletes": len(deletes),
        }


def assert_counts_agree(db: lsmkv.DB, server: ObjectServer, before: lsmkv.Stats) -> None:
    """All requests since ``before`` are in the log, and no other; waits for those under way."""
    deadline = time.monotonic() + _WAIT_S
    while True:
        counted, logged = Counted.by_stats(db.stats() - before), Counted.by_log(server.log())
        if counted == logged or time.monotonic() > deadline:
            break
        time.sleep(0.02)
    assert counted == logged


Operation = Callable[[lsmkv.DB, random.Random], object]


def _keys(chance: random.Random, count: int) -> list[bytes]:
    return [number_key(chance.randrange(1700)) for _ in range(count)]


def _broken_off_scan(db: lsmkv.DB, chance: random.Random) -> None:
    scan = iter(db.items(start=number_key(chance.randrange(1500)), reverse=chance.random() < 0.5))
    for _ in range(chance.randrange(1, 200)):
        next(scan, None)


def _walk(db: lsmkv.DB, chance: random.Random) -> None:
    cursor = db.cursor()
    cursor.seek(number_key(chance.randrange(1500)))
    for _ in range(chance.randrange(50)):
        if chance.random() < 0.7:
            cursor.next()
        else:
            cursor.prev()


OPERATIONS: list[Operation] = [
    lambda db, chance: [db.get(key) for key in _keys(chance, 5)],
    lambda db, chance: db.multi_get(_keys(chance, chance.randrange(1, 300))),
    lambda db, chance: db.snapshot().multi_get(_keys(chance, 50)),
    lambda db, chance: list(db.items(prefix=b"key000%d" % chance.randrange(10))),
    lambda db, chance: len(list(db.keys())),
    lambda db, chance: db.explain(_keys(chance, 1)[0]),
    lambda db, chance: db.refresh(),
    _broken_off_scan,
    _walk,
]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, marks=pytest.mark.slow),
        pytest.param({"block_cache_size_bytes": 0}, marks=pytest.mark.slow),
        {"filter_residency": "cached", "block_cache_size_bytes": 4096},
        pytest.param({"filter_residency": "off"}, marks=pytest.mark.slow),
        {"disk_cache": True, "block_cache_size_bytes": 0},
    ],
    ids=str,
)
def test_counts_of_any_program_equal_the_servers_log(
    each_server: ObjectServer, tmp_path: Path, url: str, options: dict[str, object]
) -> None:
    if options.pop("disk_cache", False):
        options = {**options, "disk_cache_path": str(tmp_path / "cache")}
    chance = random.Random(repr(options))
    with open_small(
        tmp_path / "store", compaction="tiered", level0_compaction_trigger=12
    ) as writer:
        fill_in_runs(writer)
        started = writer.stats()
        each_server.reset()
        writer.publish(url)
        assert_counts_agree(writer, each_server, started)
        each_server.reset()
        with open_published(url, **options) as db:  # type: ignore[arg-type]
            before = lsmkv.Stats()  # the opening counts, too
            for _ in range(4):
                for operation in chance.sample(OPERATIONS, len(OPERATIONS)):
                    operation(db, chance)
                assert_counts_agree(db, each_server, before)
                before = db.stats()
                started = writer.stats()
                each_server.reset()
                for key in _keys(chance, 30):
                    writer.put(key, chance.randbytes(100))
                writer.publish(url, keep=chance.choice([None, 1, 2]))
                assert_counts_agree(writer, each_server, started)
                each_server.reset()
                db.refresh()
            assert_counts_agree(db, each_server, before)
