"""The store as its users see it: ``open``, ``DB``, ``destroy``."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import asdict, dataclass
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from lsmkv.background.worker import in_worker
from lsmkv.batch import Operation
from lsmkv.encoding import Buffer, key_bytes
from lsmkv.engine import Engine
from lsmkv.errors import NotAStoreError, StoreExistsError
from lsmkv.interpreter import check_interpreter
from lsmkv.log import HEADER_BYTES
from lsmkv.manifest import CURRENT, LOCK, parse_file_name
from lsmkv.options import Options
from lsmkv.ranges import scan_range
from lsmkv.reads import Snapshot, StoreReader
from lsmkv.recovery import holds_store, lock_store
from lsmkv.scan import ScanRange
from lsmkv.stats import Stats
from lsmkv.storage import Storage
from lsmkv.writes import WriteBatch

# What most programs never need is loaded when it is.
if TYPE_CHECKING:
    from lsmkv.explain import Explanation
    from lsmkv.inspect import BlockInfo, StoreInfo
    from lsmkv.verify import VerifyReport

_CLEAR_BATCH: Final = 1000
PathLike = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class MemoryUsage:
    """Memory by purpose, in bytes; keys and values are counted, Python's own overhead is not.

    Filters and indexes are those of tables that have been used: each is read at its first use.

    memtables counts the logs that hold the same writes; snapshot_versions counts old versions kept
    in memtables for snapshots (a number of versions, not bytes).
    """

    memtables: int
    snapshot_versions: int
    block_cache: int
    block_cache_budget: int
    filters: int
    indexes: int

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


class DB(StoreReader, MutableMapping[bytes, bytes]):
    """An open store: an ordered mapping from bytes to bytes, on disk.

    Made by :func:`lsmkv.open`.  Any number of threads may share one; a process that forks must open
    the store anew in the child.  Close it with ``close`` or ``with``.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lookup = engine.lookup
        self._lookup_many = engine.lookup_many
        self._moment = engine.moment

    # Reading: see StoreReader

    def snapshot(self) -> Snapshot:
        """The store as it is now, to be read however long, whatever is written meanwhile.

        Compaction keeps what a snapshot sees until it is closed.
        """
        view, pin = self._engine.pin_view()
        return Snapshot(self._engine, view, pin, self)

    # Writing

    def put(self, key: Buffer, value: Buffer, *, sync: bool = False) -> None:
        """Set ``key`` to ``value``.

        Args:
            key: up to 65,535 bytes.
            value: up to 256 MiB.
            sync: return only once the write would survive a power failure (one fdatasync serves all
                threads that wait).  Without it the write survives the end of this process,
                however it ends.

        Raises:
            TypeError, ValueError: not a key or value; nothing was written.
            OSError: it could not be written; the store takes no more writes until ``resume``.
            BackgroundError: an earlier failure made the store stop taking writes.
            ReadOnlyError, ClosedError: the store cannot be written through this handle.
        """
        self._engine.put(key, value, sync)

    def delete(self, key: Buffer, *, sync: bool = False) -> None:
        """Remove ``key``, which need not be there.  Arguments and errors as :meth:`put`."""
        self._engine.delete(key, sync)

    def write_batch(self, *, sync: bool = False) -> WriteBatch:
        """Operations that are applied together or not at all, on leaving the ``with`` block.

        >>> import lsmkv, tempfile
        >>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
        ...     with db.write_batch(sync=True) as batch:
        ...         batch.put(b"k", b"v")
        ...         batch.delete(b"old")
        ...     db[b"k"]
        b'v'
        """
        self._engine.usable_view()
        return WriteBatch(self._engine, sync)

    def __setitem__(self, key: Buffer, value: Buffer) -> None:
        self._engine.put(key, value, False)

    def __delitem__(self, key: Buffer) -> None:
        """Remove ``key``; KeyError when it is not there.  (``delete`` does not look first.)"""
        if self._lookup(key) is None:
            raise KeyError(key)
        self._engine.delete(key, False)

    def clear(self) -> None:
        """Remove every key that is there now, in batches (not in one atomic step)."""
        keys = iter(self.keys())
        while True:
            batch: list[Operation] = [(key, None) for key in islice(keys, _CLEAR_BATCH)]
            if not batch:
                return
            self._engine.write_batch(batch, False)

    # Upkeep

    def sync(self) -> None:
        """Make every write so far survive a power failure.

        Raises:
            OSError: the log could not be synced; the store takes no more writes until ``resume``.
        """
        self._engine.sync()

    def flush(self) -> None:
        """Write the memtable to a table, and return when it is there.

        Raises:
            BackgroundError: it could not be; its ``__cause__`` says why.
        """
        self._engine.flush()

    def compact_range(
        self, start: Buffer | None = None, stop: Buffer | None = None, *, force: bool = False
    ) -> None:
        """Flush, then merge all that is stored between two keys into one sorted run.

        Old versions and deletions that nobody can see any more are gone afterwards.  It needs free
        space for a second copy of the range while it works.

        Args:
            start, stop: start <= key < stop; None sets no bound.
            force: rewrite also what is one tidy run already, so that it takes the form that the
                present options give it (another error rate, block size, compression, ...).

        Raises:
            BackgroundError, OSError: the flush or the merge failed.
        """
        wanted = scan_range(start, stop, None, False)
        if wanted.is_empty:
            self._engine.flush()
        else:
            self._engine.compact_range(wanted.start, wanted.stop, force)

    def wait_until_settled(self) -> None:
        """Return once no flush and no compaction is due.

        Raises:
            BackgroundError: one of them failed.
        """
        self._engine.wait_until_settled()

    def resume(self) -> None:
        """Take writes again after a failure whose cause has been mended (space on a full disk, say).

        Does nothing when there was no failure.

        Raises:
            OSError, BackgroundError: it is not mended.
        """
        self._engine.resume()

    def refresh(self) -> None:
        """Of a store opened with ``read_only=True``: see what its writer has written since.

        Does nothing on a store that is open for writing, which is always up to date.
        """
        self._engine.refresh()

    # Looking inside

    def stats(self) -> Stats:
        """Everything counted since the store was opened; two of them can be subtracted."""
        self._engine.usable_view()
        return self._engine.stats.copy()

    def memory_usage(self) -> MemoryUsage:
        """Memory by purpose."""
        view = self._engine.usable_view()
        tables = list(view.version.tables())
        return MemoryUsage(
            memtables=self._engine.memtable_bytes(),
            snapshot_versions=sum(memtable.history_count for memtable in view.memtables),
            block_cache=self._engine.cache.used_bytes,
            block_cache_budget=self._engine.cache.capacity_bytes,
            filters=sum(table.filter_memory_bytes for table in tables),
            indexes=sum(table.index_memory_bytes for table in tables),
        )

    def approximate_count(self) -> int:
        """About how many keys there are: entries less deletions, overwritten keys counted twice.

        O(tables): nothing is read.
        """
        view = self._engine.usable_view()
        tables = [table.meta for table in view.version.tables()]
        stored = sum(meta.entry_count - 2 * meta.tombstone_count for meta in tables)
        return max(0, stored + sum(memtable.balance() for memtable in view.memtables))

    def approximate_size(self, start: Buffer | None = None, stop: Buffer | None = None) -> int:
        """About how many bytes of table files hold the keys with start <= key < stop.

        Memtables are not counted.  O(tables + log blocks): no block is read.
        """
        wanted = scan_range(start, stop, None, False)
        view = self._engine.usable_view()
        if wanted.is_empty:
            return 0
        return sum(
            _size_between(wanted, run_table)
            for run in view.version.runs
            for run_table in run.tables_between(wanted.start, wanted.stop)
        )

    def explain(self, key: Buffer) -> Explanation:
        """The read path of this one look-up: as data, and with ``print`` as text."""
        from lsmkv.explain import explain_lookup

        data = key_bytes(key)
        view, pin = self._engine.pin_view()
        return explain_lookup(view, data, pin.seq)

    def inspect(self) -> StoreInfo:
        """Levels, runs and tables, with what is known of each without reading blocks."""
        from lsmkv.inspect import inspect_view

        return inspect_view(self._engine.usable_view())

    def blocks(self, table_number: int) -> Iterator[BlockInfo]:
        """Every block of one table, with its filter's n, m, k and expected rate.

        Reads each block, past the cache.

        Raises:
            ValueError: the tree has no such table (``inspect`` shows those that it has).
            CorruptionError: a block is damaged.
        """
        from lsmkv.inspect import block_infos

        for table in self._engine.usable_view().version.tables():
            if table.meta.number == table_number:
                return block_infos(table)
        raise ValueError(f"table_number={table_number!r}: the store has no such table now")

    def verify(self, progress: Callable[[int, int], None] | None = None) -> VerifyReport:
        """Check every byte of every file, and report what does not hold.

        Args:
            progress: called with blocks checked so far, and blocks in all.
        """
        from lsmkv.verify import verify_store

        engine = self._engine
        view, _pin = engine.pin_view()
        return verify_store(engine.storage, engine.directory, view, progress)

    # Opening and closing

    @property
    def path(self) -> str:
        """The store's directory."""
        return self._engine.directory

    @property
    def options(self) -> Options:
        """The options in force."""
        return self._engine.options

    @property
    def read_only(self) -> bool:
        """Whether this handle was opened with ``read_only=True``."""
        return self._engine.read_only

    @property
    def closed(self) -> bool:
        """Whether the store can be used no more through this handle."""
        return self._engine.view is None

    def close(self) -> None:
        """Sync what was written, stop the background work, unlock.  A second call does nothing.
        If an interrupt (Ctrl-C) has ended the first, the second goes on with it.

        Raises:
            OSError: what was written could not be synced; the store is closed all the same.
        """
        self._engine.close()

    def __enter__(self) -> Self:
        self._engine.usable_view()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        engine: Engine | None = getattr(self, "_engine", None)
        if engine is not None and engine.view is not None:
            warnings.warn(
                f"{engine.directory} was not closed", ResourceWarning, stacklevel=2, source=self
            )
            if in_worker():  # the garbage collector may run in the middle of its work
                threading.Thread(target=engine.close, name="lsmkv-close").start()
                return
            with contextlib.suppress(Exception):
                engine.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "read-only" if self.read_only else "open"
        return f"<lsmkv.DB at {self.path!r}, {state}>"


