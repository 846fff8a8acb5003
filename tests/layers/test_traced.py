"""What a program asks of a store is recorded, and read back as operations of a trace."""

from __future__ import annotations

import gc
import math
from itertools import islice
from pathlib import Path

import lsmkv
from bench.traces.base import Operation, format_named, read_trace
from lsmkv.layers import TracedDB


def recorded(path: Path) -> list[Operation]:
    found = list(read_trace(str(path), format_named("plain", str(path))))
    return [operation for operation in found if operation.kind != "time"]


def put(key: bytes, size_bytes: int, ttl_s: int = 0) -> Operation:
    return Operation("put", (key,), size_bytes, ttl_s)


def get(*keys: bytes) -> Operation:
    return Operation("get" if len(keys) == 1 else "multi-get", keys)


def delete(key: bytes) -> Operation:
    return Operation("delete", (key,))


def scan(first: bytes, limit: int, is_reverse: bool = False) -> Operation:
    return Operation("scan", (first,), limit=limit, is_reverse=is_reverse)


def test_every_operation_of_a_program_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    with lsmkv.open(tmp_path / "db") as db, path.open("wb") as file:
        traced = TracedDB(db, file)
        traced[b"a b"] = b"12"
        traced.put(b"-", b"", ttl_s=60.5)
        traced.put(b"", b"\n", ttl_s=math.inf, sync=True)
        traced.update({b"\xff%": b"123", b"c": b"4"})
        assert traced.get(b"c") == b"4" and b"nothing" not in traced
        assert traced.multi_get([b"c", b"d"]) == [b"4", None] and traced.multi_get([]) == []
        assert list(iter(traced.items(start=b"a"))) == list(db.items(start=b"a"))
        assert next(iter(traced.keys(prefix=b"x")), None) is None
        assert list(reversed(traced)) == sorted(db)[::-1]
        assert len(list(islice(traced.values(reverse=True, stop=b"c"), 2))) == 2
        gc.collect()
        assert traced.setdefault(b"c", b"5") == b"4" and traced.setdefault(b"e", b"56") == b"56"
        assert traced.pop(b"e") == b"56" and traced.pop(b"e", None) is None
        assert traced.popitem() == (b"", b"\n")
        with traced.write_batch() as batch:
            batch[b"f"] = b"1"
            del batch[b"c"]
            batch.delete_range(prefix=b"g")
        discarded = traced.write_batch()
        discarded[b"h"] = b""
        discarded.close()
        traced.prefixed(b"f").delete(b"", sync=True)
        traced.clear()
        assert traced.approximate_count() == db.approximate_count()
    assert recorded(path) == [
        put(b"a b", 2), put(b"-", 0, 60), put(b"", 1), put(b"\xff%", 3), put(b"c", 1),
        get(b"c"), get(b"nothing"), get(b"c", b"d"),
        scan(b"a b", 3), scan(b"x", 1), scan(b"\xff%", 5, True), scan(b"a b", 2, True),
        get(b"c"), get(b"e"), put(b"e", 2), get(b"e"), delete(b"e"), get(b"e"), scan(b"", 1), delete(b""),
        put(b"f", 1), delete(b"c"), Operation("delete-range", (b"g", b"h")),
        delete(b"f"), Operation("delete-range", (b"",)),
    ]  # fmt: skip


def test_a_failed_write_is_not_recorded_and_a_closed_file_takes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    with lsmkv.open(tmp_path / "db") as db:
        with path.open("wb") as file:
            traced = TracedDB(db, file)
            late = iter(traced)
            traced[b"a"] = b"1"
            try:
                traced.put(b"k" * 70_000, b"")
            except ValueError:
                traced.delete(b"b")
        traced[b"c"] = b"1"
        assert list(late) == []
    assert recorded(path) == [put(b"a", 1), delete(b"b")]


def test_a_line_says_the_time_when_it_is_another_second(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    with lsmkv.open(tmp_path / "db") as db, path.open("wb") as file:
        traced = TracedDB(db, file)
        for _ in range(3):
            traced.get(b"a")
    lines = path.read_text().splitlines()
    assert lines[0].startswith("time ") and lines.count("get a") == 3
    assert len(lines) < 3 + 3
