"""A storage in memory that records every change and fails on demand.

No call reaches the operating system, so opening a store takes a few milliseconds and a power failure
costs nothing.  Helper processes cannot see such a disk: a store on it does its work in threads.
"""

from __future__ import annotations

import copy
import posixpath
import threading
from functools import partial
from typing import Final, Self

from lsmkv.errors import LockedError
from lsmkv.runtime import Finalizer
from lsmkv.storage.storage import AppendFile, FileLock, RandomFile, Storage
from torture.crash.disk import Disk, Image, Operation
from torture.crash.injection import Faults

_NO_DESCRIPTOR: Final = 1 << 30
"""Numbers of open files start here, above all descriptors of the operating system."""


class MemoryStorage(Storage):
    """Storage of the store in :data:`torture.crash.disk.STORE`.

    Attributes:
        operations: every change so far, in order.
        faults: injected faults.
        mutex: hold it to read the disk while threads may change it.
        open_files: paths of open files and locks, by number.
    """

    def __init__(self, image: Image | None = None) -> None:
        super().__init__()
        self.disk = Disk(image)
        self.operations: list[Operation] = []
        self.faults = Faults()
        self.open_files: dict[int, str] = {}
        self._locked: set[str] = set()
        self.mutex = threading.RLock()
        self._opened = 0

    # Changes

    def change(self, operation: Operation) -> None:
        with self.mutex:
            self.disk.apply(operation)
            self.operations.append(operation)

    def note(self, text: str, number: int) -> None:
        """Record the progress of the workload among the operations."""
        self.change(Operation("note", text, length=number))

    def left_behind(self) -> Self:
        """The disk as the next process finds it; nothing that this one still does reaches it."""
        following = type(self)()
        with self.mutex:
            following.disk, following.operations = self.disk, self.operations
            self.disk, self.operations = copy.deepcopy(self.disk), []
        return following

    def create(self, path: str) -> AppendFile:
        self.faults.check("create", path)
        with self.mutex:
            self._parent_of(path)
            if path in self.disk.names:
                raise FileExistsError(17, "it exists", path)
            number = self.disk.next_file()
            self.change(Operation("create", path, number))
            return MemoryAppendFile(self, path, number, 0)

    def open_append(self, path: str, length: int) -> AppendFile:
        self.faults.check("open_append", path)
        with self.mutex:
            number = self._find(path)
            file = MemoryAppendFile(self, path, number, len(self.disk.files[number].data))
        if length != file.offset:
            file.truncate(length)
        return file

    def write_again(self, path: str, offset: int, data: bytes) -> None:
        self.faults.check("write_again", path)
        with self.mutex:
            number = self._find(path)
            assert self.disk.files[number].content[offset : offset + len(data)] == data
            self.change(Operation("write_again", path, number, data, length=offset))

    def replace(self, source: str, target: str) -> None:
        self.faults.check("replace", source, target)
        with self.mutex:
            self._find(source)
            self.change(Operation("rename", source, target=target))

    def link(self, source: str, target: str) -> None:
        self.faults.check("link", source, target)
        with self.mutex:
            self._find(source)
            if target in self.disk.names:
                raise FileExistsError(17, "it exists", target)
            self.change(Operation("link", source, target=target))

    def remove(self, path: str) -> None:
        self.faults.check("remove", path)
        with self.mutex:
            if path in self.disk.names:
                self.change(Operation("remove", path))

    def make_directory(self, path: str) -> None:
        self.faults.check("make_directory", path)
        if self.exists(path):
            return
        self._parent_of(path)
        self.change(Operation("make_directory", path))
        self.sync_directory(posixpath.dirname(path))

    def remove_directory(self, path: str) -> None:
        self.faults.check("remove_directory", path)
        with self.mutex:
            if self.list_directory(path):
                raise OSError(39, "it is not empty", path)
            self.change(Operation("remove", path))

    def sync_directory(self, path: str) -> None:
        self.faults.check("sync_directory", path)
        self.change(Operation("sync_directory", path))

    # Reading and locking

    def exists(self, path: str) -> bool:
        self.faults.check("exists", path)
        return path in self.disk.names

    def file_size(self, path: str) -> int:
        self.faults.check("file_size", path)
        with self.mutex:
            return len(self.disk.files[self._find(path)].data)

    def identity(self, path: str) -> tuple[int, int, int]:
        self.faults.check("identity", path)
        with self.mutex:
            number = self._find(path)
            return 0, number, list(self.disk.names.values()).count(number)

    def is_at(self, path: str, file: RandomFile) -> bool:
        """Files of this disk have no descriptors, and nobody replaces its directories."""
        return self.exists(path)

    def fingerprint(self, path: str) -> tuple[int, int, int]:
        """As a real one: it tells files apart.  No file of this disk has a time."""
        self.faults.check("fingerprint", path)
        with self.mutex:
            return 0, self._find(path), 0

    def list_directory(self, path: str) -> list[str]:
        self.faults.check("list_directory", path)
        with self.mutex:
            self._find(path)
            start = path.rstrip("/") + "/"
            return sorted(
                name[len(start) :]
                for name in self.disk.names
                if name.startswith(start) and name != start
            )

    def lock(self, path: str) -> FileLock:
        self.faults.check("lock", path)
        with self.mutex:
            if path in self._locked:
                raise LockedError(posixpath.dirname(path), None)
            if path not in self.disk.names:
                self.create(path).close()
            return _MemoryLock(self, path)

    def _open_random(self, path: str, direct: bool) -> RandomFile:
        self.faults.check("open_random", path)
        with self.mutex:
            return MemoryRandomFile(self, path, self.disk.files[self._find(path)].content)

    def _find(self, path: str) -> int:
        """Number of the file or directory at ``path``."""
        number = self.disk.names.get(path)
        if number is None:
            raise FileNotFoundError(2, "there is no such file", path)
        return number

    def _parent_of(self, path: str) -> None:
        self._find(posixpath.dirname(path))

    # Open files

    def note_open(self, path: str) -> int:
        """Note an opened file and return its number."""
        with self.mutex:
            self._opened += 1
            number = _NO_DESCRIPTOR + self._opened
            self.open_files[number] = path
            return number

    def let_go(self, number: int) -> None:
        """Note that the file with this number is closed."""
        with self.mutex:
            self.open_files.pop(number, None)

    def take_lock(self, path: str) -> None:
        self._locked.add(path)

    def release_lock(self, path: str, number: int) -> None:
        self._locked.discard(path)
        self.let_go(number)


