"""An engine to measure beside the others: ``--plugin bench/examples/log_engine.py``.

An example plug-in: copy and change it.  It appends every write to one file, and keeps all keys in
memory with the offsets of their values (Bitcask: Sheehy and Smith, 2010).  So it reads once for a
present key and never for an absent one, but it has no order on disk, no cache and no compaction.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import ClassVar, Final

from bench.engines.base import Engine, Pairs, Settings, Store, register, walk

_BATCH: Final = struct.Struct("<II")  # length and CRC-32 of the entries that follow
_ENTRY: Final = struct.Struct("<Ii")  # lengths of key and value; -1: deleted

Place = tuple[int, int]  # offset and length of a value


class LogStore(Store):
    """An open log."""

    def __init__(self, directory: str) -> None:
        path = os.path.join(directory, "entries.log")
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._lock = threading.Lock()
        self._places: dict[bytes, Place] = {}
        self._order: list[bytes] | None = None
        self._size = self._load()
        self.get = self._getter()
        self.put = lambda key, value: self._append([(key, value)], False)
        self.put_sync = lambda key, value: self._append([(key, value)], True)

    def _load(self) -> int:
        """Read all complete batches, and return the end of the last one."""
        content = os.pread(self._file, os.fstat(self._file).st_size, 0)
        at = 0
        while at + _BATCH.size <= len(content):
            length, check = _BATCH.unpack_from(content, at)
            body = content[at + _BATCH.size : at + _BATCH.size + length]
            if len(body) < length or zlib.crc32(body) != check:
                break
            self._take_up(body, at + _BATCH.size)
            at += _BATCH.size + length
        return at

    def _take_up(self, body: bytes, offset: int) -> None:
        at = 0
        while at < len(body):
            key_length, value_length = _ENTRY.unpack_from(body, at)
            at += _ENTRY.size + key_length
            key = body[at - key_length : at]
            if value_length < 0:
                self._places.pop(key, None)
            else:
                self._places[key] = offset + at, value_length
                at += value_length
        self._order = None

    def _append(self, entries: Iterable[tuple[bytes, bytes | None]], sync: bool) -> None:
        parts = []
        for key, value in entries:
            length = -1 if value is None else len(value)
            parts += [_ENTRY.pack(len(key), length), key, value or b""]
        body = b"".join(parts)
        with self._lock:
            os.pwrite(self._file, _BATCH.pack(len(body), zlib.crc32(body)) + body, self._size)
            if sync:
                os.fdatasync(self._file)
            self._take_up(body, self._size + _BATCH.size)
            self._size += _BATCH.size + len(body)

    def _getter(self) -> Callable[[bytes], bytes | None]:
        place_of, file, pread = self._places.get, self._file, os.pread

        def get(key: bytes) -> bytes | None:
            place = place_of(key)
            return None if place is None else pread(file, place[1], place[0])

        return get

    def put_batch(self, pairs: Pairs, sync: bool = False) -> None:
        self._append(pairs, sync)

    def delete(self, key: bytes) -> None:
        self._append([(key, None)], False)

    def scan(self, start: bytes | None, limit: int | None, reverse: bool = False) -> int:
        with self._lock:
            if self._order is None:
                self._order = sorted(self._places)
            order = self._order
        if reverse:
            last = len(order) if start is None else bisect_right(order, start)
            return walk(map(self.get, reversed(order[:last])), limit)
        first = 0 if start is None else bisect_left(order, start)
        return walk(map(self.get, order[first:]), limit)

    def settle(self) -> None:
        """Do nothing: there is no background work."""

    def close(self) -> None:
        os.close(self._file)


class Log(Engine):
    """The log; it ignores all settings."""

    name: ClassVar[str] = "log"
    distribution: ClassVar[str] = "lsmkv"
    module: ClassVar[str] = "struct"

    def open(self, directory: str, settings: Settings) -> Store:
        return LogStore(directory)


register(Log())
