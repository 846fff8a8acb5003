"""SQLite, through Python's own sqlite3: a table of keys and values."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from .base import KIB, Engine, Pairs, Settings, Store, walk

if TYPE_CHECKING:
    import sqlite3

_PUT: Final = "INSERT OR REPLACE INTO entries VALUES (?, ?)"
_GET: Final = "SELECT value FROM entries WHERE key = ?"
_MOST_PARAMETERS: Final = 999  # the limit of every SQLite
_PAGE_SIZES: Final = range(512, 64 * KIB + 1)


class SQLiteStore(Store):
    """An open database in WAL mode; one connection reads and two write, one of which syncs."""

    def __init__(self, directory: str, settings: Settings) -> None:
        self._path = os.path.join(directory, "entries.sqlite")
        self._lock = threading.Lock()
        self._writer = self._connect(settings, "OFF")
        self._writer.execute(
            "CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
        )
        self._synced_writer = self._connect(settings, "FULL")
        self._reader = self._connect(settings, "OFF")
        self._settings = settings
        self._more_readers: list[sqlite3.Connection] = []
        self.get = self._getter(self._reader)
        self.put = self._putter(self._writer)
        self.put_sync = self._putter(self._synced_writer)

    def _connect(self, settings: Settings, synchronous: str) -> sqlite3.Connection:
        import sqlite3

        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        page_size = settings.block_size_bytes
        if page_size in _PAGE_SIZES and page_size & (page_size - 1) == 0:
            connection.execute(f"PRAGMA page_size = {page_size}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute(f"PRAGMA cache_size = {-max(1, settings.cache_size_bytes // KIB)}")
        return connection

    def _getter(self, connection: sqlite3.Connection) -> Callable[[bytes], bytes | None]:
        execute = connection.execute

        def get(key: bytes) -> bytes | None:
            row = execute(_GET, (key,)).fetchone()
            return None if row is None else row[0]

        return get

    def _putter(self, connection: sqlite3.Connection) -> Callable[[bytes, bytes], None]:
        execute, lock = connection.execute, self._lock

        def put(key: bytes, value: bytes) -> None:
            with lock:
                execute(_PUT, (key, value))

        return put

    def put_batch(self, pairs: Pairs, sync: bool = False) -> None:
        connection = self._synced_writer if sync else self._writer
        with self._lock:
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.executemany(_PUT, pairs)
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def delete(self, key: bytes) -> None:
        with self._lock:
            self._writer.execute("DELETE FROM entries WHERE key = ?", (key,))

    def multi_get(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        found: dict[bytes, bytes] = {}
        for at in range(0, len(keys), _MOST_PARAMETERS):
            part = keys[at : at + _MOST_PARAMETERS]
            marks = ",".join("?" * len(part))
            query = f"SELECT key, value FROM entries WHERE key IN ({marks})"
            found.update(self._reader.execute(query, tuple(part)))
        return list(map(found.get, keys))

    def scan(self, start: bytes | None, limit: int | None, reverse: bool = False) -> int:
        condition = "" if start is None else f"WHERE key {'<=' if reverse else '>='} ?"
        query = (
            f"SELECT key, value FROM entries {condition} ORDER BY key {'DESC' if reverse else ''}"
        )
        rows = self._reader.execute(query, () if start is None else (start,))
        taken = walk(rows, limit)
        rows.close()  # ends the read transaction, which would block a checkpoint
        return taken

    def settle(self) -> None:
        """Move the log's pages into the database and empty the log."""
        with self._lock:
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def getters(self, count: int) -> list[Callable[[bytes], bytes | None]]:
        """A connection for each thread; together they have as much cache as the store."""
        part = replace(self._settings, cache_size_bytes=self._settings.cache_size_bytes // count)
        made = [self._connect(part, "OFF") for _ in range(count)]
        self._more_readers += made
        return [self._getter(connection) for connection in made]

    def close(self) -> None:
        for connection in (*self._more_readers, self._reader, self._synced_writer, self._writer):
            connection.close()


class SQLite(Engine):
    """SQLite; the block size is its page size (a power of 2 from 512 to 65536), and it has no filters."""

    name = distribution = "sqlite"
    store = SQLiteStore
    module = "_sqlite3"  # exists only where Python was built with SQLite

    def version(self) -> str:
        import sqlite3

        return sqlite3.sqlite_version
