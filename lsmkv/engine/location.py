"""Where a store is, in a directory, published or out of reach; and captures of its state there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn, Protocol

from lsmkv.engine.follower import StoreFollower
from lsmkv.engine.recovery import recover_beside_writer
from lsmkv.errors import CorruptionError, untraced
from lsmkv.options import Options
from lsmkv.read.view import SuperVersion
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.sstable.table_end import read_footer
from lsmkv.storage.file_names import log_path, table_path
from lsmkv.storage.storage import RandomFile, ReadKind, Storage
from lsmkv.tree.capture import Capture, CapturedLog
from lsmkv.tree.manifest import State
from lsmkv.tree.version_set import VersionSet

if TYPE_CHECKING:
    from lsmkv.inspection.verify import VerifyReport

Progress = Callable[[int, int], None]


class Location(Protocol):
    """Where a store is, and how it is read there.

    Attributes:
        name: its directory, or its URL.
        directory: its directory; None unless it is in one.
        storage: reads and writes its files.
        generation: the number of the generation that was read last; None in a directory.
        found_more: whether the last look found writes that the one before did not.
        found_another: whether it found another store in the place.
    """

    @property
    def name(self) -> str: ...
    @property
    def directory(self) -> str | None: ...
    @property
    def storage(self) -> Storage: ...
    @property
    def generation(self) -> int | None: ...
    @property
    def found_more(self) -> bool: ...
    @property
    def found_another(self) -> bool: ...

    def open_tables(self, options: Options, cache: BlockCache) -> VersionSet:
        """The version set of the store; called once, first."""

    def recover(self) -> tuple[SuperVersion, int]:
        """The newest state for reading, and its last number; the same object if nothing has changed."""

    def capture(self, current: SuperVersion, last_seq: int, /) -> Capture:
        """The present state of a store that is only read here."""

    def verify(self, current: SuperVersion, progress: Progress | None, /) -> VerifyReport:
        """Check every byte of every file."""

    def close(self) -> None:
        """Keep nothing open, and wait for nothing; may come twice."""


class Directory:
    """A store in a directory."""

    generation = None

    def __init__(self, directory: str, storage: Storage) -> None:
        self.directory = self.name = directory
        self.storage = storage
        self._follower: StoreFollower | None = None

    def open_tables(self, options: Options, cache: BlockCache) -> VersionSet:
        tables = VersionSet(self.storage, self.directory, options, cache)
        self._follower = StoreFollower(self.storage, self.directory, tables)
        return tables

    @property
    def found_more(self) -> bool:
        return self._follower is not None and self._follower.found_more

    @property
    def found_another(self) -> bool:
        return self._follower is not None and self._follower.found_another

    def recover(self) -> tuple[SuperVersion, int]:
        assert self._follower is not None
        return self._follower.recover()

    def capture(self, current: SuperVersion, last_seq: int, /) -> Capture:
        return capture_directory(self.storage, self.directory)

    def verify(self, current: SuperVersion, progress: Progress | None, /) -> VerifyReport:
        from lsmkv.inspection.verify import verify_store

        self.storage.check_place(self.directory)
        return verify_store(self.storage, self.directory, current, progress)

    def close(self) -> None:
        if self._follower is not None:
            self._follower.forget()


class Unreachable:
    """A published store that cannot be reached from this process: each use raises why."""

    directory = None
    generation = None
    found_more = False
    found_another = False

    def __init__(self, url: str, error: Exception) -> None:
        self.name = url
        self.storage = Storage()
        self._error = untraced(error)

    def open_tables(self, options: Options, cache: BlockCache) -> VersionSet:
        return VersionSet(self.storage, self.name, options, cache)

    def recover(self, *_: object) -> NoReturn:
        raise untraced(self._error)  # each use gets an exception of its own

    capture = verify = recover

    def close(self) -> None:
        pass


def capture_directory(storage: Storage, directory: str) -> Capture:
    """The state as a recovery finds it.  Raises as an opening for reading, but not for damaged tables.

    It holds every write that was acknowledged before, which other processes see at once.
    """

    def open_files(state: State) -> dict[int, RandomFile]:
        files: dict[int, RandomFile] = {}
        for table in state.levels.tables():
            file = files[table.number] = storage.open_random(table_path(directory, table.number))
            with suppress(CorruptionError):  # is copied as it is
                read_footer(file)  # UnsupportedFormatError: a copy would have tables of two formats
            file.share(storage.shared_files)
        return files

    found, tables = recover_beside_writer(storage, directory, open_files)
    logs = [CapturedLog(log.number, log.salt, log.end, log.piece) for log in found.logs]
    memtables = tuple(found.memtables)
    return Capture(directory, found.state, found.last_seq, tables, logs, memtables)


def capture_open(
    storage: Storage,
    directory: str,
    current: SuperVersion,
    last_seq: int,
    state: State,
    extents: list[tuple[int, int, int]],
) -> Capture:
    """The state of an open store; ``extents`` are number, salt and end of its logs."""
    logs = [
        CapturedLog(number, salt, end, _log_bytes(storage, directory, number))
        for number, salt, end in extents
        if number >= state.log_number
    ]
    files = {table.meta.number: table.file for table in current.version.tables()}
    return Capture(directory, state, last_seq, files, logs)


def _log_bytes(storage: Storage, directory: str, number: int) -> Callable[[int, int], bytes]:
    file = storage.open_buffered(log_path(directory, number))
    return lambda offset, length: file.pread(offset, length, ReadKind.LOG)
