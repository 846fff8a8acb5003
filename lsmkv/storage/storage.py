"""Opens, renames, lists and locks files: the only access to them.

POSIX only (Linux and macOS).  Callers ask for durability: ``AppendFile.sync`` makes a file's bytes
durable, ``Storage.sync_directory`` its name.  A subclass may override ``Storage._append_file`` and
``_random_file``, which make the file objects.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import stat
from typing import Any, Final

from mypy_extensions import mypyc_attr

from lsmkv.errors import CorruptionError, LockedError, StoreReplacedError, caused
from lsmkv.runtime import Opened
from lsmkv.stats import Stats
from lsmkv.storage.append_file import AppendFile as AppendFile
from lsmkv.storage.file_names import LOCK, UNFINISHED
from lsmkv.storage.files import NO_DIRECT, Descriptor
from lsmkv.storage.files import FileLock as FileLock
from lsmkv.storage.files import RandomFile as RandomFile
from lsmkv.storage.files import ReadKind as ReadKind
from lsmkv.storage.open_files import DIRECT_ALIGNMENT_BYTES as DIRECT_ALIGNMENT_BYTES
from lsmkv.storage.open_files import (
    WANT_OF_DESCRIPTORS,
    OpenFiles,
    shared_by_default,
    too_many_open,
)
from lsmkv.storage.posix import bypass_page_cache

PathLike = str | os.PathLike[str]

_URL: Final = re.compile("[a-z][a-z0-9+.-]*://")
_SQL_SCHEME: Final = re.compile("(file|sqlite[a-z0-9+]*):", re.IGNORECASE)
_LOCK_RECORD: Final = b"lsmkv process "
MAX_LOCK_BYTES: Final = 64  # a lock's file has at most these, if nobody else writes to it
_O_DIRECT: Final[int] = getattr(os, "O_DIRECT", 0)
# Symbolic links are refused, so that a store writes only in its own directory.  O_NONBLOCK has no
# effect on regular files, and makes a pipe an error instead of a wait.
_FOLLOWING_FLAGS: Final = os.O_CLOEXEC | os.O_NONBLOCK
_OPEN_FLAGS: Final = os.O_NOFOLLOW | _FOLLOWING_FLAGS


def is_url(path: object) -> bool:
    """Whether ``path`` names something in object storage."""
    return isinstance(path, str) and _URL.match(path) is not None


def shown_url(url: str) -> str:
    """A URL for messages, without the parts that may hold secrets.

    >>> shown_url("s3://bucket/x?signature=1"), shown_url("s3://me:password@bucket/x")
    ('s3://bucket/x?...', 's3://...')
    """
    scheme = re.match("([A-Za-z][A-Za-z0-9+.-]*:/*)?", url)
    start = "" if scheme is None else scheme[0]
    if "@" in url:  # in a user's part, a password or a query: nobody knows
        return f"{start}..."
    kept = re.split("[?#]", url)[0]
    return kept if kept == url else f"{kept}?..."


def absolute_path(path: Any, name: str = "path") -> str:
    """``path`` made absolute; TypeError or ValueError, with ``name``, if invalid."""
    given: Any = path  # Any: mypyc would refuse bytes with another message
    if isinstance(path, os.PathLike):
        given = os.fspath(path)
    if not isinstance(given, str):
        raise TypeError(f"{name} is str or os.PathLike[str], not {type(given).__name__}")
    if not given:
        raise ValueError(f"{name}='': give a directory; '.' is the working directory")
    if is_url(given.lower()):
        raise ValueError(
            f"{name}={shown_url(given)!r}: it is a URL, and a directory is needed; only lsmkv.open with "
            "read_only=True and DB.publish take URLs"
            + ("" if is_url(given) else ", with a scheme in lower case")
        )
    if given == ":memory:":
        raise ValueError(
            f"{name}={given!r}: a store is always in a directory; tempfile.TemporaryDirectory() "
            "makes one that is removed at the end"
        )
    scheme = _SQL_SCHEME.match(given)
    if scheme is not None:
        raise ValueError(
            f"{name}={shown_url(given)!r}: {scheme[0]} is for SQL databases; give the path of a "
            f"directory alone, or ./{scheme[0]}... for one of that name"
        )
    if given == "~" or given.startswith("~/"):
        raise ValueError(
            f"{name}={given!r}: ~ is not expanded; give os.path.expanduser({given!r}), or "
            f"{'./' + given!r} for a directory of that name"
        )
    if "\0" in given:
        raise ValueError(f"{name}={given!r}: no path may hold a NUL character; leave it out")
    return os.path.abspath(given)


@mypyc_attr(allow_interpreted_subclasses=True)
class Storage:
    """Opens files and changes directories.  Any thread may use it.

    Its files count their reads in ``stats``.  With ``direct_reads`` those of ``open_random`` bypass the
    page cache.  New files have the permission bits ``file_mode``, whatever the umask; so have new
    directories, and users who may read may enter them.  With ``follow_links`` files that are symbolic
    links are read; they are never written.

    While it holds the lock of a store, nothing changes in the store's directory unless the lock's file
    is still there: a directory of the same name, in place of this one, is somebody else's.

    Attributes:
        shared_files: what tables share their files with (``RandomFile.share``).
    """

    def __init__(
        self,
        stats: Stats | None = None,
        *,
        direct_reads: bool = False,
        file_mode: int = 0o600,
        follow_links: bool = False,
    ) -> None:
        self.stats = Stats() if stats is None else stats
        self.direct_reads = direct_reads
        self.file_mode = file_mode
        self.follow_links = follow_links
        # The path, device and number of each LOCK that is held, by its directory.
        self._places: dict[str, tuple[str, tuple[int, int]]] = {}
        self.shared_files: OpenFiles = shared_by_default()

    def check_place(self, directory: str) -> None:
        """Raise StoreReplacedError if ``directory`` was locked here, and another took its place."""
        locked = self._places.get(directory)
        if locked is None:
            return
        try:
            is_there = _file_at(locked[0]) == locked[1]
        except OSError:  # nobody knows, as where the parent may no longer be searched
            return
        if not is_there:
            raise StoreReplacedError(directory)

    def create(self, path: str) -> AppendFile:
        """Create an empty file; FileExistsError for anything there, even a dangling link."""
        self.check_place(path.rpartition("/")[0])
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _OPEN_FLAGS
        opened = self._open(path, flags)
        descriptor = opened.numbers[0]
        file = self._append_file(path, descriptor, 0)
        file.own(opened)
        _set_mode(path, descriptor, self.file_mode)
        return file

    def open_append(self, path: str, length: int) -> AppendFile:
        """Open an existing file, cut to ``length`` bytes; ValueError if it has fewer."""
        self.check_place(path.rpartition("/")[0])
        opened, size = self._open_regular(path, os.O_RDWR)
        file = self._append_file(path, opened.numbers[0], size)
        file.own(opened)
        if length != size:
            file.truncate(length)
        return file

    def claim(self, path: str, *, create: bool = False) -> AppendFile | None:
        """Open a file for appends, locked until it is closed; None if another handle has claimed it."""
        if create:
            self.create(path).close()
        opened, _ = self._open_regular(path, os.O_RDWR)
        descriptor = opened.numbers[0]
        if not _flock(path, descriptor):
            return None
        # Only now: whoever held it may have made it longer.
        file = self._append_file(path, descriptor, os.fstat(descriptor).st_size)
        file.own(opened)
        return file

    def write_again(self, path: str, offset: int, data: bytes) -> None:
        """Rewrite bytes after a failed sync: later ones may skip their pages."""
        self.check_place(path.rpartition("/")[0])
        with _owner(path, self._open_regular(path, os.O_WRONLY)[0]) as file:
            try:
                while data:
                    written = os.pwrite(file.fileno(), data, offset)
                    data, offset = data[written:], offset + written
            except OSError as error:
                file.locate(error)
                raise

    def open_random(self, path: str) -> RandomFile:
        """Open an existing file; OSError if it does not support the direct reads wanted."""
        return self._open_random(path, self.direct_reads)

    def open_buffered(self, path: str) -> RandomFile:
        """Open an existing file for reads that are never direct."""
        return self._open_random(path, False)

    def read_whole(self, path: str, kind: ReadKind, limit: int, start: int = 0) -> bytes:
        """The bytes from ``start`` to the file's end, never read directly.

        OSError (``EFBIG``) if there are more than ``limit``, CorruptionError if the end is before
        ``start``.
        """
        while True:
            with self._open_random(path, False) as file:
                length = file.size - start
                if length > limit:
                    reason = f"{length} bytes are over the limit of {limit}"
                    raise OSError(errno.EFBIG, reason, path)
                try:
                    return file.pread(start, length, kind)
                except CorruptionError:
                    if length < 0 or self.file_size(path) >= file.size:
                        raise
            # Its writer has cut it meanwhile: read again.

    def replace(self, source: str, target: str) -> None:
        """Rename, replacing ``target`` atomically; durable after ``sync_directory``."""
        self.check_place(target.rpartition("/")[0])
        os.replace(source, target)

    def link(self, source: str, target: str) -> None:
        """Give a file a second name; FileExistsError if that is taken."""
        self.check_place(target.rpartition("/")[0])
        found = os.path.realpath(source) if self.follow_links else source
        os.link(found, target, follow_symlinks=False)

    def write_atomically(self, path: str, data: bytes) -> None:
        """Replace a file durably: a crash leaves the old or the new contents."""
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
        self.check_place(path.rpartition("/")[0])
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def exists(self, path: str) -> bool:
        """Whether there is anything, even a dangling link; OSError if that is unknown."""
        try:
            self._status(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def file_size(self, path: str) -> int:
        return self._status(path).st_size

    def identity(self, path: str) -> tuple[int, int, int]:
        """A file's device and number, and how many names it has."""
        status = self._status(path)
        return status.st_dev, status.st_ino, status.st_nlink

    def is_at(self, path: str, file: RandomFile) -> bool:
        """Whether ``path`` names this file."""
        try:
            return os.path.samestat(self._status(path), file.use(os.fstat))
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
            return False  # a shared file that was closed, and is no longer at its own path

    def file_at(self, path: str) -> tuple[int, int] | None:
        """Device and number of the file at ``path``; None if there is none."""
        return _file_at(path)

    def fingerprint(self, path: str) -> tuple[int, int, int]:
        """Device, number and time of the last change: the same as before, if the bytes are."""
        status = self._status(path)
        return status.st_dev, status.st_ino, status.st_mtime_ns

    def list_directory(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except OSError as error:
            if not self._made_room(error, path):
                raise
            return self.list_directory(path)

    def make_directory(self, path: str) -> None:
        """Create the directory and its missing parents, durably; NotADirectoryError if one is a file."""
        if os.path.isdir(path):
            return
        self.make_directory(_parent(path))
        self.check_place(_parent(path))
        mode = 0o700 | self.file_mode | (self.file_mode & 0o444) >> 2  # x where r
        try:
            os.mkdir(path, mode)
        except FileExistsError:
            if not os.path.isdir(path):
                told = "is a file, and a directory is needed; give another path"
                raise caused(NotADirectoryError(errno.ENOTDIR, told, path), None)
        else:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
            with _owner(path, self._open(path, flags)) as directory:
                present = stat.S_IMODE(os.fstat(directory.fileno()).st_mode)
                if present & 0o777 != mode:  # but for the umask
                    _set_mode(path, directory.fileno(), present & ~0o777 | mode)
        self.sync_directory(_parent(path))

    def create_directory(self, path: str) -> None:
        """Create a directory (mode 0o700) in one that exists."""
        self.check_place(path.rpartition("/")[0])
        os.mkdir(path, 0o700)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def remove_tree(self, path: str) -> None:
        """Remove a directory with all in it, if it exists; anything else of its name stays.

        It is renamed first, so that other processes create nothing more in it.
        """
        self.check_place(path.rpartition("/")[0])
        if os.path.islink(path) or not os.path.isdir(path):
            return  # rmtree would wait for the other end of a pipe
        going = path if path.endswith(UNFINISHED) else path + UNFINISHED
        try:
            if going != path:
                os.replace(path, going)
            shutil.rmtree(going)
        except FileNotFoundError:
            pass
        except RecursionError:
            raise caused(
                OSError(errno.ENAMETOOLONG, "directories are nested too deep", going), None
            )

    def sync_directory(self, path: str) -> None:
        """Make creations, renames and removals in the directory durable."""
        self.check_place(path)
        with _owner(path, self._open(path, os.O_RDONLY | os.O_DIRECTORY)) as directory:
            try:
                os.fsync(directory.fileno())
            except OSError as error:
                directory.locate(error)
                raise

    def sync_name(self, path: str) -> None:
        """Make a directory's name durable, if its parent may be read."""
        with contextlib.suppress(PermissionError):
            self.sync_directory(_parent(path))

    def lock(self, path: str) -> FileLock:
        """Lock a file, which is created if missing and never removed.

        The file then holds the number of this process, unless another program has written to it.
        LockedError if another process (whose number is in the file) or this one holds the lock.
        """
        self._places.pop(os.path.dirname(path), None)  # of a lock that was let go
        while True:
            with contextlib.suppress(FileExistsError):
                self.create(path).close()
            opened, _ = self._open_regular(path, os.O_RDWR)
            descriptor = opened.numbers[0]
            lock = FileLock(path, descriptor)
            lock.own(opened)
            if not _flock(path, descriptor):
                holder = _read_pid(descriptor)
                lock.close()
                raise caused(LockedError(_parent(path), holder), None)
            status = os.fstat(descriptor)
            file = status.st_dev, status.st_ino
            if _file_at(path) == file:
                break
            lock.release()  # its holder destroyed the store meanwhile, and the file with it
        with contextlib.suppress(OSError):  # only for people to read: a full disk is no failure
            if is_lock_record(os.pread(descriptor, MAX_LOCK_BYTES + 1, 0)):
                record = b"%b%d\n" % (_LOCK_RECORD, os.getpid())
                os.pwrite(descriptor, record, 0)
                os.ftruncate(descriptor, len(record))
        if os.path.basename(path) == LOCK:
            self._places[os.path.dirname(path)] = path, file
        return lock

    def first_place(self, directory: str) -> FileLock | None:
        """Become the first of those who wait for the lock in ``directory``; None if another is.

        It is a lock on the directory itself.  Where there are no such locks, everybody is the first.
        """
        opened = self._open(directory, os.O_RDONLY | os.O_DIRECTORY)
        place = FileLock(directory, opened.numbers[0])
        place.own(opened)
        with contextlib.suppress(OSError):
            if not _flock(directory, opened.numbers[0]):
                place.close()
                return None
        return place

    def _status(self, path: str) -> os.stat_result:
        return os.stat(path) if self.follow_links else os.lstat(path)

    def _append_file(self, path: str, descriptor: int, offset: int) -> AppendFile:
        return AppendFile(path, descriptor, offset)

    def _random_file(self, path: str, descriptor: int, size: int, direct: bool) -> RandomFile:
        return RandomFile(path, descriptor, size, self.stats, direct)

    def _open(self, path: str, flags: int) -> Opened:
        opened = Opened()
        try:
            opened.open(path, flags, self.file_mode)
        except OSError as error:
            if not self._made_room(error, path):
                raise
            return self._open(path, flags)
        return opened

    def _made_room(self, error: OSError, path: str) -> bool:
        """Whether descriptors were wanting and some tables closed; OSError if none was open."""
        if error.errno not in WANT_OF_DESCRIPTORS:
            return False
        if not self.shared_files.make_room():
            raise caused(too_many_open(error, path), error)
        return True

    def _open_regular(self, path: str, flags: int) -> tuple[Opened, int]:
        may_follow = self.follow_links and not flags & (os.O_RDWR | os.O_WRONLY)
        try:
            opened = self._open(path, flags | (_FOLLOWING_FLAGS if may_follow else _OPEN_FLAGS))
        except OSError as error:
            if error.errno == errno.ELOOP and os.path.islink(path):
                reason = "is a symbolic link; only lsmkv.open with read_only=True follows one"
                raise caused(OSError(errno.ELOOP, reason, path), None)
            raise
        status = os.fstat(opened.numbers[0])
        if stat.S_ISREG(status.st_mode):
            return opened, status.st_size
        code = errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.ENOTSUP
        raise OSError(code, "is not a regular file", path)

    def _open_random(self, path: str, direct: bool) -> RandomFile:
        opened, size = self._opened_for_reads(path, direct)
        file = self._random_file(path, opened.numbers[0], size, direct)
        file.own(opened)
        file.open_again = lambda: self._opened_for_reads(path, direct)
        return file

    def _opened_for_reads(self, path: str, direct: bool) -> tuple[Opened, int]:
        try:
            opened, size = self._open_regular(path, os.O_RDONLY | (_O_DIRECT if direct else 0))
        except OSError as error:
            if direct and error.errno == errno.EINVAL:
                raise caused(OSError(errno.EINVAL, NO_DIRECT, path), error)
            raise
        if direct:
            bypass_page_cache(opened.numbers[0])
        return opened, size


def _owner(path: str, opened: Opened) -> Descriptor:
    owner = Descriptor(path, opened.numbers[0])
    owner.own(opened)
    return owner


def _parent(path: str) -> str:
    return os.path.dirname(path.rstrip("/")) or "."


def _file_at(path: str) -> tuple[int, int] | None:
    """Device and number of the file at ``path``; None if there is none."""
    try:
        status = os.lstat(path)
    except OSError as error:
        if error.errno in _GONE:
            return None
        raise
    return status.st_dev, status.st_ino


# What file systems say that have no permission bits, or none to change: of Windows, through FUSE.
_NO_MODES: Final = {errno.EPERM, errno.EACCES, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}


def _set_mode(path: str, descriptor: int, mode: int) -> None:
    """Set permission bits; those that the file system gives stay if it refuses."""
    try:
        os.fchmod(descriptor, mode)
    except OSError as error:
        if error.errno not in _NO_MODES:
            raise caused(OSError(error.errno, os.strerror(error.errno or 0), path), None)


_GONE: Final = {errno.ENOENT, errno.ENOTDIR, errno.ESTALE}
_NO_LOCKS: Final = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}


def _flock(path: str, descriptor: int) -> bool:
    """Lock an open file; False if another has the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        if error.errno in _NO_LOCKS:
            reason += (
                ": this file system has no file locks (flock), without which two processes might "
                "write at once; put the store on a local disk, or mount the file system with "
                "locks (NFS needs its lock service); read_only=True needs no lock"
            )
        raise caused(OSError(error.errno, reason, path), None)
    return True


def is_lock_record(data: bytes) -> bool:
    """Whether ``Storage.lock`` wrote these bytes, or a crash left them of that.

    >>> is_lock_record(b""), is_lock_record(b"lsmkv process 17\\n"), is_lock_record(b"17\\n")
    (True, True, False)
    """
    written = data.rstrip(b"\0")
    head, rest = written[: len(_LOCK_RECORD)], written[len(_LOCK_RECORD) :]
    is_known = _LOCK_RECORD.startswith(head) and not rest.strip(b"0123456789\n")
    return is_known and len(data) <= MAX_LOCK_BYTES


def _read_pid(descriptor: int) -> int | None:
    try:
        record = os.pread(descriptor, MAX_LOCK_BYTES, 0)
        return int(record.removeprefix(_LOCK_RECORD).split(b"\n")[0])
    except (OSError, ValueError):
        return None
