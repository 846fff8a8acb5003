"""A table file in object storage, read by ranges."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from typing import Final

from lsmkv.errors import CorruptionError
from lsmkv.options import MIB
from lsmkv.remote.bucket import Bucket
from lsmkv.remote.disk_cache import DiskCache
from lsmkv.stats import Stats
from lsmkv.storage.files import RandomFile, ReadKind, count_read
from lsmkv.storage.storage import Storage

_MOST_FETCHED_BYTES: Final = 64 * MIB  # in answers that wait to be read; older ones are dropped


class ObjectFile(RandomFile):
    """An object, for reads at any offset.  Any thread may use it.

    ``fetch`` sends a request without waiting; the next ``pread`` of exactly that range takes its answer.
    Ranges read for single blocks are looked for in ``cache``, if there is one.  It gets what the reader
    has checked, by ``keep``: so a wrong answer does not stay in it.
    """

    def __init__(
        self, bucket: Bucket, name: str, size: int, stats: Stats, cache: DiskCache | None
    ) -> None:
        super().__init__(bucket.path(name), -1, size, stats, False)
        self.can_fetch = False  # no read-around, which is for a page cache
        # It takes long to answer: what is read next is asked for first, all at once.
        self.lookups_together = 512
        self.read_ahead_bytes = MIB
        self.reads_under_way = 4  # the first of them ends while the others run
        self._bucket = bucket
        self._name = name
        self._cache = cache
        self._cached_name = f"{bucket.identity}/{name}"
        self._fetched: dict[tuple[int, int], Future[bytes]] = {}
        self._fetched_bytes = 0
        self._held: Sequence[tuple[int, bytes]] = ()

    def hold(self, parts: Sequence[tuple[int, bytes]]) -> None:
        """Serve ranges inside these parts, each with its offset, from memory."""
        self._held = parts

    def pread(self, offset: int, length: int, kind: ReadKind, count: int = 1) -> bytes:
        """Read as :class:`RandomFile` does; a missing object is a CorruptionError."""
        if offset < 0 or length <= 0 or offset + length > self.size:
            if length == 0 and 0 <= offset <= self.size:
                return b""
            raise self._early_end(offset, length, self.size - offset)
        count_read(self._stats, kind, count, length)
        held = self._from_memory(offset, length)
        return self._read(offset, length, count == 1) if held is None else held

    def _from_memory(self, offset: int, length: int) -> bytes | None:
        for start, data in self._held:
            if start <= offset and offset + length <= start + len(data):
                return data[offset - start : offset - start + length]
        return None

    def take(self, offset: int, length: int) -> bytes:
        """The bytes of a range that was fetched; not counted as a read."""
        return self._read(offset, length, True)

    def keep(self, offset: int, data: bytes) -> None:
        """Cache a range that has been checked."""
        if self._cache is not None:
            self._cache.put(self._cached_name, offset, data)

    def keep_held(self, places: Sequence[tuple[int, int]]) -> None:
        """Cache ranges of the parts that are held, which have been checked."""
        for offset, length in places:
            data = self._from_memory(offset, length)
            if data is not None:
                self.keep(offset, data)

    def _read(self, offset: int, length: int, is_single: bool) -> bytes:
        future = self._taken(offset, length)
        cached = self._cached(offset, length) if is_single and future is None else None
        if cached is not None:
            return cached
        try:
            if future is not None:
                with contextlib.suppress(CancelledError):  # another thread gave it up
                    return future.result()
            return self._bucket.get(self._name, offset, length)
        except FileNotFoundError as error:
            reason = (
                "the object is missing: its generation was removed (refresh() opens the newest), "
                "or it was lost"
            )
            raise CorruptionError(self.path, offset, reason, expected=length, got=0) from error
        finally:
            del future  # which an error's traceback would keep, and so the error itself

    def fetch(self, offset: int, length: int) -> None:
        """Send the request for a range, unless it is sent already; does not wait."""
        fetched = self._fetched
        if (offset, length) in fetched:
            return
        cached = self._cached(offset, length)
        if cached is None:
            fetched[offset, length] = self._bucket.start_get(self._name, offset, length)
        else:
            answered: Future[bytes] = Future()
            answered.set_result(cached)
            fetched[offset, length] = answered
        self._fetched_bytes += length
        while self._fetched_bytes > _MOST_FETCHED_BYTES and len(fetched) > 1:
            try:
                oldest = next(iter(fetched))
            except (StopIteration, RuntimeError):  # other threads read and fetch, too
                return
            self.forget(*oldest)

    def _cached(self, offset: int, length: int) -> bytes | None:
        if self._cache is None:
            return None
        found = self._cache.get(self._cached_name, offset, length)
        if found is None:
            self._stats.disk_cache_misses += 1
        else:
            self._stats.disk_cache_hits += 1
        return found

    def forget(self, offset: int, length: int) -> None:
        """Drop the answer to a fetch; the request is not sent if it still waits."""
        future = self._taken(offset, length)
        if future is not None:
            future.cancel()

    def _taken(self, offset: int, length: int) -> Future[bytes] | None:
        future = self._fetched.pop((offset, length), None)
        if future is not None:
            self._fetched_bytes -= length
        return future


class OneFile(Storage):
    """Opens one file, whatever the path."""

    def __init__(self, file: RandomFile, stats: Stats) -> None:
        super().__init__(stats)
        self._file = file

    def open_random(self, path: str) -> RandomFile:
        return self._file
