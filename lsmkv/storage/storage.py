"""The file system: nobody else opens, renames, lists or locks a file.

POSIX only (Linux and macOS).  Reads are counted, by kind, in the ``Stats`` of the :class:`Storage`
that opened the file.  Durability is the caller's to order: ``AppendFile.sync`` makes a file's bytes
durable, ``Storage.sync_directory`` its name.  ``Storage._append_file`` and ``_random_file`` hand the
files (:mod:`lsmkv.storage.files`) out; a subclass may replace them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from typing import Any, Final

from mypy_extensions import mypyc_attr

from lsmkv.errors import CorruptionError, LockedError, caused
from lsmkv.runtime import Opened
from lsmkv.stats import Stats
from lsmkv.storage.append_file import AppendFile as AppendFile
from lsmkv.storage.files import DIRECT_ALIGNMENT_BYTES as DIRECT_ALIGNMENT_BYTES
from lsmkv.storage.files import NO_DIRECT, Descriptor
from lsmkv.storage.files import FileLock as FileLock
from lsmkv.storage.files import RandomFile as RandomFile
from lsmkv.storage.files import ReadKind as ReadKind
from lsmkv.storage.posix import fcntl

PathLike = str | os.PathLike[str]

UNFINISHED: Final = ".tmp"
"""Ending of the name under which ``write_atomically`` writes."""

_O_DIRECT: Final[int] = getattr(os, "O_DIRECT", 0)
# Symbolic links are refused so that a store writes nowhere but in its own directory; O_NONBLOCK
# (without effect on regular files) so that a pipe in a file's place is refused, not waited for.
_OPEN_FLAGS: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def absolute_path(path: Any, name: str = "path") -> str:
    """The directory ``path`` from the root on.

    Args:
        name: what the error calls it.

    Raises:
        TypeError: it is neither str nor os.PathLike[str].
        ValueError: it can be no path.
    """
    given: Any = os.fspath(path)  # declared a str, bytes would be refused in other words
    if not isinstance(given, str):
        raise TypeError(f"{name} is str or os.PathLike[str], not {type(given).__name__}")
    if not given:
        raise ValueError(f"{name}='': give a directory; '.' is the working directory")
    if "\0" in given:
        raise ValueError(f"{name}={given!r}: no path may hold a NUL character; leave it out")
    return os.path.abspath(given)


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
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _OPEN_FLAGS
        opened = self._open(path, flags)
        descriptor = opened.numbers[0]
        file = self._append_file(path, descriptor, 0)
        file.own(opened)
        os.fchmod(descriptor, self.file_mode)
        return file

    def open_append(self, path: str, length: int) -> AppendFile:
        """The existing file, first cut down to ``length`` bytes; ValueError if it has fewer."""
        opened, size = self._open_regular(path, os.O_RDWR)
        file = self._append_file(path, opened.numbers[0], size)
        file.own(opened)
        if length != size:
            file.truncate(length)
        return file

    def write_again(self, path: str, offset: int, data: bytes) -> None:
        """Write bytes over themselves: after a failed sync the next one may leave them out, else."""
        with _owner(path, self._open_regular(path, os.O_WRONLY)[0]) as file:
            try:
                while data:
                    written = os.pwrite(file.fileno(), data, offset)
                    data, offset = data[written:], offset + written
            except OSError as error:
                file.locate(error)
                raise

    def open_random(self, path: str) -> RandomFile:
        """The existing file; OSError if direct reads were asked for and it has none."""
        return self._open_random(path, self.direct_reads)

    def read_whole(self, path: str, kind: ReadKind, limit: int, start: int = 0) -> bytes:
        """The file's bytes from ``start`` to its present end, never by direct reads.

        OSError (``EFBIG``) if that is over ``limit`` bytes, CorruptionError if it is negative.
        """
        while True:
            with self._open_random(path, False) as file:
                length = file.size - start
                if length > limit:
                    raise OSError(
                        errno.EFBIG, f"{length} bytes are over the limit of {limit}", path
                    )
                try:
                    return file.pread(start, length, kind)
                except CorruptionError:
                    if length < 0 or self.file_size(path) >= file.size:
                        raise
            # Its writer has cut it down meanwhile.

    def replace(self, source: str, target: str) -> None:
        """Rename, taking the place of ``target`` in one step; durable after ``sync_directory``."""
        os.replace(source, target)

    def link(self, source: str, target: str) -> None:
        """Give a file, or a link as such, a second name; FileExistsError if that is taken."""
        os.link(source, target, follow_symlinks=False)

    def write_atomically(self, path: str, data: bytes) -> None:
        """Make ``data`` the whole content of ``path``, durably; a crash leaves the old or the new.

        It is first written to ``path + UNFINISHED``; one left there by a crash is replaced.
        """
        temporary = path + UNFINISHED
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
        with _owner(path, self._open(path, os.O_RDONLY | os.O_DIRECTORY)) as directory:
            try:
                os.fsync(directory.fileno())
            except OSError as error:
                directory.locate(error)
                raise

    def lock(self, path: str) -> FileLock:
        """Take the lock that the file stands for; it is created if missing, and never removed.

        LockedError if it is held, by another process (whose pid the file tells) or in this one.
        """
        with contextlib.suppress(FileExistsError):
            self.create(path).close()
        opened, _ = self._open_regular(path, os.O_RDWR)
        descriptor = opened.numbers[0]
        lock = FileLock(path, descriptor)
        lock.own(opened)
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

    def _open(self, path: str, flags: int) -> Opened:
        opened = Opened()
        opened.open(path, flags, self.file_mode)
        return opened

    def _open_regular(self, path: str, flags: int) -> tuple[Opened, int]:
        """Descriptor and size of an existing regular file."""
        try:
            opened = self._open(path, flags | _OPEN_FLAGS)
        except OSError as error:
            if error.errno == errno.ELOOP and os.path.islink(path):
                reason = "is a symbolic link; none is followed"
                raise caused(OSError(errno.ELOOP, reason, path), None)
            raise
        status = os.fstat(opened.numbers[0])
        if stat.S_ISREG(status.st_mode):
            return opened, status.st_size
        code = errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.ENOTSUP
        raise OSError(code, "is not a regular file", path)

    def _open_random(self, path: str, direct: bool) -> RandomFile:
        try:
            opened, size = self._open_regular(path, os.O_RDONLY | (_O_DIRECT if direct else 0))
        except OSError as error:
            if direct and error.errno == errno.EINVAL:
                raise caused(OSError(errno.EINVAL, NO_DIRECT, path), error)
            raise
        descriptor = opened.numbers[0]
        file = self._random_file(path, descriptor, size, direct)
        file.own(opened)
        if direct and sys.platform == "darwin":
            fcntl.fcntl(descriptor, fcntl.F_NOCACHE, 1)  # what macOS has instead of O_DIRECT
        return file


def _owner(path: str, opened: Opened) -> Descriptor:
    owner = Descriptor(path, opened.numbers[0])
    owner.own(opened)
    return owner


def _parent(path: str) -> str:
    return os.path.dirname(path.rstrip("/")) or "."


def _read_pid(descriptor: int) -> int | None:
    try:
        return int(os.pread(descriptor, 32, 0).split(b"\n")[0])
    except (OSError, ValueError):
        return None
