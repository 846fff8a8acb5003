"""Open descriptors: files for random reads, and file locks.

Small methods make the system calls, so that a subclass can replace them.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import fcntl
import mmap
import os
from collections.abc import Callable
from functools import partial
from typing import Final, Self, TypeVar

from mypy_extensions import mypyc_attr

from lsmkv.errors import CorruptionError, caused
from lsmkv.runtime import Finalizer, Opened
from lsmkv.stats import Stats
from lsmkv.storage.open_files import DIRECT_ALIGNMENT_BYTES, OpenFiles, SharedFile

LOOKUPS_TOGETHER: Final = 64
"""How many keys are looked up side by side in files on a disk."""

NO_DIRECT: Final = "direct reads are refused by the file system; open with direct_reads=False"


class ReadKind(enum.IntEnum):
    """The purpose of a read, for the counters in ``Stats``."""

    DATA = 0
    FILTER = 1
    INDEX = 2
    LOG = 3
    COMPACTION = 4


_Result = TypeVar("_Result")

_DATA: Final = ReadKind.DATA  # a global is faster to read than an enum member


@mypyc_attr(allow_interpreted_subclasses=True)
class Descriptor:
    """A file descriptor, closed once: by ``close`` or ``with``.

    After :meth:`own` it is also closed when the last reference to this object is dropped.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        self._descriptor = descriptor
        self._close: Callable[[int], object] = os.close
        self._finalizer = Finalizer(object)
        self.path = path

    def own(self, opened: Opened) -> None:
        self._finalizer = opened

    def close(self) -> None:
        """Close the descriptor, unless closed; no other thread may be using it."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            self._finalizer.cancel()
            self._close(descriptor)  # right after: an interrupt in between would leave it open

    def fileno(self) -> int:
        """The descriptor; -1 once it is closed."""
        return self._descriptor

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def locate(self, error: BaseException) -> None:
        """Add the path to an OSError; system calls on descriptors do not."""
        if isinstance(error, OSError) and error.filename is None:
            error.filename = self.path


@mypyc_attr(allow_interpreted_subclasses=True)
class RandomFile(Descriptor):
    """A finished file, for reads at any offset.  Any thread may use it.

    :meth:`fetch` has an effect only if ``can_fetch``: not with direct reads.
    """

    def __init__(self, path: str, descriptor: int, size: int, stats: Stats, direct: bool) -> None:
        super().__init__(path, descriptor)
        self._direct = direct
        self.can_fetch = not direct and hasattr(os, "posix_fadvise")
        # How many keys are best looked up side by side; so many blocks are held.
        self.lookups_together = LOOKUPS_TOGETHER
        self.read_ahead_bytes = 256 * 1024  # how long the reads of a scan become
        # How many of these are best fetched before the first is used; 1: none.
        self.reads_under_way = 1
        self._stats = stats
        # Opens the file at its path, and returns its size, too; None: nothing can.
        self.open_again: Callable[[], tuple[Opened, int]] | None = None
        # Closes and opens it after :meth:`share`; None: it stays open.
        self.shared: SharedFile | None = None
        self.size = size

    def share(self, files: OpenFiles) -> None:
        """Let ``files`` close it between reads: an OSError (``ESTALE``) if its path is another's then."""
        opened, open_again = self._finalizer, self.open_again
        if open_again is None or not isinstance(opened, Opened):
            return
        shared = SharedFile(files, self.path, opened, self.size, open_again, self._direct)
        self._finalizer = files.forgetting(shared)
        files.add(shared)
        self._descriptor = -1
        self.shared = shared
        files.note_open(shared)

    def close(self) -> None:
        self.shared = None
        super().close()
        self._finalizer = Finalizer(object)

    def use(self, call: Callable[[int], _Result]) -> _Result:
        """Call ``call`` with the descriptor, which stays open meanwhile."""
        shared = self.shared
        if shared is None:
            return call(self._descriptor)
        held = shared.reopen()
        result = call(held.number)
        held.was_read = True
        return result

    def pread(self, offset: int, length: int, kind: ReadKind, count: int = 1) -> bytes:
        """Exactly ``length`` bytes from ``offset``, counted as ``count`` reads.

        Counts the bytes requested, also of a failed read: with direct reads the aligned range.  A range
        outside the file is a CorruptionError; no memory is allocated for it.
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
        # No calls to the right of +=: CPython may switch threads in them, and lose the increment of
        # another thread.
        stats = self._stats
        if kind is _DATA:
            stats.block_reads += count
            stats.block_read_bytes += asked
        else:
            count_read(stats, kind, count, asked)
        try:
            data = self._pread(asked, start)
            if len(data) == length and start == offset:
                return data
            return self._finish(data, start, asked, offset, length)
        except OSError as error:
            if self._direct and error.errno == errno.EINVAL:
                raise caused(OSError(errno.EINVAL, NO_DIRECT, self.path), error)
            self.locate(error)
            raise

    def expect_random_reads(self) -> None:
        """Ask the operating system to read no more than is asked for: else it reads ahead."""
        if self.can_fetch:
            with contextlib.suppress(OSError):
                self.use(lambda number: os.posix_fadvise(number, 0, 0, os.POSIX_FADV_RANDOM))

    def fetch(self, offset: int, length: int) -> None:
        """Hint the operating system to cache a range; does not wait."""
        if self.can_fetch:
            with contextlib.suppress(OSError):  # the read itself will report it
                willneed = os.POSIX_FADV_WILLNEED
                self.use(lambda number: os.posix_fadvise(number, offset, length, willneed))

    def is_in_memory(self, offset: int) -> bool:
        """Whether the operating system caches the byte at ``offset``; True if it does not tell."""
        if not hasattr(os, "RWF_NOWAIT"):
            return True
        try:
            self.use(lambda number: os.preadv(number, [bytearray(1)], offset, os.RWF_NOWAIT))
        except BlockingIOError:
            return False
        except OSError:  # the file system has no such reads
            return True
        self._stats.read_around_looks += 1
        return True

    def forget(self, offset: int, length: int) -> None:
        """Take back a :meth:`fetch` whose range will not be read."""

    def keep(self, offset: int, data: bytes) -> None:
        """Say that a range that was read is sound: a remote file may keep it on a local disk."""

    def _finish(self, data: bytes, start: int, asked: int, offset: int, length: int) -> bytes:
        """Complete a read that a signal, or the kernel's limit, ended early."""
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
        shared = self.shared
        if shared is None:
            return self._read_at(self._descriptor, length, offset)
        held = shared.held
        if held is None:
            held = shared.reopen()
        data = self._read_at(held.number, length, offset)
        held.was_read = True  # after the read: it keeps the descriptor open until here
        return data

    def _read_at(self, descriptor: int, length: int, offset: int) -> bytes:
        if not self._direct:
            return os.pread(descriptor, length, offset)
        # A mapping is page-aligned.  It is shared memory, and new for each call: a fork in another
        # thread must not copy the pages that the device writes to (open(2), NOTES).
        with mmap.mmap(-1, length) as buffer:
            count = os.preadv(descriptor, [buffer], offset)
            return buffer[:count]


