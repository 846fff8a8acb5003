"""Storages for tests: one that counts, one that calls back, one that fails, one that is slow."""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from typing import Final

from lsmkv.stats import Stats
from lsmkv.storage.storage import AppendFile, FileLock, RandomFile, ReadKind, Storage
from torture.crash.injection import Fault, Faults
from torture.crash.slow_storage import SlowStorage as SlowStorage

CONTENT: Final = bytes(range(256)) * 50
"""What a file holds that a storage is to read: no multiple of the alignment of direct reads."""


class CountingStorage(Storage):
    """Counts the reads that reach the operating system, independently of ``Stats``.

    One call of ``RandomFile._pread`` is one read.  Counts are kept by the file's suffix
    (``os.path.splitext``; the whole name if it has none) and the requested kind.
    """

    def __init__(
        self, stats: Stats | None = None, *, direct_reads: bool = False, file_mode: int = 0o600
    ) -> None:
        super().__init__(stats, direct_reads=direct_reads, file_mode=file_mode)
        self.calls: Counter[tuple[str, ReadKind]] = Counter()
        self.asked_bytes: Counter[tuple[str, ReadKind]] = Counter()
        self.got_bytes: Counter[tuple[str, ReadKind]] = Counter()
        self._mutex = threading.Lock()

    def reads(self, kind: ReadKind | None = None, suffix: str | None = None) -> int:
        """The number of read calls, by kind and file suffix (None: all)."""
        return _sum(self.calls, kind, suffix)

    def read_bytes(self, kind: ReadKind | None = None, suffix: str | None = None) -> int:
        """The number of bytes requested from the operating system."""
        return _sum(self.asked_bytes, kind, suffix)

    def reset(self) -> None:
        with self._mutex:
            self.calls.clear()
            self.asked_bytes.clear()
            self.got_bytes.clear()

    def record(self, path: str, kind: ReadKind, asked: int, got: int) -> None:
        name = os.path.basename(path)
        key = (os.path.splitext(name)[1] or name, kind)
        with self._mutex:
            self.calls[key] += 1
            self.asked_bytes[key] += asked
            self.got_bytes[key] += got

    def _random_file(self, path: str, descriptor: int, size: int, direct: bool) -> RandomFile:
        return _CountingFile(self, path, descriptor, size, direct)


def _sum(counter: Counter[tuple[str, ReadKind]], kind: ReadKind | None, suffix: str | None) -> int:
    return sum(
        value
        for (its_suffix, its_kind), value in list(counter.items())
        if kind in (None, its_kind) and suffix in (None, its_suffix)
    )


class _CountingFile(RandomFile):
    def __init__(
        self, storage: CountingStorage, path: str, descriptor: int, size: int, direct: bool
    ) -> None:
        super().__init__(path, descriptor, size, storage.stats, direct)
        self._storage = storage
        self._current = threading.local()

    def pread(self, offset: int, length: int, kind: ReadKind, count: int = 1) -> bytes:
        self._current.kind = kind
        return super().pread(offset, length, kind, count)

    def _pread(self, length: int, offset: int) -> bytes:
        data = super()._pread(length, offset)
        self._storage.record(self.path, self._current.kind, length, len(data))
        return data


class HookedStorage(Storage):
    """Calls ``before_read`` and ``after_read`` with path, offset, length and kind of each read."""

    def before_read(self, path: str, offset: int, length: int, kind: ReadKind) -> None:
        pass

    def after_read(self, path: str, offset: int, length: int, kind: ReadKind) -> None:
        pass

    def _random_file(self, path: str, descriptor: int, size: int, direct: bool) -> RandomFile:
        return _HookedFile(self, path, descriptor, size, direct)


class _HookedFile(RandomFile):
    def __init__(
        self, storage: HookedStorage, path: str, descriptor: int, size: int, direct: bool
    ) -> None:
        super().__init__(path, descriptor, size, storage.stats, direct)
        self._storage = storage

    def pread(self, offset: int, length: int, kind: ReadKind, count: int = 1) -> bytes:
        self._storage.before_read(self.path, offset, length, kind)
        found = super().pread(offset, length, kind, count)
        self._storage.after_read(self.path, offset, length, kind)
        return found


