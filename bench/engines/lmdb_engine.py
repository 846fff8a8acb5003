"""LMDB, through py-lmdb."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from .base import Engine, Pairs, Settings, Store, walk

_MAP_SIZE_BYTES: Final = 1 << 38
"""Address space for the growing file; it costs no memory and no disk space."""


class LMDBStore(Store):
    """An open LMDB: a B+ tree in a mapped file, with neither filters, cache, log nor background work.

    Every write is a transaction.  Unsynced ones run with ``MDB_NOSYNC``: they survive the end of the
    process, but a power failure may break the whole store, because LMDB has no log.  With
    ``Settings.synced`` every commit is synced, LMDB's default.  ``MDB_WRITEMAP`` is off: with it a
    stray pointer of the program could damage the data.

    Reads, of one thread, go through one read transaction, renewed after a write.  It begins with the
    first read: an open one keeps its pages from reuse, so that a store that is only written to would
    grow without need.
    """

    def __init__(self, directory: str, settings: Settings) -> None:
        import lmdb

        self._synced = settings.synced
        self._env: Any = lmdb.open(
            directory,
            map_size=_MAP_SIZE_BYTES,
            sync=settings.synced,
            metasync=settings.synced,
            readahead=not settings.larger_than_memory,
        )
        self._reader: Any = None
        self._more_readers: list[Any] = []
        self._stale = True
        self.get = self._renewed_get
        self.put = self._put
        self.put_sync = self._put_sync

    def _put(self, key: bytes, value: bytes) -> None:
        with self._env.begin(write=True) as transaction:
            transaction.put(key, value)
        self._written()

    def _put_sync(self, key: bytes, value: bytes) -> None:
        self._put(key, value)
        self._sync()

    def _sync(self) -> None:
        if not self._synced:  # otherwise the commit has synced
            self._env.sync(True)

    def _written(self) -> None:
        """Let the next read begin a new read transaction."""
        self._stale = True
        self.get = self._renewed_get

    def _renewed_get(self, key: bytes) -> bytes | None:
        value: bytes | None = self._renewed().get(key)
        return value

    def _renewed(self) -> Any:
        """The read transaction, renewed after a write."""
        if self._stale:
            self._stale = False
            self._release()
            self._reader = self._env.begin()
            self.get = self._reader.get
            if self._stale:  # another thread has written since
                self.get = self._renewed_get
        return self._reader

    def put_batch(self, pairs: Pairs, sync: bool = False) -> None:
        with self._env.begin(write=True) as transaction:
            transaction.cursor().putmulti(pairs)
        self._written()
        if sync:
            self._sync()

    def delete(self, key: bytes) -> None:
        with self._env.begin(write=True) as transaction:
            transaction.delete(key)
        self._written()

    def multi_get(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        return list(map(self._renewed().get, keys))

    def scan(self, start: bytes | None, limit: int | None, reverse: bool = False) -> int:
        cursor = self._renewed().cursor()
        if start is None:
            some = cursor.last() if reverse else cursor.first()
        elif reverse:
            # set_range: the first key not below start; the one before it, unless it is start itself.
            some = cursor.last() if not cursor.set_range(start) else True
            if some and cursor.key() > start:
                some = cursor.prev()
        else:
            some = cursor.set_range(start)
        if not some:
            return 0
        return walk(cursor.iterprev() if reverse else cursor.iternext(), limit)

    def settle(self) -> None:
        """Do nothing: a commit writes its pages to the file."""

    def getters(self, count: int) -> list[Callable[[bytes], bytes | None]]:
        """A read transaction for each thread: threads may not share one."""
        self._more_readers += [self._env.begin() for _ in range(count)]
        return [reader.get for reader in self._more_readers[-count:]]

    def _release(self) -> None:
        if self._reader is not None:
            self._reader.abort()
            self._reader = None

    def close(self) -> None:
        self._release()
        for reader in self._more_readers:
            reader.abort()
        self._env.close()


class LMDB(Engine):
    """LMDB; it ignores all settings but ``synced`` and ``larger_than_memory``."""

    name = distribution = module = "lmdb"
    store = LMDBStore

    def version(self) -> str:
        import lmdb

        return f"{'.'.join(map(str, lmdb.version()))} (py-lmdb {super().version()})"
