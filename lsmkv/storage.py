"""The file system: the only module that opens, reads, writes, syncs, renames or locks a file.

POSIX only (Linux and macOS).  Reads are counted, by kind, in the ``Stats`` of the :class:`Storage`
that opened the file.  Durability is the caller's to order: ``AppendFile.sync`` makes a file's bytes
durable, ``Storage.sync_directory`` its name.  System calls on open files sit behind small methods
that a subclass may replace; ``Storage._append_file`` and ``_random_file`` hand the files out.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import fcntl
import mmap
import os
import stat
import sys
from collections.abc import Callable
from functools import partial
from typing import Final, Self

from mypy_extensions import mypyc_attr

from lsmkv.errors import CorruptionError, LockedError, caused
from lsmkv.finalizers import Finalizer
from lsmkv.stats import Stats

DIRECT_ALIGNMENT_BYTES: Final = 4096
"""Direct reads start and end at multiples of this many bytes."""

_O_DIRECT: Final[int] = getattr(os, "O_DIRECT", 0)
# Symbolic links are refused so that a store writes nowhere but in its own directory; O_NONBLOCK
# (without effect on regular files) so that a pipe in a file's place is refused, not waited for.
_OPEN_FLAGS: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_NO_DIRECT: Final = "direct reads are refused by the file system; open with direct_reads=False"


class ReadKind(enum.IntEnum):
    """What a read is for: which counters of ``Stats`` it goes to."""

    DATA = 0
    FILTER = 1
    INDEX = 2
    LOG = 3
    COMPACTION = 4


_DATA: Final = ReadKind.DATA  # a global is found faster than an enumeration's member


@mypyc_attr(allow_interpreted_subclasses=True)
class _Descriptor:
    """A descriptor, closed once: by ``close``, by ``with``, or when the last reference goes."""

    __slots__ = ("_close", "_descriptor", "_finalizer", "path")

    def __init__(self, path: str, descriptor: int, close: Callable[[int], None] = os.close) -> None:
        self._descriptor = descriptor
        self._close = close
        self._finalizer = Finalizer(partial(close, descriptor))
        self.path = path

    def close(self) -> None:
        """Close the descriptor (no other call may be under way); a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            self._finalizer.cancel()
            self._close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _locate(self, error: BaseException) -> None:
        """Have ``error`` name the file, which errors of calls on descriptors do not."""
        if isinstance(error, OSError) and error.filename is None:
            error.filename = self.path


@mypyc_attr(allow_interpreted_subclasses=True)
class AppendFile(_Descriptor):
    """A file that grows at its end.

    One thread appends or truncates at a time; ``sync`` may run beside it.  ``offset`` is where the
    next byte goes.  ``broken``: what the disk holds is not known any more, because a sync failed or
    a failed append could not be undone; every later append, sync or truncate raises ``EIO``.
    """

    __slots__ = ("_failure", "broken", "offset")

    def __init__(self, path: str, descriptor: int, offset: int) -> None:
        super().__init__(path, descriptor)
        self._failure = ""
        self.broken = False
        self.offset = offset

    def append(self, data: bytes) -> None:
        """Write all of ``data`` at the end; on an error nothing, if that can be undone."""
        if self.broken:
            raise self._refusal()
        start = self.offset
        try:
            self._write_all(data)
            self.offset = start + len(data)
        except BaseException as error:  # an interrupt too: half a record must not stay
            self._locate(error)
            self.offset = start
            self._break(error)
            with contextlib.suppress(OSError):
                self._truncate(start)
                self.broken = False
            raise

    def sync(self) -> None:
        """Make what was appended survive a power failure.

        A failure is final: the kernel may have dropped the pages it could not write, and would call
        the next sync a success (https://wiki.postgresql.org/wiki/Fsync_Errors).
        """
        if self.broken:
            raise self._refusal()
        try:
            self._sync()
        except OSError as error:
            self._locate(error)
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
            self._locate(error)
            raise
        self.offset = length

    def _write_all(self, data: bytes) -> None:
        done = 0
        while done < len(data):
            try:
                written = self._write(memoryview(data)[done:] if done else data)
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

    def _write(self, data: bytes | memoryview) -> int:
        return os.write(self._descriptor, data)

    def _truncate(self, length: int) -> None:
        os.ftruncate(self._descriptor, length)  # no seek: O_APPEND writes at the new end

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