def _size_between(wanted: ScanRange, table: Any) -> int:
    meta = table.meta
    low, high = 0, table.footer.data_length
    if wanted.start is not None and wanted.start > meta.smallest:
        index = table.index
        low = index.offset(index.seek(wanted.start))
    if wanted.stop is not None and wanted.stop <= meta.largest:
        index = table.index
        high = index.offset(min(index.seek(wanted.stop) + 1, index.block_count))
    return int(high - low)


def open(
    path: PathLike,
    options: Options | None = None,
    *,
    create_if_missing: bool = True,
    error_if_exists: bool = False,
    read_only: bool = False,
    storage: Storage | None = None,
    **overrides: Any,
) -> DB:
    """Open the store in the directory ``path``.

    Args:
        path: a directory of the store's own.
        options: how to write and read it; the defaults are ``Options()``.
        create_if_missing: make the directory and a new store when there is none.
        error_if_exists: refuse a store that is there already.
        read_only: change nothing and take no lock; works beside a writer in another process
            (``DB.refresh`` shows what it has written since).
        storage: what does the reading and writing of files; for tests.
        **overrides: single options, in place of those in ``options``.

    Raises:
        NotAStoreError: there is no store, and none is to be made.
        StoreExistsError: there is one, with ``error_if_exists``.
        LockedError: it is open for writing elsewhere.
        CorruptionError, UnsupportedFormatError: what is there cannot be trusted, or read.
        TypeError, ValueError: an option is wrong; nothing was touched.
        OSError: a file cannot be read or written.
        RuntimeError: this interpreter runs without the global lock.

    >>> import lsmkv, tempfile
    >>> with tempfile.TemporaryDirectory() as path:
    ...     with lsmkv.open(path, error_rate=0.001) as db:
    ...         db[b"key"] = b"value"
    ...     with lsmkv.open(path, read_only=True) as db:
    ...         db[b"key"], b"no" in db
    (b'value', False)
    """
    check_interpreter()
    if options is not None and not isinstance(options, Options):
        raise TypeError(f"options is an lsmkv.Options, not {type(options).__name__}")
    chosen = (Options() if options is None else options).replace(**overrides)
    directory = _directory(path)
    files = storage or Storage(direct_reads=chosen.direct_reads, file_mode=chosen.file_mode)
    exists = holds_store(files, directory)
    if exists and error_if_exists:
        raise _store_exists(directory)
    if read_only:
        if not exists:
            _check_creation(files, directory, create_if_missing=False)
        engine = Engine(directory, chosen, files, None)
        engine.open_read_only()
        return DB(engine)
    if not exists:
        _check_creation(files, directory, create_if_missing)
    files.make_directory(directory)
    engine = Engine(directory, chosen, files, lock_store(files, directory))
    try:
        if holds_store(files, directory):
            if error_if_exists:  # somebody has made it meanwhile
                raise _store_exists(directory)
            engine.open()
        else:
            _check_creation(files, directory, create_if_missing)
            # Whoever made the directory may have died, or failed, before its name was durable.
            with contextlib.suppress(PermissionError):  # of one who may not even read its parent
                files.sync_directory(os.path.dirname(directory))
            engine.create()
        return DB(engine)
    except BaseException:
        engine.abandon()
        raise


