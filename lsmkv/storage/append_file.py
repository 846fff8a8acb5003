"""Files that are written: they grow at their end only."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import sys
from typing import Final

from mypy_extensions import mypyc_attr

from lsmkv.storage.files import Descriptor, RandomFile, ReadKind
from lsmkv.storage.posix import fcntl

LARGE_APPEND_BYTES: Final = 4096
"""From this size on a system call is faster than a copy to mapped memory."""
_pwrite: Final = os.pwrite  # a global is faster to read than a module's attribute
_SMALLEST_ROOM_BYTES: Final = 16 * 1024
_LARGEST_ROOM_BYTES: Final = 1024 * 1024
# The longest run of zeros that is ever written.  Untouched pages take no memory.
_ZEROS: Final = memoryview(bytes(_LARGEST_ROOM_BYTES + LARGE_APPEND_BYTES))
_COPY_BYTES: Final = 1024 * 1024
# What copying in the kernel fails with where it is not to be had.
_CANNOT_COPY: Final = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
# Whether a sync covers writes through mapped memory.  POSIX does not say; Linux does.
_MAPS_ROOM: Final = sys.platform == "linux"


@mypyc_attr(allow_interpreted_subclasses=True)
class AppendFile(Descriptor):
    """A file that grows at its end.

    One thread at a time appends or truncates; another may ``sync`` meanwhile.

    Attributes:
        offset: offset of the next append; zeros may follow it, as room for more.
        broken: the contents on disk are unknown, so every later append, sync or truncate raises
            ``EIO``.
        releases_gil: make every append a system call, which releases the GIL.
    """

    __slots__ = (
        "_failure",
        "_has_large_pages",
        "_length",
        "_room",
        "_room_end",
        "_room_start",
        "_synced_end",
        "_syncs_often",
        "broken",
        "offset",
        "releases_gil",
    )

    def __init__(self, path: str, descriptor: int, offset: int) -> None:
        super().__init__(path, descriptor)
        self._failure = ""
        self._length = offset  # of the file, with its room
        self._room: mmap.mmap | None = None  # the mapped part of the file
        self._room_start = 0
        self._room_end = 0
        self._has_large_pages = False  # of the room
        self._synced_end = offset - _LARGEST_ROOM_BYTES  # offset at the last sync
        self._syncs_often = False  # less than the largest room between two syncs
        self.broken = False
        self.releases_gil = False
        self.offset = offset

    def append(self, data: bytes, more: bytes = b"") -> None:
        """Write ``data`` and ``more`` at the end; an error undoes both or breaks the file."""
        if self.broken:
            raise self._refusal()
        start = self.offset
        try:
            self._write_all(data, start)
            end = start + len(data)
            if more:
                self._write_all(more, end)
            self.offset = end + len(more)
        except BaseException as error:  # an interrupt too: no half record may stay
            self.offset = start
            self.locate(error)
            self._unmap()
            try:
                self._truncate(start)
                self._length = start
            except BaseException as failure:
                # Only now: a concurrent sync must not fail for an append that is undone.
                self._break(error)
                if not isinstance(failure, OSError):
                    raise
            raise

    def append_from(self, source: RandomFile, size_bytes: int) -> None:
        """Append the first bytes of another file.

        The operating system copies them; on some file systems both files then share the blocks.
        """
        done = 0
        while done < size_bytes:
            count = min(_COPY_BYTES, size_bytes - done)
            copied = self._copy(source, done, count)
            if copied:
                self.offset += copied
                done += copied
            else:
                self.append(source.pread(done, count, ReadKind.COMPACTION))
                done += count

    def overwrite(self, offset: int, data: bytes) -> None:
        """Change bytes before the end: all with one system call, mostly."""
        if not 0 <= offset <= offset + len(data) <= self.offset:
            raise ValueError(f"{len(data)} bytes at {offset} are not inside {self.path}")
        if self.broken:
            raise self._refusal()
        try:
            self._write_all(data, offset)
        except OSError as error:
            self.locate(error)
            raise

    def make_room(self, size_bytes: int) -> None:
        """Extend the file before an append, unless it has room.

        Zeros are written to the room, or each sync would have to mark its blocks as written.  Where
        syncs are rare, one call writes them all, so that the operating system uses large pages.  Where
        they are frequent, zeros are written page by page, and appends to large pages are system calls:
        a sync writes each page that was changed through memory as a whole.  Room for a large append
        gets no zeros.  If no room can be made, appends do without.
        """
        end = self.offset + size_bytes
        if end <= self._length or size_bytes > _LARGEST_ROOM_BYTES or self.broken:
            return
        length = end + min(max(end, _SMALLEST_ROOM_BYTES), _LARGEST_ROOM_BYTES)
        self._unmap()
        if self.offset - self._synced_end >= _LARGEST_ROOM_BYTES:
            self._syncs_often = False
        self._has_large_pages = not self._syncs_often
        with contextlib.suppress(OSError):
            file_end = max(self.offset, self._length)
            self._extend(file_end, length)
            self._length = length
            if size_bytes < LARGE_APPEND_BYTES:
                self._fill(
                    file_end, length, len(_ZEROS) if self._has_large_pages else mmap.PAGESIZE
                )
            start = self.offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
            self._room = self._map(start, length - start)
            self._room_start, self._room_end = start, length

    def trim(self) -> None:
        self._unmap()
        if self._length > self.offset and not self.broken:
            with contextlib.suppress(OSError):
                self._truncate(self.offset)
                self._length = self.offset

    def close(self) -> None:
        self._unmap()
        super().close()

    def sync(self) -> None:
        """Make all appends durable; a failure breaks the file.

        The kernel may have dropped the pages that it could not write, and would report success for the
        next sync (https://wiki.postgresql.org/wiki/Fsync_Errors).
        """
        if self.broken:
            raise self._refusal()
        if self._length > self.offset:
            self._syncs_often = self.offset - self._synced_end < _LARGEST_ROOM_BYTES
            self._synced_end = self.offset
        try:
            self._sync()
        except OSError as error:
            self.locate(error)
            self._break(error)
            raise

    def truncate(self, length: int) -> None:
        """Cut the file down to ``length`` bytes; ValueError if it has fewer."""
        if not 0 <= length <= self.offset:
            raise ValueError(f"cannot cut {self.path} of {self.offset} bytes to {length} bytes")
        if self.broken:
            raise self._refusal()
        self._unmap()
        try:
            self._truncate(length)
        except OSError as error:
            self.locate(error)
            raise
        self.offset = self._length = length

    def _write_all(self, data: bytes, offset: int) -> None:
        done = 0
        while done < len(data):
            try:
                written = self._write(memoryview(data)[done:] if done else data, offset + done)
            except InterruptedError:
                continue
            if not written:
                raise OSError(errno.EIO, "the operating system wrote nothing", self.path)
            done += written

    def _break(self, cause: BaseException) -> None:
        self._failure = str(cause) or repr(cause)
        self.broken = True

    def _refusal(self) -> OSError:
        reason = f"takes no more writes after an earlier failure ({self._failure})"
        return OSError(errno.EIO, reason, self.path)

    def _unmap(self) -> None:
        """Unmap before the file is cut: touching mapped bytes behind its end kills the process."""
        room, self._room = self._room, None
        if room is not None:
            room.close()

    def _write(self, data: bytes | memoryview, offset: int) -> int:
        room, length = self._room, len(data)
        if (
            room is not None
            and offset + length <= self._room_end
            and not self.releases_gil
            and not (self._has_large_pages and self._syncs_often)
            and length < LARGE_APPEND_BYTES
        ):
            start = offset - self._room_start
            end = start + length
            room[start:end] = data
            return length
        return _pwrite(self._descriptor, data, offset)

    def _copy(self, source: RandomFile, start: int, size_bytes: int) -> int:
        """Copy to the end what ``source`` has at ``start``; 0: it cannot be done here."""
        if not hasattr(os, "copy_file_range"):  # macOS
            return 0
        try:
            target, end = self._descriptor, self.offset
            return source.use(
                lambda number: os.copy_file_range(number, target, size_bytes, start, end)
            )
        except OSError as error:
            if error.errno in _CANNOT_COPY:
                return 0
            self.locate(error)
            raise

    def _extend(self, start: int, length: int) -> None:
        if _MAPS_ROOM:
            os.posix_fallocate(self._descriptor, start, length - start)
        else:
            self._truncate(length)

    def _fill(self, start: int, length: int, step: int) -> None:
        if _MAPS_ROOM:
            for offset in range(start, length, step):
                count = min(step, length - offset)
                _pwrite(self._descriptor, _ZEROS[:count], offset)

    def _map(self, start: int, length: int) -> mmap.mmap | None:
        """The room as shared memory; None where that is unsafe."""
        return mmap.mmap(self._descriptor, length, offset=start) if _MAPS_ROOM else None

    def _truncate(self, length: int) -> None:
        os.ftruncate(self._descriptor, length)

    def _sync(self) -> None:
        if sys.platform == "darwin":  # where fsync leaves the bytes in the drive's cache
            try:
                fcntl.fcntl(self._descriptor, fcntl.F_FULLFSYNC)
            except OSError as error:
                if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                    raise
                os.fsync(self._descriptor)
        else:
            os.fdatasync(self._descriptor)