@mypyc_attr(allow_interpreted_subclasses=True)
class FileLock(Descriptor):
    """A lock, held until ``release``, the last reference or the process ends.

    A process that inherits the descriptor holds the lock, too.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        super().__init__(path, descriptor)
        self._opened: Opened | None = None
        self._pid = os.getpid()

    def own(self, opened: Opened) -> None:
        self._opened = opened
        self._finalizer = Finalizer(partial(_unlock, self._pid, self._descriptor, opened))

    def release(self) -> None:
        """Unlock, except in a forked child, which shares the lock; close."""
        opened = self._opened
        if opened is not None and self._descriptor >= 0:
            _unlock(self._pid, self._descriptor, opened)
        self.close()

    def close(self) -> None:
        """Close without unlocking: a forked child that shares it keeps the lock."""
        opened = self._opened
        if opened is not None:
            self._finalizer.cancel()
            self._finalizer = opened  # which only closes
        super().close()


def _unlock(pid: int, descriptor: int, _opened: Opened) -> None:
    """Unlock in the process ``pid`` only; ``_opened`` keeps the descriptor open."""
    if os.getpid() == pid:
        with contextlib.suppress(OSError):  # closing is not enough while a forked child lives
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def count_read(stats: Stats, kind: ReadKind, count: int, size_bytes: int) -> None:
    if kind is ReadKind.DATA:
        stats.block_reads += count
        stats.block_read_bytes += size_bytes
    elif kind is ReadKind.COMPACTION:
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