def _directory(path: PathLike) -> str:
    name = os.fspath(path)
    if not isinstance(name, str):
        raise TypeError(f"path is str or os.PathLike[str], not {type(name).__name__}")
    return os.path.abspath(name)


def _store_exists(directory: str) -> StoreExistsError:
    return StoreExistsError(f"{directory} holds a store already")


def _check_creation(files: Storage, directory: str, create_if_missing: bool) -> None:
    """Refuse to make a store where none is wanted, or over one that has lost its CURRENT.

    What a creation that was cut short leaves behind, a log without records and a manifest, is no
    obstacle.
    """
    names = files.list_directory(directory) if files.exists(directory) else []
    if holds_store(files, directory):  # made by another process just now
        return
    for name in names:
        kind, _ = parse_file_name(name) or ("", 0)
        if kind == "table" or (kind == "log" and _holds_records(files, directory, name)):
            raise NotAStoreError(
                f"{directory} holds {name} but no {CURRENT}: a store that lost it, "
                "which lsmkv.repair can rebuild"
            )
    if not create_if_missing:
        raise NotAStoreError(f"{directory} holds no lsmkv store (it has no {CURRENT})")


def _holds_records(files: Storage, directory: str, log: str) -> bool:
    try:
        return files.file_size(os.path.join(directory, log)) > HEADER_BYTES
    except FileNotFoundError:  # another process is making a store here
        return False


def destroy(path: PathLike) -> None:
    """Remove the store in the directory ``path``, and the directory if nothing else is in it.

    Raises:
        NotAStoreError: there is no store.
        LockedError: it is open for writing.
        OSError: a file cannot be removed.
    """
    directory = _directory(path)
    files = Storage()
    if not holds_store(files, directory):
        raise NotAStoreError(f"{directory} holds no lsmkv store (it has no {CURRENT})")
    with lock_store(files, directory):
        files.remove(os.path.join(directory, CURRENT))
        files.sync_directory(directory)
        for name in files.list_directory(directory):
            if parse_file_name(name) is not None or name == f"{CURRENT}.tmp":
                files.remove(os.path.join(directory, name))
        files.remove(os.path.join(directory, LOCK))
    with contextlib.suppress(OSError):
        files.remove_directory(directory)