@mypyc_attr(allow_interpreted_subclasses=True)
class RandomFile(_Descriptor):
    """A finished file of ``size`` bytes, read at any offset by any number of threads."""

    __slots__ = ("_direct", "_stats", "size")

    def __init__(self, path: str, descriptor: int, size: int, stats: Stats, direct: bool) -> None:
        super().__init__(path, descriptor)
        self._direct = direct
        self._stats = stats
        self.size = size

    def pread(self, offset: int, length: int, kind: ReadKind, count: int = 1) -> bytes:
        """Exactly ``length`` bytes from ``offset``, counted as ``count`` reads of ``kind``.

        The bytes counted are those asked of the operating system: with direct reads the aligned
        range.  A read that fails counts; an empty range is no read and does not.  A range that the
        file does not have is a CorruptionError, and no memory is taken for it.
        """
        if offset < 0 or length <= 0 or offset + length > self.size:
            if length == 0 and 0 <= offset <= self.size:
                return b""
            raise self._early_end(offset, length, self.size - offset)
        start, asked = offset, length
        if self._direct:
            start &= -DIRECT_ALIGNMENT_BYTES
            asked += offset - start
            asked += -asked % DIRECT_ALIGNMENT_BYTES
        # No call may stand to the right of a +=: after one CPython may switch threads, and the
        # increment of another would be lost.
        stats = self._stats
        if kind is _DATA:
            stats.block_reads += count
            stats.block_read_bytes += asked
        else:
            _count(stats, kind, count, asked)
        try:
            data = self._pread(asked, start)
            if len(data) == length and start == offset:
                return data
            return self._finish(data, start, asked, offset, length)
        except OSError as error:
            if self._direct and error.errno == errno.EINVAL:
                raise caused(OSError(errno.EINVAL, _NO_DIRECT, self.path), error)
            self._locate(error)
            raise

    def _finish(self, data: bytes, start: int, asked: int, offset: int, length: int) -> bytes:
        """The range at ``offset``, after the first read of ``asked`` bytes at ``start``.

        A signal or the kernel's limit (2 GiB) may end a read early, so only one that brings nothing
        new shows the end of the file.
        """
        skipped = offset - start
        while len(data) < skipped + length:
            kept = len(data) - (len(data) % DIRECT_ALIGNMENT_BYTES if self._direct else 0)
            more = self._pread(asked - kept, start + kept)
            if kept + len(more) <= len(data):
                raise self._early_end(offset, length, len(data) - skipped)
            data = data[:kept] + more
        return data[skipped : skipped + length]

    def _early_end(self, offset: int, length: int, got: int) -> CorruptionError:
        reason = "file ends early" if offset >= 0 and length >= 0 else "impossible range"
        return CorruptionError(self.path, offset, reason, expected=length, got=max(0, got))

    def _pread(self, length: int, offset: int) -> bytes:
        """One system call, which may bring less."""
        if not self._direct:
            return os.pread(self._descriptor, length, offset)
        # A mapping is page-aligned.  It is shared memory, and new for each call, so that a fork in
        # another thread cannot part it from the pages the device writes to (open(2), NOTES).
        with mmap.mmap(-1, length) as buffer:
            count = os.preadv(self._descriptor, [buffer], offset)
            return buffer[:count]


@mypyc_attr(allow_interpreted_subclasses=True)
class FileLock(_Descriptor):
    """Held until ``release``, the loss of the last reference, or the end of the process."""

    __slots__ = ()

    def __init__(self, path: str, descriptor: int) -> None:
        super().__init__(path, descriptor, partial(_unlock_and_close, os.getpid()))

    def fileno(self) -> int:
        """Its descriptor: a process that inherits it holds the lock too, until ``release``."""
        return self._descriptor

    def release(self) -> None:
        """Let others lock; a second call does nothing.

        A forked child shares its parent's lock: there, only the child's descriptor is closed.
        """
        self.close()


def _unlock_and_close(pid: int, descriptor: int) -> None:
    """Let others lock, if this is still the process ``pid``, and close the descriptor."""
    if os.getpid() == pid:
        with contextlib.suppress(OSError):  # closing is not enough while a forked child lives
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


