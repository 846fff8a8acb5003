"""Stores that are published to a server on the loopback, and what its log says of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import lsmkv
from bench.harness.object_server import BUCKET, ObjectServer, Request

COUNT: Final = 1000
FORM: Final = lsmkv.Options(
    write_buffer_size_bytes=1 << 20,
    block_size_bytes=1024,
    table_size_bytes=24 * 1024,
    compression="none",
    read_compaction_rate_bytes=0,
    request_timeout_s=8,
    request_retries=2,
)
"""Several tables for :data:`COUNT` entries, in one run."""


def key(number: int) -> bytes:
    return b"key%06d" % number


def value(number: int) -> bytes:
    return b"value%06d" % number * 4


def contents(numbers: Iterable[int] = range(0, 2 * COUNT, 2)) -> dict[bytes, bytes]:
    """Entries of even numbers; the odd ones are absent."""
    return {key(number): value(number) for number in numbers}


def published(directory: str | Path, url: str, **overrides: Any) -> dict[bytes, bytes]:
    """Publish a new store of one run; returns its entries."""
    entries = contents()
    with lsmkv.open(directory, FORM, **overrides) as db:
        db.update(entries)
        db.compact_range()
        db.publish(url)
    return entries


def reader(url: str, **overrides: Any) -> lsmkv.DB:
    return lsmkv.open(url, FORM, read_only=True, **overrides)


def kind(request: Request) -> str:
    """What it is for: ``tables`` or ``generations``, after the method; ``LIST`` has a folder, too."""
    if request.is_list:
        return "LIST"
    if request.method == "POST" and request.query.startswith("delete"):
        return "DELETE"
    folder = "tables" if "/tables/" in request.path else "generations"
    method = "PUT" if request.method == "POST" else request.method
    return f"{method} {folder}"


def kinds(server: ObjectServer) -> Counter[str]:
    return Counter(map(kind, server.log()))


def gets(server: ObjectServer) -> int:
    """GET requests for objects in the server's log."""
    return sum(1 for found in map(kind, server.log()) if found.startswith("GET"))


def counted(stats: lsmkv.Stats) -> dict[str, int]:
    """Our counts of requests."""
    return {
        "GET": stats.object_gets,
        "LIST": stats.object_lists,
        "PUT": stats.object_puts,
        "DELETE": stats.object_deletes,
    }


def logged(server: ObjectServer) -> dict[str, int]:
    """The server's counts of the same."""
    found = {"GET": 0, "LIST": 0, "PUT": 0, "DELETE": 0}
    for request in server.log():
        found[kind(request).split(" ")[0]] += 1
    return found


def objects(server: ObjectServer, url: str, folder: str) -> list[str]:
    """Names of the objects below a folder of ``url``, without a request in the log."""
    store = server.store(prefix_of(url))
    return sorted(found["path"] for page in store.list(folder) for found in page)


def prefix_of(url: str) -> str:
    return url.removeprefix(f"s3://{BUCKET}/")
