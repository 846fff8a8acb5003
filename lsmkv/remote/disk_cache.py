"""Keeps blocks of remote tables on the local disk, within a budget.

The cache is a directory of segments (``cache_segment.py``), which are appended to and dropped whole, the
oldest first.  So blocks leave in the order in which they came: reading keeps none.  Tables are
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
from dataclasses import dataclass, field
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


@dataclass(slots=True)
class _Segment:
    """What is known of a segment: its tag, the keys of its records, and the size of their places."""

    tag: int
    keys: list[int] = field(default_factory=list)
    places_bytes: int = 0


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
        damaged: records that did not check out; such a lookup is a miss, too.
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
        self._known: dict[int, _Segment] = {}  # by number; no place without it
        # The segment of this handle: its number, the file of records, and that of places.
        self._number = 0
        self._files: tuple[AppendFile, AppendFile] | None = None
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
            tag = self._known[number].tag
        data, is_damaged, failure = None, False, ""
        try:
            with self._storage.open_random(self._path(number)) as file:
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
        size_bytes = segments.record_size(name, len(data)) + segments.PLACE_BYTES
        if segments.TAG_BYTES + size_bytes > self._segment_bytes:
            return
        key = segments.record_key(name, offset, len(data))
        with self._lock:
            if self._is_closed or key in self._places:
                return
            try:
                if self._has_room(size_bytes) or self._next_segment(size_bytes):
                    self._append(key, name, offset, data)
            except OSError as error:
                self._let_go()
                self._fail(error)
        self._tell()

    def close(self) -> None:
        """Let go the segment of this handle; later calls find and keep nothing."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._let_go()
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
        used_bytes = sum(file.offset for file in self._files or ())
        return self._files is not None and used_bytes + size_bytes <= self._segment_bytes

    def _append(self, key: int, name: bytes, offset: int, data: bytes) -> None:
        assert self._files is not None
        records, places = self._files
        segment, position = self._known[self._number], records.offset
        records.append(segments.pack_record(segment.tag, name, offset, data))
        places.append(segments.pack_place(key, position))
        segment.keys.append(key)
        segment.places_bytes = places.offset
        self._places[key] = self._number << _NUMBER_SHIFT | position

    def _next_segment(self, size_bytes: int) -> bool:
        """Take a segment with room; False if others hold all, or another process is taking one."""
        self._let_go()
        try:
            lock = self._directory_lock()
        except LockedError:
            return False
        with lock:
            numbers = self._numbers()
            self._learn(numbers)
            for number in reversed(numbers):  # go on with one that is not full: few stay small
                if number not in self._known or self._size(number) > self._segment_bytes // 2:
                    continue
                file = self._claim(number)
                if file is not None and self._load(number):  # its writer may have gone on since
                    self._hold(file, number)
                    if self._has_room(size_bytes):
                        return True
                    self._let_go()
            if not self._make_room(self._segment_bytes):
                return False
            number = max((*numbers, *self._known, self._number), default=0) + 1
            file = self._storage.claim(self._path(number), create=True)
            assert file is not None
            self._hold(file, number)
        return True

    def _hold(self, records: AppendFile, number: int) -> None:
        """Append to a segment; one without records begins anew."""
        path = self._path(number, "places")
        segment = self._known.get(number)
        if segment is not None and segment.keys:
            places = self._storage.open_append(path, segment.places_bytes)
        else:
            segment = _Segment(int.from_bytes(os.urandom(8), "little"))
            records.truncate(0)
            self._storage.remove(path)
            places = self._storage.create(path)
            places.append(segments.pack_tag(segment.tag))
        self._number, self._files = number, (records, places)
        self._known[number] = segment

    def _let_go(self) -> None:
        """Close the segment, which unlocks it."""
        files, self._files = self._files or (), None
        for file in files:
            with contextlib.suppress(OSError):
                file.close()

    # All segments in the directory.

    def _directory_lock(self) -> FileLock:
        return self._storage.lock(os.path.join(self.path, LOCK))

    def _path(self, number: int, kind: str = "segment") -> str:
        return os.path.join(self.path, f"{number:012}.{kind}")

    def _size(self, number: int) -> int:
        """The bytes of both files of a segment; 0 for one that is missing."""
        size_bytes = 0
        for kind in ("segment", "places"):
            with contextlib.suppress(FileNotFoundError):
                size_bytes += self._storage.file_size(self._path(number, kind))
        return size_bytes

    def _numbers(self) -> list[int]:
        names = map(_NAME.fullmatch, self._storage.list_directory(self.path))
        return sorted(int(name[1]) for name in names if name is not None)

    def _learn(self, numbers: list[int]) -> None:
        """Read the places of new and grown segments; forget the dropped ones."""
        for number in self._known.keys() - set(numbers):
            self._forget(number)
        for number in numbers:
            size_bytes = 0
            with contextlib.suppress(FileNotFoundError):
                size_bytes = self._storage.file_size(self._path(number, "places"))
            if number not in self._known or self._known[number].places_bytes != size_bytes:
                self._load(number)

    def _load(self, number: int) -> bool:
        """Read the places of a segment; False if that cannot be done."""
        self._forget(number)
        data, end = b"", 0
        try:
            with self._storage.open_random(self._path(number, "places")) as file:
                data = file.pread(0, file.size, ReadKind.DATA)
            end = self._storage.file_size(self._path(number))
        except FileNotFoundError:  # its writer was killed at once
            pass
        except (CorruptionError, OSError) as error:
            self._fail(error)
            return False
        tag, places = segments.unpack_places(data)
        places_bytes = segments.TAG_BYTES + segments.PLACE_BYTES * len(places)
        self._known[number] = _Segment(tag, [key for key, _ in places], places_bytes)
        start = number << _NUMBER_SHIFT
        self._places.update((key, start | at) for key, at in places if at < end)
        return True

    def _forget(self, number: int) -> None:
        for key in self._known.pop(number, _Segment(0)).keys:
            if self._places.get(key, -1) >> _NUMBER_SHIFT == number:
                del self._places[key]

    def _claim(self, number: int) -> AppendFile | None:
        """The file of a segment, locked; None if it is in use, or is none that can be written."""
        try:
            return self._storage.claim(self._path(number))
        except OSError as error:
            self._fail(error)
            return None

    def _make_room(self, size_bytes: int) -> bool:
        """Drop old segments until so many bytes more fit; False if impossible."""
        sizes = {number: max(self._size(number), self._segment_bytes) for number in self._numbers()}
        used = sum(sizes.values()) + size_bytes + _LOCK_FILE_BYTES
        for number, found in sizes.items():
            if used <= self.capacity_bytes:
                break
            if self._drop(number):
                used -= found
        return used <= self.capacity_bytes

    def _drop(self, number: int) -> bool:
        file = self._claim(number) if number in self._known else None
        if file is None:
            return False
        try:
            with file:
                for kind in ("places", "segment"):
                    self._storage.remove(self._path(number, kind))
        except OSError as error:
            self._fail(error)
            return False
        self._forget(number)
        return True