@mypyc_attr(allow_interpreted_subclasses=True)
class Storage:
    """Opens files, and does everything else to the file system.  Any thread may use it.

    Files opened here count their reads in ``stats``.  With ``direct_reads`` those opened by
    ``open_random`` bypass the page cache.  ``file_mode``: permission bits of the files created
    here, whatever the umask.
    """

    def __init__(
        self, stats: Stats | None = None, *, direct_reads: bool = False, file_mode: int = 0o600
    ) -> None:
        self.stats = Stats() if stats is None else stats
        self.direct_reads = direct_reads
        self.file_mode = file_mode

    def create(self, path: str) -> AppendFile:
        """A new, empty file; FileExistsError if anything is there, be it a dangling link."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | _OPEN_FLAGS
        descriptor = self._open(path, flags)
        file = self._append_file(path, descriptor, 0)
        os.fchmod(descriptor, self.file_mode)
        return file

    def open_append(self, path: str, length: int) -> AppendFile:
        """The existing file, first cut down to ``length`` bytes; ValueError if it has fewer."""
        descriptor, size = self._open_regular(path, os.O_WRONLY | os.O_APPEND)
        file = self._append_file(path, descriptor, size)
        if length != size:
            file.truncate(length)
        return file

    def open_random(self, path: str) -> RandomFile:
        """The existing file; OSError if direct reads were asked for and it has none."""
        return self._open_random(path, self.direct_reads)

    def read_whole(self, path: str, kind: ReadKind, limit: int, start: int = 0) -> bytes:
        """The file's bytes from ``start`` to its present end, never by direct reads.

        OSError (``EFBIG``) if that is over ``limit`` bytes, CorruptionError if it is negative.
        """
        with self._open_random(path, False) as file:
            length = file.size - start
            if length > limit:
                raise OSError(errno.EFBIG, f"{length} bytes are over the limit of {limit}", path)
            return file.pread(start, length, kind)

    def replace(self, source: str, target: str) -> None:
        """Rename, taking the place of ``target`` in one step; durable after ``sync_directory``."""
        os.replace(source, target)

    def link(self, source: str, target: str) -> None:
        """Give a file, or a link as such, a second name; FileExistsError if that is taken."""
        os.link(source, target, follow_symlinks=False)

    def write_atomically(self, path: str, data: bytes) -> None:
        """Make ``data`` the whole content of ``path``, durably; a crash leaves the old or the new.

        It is first written to ``path + ".tmp"``; one left there by a crash is replaced.
        """
        temporary = path + ".tmp"
        self.remove(temporary)
        try:
            with self.create(temporary) as file:
                file.append(data)
                file.sync()
            self.replace(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                self.remove(temporary)
            raise
        self.sync_directory(_parent(path))

    def remove(self, path: str) -> None:
        """Remove the file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def exists(self, path: str) -> bool:
        """Whether anything is there, a dangling link included; an error when it cannot be told."""
        try:
            os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def file_size(self, path: str) -> int:
        """Length of the file in bytes."""
        return os.lstat(path).st_size

    def list_directory(self, path: str) -> list[str]:
        """Names in the directory, sorted."""
        return sorted(os.listdir(path))

    def make_directory(self, path: str) -> None:
        """Create the directory and its missing parents (mode 0o700), durably; it may exist."""
        if os.path.isdir(path):
            return
        self.make_directory(_parent(path))
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
        self.sync_directory(_parent(path))

    def remove_directory(self, path: str) -> None:
        """Remove the directory, which must be empty."""
        os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        """Make the creations, renames and removals in the directory survive a power failure."""
        with _Descriptor(path, self._open(path, os.O_RDONLY | os.O_DIRECTORY)) as directory:
            try:
                os.fsync(directory._descriptor)
            except OSError as error:
                directory._locate(error)
                raise

    def lock(self, path: str) -> FileLock:
        """Take the lock that the file stands for; it is created if missing, and never removed.

        LockedError if it is held, by another process (whose pid the file tells) or in this one.
        """
        with contextlib.suppress(FileExistsError):
            self.create(path).close()
        descriptor, _ = self._open_regular(path, os.O_RDWR)
        lock = FileLock(path, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _read_pid(descriptor)
            lock.close()
            raise caused(LockedError(_parent(path), holder), None)
        with contextlib.suppress(OSError):  # for people to read: a full disk is no reason to fail
            record = f"{os.getpid()}\n".encode()
            os.pwrite(descriptor, record, 0)
            os.ftruncate(descriptor, len(record))
        return lock

    def _append_file(self, path: str, descriptor: int, offset: int) -> AppendFile:
        return AppendFile(path, descriptor, offset)

    def _random_file(self, path: str, descriptor: int, size: int, direct: bool) -> RandomFile:
        return RandomFile(path, descriptor, size, self.stats, direct)

    def _open(self, path: str, flags: int) -> int:
        return os.open(path, flags, self.file_mode)

    def _open_regular(self, path: str, flags: int) -> tuple[int, int]:
        """Descriptor and size of an existing regular file."""
        try:
            descriptor = self._open(path, flags | _OPEN_FLAGS)
        except OSError as error:
            if error.errno == errno.ELOOP and os.path.islink(path):
                reason = "is a symbolic link; none is followed"
                raise caused(OSError(errno.ELOOP, reason, path), None)
            raise
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            return descriptor, status.st_size
        os.close(descriptor)
        code = errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.ENOTSUP
        raise OSError(code, "is not a regular file", path)

    def _open_random(self, path: str, direct: bool) -> RandomFile:
        try:
            descriptor, size = self._open_regular(path, os.O_RDONLY | (_O_DIRECT if direct else 0))
        except OSError as error:
            if direct and error.errno == errno.EINVAL:
                raise caused(OSError(errno.EINVAL, _NO_DIRECT, path), error)
            raise
        file = self._random_file(path, descriptor, size, direct)
        if direct and sys.platform == "darwin":
            fcntl.fcntl(descriptor, fcntl.F_NOCACHE, 1)  # what macOS has instead of O_DIRECT
        return file


def _count(stats: Stats, kind: ReadKind, count: int, size_bytes: int) -> None:
    if kind is ReadKind.COMPACTION:
        stats.compaction_block_reads += count
        stats.compaction_read_bytes += size_bytes
    elif kind is ReadKind.FILTER:
        stats.filter_reads += count
        stats.filter_read_bytes += size_bytes
    elif kind is ReadKind.INDEX:
        stats.index_reads += count
        stats.index_read_bytes += size_bytes
    else:
        stats.log_reads += count
        stats.log_read_bytes += size_bytes


def _parent(path: str) -> str:
    return os.path.dirname(path.rstrip("/")) or "."


def _read_pid(descriptor: int) -> int | None:
    try:
        return int(os.pread(descriptor, 32, 0).split(b"\n")[0])
    except (OSError, ValueError):
        return None
