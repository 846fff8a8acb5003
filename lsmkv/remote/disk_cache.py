"""Keeps blocks of remote tables on the local disk, within a budget.

The cache is a directory of segment files (``cache_segment.py``), which are appended to and dropped whole,
the oldest first.  So blocks leave in the order in which they came: reading keeps none.  Tables are
content-addressed, so what is cached never becomes stale.

Stores may share a directory, also with a hostile one.  The caller names a range by its store and its
table (``Bucket.identity``), and gets only what was put under that name; a hostile store can do no more
than push out what others have kept.  The names and checksums of tables alone would prove nothing: whoever
publishes chooses both.

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

from lsmkv.errors import CorruptionError, LockedError, note_disk_cache_failure
from lsmkv.remote import cache_segment as segments
from lsmkv.stats import Stats
from lsmkv.storage.file_names import LOCK
from lsmkv.storage.storage import AppendFile, FileLock, PathLike, ReadKind, Storage, absolute_path

MIN_CAPACITY_BYTES: Final = 64 * 1024
SEGMENTS: Final = 16  # a segment takes this part of the budget, so that dropping one drops little
_LOCK_FILE_BYTES: Final = 64  # the lock's file holds the number of a process
_NUMBER_SHIFT: Final = 40  # places: segment number, position
_NAME: Final = re.compile(r"([0-9]{12,})\.segment")


class DiskCache:
    """A cache of byte ranges of tables.  Any thread may use it.

    The sizes of its files never add up to more than ``capacity_bytes``.  What is longer than a sixteenth
    of that is not kept.  Each cached range takes some 140 bytes of memory, and adding or finding one
    constant time.

    A cache never fails a read, nor an opening: where its directory cannot be had, read or written, it
    keeps less, or nothing, and counts that.  The first failure is logged.  Links in the place of its
    files are not followed, and pipes not waited for.

    Attributes:
        hits, misses: answers of :meth:`get`.
        damaged: records, or ends of segments, that did not check out; such a lookup is a miss, too.
        failures: calls to the operating system that failed, for example on a full disk; ``stats`` counts
            them, too.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     cache = DiskCache(directory, 1 << 20)
    ...     cache.put("5f2a", 4096, b"a block")
    ...     cache.get("5f2a", 4096, 7), cache.get("5f2a", 0, 7)
    ...     cache.close()
    (b'a block', None)
    """

    def __init__(
        self,
        path: PathLike,
        capacity_bytes: int,
        stats: Stats | None = None,
        *,
        storage: Storage | None = None,
    ) -> None:
        """Open or make the cache below ``path``.  ValueError: the capacity is below the least."""
        if capacity_bytes < MIN_CAPACITY_BYTES:
            raise ValueError(
                f"a disk cache of {capacity_bytes} bytes: give it at least {MIN_CAPACITY_BYTES}"
            )
        self.path = absolute_path(path, "disk_cache_path")
        self.capacity_bytes = capacity_bytes
        self.hits = self.misses = self.damaged = self.failures = 0
        self._segment_bytes = (capacity_bytes - _LOCK_FILE_BYTES) // SEGMENTS
        self._stats = Stats() if stats is None else stats
        self._storage = Storage() if storage is None else storage
        self._lock = threading.Lock()
        self._is_closed = False
        self._untold = ""  # the first failure, until it is logged
        self._places: dict[int, int] = {}
        # By segment number: the size when its entries were read, and their keys.  No place without it.
        self._known: dict[int, tuple[int, segments.SegmentEntries]] = {}
        # The segment of this handle, and its number and entries.
        self._file: AppendFile | None = None
        self._number = 0
        self._entries = segments.SegmentEntries(0)
        try:
            self._storage.make_directory(self.path)
            self._learn(self._numbers())
            # Who holds the lock makes room.
            with contextlib.suppress(LockedError), self._directory_lock():
                self._make_room(0)
        except OSError as error:
            self._fail(error)
        self._tell()

    def get(self, table: str, offset: int, length: int) -> bytes | None:
        """The bytes put for exactly this range; None if missing or damaged."""
        name = table.encode()
        key = segments.record_key(name, offset, length)
        with self._lock:
            place = self._places.get(key)
            if place is None:
                self.misses += 1
                return None
            number, position = place >> _NUMBER_SHIFT, place & (1 << _NUMBER_SHIFT) - 1
            tag = self._known[number][1].tag
        data, is_damaged, failure = None, False, ""
        try:
            with self._storage.open_random(self._segment_path(number)) as file:
                record = file.pread(position, segments.record_size(name, length), ReadKind.DATA)
            data = segments.data_of(record, tag, name, offset)
            is_damaged = data is None
        except FileNotFoundError:  # another process has dropped it
            pass
        except CorruptionError:  # it ends early
            is_damaged = True
        except OSError as error:
            failure = str(error)
        with self._lock:
            if data is None:
                self.misses += 1
                self.damaged += is_damaged
                if self._places.get(key) == place:
                    del self._places[key]
            else:
                self.hits += 1
            if failure:
                self._fail(failure)
        self._tell()
        return data

    def put(self, table: str, offset: int, data: bytes) -> None:
        """Keep ``data``, from ``offset`` of the table, unless there or too long."""
        name = table.encode()
        size_bytes = segments.record_size(name, len(data))
        least = segments.HEADER.size + size_bytes + segments.footer_size(1)
        if least > self._segment_bytes or len(name) > segments.MAX_NAME_BYTES:
            return
        key = segments.record_key(name, offset, len(data))
        with self._lock:
            if self._is_closed or key in self._places:
                return
            try:
                if self._has_room(size_bytes) or self._next_segment(size_bytes):
                    self._append(key, segments.pack_record(self._entries.tag, name, offset, data))
            except OSError as error:
                self._abandon()
                self._fail(error)
        self._tell()

    def close(self) -> None:
        """Finish the segment of this handle; later calls find and keep nothing."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._seal()
            self._places.clear()
        self._tell()

    # Failures

    def _tell(self) -> None:
        """Log the first failure; without the lock, because a logging handler may use the store."""
        if self._untold:
            with self._lock:
                untold, self._untold = self._untold, ""
            if untold:  # no other thread was faster
                note_disk_cache_failure(self.path, untold)

    def _fail(self, reason: object) -> None:
        self.failures += 1
        self._stats.disk_cache_failures += 1
        if self.failures == 1:
            self._untold = str(reason)

    # The segment of this handle that it appends to; all under the lock.

    def _has_room(self, size_bytes: int) -> bool:
        if self._file is None:
            return False
        entries = self._entries
        needed = entries.end + size_bytes + segments.footer_size(len(entries.keys) + 1)
        return needed <= self._segment_bytes

    def _append(self, key: int, record: bytes) -> None:
        assert self._file is not None
        self._file.append(record)
        position = self._entries.add(key, len(record))
        self._places[key] = self._number << _NUMBER_SHIFT | position

    def _next_segment(self, size_bytes: int) -> bool:
        """Take a segment with room; False if others hold all, or another process is taking one."""
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
            self._hold(file, number, segments.SegmentEntries(0))
        return True

    def _resume(self, numbers: list[int], size_bytes: int) -> bool:
        """Go on with a segment that is not full: few stay small."""
        for number in reversed(numbers):
            if number not in self._known or self._known[number][0] > self._segment_bytes // 2:
                continue
            file = self._claim(number)
            if file is None or not self._load(number):  # its writer may have gone on since
                continue
            self._hold(file, number, self._known[number][1])
            if self._has_room(size_bytes):
                return True
            self._seal()
        return False

    def _hold(self, file: AppendFile, number: int, entries: segments.SegmentEntries) -> None:
        """Append to a segment; one without records begins anew."""
        if entries.keys:
            file.truncate(entries.end)
        else:
            entries = segments.SegmentEntries(int.from_bytes(os.urandom(8), "little"))
            file.truncate(0)
            file.append(entries.header())
        self._file, self._number, self._entries = file, number, entries
        self._known[number] = (file.offset, entries)

    def _seal(self) -> None:
        file, self._file = self._file, None
        if file is None:
            return
        entries, self._entries = self._entries, segments.SegmentEntries(0)
        try:
            with file:  # which unlocks it
                file.append(entries.footer())
        except OSError as error:
            self._fail(error)
        self._known[self._number] = (file.offset, entries)

    def _abandon(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
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

    def _load(self, number: int) -> bool:
        """Read the entries of a segment; False if that cannot be done."""
        self._forget(number)
        try:
            with self._storage.open_random(self._segment_path(number)) as file:
                size_bytes = file.size
                entries = segments.read_entries(file)
        except FileNotFoundError:
            return False
        except CorruptionError:
            self.damaged += 1
            return False
        except OSError as error:
            self._fail(error)
            return False
        self.damaged += not entries.is_whole
        self._known[number] = (size_bytes, entries)
        start = number << _NUMBER_SHIFT
        places = (start | at for at in entries.positions)
        self._places.update(zip(entries.keys, places, strict=True))
        return True

    def _forget(self, number: int) -> None:
        if number not in self._known:
            return
        for key in self._known.pop(number)[1].keys:
            if self._places.get(key, -1) >> _NUMBER_SHIFT == number:
                del self._places[key]

    def _claim(self, number: int) -> AppendFile | None:
        """The file of a segment, locked; None if it is in use, or is none that can be written."""
        try:
            return self._storage.claim(self._segment_path(number))
        except OSError as error:
            self._fail(error)
            return None

    def _make_room(self, size_bytes: int) -> bool:
        """Drop old segments until so many bytes more fit; False if impossible."""
        sizes = {}
        for number in self._numbers():
            with contextlib.suppress(FileNotFoundError):
                found = self._storage.file_size(self._segment_path(number))
                sizes[number] = max(found, self._segment_bytes)
        used = sum(sizes.values()) + size_bytes + _LOCK_FILE_BYTES
        for number, found in sizes.items():
            if used <= self.capacity_bytes:
                break
            if self._drop(number):
                used -= found
        return used <= self.capacity_bytes

    def _drop(self, number: int) -> bool:
        file = self._claim(number)
        if file is None:
            return False
        try:
            with file:
                self._storage.remove(self._segment_path(number))
        except OSError as error:
            self._fail(error)
            return False
        self._forget(number)
        return True
