"""The store as its users see it."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, SupportsIndex, overload

from lsmkv.api.popping import PoppedInOrder
from lsmkv.api.ranges import scan_range
from lsmkv.api.snapshot import Snapshot, StoreReader
from lsmkv.api.write_batch import WriteBatch
from lsmkv.background.worker import in_worker
from lsmkv.encoding.entries import Buffer, key_bytes
from lsmkv.engine.engine import Engine
from lsmkv.errors import uncopyable
from lsmkv.log.batch import Operation
from lsmkv.options import Options
from lsmkv.read.scan import Bounds
from lsmkv.stats import Stats

# What most programs never need is loaded when it is.
if TYPE_CHECKING:
    from lsmkv.inspection.explain import Explanation
    from lsmkv.inspection.store_info import BlockInfo, StoreInfo
    from lsmkv.inspection.verify import VerifyReport

_CLEAR_BATCH: Final = 1000


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
        """The numbers by name."""
        return asdict(self)


class _Keyed(Protocol):
    def keys(self) -> Iterable[bytes]: ...
    def __getitem__(self, key: bytes, /) -> bytes: ...


class DB(StoreReader, PoppedInOrder):
    """An open store: an ordered mapping from bytes to bytes, on disk.

    Made by :func:`lsmkv.open`.  Any number of threads may share one; a process that forks must open
    the store anew in the child.  Close it with ``close`` or ``with``.
    """

    def __init__(self, engine: Engine) -> None:
        if not isinstance(engine, Engine):
            raise TypeError(f"a store is opened with lsmkv.open({engine!r}), and not with DB(...)")
        self._engine = engine
        self._lookup = engine.lookup
        self._lookup_many = engine.lookup_many
        self._read_view = engine.read_view

    def snapshot(self) -> Snapshot:
        """The store as it is now, to be read however long, whatever is written meanwhile.

        Compaction keeps what a snapshot sees until it is closed.
        """
        current, pin = self._engine.pin_current()
        return Snapshot(self._engine, current, pin, self)

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

        Raises:
            ReadOnlyError, ClosedError: the store cannot be written through this handle.

        >>> import lsmkv, tempfile
        >>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
        ...     with db.write_batch(sync=True) as batch:
        ...         batch.put(b"k", b"v")
        ...         batch.delete(b"old")
        ...     db[b"k"]
        b'v'
        """
        self._engine.check_for_writing()
        return WriteBatch(self._engine, sync)

    def __setitem__(self, key: Buffer, value: Buffer) -> None:
        self._engine.put(key, value, False)

    def __delitem__(self, key: Buffer) -> None:
        """Remove ``key``; KeyError when it is not there.  (``delete`` does not look first.)"""
        if self._lookup(key) is None:
            raise KeyError(key)
        self._engine.delete(key, False)

    @overload
    def update(self, other: _Keyed, /) -> None: ...
    @overload
    def update(self, other: Iterable[tuple[Buffer, Buffer]] = (), /) -> None: ...
    def update(self, other: Any = (), /, **others: Any) -> None:
        """Put every key and value of a mapping, or of an iterable of pairs, in its order.

        Each is a write of its own.  An error, at a key that is none for example, leaves what came
        before it written.  For all or nothing use :meth:`write_batch`.

        Raises: as :meth:`put`.
        """
        super().update(other, **others)

    def clear(self) -> None:
        """Remove every key that is there now, in batches (not in one atomic step)."""
        self._engine.check_for_writing()
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
        self._engine.require_open()
        return self._engine.stats.copy()

    def memory_usage(self) -> MemoryUsage:
        """Memory by purpose."""
        current = self._engine.require_open()
        tables = list(current.version.tables())
        return MemoryUsage(
            memtables=self._engine.memtable_bytes(),
            snapshot_versions=sum(memtable.history_count for memtable in current.memtables),
            block_cache=self._engine.cache.used_bytes,
            block_cache_budget=self._engine.cache.capacity_bytes,
            filters=sum(table.filter_memory_bytes for table in tables),
            indexes=sum(table.index_memory_bytes for table in tables),
        )

    def approximate_count(self) -> int:
        """About how many keys there are: entries less deletions, overwritten keys counted twice.

        O(tables): nothing is read.
        """
        current = self._engine.require_open()
        metas = [table.meta for table in current.version.tables()]
        total = sum(meta.entry_count - 2 * meta.tombstone_count for meta in metas)
        for memtable in reversed(
            current.memtables
        ):  # a deletion is of something older, if of anything
            kept, deleted = memtable.key_counts()
            total = max(0, total - deleted) + kept
        return max(0, total)

    def approximate_size(self, start: Buffer | None = None, stop: Buffer | None = None) -> int:
        """About how many bytes of table files hold the keys with start <= key < stop.

        Memtables are not counted.  O(tables + log blocks): no block is read.
        """
        wanted = scan_range(start, stop, None, False)
        current = self._engine.require_open()
        if wanted.is_empty:
            return 0
        return sum(
            _size_between(wanted, run_table)
            for run in current.version.runs
            for run_table in run.tables_between(wanted.start, wanted.stop)
        )

    def explain(self, key: Buffer) -> Explanation:
        """The read path of this one look-up: as data, and with ``print`` as text."""
        from lsmkv.inspection.explain import explain_lookup

        data = key_bytes(key)
        current, pin = self._engine.pin_current()
        return explain_lookup(current, data, pin.seq)

    def inspect(self) -> StoreInfo:
        """Levels, runs and tables, with what is known of each without reading blocks."""
        from lsmkv.inspection.store_info import inspect_store

        return inspect_store(self._engine.require_open())

    def blocks(self, table_number: int) -> Iterator[BlockInfo]:
        """Every block of one table, with its filter's n, m, k and expected rate.

        Reads each block, past the cache.

        Raises:
            ValueError: the tree has no such table (``inspect`` shows those that it has).
            CorruptionError: a block is damaged.
        """
        from lsmkv.inspection.store_info import block_infos

        for table in self._engine.require_open().version.tables():
            if table.meta.number == table_number:
                return block_infos(table)
        raise ValueError(f"table_number={table_number!r}: the store has no such table now")

    def verify(self, progress: Callable[[int, int], None] | None = None) -> VerifyReport:
        """Check every byte of every file, and report what does not hold.

        Args:
            progress: called with blocks checked so far, and blocks in all.
        """
        from lsmkv.inspection.verify import verify_store

        engine = self._engine
        current, _pin = engine.pin_current()
        return verify_store(engine.storage, engine.directory, current, progress)

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
        return self._engine.super_version is None

    def close(self) -> None:
        """Sync what was written, stop the background work, unlock.  A second call does nothing.
        If an interrupt (Ctrl-C) has ended the first, the second goes on with it.

        Raises:
            OSError: what was written could not be synced; the store is closed all the same.
        """
        self._engine.close()

    def __enter__(self) -> Self:
        self._engine.require_open()
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
        if engine is not None and engine.super_version is not None:
            try:
                warnings.warn(
                    f"{engine.directory} was not closed", ResourceWarning, stacklevel=2, source=self
                )
            finally:  # also where warnings are errors
                if in_worker():  # the garbage collector may run in the middle of its work
                    threading.Thread(target=engine.close, name="lsmkv-close").start()
                else:
                    with contextlib.suppress(Exception):
                        engine.close()

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        reader = f"lsmkv.open({self.path!r}, read_only=True)"
        raise uncopyable("a DB", f"open the store by its path instead: {reader}")

    def __repr__(self) -> str:
        state = "closed" if self.closed else "read-only" if self.read_only else "open"
        return f"<lsmkv.DB at {self.path!r}, {state}>"


def _size_between(wanted: Bounds, table: Any) -> int:
    meta = table.meta
    low, high = 0, table.footer.data_length
    if wanted.start is not None and wanted.start > meta.smallest:
        index = table.index
        low = index.offset(index.seek(wanted.start))
    if wanted.stop is not None and wanted.stop <= meta.largest:
        index = table.index
        high = index.offset(min(index.seek(wanted.stop) + 1, index.block_count))
    return int(high - low)
