"""Keeps blocks of remote tables on the local disk, within a budget.

The cache is a directory of segment files (``cache_segment.py``), which are appended to and dropped whole,
the oldest first.  So blocks leave in the order in which they came: reading keeps none.  Tables are
content-addressed, so what is cached never becomes stale.

Nothing is synced, and nothing need be: every record has a checksum over its name and its data, and one
that does not check out is a miss.  A process may be killed at any point.

Several processes may share a directory, and then the budget.  Each appends to a segment of its own, under
a file lock that ends with the process; when it takes a new one, it learns what the others have finished.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from typing import Final

from lsmkv.errors import CorruptionError, LockedError
from lsmkv.remote.cache_segment import (
    MAX_NAME_BYTES,
    SegmentEntries,
    data_of,
    footer_size,
    pack_record,
    read_entries,
    record_key,
    record_size,
)
from lsmkv.storage.file_names import LOCK
from lsmkv.storage.storage import AppendFile, FileLock, PathLike, ReadKind, Storage, absolute_path

MIN_CAPACITY_BYTES: Final = 64 * 1024
SEGMENTS: Final = 16
"""A segment takes this part of the budget, so that dropping one drops little."""

_LOCK_FILE_BYTES: Final = 64  # the lock's file holds the number of a process
_NUMBER_SHIFT: Final = 40  # places: segment number, position
_NAME: Final = re.compile(r"(\d{12})\.segment")


class DiskCache:
    """A cache of byte ranges of tables.  Any thread may use it.

    The sizes of its files never add up to more than ``capacity_bytes``.  What is longer than a sixteenth
    of that is not kept.  Each cached range takes some 140 bytes of memory, and adding or finding one
    constant time.

    A cache never fails a read: where its disk is full or broken, it keeps less, and counts that.

    Attributes:
        hits, misses: answers of :meth:`get`.
        damaged: records, or ends of segments, that did not check out; such a lookup is a miss, too.
        failures: writes that failed, for example on a full disk.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     cache = DiskCache(directory, 1 << 20)
    ...     cache.put("5f2a", 4096, b"a block")
    ...     cache.get("5f2a", 4096, 7), cache.get("5f2a", 0, 7)
    ...     cache.close()
    (b'a block', None)
    """

    def __init__(
        self, path: PathLike, capacity_bytes: int, *, storage: Storage | None = None
    ) -> None:
        """Open the cache below ``path``, which is made if missing.

        ValueError if ``capacity_bytes`` is below :data:`MIN_CAPACITY_BYTES`; OSError if the directory
        cannot be made or read.
        """
        if capacity_bytes < MIN_CAPACITY_BYTES:
            raise ValueError(
                f"a disk cache of {capacity_bytes} bytes: give it at least {MIN_CAPACITY_BYTES}"
            )
        self.path = absolute_path(path, "disk_cache_path")
        self.capacity_bytes = capacity_bytes
        self.hits = self.misses = self.damaged = self.failures = 0
        self._segment_bytes = (capacity_bytes - _LOCK_FILE_BYTES) // SEGMENTS
        self._storage = Storage() if storage is None else storage
        self._lock = threading.Lock()
        self._is_closed = False
        self._places: dict[int, int] = {}
        # By segment number: the size when its entries were read, and their keys.
        self._known: dict[int, tuple[int, SegmentEntries]] = {}
        self._file: AppendFile | None = (
            None  # the segment of this handle, and its number and entries
        )
        self._number = 0
        self._entries = SegmentEntries()
        self._storage.make_directory(self.path)
        self._learn(self._numbers())
        with contextlib.suppress(LockedError), self._directory_lock():  # who holds it makes room
            self._make_room(0)

    def get(self, table: str, offset: int, length: int) -> bytes | None:
        """The bytes put for exactly this range; None if missing or damaged."""
        name = table.encode()
        key = record_key(name, offset, length)
        with self._lock:
            place = self._places.get(key)
        if place is None:
            self._count(0, 1, 0)
            return None
        number, position = place >> _NUMBER_SHIFT, place & (1 << _NUMBER_SHIFT) - 1
        try:
            with self._storage.open_random(self._segment_path(number)) as file:
                record = file.pread(position, record_size(name, length), ReadKind.DATA)
            data = data_of(record, name, offset)
        except FileNotFoundError:  # another process has dropped it
            self._count(0, 1, 0)
            with self._lock:
                self._forget(number)
            return None
        except (CorruptionError, OSError):
            data = None
        if data is None:
            self._count(0, 1, 1)
            with self._lock:
                if self._places.get(key) == place:
                    del self._places[key]
            return None
        self._count(1, 0, 0)
        return data

    def put(self, table: str, offset: int, data: bytes) -> None:
        """Keep ``data``, from ``offset`` of the table, unless there or too long."""
        name = table.encode()
        size_bytes = record_size(name, len(data))
        if size_bytes + footer_size(1) > self._segment_bytes or len(name) > MAX_NAME_BYTES:
            return
        key = record_key(name, offset, len(data))
        with self._lock:
            if self._is_closed or key in self._places:
                return
            try:
                if self._has_room(size_bytes) or self._next_segment(size_bytes):
                    self._append(key, pack_record(name, offset, data))
            except OSError:  # a full disk, or a directory that is gone
                self.failures += 1
                self._abandon()

    def close(self) -> None:
        """Finish the segment of this handle; later calls find and keep nothing."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._seal()
            self._places.clear()

    def _count(self, hits: int, misses: int, damaged: int) -> None:
        with self._lock:
            self.hits += hits
            self.misses += misses
            self.damaged += damaged

    # The segment that this handle appends to; all under the lock.

    def _has_room(self, size_bytes: int) -> bool:
        if self._file is None:
            return False
        entries = self._entries
        needed = entries.end + size_bytes + footer_size(len(entries.keys) + 1)
        return needed <= self._segment_bytes

    def _append(self, key: int, record: bytes) -> None:
        assert self._file is not None
        self._file.append(record)
        position = self._entries.add(key, len(record))
        self._places[key] = self._number << _NUMBER_SHIFT | position

    def _next_segment(self, size_bytes: int) -> bool:
        """Take a segment with room; False if others hold all there are.

        False, too, while another process does the same: waiting for it would take longer than what the
        cache saves.
        """
        self._seal()
        try:
            lock = self._directory_lock()
        except LockedError:
            return False
        with lock:
            numbers = self._numbers()
            self._learn(numbers)
            if self._resume(numbers, size_bytes):
                return True
            if not self._make_room(self._segment_bytes):
                return False
            number = max((*numbers, *self._known, self._number), default=0) + 1
            file = self._storage.claim(self._segment_path(number), create=True)
            assert file is not None
            self._hold(file, number, SegmentEntries())
        return True

    def _resume(self, numbers: list[int], size_bytes: int) -> bool:
        """Go on with a segment that is not full: few stay small."""
        for number in reversed(numbers):
            if number not in self._known or self._known[number][0] > self._segment_bytes // 2:
                continue
            file = self._storage.claim(self._segment_path(number))
            if file is None:
                continue
            self._load(number)  # its writer may have gone on since
            entries = self._known.pop(number)[1]
            file.truncate(entries.end)
            self._hold(file, number, entries)
            if self._has_room(size_bytes):
                return True
            self._seal()
        return False

    def _hold(self, file: AppendFile, number: int, entries: SegmentEntries) -> None:
        self._file, self._number, self._entries = file, number, entries
        self._known[number] = (file.offset, entries)

    def _seal(self) -> None:
        file, self._file = self._file, None
        if file is None:
            return
        entries, self._entries = self._entries, SegmentEntries()
        try:
            file.append(entries.footer())
        except OSError:
            self.failures += 1
        self._known[self._number] = (file.offset, entries)
        file.close()  # which unlocks it

    def _abandon(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    # All segments in the directory.

    def _directory_lock(self) -> FileLock:
        return self._storage.lock(os.path.join(self.path, LOCK))

    def _segment_path(self, number: int) -> str:
        return os.path.join(self.path, f"{number:012}.segment")

    def _numbers(self) -> list[int]:
        names = map(_NAME.fullmatch, self._storage.list_directory(self.path))
        return sorted(int(name[1]) for name in names if name is not None)

    def _learn(self, numbers: list[int]) -> None:
        """Read the entries of new and grown segments; forget the dropped ones."""
        for number in self._known.keys() - set(numbers):
            self._forget(number)
        for number in numbers:
            with contextlib.suppress(FileNotFoundError):
                size_bytes = self._storage.file_size(self._segment_path(number))
                if number not in self._known or self._known[number][0] != size_bytes:
                    self._load(number)

    def _load(self, number: int) -> None:
        try:
            with self._storage.open_random(self._segment_path(number)) as file:
                size_bytes = file.size
                entries = read_entries(file)
        except FileNotFoundError:
            raise
        except (CorruptionError, OSError):
            self.damaged += 1
            return
        self.damaged += not entries.is_whole
        self._known[number] = (size_bytes, entries)
        start = number << _NUMBER_SHIFT
        self._places.update(
            zip(entries.keys, (start | at for at in entries.positions), strict=True)
        )

    def _forget(self, number: int) -> None:
        entries = self._known.pop(number, (0, SegmentEntries()))[1]
        for key in entries.keys:
            if self._places.get(key, -1) >> _NUMBER_SHIFT == number:
                del self._places[key]

    def _make_room(self, size_bytes: int) -> bool:
        """Drop the oldest segments until ``size_bytes`` more fit; False if impossible.

        Segments in use stay.  Each counts as full, because its writer may be filling it.
        """
        sizes = {}
        for number in self._numbers():
            with contextlib.suppress(FileNotFoundError):
                found = self._storage.file_size(self._segment_path(number))
                sizes[number] = max(found, self._segment_bytes)
        used = sum(sizes.values()) + size_bytes + _LOCK_FILE_BYTES
        for number, found in sizes.items():
            if used <= self.capacity_bytes:
                break
            path = self._segment_path(number)
            file = self._storage.claim(path)
            if file is not None:
                with file:
                    self._storage.remove(path)
                self._forget(number)
                used -= found
        return used <= self.capacity_bytes