class FaultyStorage(Storage):
    """Raises OSError on demand.

    Operations are named after the methods of ``Storage`` that take a path (create, open_append,
    open_random, replace, remove, sync_directory, lock and others), and those of open files: append, copy,
    truncate, sync and pread.  The latter count system calls: an append that is completed after a short
    write counts two.  ``calls`` counts them all, so that a test can first run without faults and then
    fail each in turn.  Without ``syncs`` the real syncs are left out, to save time.
    """

    syncs = True

    def __init__(
        self, stats: Stats | None = None, *, direct_reads: bool = False, file_mode: int = 0o600
    ) -> None:
        super().__init__(stats, direct_reads=direct_reads, file_mode=file_mode)
        self.faults = Faults()
        self.calls = self.faults.calls

    def fail(
        self,
        operation: str,
        *,
        error: int = errno.EIO,
        after: int = 0,
        times: int | None = 1,
        path_suffix: str = "",
        short_write: int | None = None,
    ) -> Fault:
        """Fail calls of ``operation`` on paths that end in ``path_suffix``.

        ``after`` matching calls succeed first, then ``times`` calls fail (None: all, until ``heal``).
        With ``short_write`` an append does not raise: it writes only that many bytes and returns their
        number, as the operating system may.
        """
        if operation not in OPERATIONS:
            raise ValueError(f"{operation!r} is none of {sorted(OPERATIONS)}")
        if short_write is not None and operation != "append":
            raise ValueError("only an append can be short")
        return self.faults.add(Fault(operation, error, after, times, path_suffix, short_write))

    def heal(self) -> None:
        self.faults.heal()

    def check(self, operation: str, *paths: str) -> int | None:
        """Raise if the call must fail; return its length if it must be short, else None."""
        return self.faults.check(operation, *paths)

    def create(self, path: str) -> AppendFile:
        self.check("create", path)
        return super().create(path)

    def open_append(self, path: str, length: int) -> AppendFile:
        self.check("open_append", path)
        return super().open_append(path, length)

    def claim(self, path: str, *, create: bool = False) -> AppendFile | None:
        self.check("claim", path)
        return super().claim(path, create=create)

    def write_again(self, path: str, offset: int, data: bytes) -> None:
        self.check("write_again", path)
        super().write_again(path, offset, data)

    def open_random(self, path: str) -> RandomFile:
        self.check("open_random", path)
        return super().open_random(path)

    def open_buffered(self, path: str) -> RandomFile:
        self.check("open_buffered", path)
        return super().open_buffered(path)

    def read_whole(self, path: str, kind: ReadKind, limit: int, start: int = 0) -> bytes:
        self.check("read_whole", path)
        return super().read_whole(path, kind, limit, start)

    def link(self, source: str, target: str) -> None:
        self.check("link", source, target)
        super().link(source, target)

    def replace(self, source: str, target: str) -> None:
        self.check("replace", source, target)
        super().replace(source, target)

    def write_atomically(self, path: str, data: bytes) -> None:
        self.check("write_atomically", path)
        super().write_atomically(path, data)

    def remove(self, path: str) -> None:
        self.check("remove", path)
        super().remove(path)

    def file_at(self, path: str) -> tuple[int, int] | None:
        self.check("file_at", path)
        return super().file_at(path)

    def exists(self, path: str) -> bool:
        self.check("exists", path)
        return super().exists(path)

    def file_size(self, path: str) -> int:
        self.check("file_size", path)
        return super().file_size(path)

    def identity(self, path: str) -> tuple[int, int, int]:
        self.check("identity", path)
        return super().identity(path)

    def first_place(self, directory: str) -> FileLock | None:
        self.check("first_place", directory)
        return super().first_place(directory)

    def is_at(self, path: str, file: RandomFile) -> bool:
        self.check("is_at", path)
        return super().is_at(path, file)

    def fingerprint(self, path: str) -> tuple[int, int, int]:
        self.check("fingerprint", path)
        return super().fingerprint(path)

    def list_directory(self, path: str) -> list[str]:
        self.check("list_directory", path)
        return super().list_directory(path)

    def make_directory(self, path: str) -> None:
        self.check("make_directory", path)
        super().make_directory(path)

    def create_directory(self, path: str) -> None:
        self.check("create_directory", path)
        super().create_directory(path)

    def remove_tree(self, path: str) -> None:
        self.check("remove_tree", path)
        super().remove_tree(path)

    def remove_directory(self, path: str) -> None:
        self.check("remove_directory", path)
        super().remove_directory(path)

    def sync_directory(self, path: str) -> None:
        self.check("sync_directory", path)
        if self.syncs:
            super().sync_directory(path)

    def sync_name(self, path: str) -> None:
        self.check("sync_name", path)
        super().sync_name(path)

    def lock(self, path: str) -> FileLock:
        self.check("lock", path)
        return super().lock(path)

    def _append_file(self, path: str, descriptor: int, offset: int) -> AppendFile:
        return _FaultyAppendFile(self, path, descriptor, offset)

    def _random_file(self, path: str, descriptor: int, size: int, direct: bool) -> RandomFile:
        return _FaultyRandomFile(self, path, descriptor, size, direct)


OPERATIONS = frozenset(
    {"append", "copy", "truncate", "sync", "pread"}
    | {name for name in vars(FaultyStorage) if name in vars(Storage) and not name.startswith("_")}
)


class _FaultyAppendFile(AppendFile):
    def __init__(self, storage: FaultyStorage, path: str, descriptor: int, offset: int) -> None:
        super().__init__(path, descriptor, offset)
        self._storage = storage

    def _write(self, data: bytes | memoryview, offset: int) -> int:
        short = self._storage.check("append", self.path)
        return super()._write(data if short is None else data[:short], offset)

    def _copy(self, source: RandomFile, start: int, size_bytes: int) -> int:
        self._storage.check("copy", self.path)
        return super()._copy(source, start, size_bytes)

    def _extend(self, start: int, length: int) -> None:
        self._storage.check("truncate", self.path)
        super()._extend(start, length)

    def _truncate(self, length: int) -> None:
        self._storage.check("truncate", self.path)
        super()._truncate(length)

    def _sync(self) -> None:
        self._storage.check("sync", self.path)
        if self._storage.syncs:
            super()._sync()


class _FaultyRandomFile(RandomFile):
    def __init__(
        self, storage: FaultyStorage, path: str, descriptor: int, size: int, direct: bool
    ) -> None:
        super().__init__(path, descriptor, size, storage.stats, direct)
        self._storage = storage

    def _pread(self, length: int, offset: int) -> bytes:
        self._storage.check("pread", self.path)
        return super()._pread(length, offset)
