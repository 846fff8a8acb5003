"""A file that grows at its end."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import sys
from typing import Final

from mypy_extensions import mypyc_attr

from lsmkv.storage.files import Descriptor
from lsmkv.storage.posix import fcntl

LARGE_APPEND_BYTES: Final = 4096
"""So long an append takes less time as a call than as a copy to mapped memory."""
_pwrite: Final = os.pwrite  # or a module's
_SMALLEST_ROOM_BYTES: Final = 16 * 1024
_LARGEST_ROOM_BYTES: Final = 1024 * 1024
# As many as are wanted at most; they take no memory, for nothing is ever written there.
_ZEROS: Final = memoryview(bytes(_LARGEST_ROOM_BYTES + LARGE_APPEND_BYTES))
# Where a sync of a file covers what was written to it through memory (POSIX leaves that open).
_MAPS_ROOM: Final = sys.platform == "linux"


@mypyc_attr(allow_interpreted_subclasses=True)
class AppendFile(Descriptor):
    """A file that grows at its end.

    One thread appends or truncates at a time; ``sync`` may run beside it.

    Attributes:
        offset: where the next byte goes; after ``make_room`` the file itself is longer, and zeros
            follow there.
        broken: what the disk holds is not known any more, because a sync failed or a failed append
            could not be undone; every later append, sync or truncate raises ``EIO``.
        releases_gil: whether each append is a system call, in which other threads of the interpreter
            get their turn, also where there is room.
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
        self._length = offset  # of the file, if that is more than ``offset``
        self._room: mmap.mmap | None = None  # this part of the file in memory
        self._room_start = 0
        self._room_end = 0
        self._has_large_pages = False  # the room
        self._synced_end = offset - _LARGEST_ROOM_BYTES  # where the file ended at the last sync
        self._syncs_often = False  # since less was appended between two
        self.broken = False
        self.releases_gil = False
        self.offset = offset

    def append(self, data: bytes, more: bytes = b"") -> None:
        """Write ``data`` and then ``more`` at the end; on an error nothing, if that can be undone."""
        if self.broken:
            raise self._refusal()
        start = self.offset
        try:
            self._write_all(data, start)
            end = start + len(data)
            if more:
                self._write_all(more, end)
            self.offset = end + len(more)
        except BaseException as error:  # an interrupt too: half a record must not stay
            self.offset = start
            self.locate(error)
            self._unmap()
            try:
                self._truncate(start)
                self._length = start
            except BaseException as failure:
                self._break(error)  # not before: a sync that runs beside this is all right
                if not isinstance(failure, OSError):
                    raise
            raise

    def make_room(self, size_bytes: int) -> None:
        """Let the file grow ahead of an append of that size, with room for more, if it has none.

        A sync then has no new length to write down, which saves a third of its time on ext4.  The room
        is taken on disk, so that it is mapped into memory without danger: an append is a copy, which
        the operating system has at once, as after a call.  Where no room can be made the append will
        do without, and so will a large one.

        Zeros are written to it first, or each sync that comes to blocks that never were would have to
        note that they are now.  In one call, for which the operating system takes large pages: it has
        one to find for thousands of small appends instead of thirty.  But a sync writes a page that was
        changed through memory as a whole.  So where syncs come often the zeros are written page by
        page, and appends to room in large pages are calls.  Large appends are always calls, which find
        pages as fast, and room that is made for one has no zeros written.
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
        """Take back the room that nothing was written to; where that fails, it stays."""
        self._unmap()
        if self._length > self.offset and not self.broken:
            with contextlib.suppress(OSError):
                self._truncate(self.offset)
                self._length = self.offset

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._unmap()
        super().close()

    def sync(self) -> None:
        """Make what was appended survive a power failure.

        A failure is final: the kernel may have dropped the pages it could not write, and would call
        the next sync a success (https://wiki.postgresql.org/wiki/Fsync_Errors).
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
        """Before the file is cut: to touch what is mapped and not there would end the process."""
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

    def _extend(self, start: int, length: int) -> None:
        """Make the file ``length`` bytes long, with zeros from ``start`` on, where it ends."""
        if _MAPS_ROOM:
            os.posix_fallocate(self._descriptor, start, length - start)
        else:
            self._truncate(length)

    def _fill(self, start: int, length: int, step: int) -> None:
        """Write zeros from ``start`` on, ``step`` bytes a call; what is left out reads as zeros too."""
        if _MAPS_ROOM:
            for place in range(start, length, step):
                count = min(step, length - place)
                _pwrite(self._descriptor, _ZEROS[:count], place)

    def _map(self, start: int, length: int) -> mmap.mmap | None:
        """So much of the file from ``start`` on as memory that is shared with it; None where not."""
        return mmap.mmap(self._descriptor, length, offset=start) if _MAPS_ROOM else None

    def _truncate(self, length: int) -> None:
        os.ftruncate(self._descriptor, length)

    def _sync(self) -> None:
        if sys.platform == "darwin":  # there fsync leaves the bytes in the drive's cache
            try:
                fcntl.fcntl(self._descriptor, fcntl.F_FULLFSYNC)
            except OSError as error:
                if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                    raise
                os.fsync(self._descriptor)
        else:
            os.fdatasync(self._descriptor)
