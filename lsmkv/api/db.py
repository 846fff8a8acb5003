"""An open store, as users see it."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterable, MutableMapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, SupportsIndex, overload
from weakref import WeakMethod

from lsmkv.api.inspected import InspectedStore
from lsmkv.api.ranges import scan_range
from lsmkv.api.readers import engine_for_later
from lsmkv.api.snapshot import Snapshot
from lsmkv.api.transacting import Transacting
from lsmkv.api.transferring import Transferring
from lsmkv.api.write_batch import WriteBatch
from lsmkv.background.threads import in_worker
from lsmkv.encoding.entries import Buffer
from lsmkv.engine.engine import Engine
from lsmkv.errors import uncopyable
from lsmkv.log.batch import Operation
from lsmkv.options import Options
from lsmkv.read.scan import Bounds, Scan
from lsmkv.runtime import check_interpreter
from lsmkv.storage.storage import Storage

if TYPE_CHECKING:  # imported where it is used: most programs never need it
    from concurrent.futures import Executor

    from lsmkv.layers.prefixed import PrefixedDB

_CLEAR_BATCH: Final = 1000


class _Keyed(Protocol):
    def keys(self) -> Iterable[bytes]: ...
    def __getitem__(self, key: bytes, /) -> bytes: ...


class DB(Transacting, Transferring, InspectedStore, MutableMapping[bytes, bytes]):
    """An open store: an ordered mapping from bytes to bytes, on disk.

    :func:`lsmkv.open` makes it.  Any number of threads may share it.  Close it with ``close`` or
    ``with``.

    A handle that was opened with ``read_only=True`` travels: pickled, it is a handle that opens the store
    at its first use, by the same path or URL and with the same options.  In the child of a fork, it opens
    the store anew at its first use.  Handles that came either way close themselves when they are dropped.
    A handle for writing stays in its process: it cannot be pickled, and its uses in the child of a fork
    raise ForkedError.
    """

    def __init__(self, engine: Engine) -> None:
        if not isinstance(engine, Engine):
            raise TypeError(f"open a store with lsmkv.open({engine!r}), not with DB(...)")
        self._use(engine)
        self._contents: dict[int, str] = {}  # whole-file checksums of tables, by number

    def _use(self, engine: Engine) -> None:
        """Work on ``engine`` from now on: at first, and in the child of a fork."""
        self._engine = engine
        self._lookup = engine.lookup
        self._lookup_many = engine.lookup_many
        self._read_view = engine.read_view_on_use if engine.opens_on_use else engine.read_view
        engine.follow_fork = WeakMethod(self._use)

    def snapshot(self) -> Snapshot:
        """The store as it is now, unchanged by later writes.

        The store keeps the entries that the snapshot sees until it is closed.
        """
        current, pin = self._engine.pin_current()
        return Snapshot(self._engine, current, pin, self)

    def prefixed(self, prefix: Buffer) -> PrefixedDB:
        """The keys with ``prefix``, as a mapping that leaves it out.

        >>> import lsmkv, tempfile
        >>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
        ...     users = db.prefixed(b"user/")
        ...     users[b"ada"] = b"1815"
        ...     list(users), list(db)
        ([b'ada'], [b'user/ada'])
        """
        from lsmkv.layers.prefixed import PrefixedDB

        self._engine.require_open()
        return PrefixedDB(self, prefix)

    # Writing

    def put(self, key: Buffer, value: Buffer, *, sync: bool = False) -> None:
        """Set ``key`` to ``value``.

        Args:
            key: up to 65,535 bytes.
            value: up to 256 MiB.
            sync: return once the write is safe from a power failure (one fdatasync serves all threads
                that wait).  Without it, the write survives the end of this process, even a crash.

        Raises:
            TypeError, ValueError: not a key or value; nothing was written.
            OSError: writing failed; the store refuses writes until ``resume``.
            BackgroundError: the store refuses writes after an earlier failure.
            ReadOnlyError, ClosedError: this handle is read-only or closed.
        """
        self._engine.put(key, value, sync)

    def delete(self, key: Buffer, *, sync: bool = False) -> None:
        """Remove ``key`` if it is there.  Arguments and errors as :meth:`put`."""
        self._engine.delete(key, sync)

    def write_batch(self, *, sync: bool = False) -> WriteBatch:
        """Operations that the end of the ``with`` block applies, all or none.

        ReadOnlyError or ClosedError: this handle is read-only or closed.

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
        """Remove ``key``; KeyError when it is not there.  (``delete`` does not look it up.)"""
        if self._lookup(key) is None:
            raise KeyError(key)
        self._engine.delete(key, False)

    @overload
    def update(self, other: _Keyed, /) -> None: ...
    @overload
    def update(self, other: Iterable[tuple[Buffer, Buffer]] = (), /) -> None: ...
    def update(self, other: Any = (), /, **others: Any) -> None:
        """Put every key and value of a mapping or of pairs.  Raises as :meth:`put`.

        Each is a write of its own: an error leaves the writes before it in place.  For all or nothing
        use :meth:`write_batch`.
        """
        super().update(other, **others)

    def popitem(self, *, prefix: Buffer = b"") -> tuple[bytes, bytes]:
        """Remove the first key with ``prefix``, and return it with its value; KeyError without one.

        Two threads never pop the same entry.  Without a prefix, deletions that earlier pops left do not
        slow it down; with one, it passes those that are still in memtables and tables.
        """
        wanted = scan_range(None, None, prefix, False)
        engine = self._engine
        engine.require_open()  # first: a fork may have left the lock held
        try:
            with engine.popping:
                engine.popper = threading.get_ident()
                # No key lives below the floor, which rises with each pop and falls with writes below.
                read_view, floor = engine.read_view_and_floor()
                if wanted.prefix is None:
                    wanted = Bounds(floor)
                found = next(Scan(read_view, wanted), None)
                if found is None:
                    whose = (
                        f"there is no key with prefix {prefix!r}"
                        if prefix
                        else "the store is empty"
                    )
                    raise KeyError(f"popitem(): {whose}")
                key, value = found[0]
                if not engine.read_only and wanted.prefix is None:
                    engine.raise_floor(key, read_view.seq)
                engine.delete(key, False)
        finally:
            engine.tell()  # what came up while the lock was held
        return key, value

    def clear(self) -> None:
        """Remove every key that is there now, in several batches."""
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

        OSError: syncing the log failed; the store refuses writes until ``resume``.
        """
        self._engine.sync()

    def flush(self) -> None:
        """Write the memtable to a table, and wait.  BackgroundError: it failed (see ``__cause__``)."""
        self._engine.flush()

    def compact_range(
        self,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        *,
        force: bool = False,
        executor: Executor | None = None,
    ) -> None:
        """Flush, then merge all entries between two keys into one sorted run.

        This removes overwritten entries and deletions that no snapshot sees.  It needs free space for a
        second copy of the range.

        Args:
            start, stop: start <= key < stop; None sets no bound.
            force: rewrite also what is one run already, with the present options (another error rate,
                block size, compression, ...).
            executor: merge up to 256 key ranges of about the same size as jobs in this
                ``concurrent.futures.Executor``: a thread pool, a process pool, or that of a Dask client
                (``client.get_executor()``), whose workers must see the store's directory under the same
                path.  A failed job leaves no file, and the store takes writes as before.  Do not call
                it from a job of the same executor.  None: merge in this process, in one thread.

        Raises:
            BackgroundError, OSError: the flush or the merge failed.
            WorkerError: a worker ended in the middle of a job, or the executor takes none.
            TypeError, ValueError: the executor cannot run jobs of this store, because only this process
                has its storage or its filter policy; nothing was changed.
        """
        if executor is not None:
            self._engine.check_executor(executor)
        wanted = scan_range(start, stop, None, False)
        if wanted.is_empty:
            self._engine.flush()
        else:
            self._engine.compact_range(wanted.start, wanted.stop, force, executor)

    def wait_until_settled(self) -> None:
        """Wait until no flush and no compaction is due.  BackgroundError: one failed."""
        self._engine.wait_until_settled()

    def resume(self) -> None:
        """Accept writes again after a failure, such as a full disk.

        OSError or BackgroundError: the cause of the failure persists.
        """
        self._engine.resume()

    def refresh(self) -> bool:
        """Show what another process has written or published since the last look.

        It reads what is new, and no more.  With nothing new it reads some 20 bytes of each log that has
        room for more: the head of the last record, and the place of the next, because a writer fills that
        room without changing the file's length or time.  ``Stats.log_read_bytes`` counts all of it.
        New writes get a memtable of their own, in front of the others; a few are kept, and merged as they
        grow.  After a change that does not go on from what was read before, such as another store at the
        same path, everything is read again.  O(new writes + files of the store).

        Returns:
            Whether anything is new since the last call; with ``refresh_every_s``, also what the store
            has taken in by itself meanwhile.  A flush or compaction of what was seen before is not new.
            False on a store that is open for writing, which needs no refresh.

        Raises:
            CorruptionError, OSError: the store is damaged, or cannot be read; the handle shows what it
                showed before.  With ``refresh_every_s``, also the last error of a refresh that the store
                did by itself since the last call.

        >>> import lsmkv, tempfile
        >>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as writer:
        ...     with lsmkv.open(path, read_only=True) as reader:
        ...         writer[b"key"] = b"value"
        ...         b"key" in reader, reader.refresh(), reader[b"key"], reader.refresh()
        (False, True, b'value', False)
        """
        return self._engine.refresh()

    # Opening and closing

    @property
    def path(self) -> str:
        """The store's directory, or the URL it was opened at."""
        return self._engine.directory

    @property
    def generation(self) -> int | None:
        """The number of the published generation that is open; None for a store in a directory."""
        if self._engine.opens_on_use:
            self._engine.require_open()
        published = self._engine.published
        return None if published is None else published.generation

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
        """Whether this handle is closed."""
        engine = self._engine
        return engine.super_version is None and not engine.opens_on_use

    def close(self) -> None:
        """Sync all writes, stop the background work, unlock.

        A second call does nothing, or finishes a first that an interrupt (Ctrl-C) ended.  OSError:
        syncing failed; the store is closed anyway.
        """
        self._engine.close()

    def __enter__(self) -> Self:
        self._engine.require_open()
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __del__(self) -> None:
        engine: Engine | None = getattr(self, "_engine", None)
        if engine is not None and not self.closed:
            message = f"{engine.directory} was not closed"
            try:
                if not engine.opened_by_itself:
                    warnings.warn(message, ResourceWarning, stacklevel=2, source=self)
            finally:  # also where warnings are errors
                # The garbage collector may run in a worker, which close() waits for.
                if in_worker():
                    threading.Thread(target=engine.close, name="lsmkv-close").start()
                else:
                    with contextlib.suppress(Exception):
                        engine.close()

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        engine = self._engine
        reader = f"lsmkv.open({self.path!r}, read_only=True)"
        if self.closed:
            raise uncopyable("a DB that is closed", f"open the store anew: {reader}")
        if not engine.read_only:
            raise uncopyable(
                "a DB that is open for writing",
                f"one process writes; give others a handle to read: {reader}",
            )
        if type(engine.storage) is not Storage:
            raise uncopyable("a DB with storage= of its own", f"open it without: {reader}")
        return _opened_on_use, (self.path, self.options, engine.refresh_every_s)

    def __repr__(self) -> str:
        state = "closed" if self.closed else "read-only" if self.read_only else "open"
        return f"<lsmkv.DB at {self.path!r}, {state}>"

    def _repr_html_(self) -> str:
        from lsmkv.layers.notebook import of_db

        return of_db(self)


def _opened_on_use(path: str, options: Options, refresh_every_s: float | None) -> DB:
    """What a pickled handle becomes."""
    check_interpreter()
    return DB(engine_for_later(path, options, refresh_every_s))
