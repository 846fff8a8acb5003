"""Bounds how many files are open: others are opened when read.

There is no lock: a finalizer may read a table inside any change here.  Each step is one operation on a
dict, or one assignment.  Whoever reads a file keeps its :class:`OpenDescriptor`, which closes with its
last reference.  So no descriptor is closed, and no number given to another file, while it is used.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import resource
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count, repeat
from typing import Final

from lsmkv.errors import caused
from lsmkv.runtime import Finalizer, Opened

DIRECT_ALIGNMENT_BYTES: Final = 4096
"""Direct reads start and end at multiples of this many bytes."""

WANT_OF_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)

_SHARE: Final = 2  # of the soft limit: the program has the other half
_LEAST: Final = 8
_TAIL_BYTES: Final = 72  # a table's footer, which has checksums of all that differs between tables
_GONE: Final = (
    "this table was removed or replaced while it was closed, because a newer state of the store does "
    "not need it: refresh() reads that state, and a larger max_open_files (ulimit -n) keeps tables open"
)


_numbers = count()  # of shared files


class OpenDescriptor:
    """A descriptor, closed with the last reference to this object."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self.number: int = opened.numbers[0]
        self.was_read = True  # since the last search for files to close


class SharedFile:
    """A file that is closed while others are read.

    ``open_again`` opens it, and returns its size, too.  An OSError (``ESTALE``) says that another file,
    or none, has its path by then.
    """

    def __init__(
        self,
        files: OpenFiles,
        path: str,
        opened: Opened,
        size: int,
        open_again: Callable[[], tuple[Opened, int]],
        is_direct: bool,
    ) -> None:
        self.path = path
        self._files = files
        self._open_again = open_again
        self._is_direct = is_direct
        self._pinned: OpenDescriptor | None = None
        held = OpenDescriptor(opened)
        self._size = size
        self._tail = self._tail_of(held)
        self._changed_ns = os.fstat(held.number).st_mtime_ns
        self.held: OpenDescriptor | None = held
        self.number = next(_numbers)

    def reopen(self) -> OpenDescriptor:
        """The descriptor, opened again if need be."""
        held = self.held or self._pinned or self._open_anew()
        self.held = held
        if self._pinned is None:
            self._files.note_open(self)
        return held

    def _open_anew(self) -> OpenDescriptor:
        try:
            opened, size = self._open_again()
        except FileNotFoundError as error:
            kept = self.held or self._pinned
            if kept is not None:  # by another thread, before the name went
                return kept
            raise caused(OSError(errno.ESTALE, _GONE, self.path), error)
        held = OpenDescriptor(opened)
        # Tails of tables with equal keys may be equal: their times of change are not.
        changed_ns = os.fstat(held.number).st_mtime_ns
        found = size, changed_ns, self._tail_of(held)
        if found != (self._size, self._changed_ns, self._tail):
            kept = self.held or self._pinned
            if kept is not None:
                return kept
            raise OSError(errno.ESTALE, _GONE, self.path)
        if not self._is_direct and hasattr(os, "posix_fadvise"):
            with contextlib.suppress(OSError):
                os.posix_fadvise(held.number, 0, 0, os.POSIX_FADV_RANDOM)
        return held

    def pin(self) -> bool:
        """Keep it open from now on: its name is going.

        True, too, if nothing reads it any more.  False if it cannot be opened, or if too many are kept
        open already.
        """
        if not self._files.has(self.number):
            return True
        if not self._files.may_keep():
            return False
        try:
            self._pinned = self.reopen()
        except OSError:
            return False
        self._files.keep(self)
        return True

    def _tail_of(self, held: OpenDescriptor) -> bytes:
        """The last bytes, which tell it from all others."""
        length = min(self._size, _TAIL_BYTES)
        start = self._size - length
        if not self._is_direct:
            tail = os.pread(held.number, length, start)
        else:
            skipped = start % DIRECT_ALIGNMENT_BYTES
            with mmap.mmap(-1, 2 * DIRECT_ALIGNMENT_BYTES) as buffer:
                got = os.preadv(held.number, [buffer], start - skipped)
                tail = buffer[skipped:got]
        held.was_read = True  # here, so that it is open until here
        return tail


class OpenFiles:
    """Keeps about ``limit`` of its files open, at the most.

    Beyond that: one for each thread that reads just now.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._files: dict[int, SharedFile] = {}
        self._open: dict[int, SharedFile] = {}  # that may be closed; those opened first come first
        self._pinned: dict[int, SharedFile] = {}

    def add(self, file: SharedFile) -> None:
        """Know ``file`` from now on; its :meth:`forgetting` exists, so no interrupt leaves it here."""
        self._files[file.number] = file

    def forgetting(self, file: SharedFile) -> Finalizer:
        """Forgets ``file``, which closes it, with the last reference to the result."""
        maps = self._files, self._open, self._pinned
        popping = map(dict.pop, maps, repeat(file.number), repeat(None))  # runs no Python code
        return Finalizer(partial(deque, popping, 0))

    def has(self, number: int) -> bool:
        """Whether the file of this number is still used by anything."""
        return number in self._files

    def may_keep(self) -> bool:
        """Whether not too many are kept open yet."""
        return 2 * len(self._pinned) < self.limit

    def keep(self, file: SharedFile) -> None:
        """Count ``file`` as one that stays open."""
        self._pinned[file.number] = file
        self._open.pop(file.number, None)
        if not self.has(file.number):  # it went meanwhile, and was forgotten before it came in here
            self._pinned.pop(file.number, None)

    def note_open(self, file: SharedFile) -> None:
        """Count an open file; close others if there are too many."""
        self._open[file.number] = file
        most = self.limit - len(self._pinned)
        if len(self._open) > most:
            self._close(most - self.limit // 8)

    def make_room(self) -> bool:
        """Close half of the open files; whether there were any."""
        before = len(self._open)
        self._close(before // 2)
        return before > 0

    def _close(self, left: int) -> None:
        """Close files but for ``left``, those not read lately first."""
        for spares_read in (True, False):
            for number, file in list(self._open.items()):
                if len(self._open) <= left:
                    return
                held = file.held
                if spares_read and held is not None and held.was_read:
                    held.was_read = False
                elif self._open.pop(number, None) is not None:
                    file.held = None


_shared = OpenFiles(_LEAST)


def shared_by_default() -> OpenFiles:
    """The open files of all stores without a bound of their own."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        soft = 1 << 30
    _shared.limit = max(_LEAST, soft // _SHARE)
    return _shared


def too_many_open(error: OSError, path: str) -> OSError:
    """``error``, a want of descriptors, with its remedy."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    reason = (
        f"{os.strerror(error.errno or 0)}: this process may have {soft} (ulimit -n); allow it more, "
        "close what it does not need, or open stores with a smaller max_open_files"
    )
    return OSError(error.errno, reason, path)