class MemoryAppendFile(AppendFile):
    """A growing file of a :class:`MemoryStorage`."""

    def __init__(self, storage: MemoryStorage, path: str, file: int, offset: int) -> None:
        number = storage.note_open(path)
        super().__init__(path, number, offset)
        self._finalizer.cancel()
        self._close = storage.let_go
        self._finalizer = Finalizer(partial(storage.let_go, number))
        self._storage = storage
        self._file = file

    def _write(self, data: bytes | memoryview, offset: int) -> int:
        short = self._storage.faults.check("append", self.path)
        written = bytes(data if short is None else data[:short])
        self._storage.change(Operation("write", self.path, self._file, written, length=offset))
        return len(written)

    def _copy(self, source: RandomFile, start: int, size_bytes: int) -> int:
        return 0  # no call reaches the operating system

    def _extend(self, start: int, length: int) -> None:
        self._truncate(length)

    def _truncate(self, length: int) -> None:
        self._storage.faults.check("truncate", self.path)
        self._storage.change(Operation("truncate", self.path, self._file, length=length))

    def _sync(self) -> None:
        try:
            self._storage.faults.check("sync", self.path)
        except OSError:
            self._storage.change(Operation("failed_sync", self.path, self._file))
            raise
        self._storage.change(Operation("sync", self.path, self._file))


class MemoryRandomFile(RandomFile):
    """A finished file of a :class:`MemoryStorage`."""

    def __init__(self, storage: MemoryStorage, path: str, content: bytes) -> None:
        number = storage.note_open(path)
        super().__init__(path, number, len(content), storage.stats, False)
        self._finalizer.cancel()
        self._close = storage.let_go
        self._finalizer = Finalizer(partial(storage.let_go, number))
        self._faults = storage.faults
        self._content = content

    def _pread(self, length: int, offset: int) -> bytes:
        short = self._faults.check("pread", self.path)
        return self._content[offset : offset + (length if short is None else min(short, length))]


class _MemoryLock(FileLock):
    def __init__(self, storage: MemoryStorage, path: str) -> None:
        number = storage.note_open(path)
        super().__init__(path, number)
        self._finalizer.cancel()
        self._close = partial(storage.release_lock, path)
        self._finalizer = Finalizer(partial(storage.release_lock, path, number))
        storage.take_lock(path)
