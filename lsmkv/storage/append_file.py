"""Files that are written: they grow at their end only."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import Final

from mypy_extensions import mypyc_attr

from lsmkv.storage.files import Descriptor, RandomFile, ReadKind
from lsmkv.storage.posix import sync_data

_pwrite: Final = os.pwrite  # a global is faster to read than a module's attribute
_SMALLEST_ROOM_BYTES: Final = 16 * 1024
_LARGEST_ROOM_BYTES: Final = 1024 * 1024
_ZEROS: Final = bytes(_SMALLEST_ROOM_BYTES)
_COPY_BYTES: Final = 1024 * 1024
# Errors of copying in the kernel, where the system cannot.
_CANNOT_COPY: Final = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


@mypyc_attr(allow_interpreted_subclasses=True)
class AppendFile(Descriptor):
    """A file that grows at its end.

    It is never mapped into memory: where a disk fails, a call raises an error, but a touched page ends
    the process.  One thread at a time appends or truncates; another may ``sync`` meanwhile.
    """

    def __init__(self, path: str, descriptor: int, offset: int) -> None:
        super().__init__(path, descriptor)
        self._failure = ""
        self._length = offset  # of the file, with its room
        self._synced_end = offset - _LARGEST_ROOM_BYTES  # offset at the last sync
        self._syncs_often = False  # less than the largest room between two syncs
        # The contents on disk are unknown, so every later append, sync or truncate raises ``EIO``.
        self.broken = False
        self.offset = offset  # offset of the next append; zeros may follow it, as room for more

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
        """Append the first bytes of another file."""
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
        """Make room for an append with zeros, where syncs come often.

        A sync then writes data alone, while a longer file has its length written too.  If no room can
        be made, appends do without.
        """
        end = self.offset + size_bytes
        if end <= self._length or not self._syncs_often or size_bytes > _SMALLEST_ROOM_BYTES:
            return
        if self.offset - self._synced_end >= _LARGEST_ROOM_BYTES:
            self._syncs_often = False
        elif not self.broken:
            start = max(self.offset, self._length)
            self._length = end + min(max(end, _SMALLEST_ROOM_BYTES), _LARGEST_ROOM_BYTES)
            with contextlib.suppress(OSError):
                self._extend(start, self._length)

    def trim(self) -> None:
        if self._length > self.offset and not self.broken:
            with contextlib.suppress(OSError):
                self._truncate(self.offset)
                self._length = self.offset

    def sync(self) -> None:
        """Make all appends durable; a failure breaks the file.

        The kernel may have dropped the pages that it could not write, and would report success for the
        next sync (https://wiki.postgresql.org/wiki/Fsync_Errors).
        """
        if self.broken:
            raise self._refusal()
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

    def _write(self, data: bytes | memoryview, offset: int) -> int:
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
        # Not with one call: Linux would take pages so large that each write in them is slow.
        for offset in range(start, length, len(_ZEROS)):
            _pwrite(self._descriptor, _ZEROS[: length - offset], offset)

    def _truncate(self, length: int) -> None:
        os.ftruncate(self._descriptor, length)

    def _sync(self) -> None:
        sync_data(self._descriptor)
