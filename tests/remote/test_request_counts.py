"""Our counts of requests and bytes, the bytes of a generation, and the names of objects."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import xxhash
from conftest import number_key, open_small

import lsmkv
from bench.harness.object_server import ObjectServer, Request
from layered_stores import fill_in_runs, open_published
from lsmkv import CorruptionError, Options, Stats
from lsmkv.remote.bucket import Bucket
from lsmkv.remote.generation import (
    Generation,
    PublishedTable,
    decode_generation,
    encode_generation,
    generation_name,
    generation_number,
    read_generation,
    table_generation,
    table_name,
)
from lsmkv.sstable.format import TableMeta

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
    "each_server", ["moto", pytest.param("seaweedfs", marks=pytest.mark.slow)], indirect=True
)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, marks=pytest.mark.slow),
        pytest.param({"block_cache_size_bytes": 0}, marks=pytest.mark.slow),
        pytest.param(
            {"filter_residency": "cached", "block_cache_size_bytes": 4096}, marks=pytest.mark.slow
        ),
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


CONTENT = "0123456789abcdef" * 2
TABLE = PublishedTable(
    level=1,
    run=3,
    meta=TableMeta(
        number=7,
        size_bytes=1000,
        smallest=b"a",
        largest=b"\xff",
        smallest_seq=1,
        largest_seq=9,
        entry_count=5,
        tombstone_count=1,
        checksum=12,
    ),
    name=f"{CONTENT}-0000000002.sst",
    data_length=500,
    dictionary_length=10,
    filters_length=90,
)
GENERATION = Generation(format=1, number=2, publication="f00d", last_seq=9, tables=[TABLE])


def sized(size_bytes: int) -> TableMeta:
    return msgspec.structs.replace(TABLE.meta, size_bytes=size_bytes)


LINE = (
    b'{"format":1,"number":2,"publication":"f00d","last_seq":9,"tables":[{"level":1,"run":3,'
    b'"meta":{"number":7,"size_bytes":1000,"smallest":"YQ==","largest":"/w==","smallest_seq":1,'
    b'"largest_seq":9,"entry_count":5,"tombstone_count":1,"checksum":12},'
    b'"name":"0123456789abcdef0123456789abcdef-0000000002.sst","data_length":500,'
    b'"dictionary_length":10,"filters_length":90}]}'
)


def sealed(line: bytes) -> bytes:
    return b"%b\n%b\n" % (line, xxhash.xxh3_128_hexdigest(line).encode())


def test_a_generation_is_these_bytes() -> None:
    assert encode_generation(GENERATION) == sealed(LINE)
    assert decode_generation(sealed(LINE), "url", 2) == GENERATION


def test_the_newest_of_any_two_generations_is_listed_first() -> None:
    numbers = [1, 2, 9, 10, 99, 100, 12345, 10**10 - 2]
    names = sorted(map(generation_name, numbers))
    listed = [generation_number(name.removeprefix("generations/")) for name in names]
    assert listed == numbers[::-1]


@pytest.mark.parametrize("name", ["", "notes.txt", "9999999998-0000000002.json", "1-1.json"])
def test_other_names_are_no_generations(name: str) -> None:
    assert generation_number(name) is None


def test_a_table_is_named_after_its_bytes_and_the_generation_that_needs_it_first() -> None:
    assert table_name(CONTENT, 2) == TABLE.name
    assert table_generation(TABLE.name) == 2
    assert table_generation("notes.txt") is None
    assert (TABLE.content, TABLE.object_name) == (CONTENT, f"tables/{TABLE.name}")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": "../../elsewhere"}, "its object's name"),
        ({"data_length": -1}, "do not fit into its size"),
        ({"filters_length": 1000}, "do not fit into its size"),
        ({"level": 99}, "has level 99"),
        ({"meta": sized(1 << 56)}, "table of 72057594037927936 bytes: 70368744177664 are the most"),
        ({"meta": sized(1 << 40)}, "index and properties of .* bytes"),
        ({"meta": sized(1 << 40), "filters_length": 1 << 39}, "filters of .* bytes"),
        ({"meta": sized(1 << 40), "dictionary_length": 1 << 39}, "dictionary of .* bytes"),
        (
            {"meta": msgspec.structs.replace(TABLE.meta, largest_seq=10)},
            "newer than the generation",
        ),
    ],
)
def test_impossible_tables_are_refused(changes: dict[str, object], reason: str) -> None:
    wrong = msgspec.structs.replace(TABLE, **changes)
    data = encode_generation(msgspec.structs.replace(GENERATION, tables=[wrong]))
    with pytest.raises(CorruptionError, match=reason):
        decode_generation(data, "url", 2)


@pytest.mark.parametrize(
    "line", [b"", b"{}", b"[]", b"\xff", b"[" * 100_000, LINE.replace(b'"run":3', b'"run":"3"')]
)
def test_lines_of_another_form_are_refused(line: bytes) -> None:
    with pytest.raises(CorruptionError, match="url at offset 0: bad generation"):
        decode_generation(sealed(line), "url", 2)


def test_a_generation_longer_than_any_can_be_is_not_read(tmp_path: Path) -> None:
    bucket = Bucket(f"file://{tmp_path}", Options(), Stats())
    path = tmp_path / generation_name(1)
    path.parent.mkdir()
    with open(path, "wb") as file:
        file.truncate(3 << 30)  # a sparse file
    with pytest.raises(CorruptionError, match="object of 3221225472 bytes: 268435456 are the most"):
        read_generation(bucket, 1)
    bucket.close()
    assert bucket._stats.object_get_bytes == 0
