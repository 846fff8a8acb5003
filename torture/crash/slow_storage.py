"""A storage whose calls are slow."""

from __future__ import annotations

from collections.abc import Callable

from lsmkv.stats import Stats
from lsmkv.storage.storage import AppendFile, RandomFile, Storage


class SlowStorage(Storage):
    """Calls ``sleep``, which a test may replace, before calls on files with this path suffix."""

    def __init__(
        self,
        sleep: Callable[[float], object],
        stats: Stats | None = None,
        *,
        sync_s: float = 0.0,
        append_s: float = 0.0,
        pread_s: float = 0.0,
        path_suffix: str = "",
        direct_reads: bool = False,
        file_mode: int = 0o600,
    ) -> None:
        super().__init__(stats, direct_reads=direct_reads, file_mode=file_mode)
        self.sync_s = sync_s
        self.append_s = append_s
        self.pread_s = pread_s
        self._path_suffix = path_suffix
        self._sleep = sleep

    def pause(self, path: str, seconds: float) -> None:
        """Sleep before a call on ``path`` if that file is slow."""
        if seconds > 0.0 and path.endswith(self._path_suffix):
            self._sleep(seconds)

    def _append_file(self, path: str, descriptor: int, offset: int) -> AppendFile:
        return _SlowAppendFile(self, path, descriptor, offset)

    def _random_file(self, path: str, descriptor: int, size: int, direct: bool) -> RandomFile:
        return _SlowRandomFile(self, path, descriptor, size, direct)


class _SlowAppendFile(AppendFile):
    def __init__(self, storage: SlowStorage, path: str, descriptor: int, offset: int) -> None:
        super().__init__(path, descriptor, offset)
        self._storage = storage

    def _write(self, data: bytes | memoryview, offset: int) -> int:
        self._storage.pause(self.path, self._storage.append_s)
        return super()._write(data, offset)

    def _sync(self) -> None:
        self._storage.pause(self.path, self._storage.sync_s)
        super()._sync()


class _SlowRandomFile(RandomFile):
    def __init__(
        self, storage: SlowStorage, path: str, descriptor: int, size: int, direct: bool
    ) -> None:
        super().__init__(path, descriptor, size, storage.stats, direct)
        self._storage = storage

    def _pread(self, length: int, offset: int) -> bytes:
        self._storage.pause(self.path, self._storage.pread_s)
        return super()._pread(length, offset)
