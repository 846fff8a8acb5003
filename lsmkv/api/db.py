"""An open store, as users see it."""

from __future__ import annotations

import contextlib
import random
import time
import warnings
from _thread import start_new_thread
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, SupportsIndex, TypeVar, overload
from weakref import WeakMethod

from lsmkv.api.places import location_on_use
from lsmkv.api.ranges import deleted_range, scan_range
from lsmkv.api.sizes import (
    MemoryUsage,
    approximate_count,
    approximate_size,
    disk_bytes,
    memory_usage,
    size_rows,
)
from lsmkv.api.snapshot import Snapshot, StoreReader
from lsmkv.api.write_batch import WriteBatch
from lsmkv.background.state import UNOPENED
from lsmkv.encoding.entries import ABSENT, Absent, Buffer, key_bytes, value_bytes
from lsmkv.encoding.expiry import Held, expiring
from lsmkv.engine.engine import Engine
from lsmkv.engine.erase import delete_ranges
from lsmkv.engine.writer import put_expiring
from lsmkv.errors import ConflictError, Error, uncopyable
from lsmkv.html import Drawn, Row, table
from lsmkv.layers.peers import check_unnamed, wrong_write
from lsmkv.options import MIB, Options
from lsmkv.runtime import Finalizer, check_interpreter, loaded
from lsmkv.stats import Stats
from lsmkv.storage.storage import PathLike, Storage, absolute_path

if TYPE_CHECKING:  # imported where it is used: most programs never need it
    from typing import Never

    from lsmkv.api.transaction import Transaction
    from lsmkv.copies.checkpoint import CheckpointReport
    from lsmkv.engine.adoption import IngestReport
    from lsmkv.inspection.explain import Explanation
    from lsmkv.inspection.store_info import BlockInfo, StoreInfo
    from lsmkv.inspection.tables import Table
    from lsmkv.inspection.tree_changes import TreeChange
    from lsmkv.inspection.verify import VerifyReport
    from lsmkv.layers.prefixed import PrefixedDB
    from lsmkv.remote.report import PublishReport

_T = TypeVar("_T")
_MISSING: Final = object()
_FIRST_PAUSE_S: Final = 0.0002
_LONGEST_PAUSE_S: Final = 0.05


def _removed(value: bytes | None) -> Held | Absent:
    return ABSENT if value is None else None


class _Keyed(Protocol):
    def keys(self) -> Iterable[bytes]: ...
    def __getitem__(self, key: bytes, /) -> bytes: ...


class DB(StoreReader, MutableMapping[bytes, bytes]):
    """An open store: an ordered mapping from bytes to bytes, on disk.

    :func:`lsmkv.open` makes it; ``close`` or ``with`` ends it.  Any number of threads may share it.

    A handle for reading (``read_only=True``) travels: unpickled, or in the child of a fork, it opens the
    same path or URL with the same options at its first use, and closes itself when it is dropped.  A
    handle for writing cannot be pickled, and raises ForkedError in the child of a fork.
    """

    def __init__(self, engine: Engine) -> None:
        if not isinstance(engine, Engine):
            raise TypeError(f"open a store with lsmkv.open({engine!r}), not with DB(...)")
        self._guard: Finalizer | None = None
        self._use(engine)
        self._contents: dict[int, str] = {}  # whole-file checksums of tables, by number

    def _use(self, engine: Engine) -> None:
        """Work on ``engine`` from now on: at first, and in the child of a fork."""
        if self._guard is not None:
            self._guard.cancel()
        # An interrupt may come in place of ``__del__``.  This is C code, and starts a thread.
        self._guard = Finalizer(partial(start_new_thread, engine.close, ()))
        self._state = engine.state
        self._lookup = engine.readers.lookup
        self._lookup_many = engine.readers.lookup_many
        self._read_view = engine.readers.read_view
        self._put = engine.writer.put
        if engine.state.options.default_ttl_s is not None:
            self._put = partial(put_expiring, engine.writer)
        self._delete = engine.writer.delete
        engine.follow_fork = WeakMethod(self._use)
        self._engine = engine  # last: ``__del__`` looks for it

    def snapshot(self) -> Snapshot:
        """The store as it is now, unchanged by later writes.

        The store keeps the entries that the snapshot sees until it is closed.
        """
        readers = self._engine.readers
        current, pin = readers.pin_current()
        return Snapshot(readers, current, pin, self)

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

        self._state.require_open()
        return PrefixedDB(self, prefix)

    # Reading; ``_lookup`` and ``_read_view`` are set above

    get = StoreReader.get
    multi_get = StoreReader.multi_get
    keys = StoreReader.keys
    values = StoreReader.values
    items = StoreReader.items

    # Writing

    def put(
        self,
        key: Buffer,
        value: Buffer,
        *,
        ttl_s: float | None = None,
        expires_at: float | None = None,
        sync: bool = False,
    ) -> None:
        """Set ``key`` to ``value``.

        Args:
            key: up to 65,535 bytes.
            value: up to 256 MiB.
            ttl_s: how many seconds it is there; None: as long as ``default_ttl_s`` in the options,
                ``math.inf``: for ever.  It goes at a whole second, never late, and so up to a second
                early.
            expires_at: in place of ``ttl_s`` the time when it goes, in seconds since 1970 UTC.
            sync: return once the write is safe from a power failure (one fdatasync serves all threads
                that wait).  Without it, the write survives the end of this process, even a crash.

        Raises:
            TypeError, ValueError: not a key or value; nothing was written.
            OSError: writing failed; the store refuses writes until ``resume``.
            BackgroundError: the store refuses writes after an earlier failure.
            ReadOnlyError, ClosedError: this handle is read-only or closed.
        """
        self._put(key, value, sync)

    def delete(self, key: Buffer, *, sync: bool = False) -> None:
        """Remove ``key`` if it is there.  Arguments and errors as :meth:`put`."""
        self._delete(key, sync)

    if not TYPE_CHECKING:
        # The same, but CPython calls a function that has names for all its arguments, and none that must
        # be named, 2 % of a put sooner: so arguments of other stores cost nothing to tell.

        @wraps(put)
        def put(self, key, value, unnamed=None, sync=False, ttl=None, ttl_s=None, expires_at=None):
            if unnamed is not None or ttl is not None:
                raise wrong_write("DB.put", unnamed, ttl)
            if ttl_s is not None or expires_at is not None:
                put_expiring(self._engine.writer, key, value, sync, ttl_s, expires_at)
            else:
                self._put(key, value, sync)

        @wraps(delete)
        def delete(self, key, unnamed=None, sync=False):
            if unnamed is not None:
                raise wrong_write("DB.delete", unnamed, None)
            self._delete(key, sync)

    def delete_range(
        self,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        *,
        prefix: Buffer | None = None,
        sync: bool = False,
    ) -> None:
        """Remove every key of a range, in one step.

        A million keys take no longer than a thousand.  Compactions give their space back.

        Args:
            start, stop, prefix: as for :meth:`keys`, at least one of them.
            sync: as for :meth:`put`, whose errors it raises, too.

        Raises:
            ValueError: there is no bound; :meth:`clear` removes every key.

        >>> import lsmkv, tempfile
        >>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
        ...     db.update({b"log/1": b"", b"log/2": b"", b"name": b""})
        ...     db.delete_range(prefix=b"log/")
        ...     list(db)
        [b'name']
        """
        ranges = deleted_range(start, stop, prefix)
        delete_ranges(self._engine.readers, self._engine.writer, ranges, [], sync)

    def expires_at(self, key: Buffer) -> int | None:
        """When ``key`` goes, in seconds since 1970 UTC; None: it never does, or is not there.

        >>> import lsmkv, tempfile
        >>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path, clock=lambda: 1000.0) as db:
        ...     db.put(b"session", b"ada", ttl_s=60)
        ...     db.expires_at(b"session")
        1060
        """
        return self._engine.readers.expires_at(key)

    def touch(
        self,
        key: Buffer,
        *,
        ttl_s: float | None = None,
        expires_at: float | None = None,
        sync: bool = False,
    ) -> bool:
        """Set anew when ``key`` goes; returns whether it was there.

        In one step: no other write comes in between.  It writes the value again.  Arguments and errors
        as :meth:`put`.
        """
        due_s = self._state.clock.expiry_s(ttl_s, expires_at)

        def renewed(value: bytes | None) -> Held | Absent:
            return ABSENT if value is None else expiring(value, due_s)

        return self._engine.writer.revise(key_bytes(key), sync, renewed) is not None

    def write_batch(self, *given: Never, sync: bool = False) -> WriteBatch:
        """Operations that the end of the ``with`` block applies, all or none.

        ReadOnlyError, ClosedError: this handle is read-only or closed.

        >>> import lsmkv, tempfile
        >>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
        ...     with db.write_batch(sync=True) as batch:
        ...         batch.put(b"k", b"v")
        ...         batch.delete(b"old")
        ...     db[b"k"]
        b'v'
        """
        check_unnamed("DB.write_batch", given)
        self._state.check_for_writing()
        return WriteBatch(self._engine.writer, sync, self._engine.readers)

    def __setitem__(self, key: Buffer, value: Buffer) -> None:
        self._put(key, value, False)

    def __delitem__(self, key: Buffer) -> None:
        """Remove ``key``, in one step; KeyError without it.  (``delete`` does not look it up.)"""
        if self._engine.writer.revise(key_bytes(key), False, _removed) is None:
            raise KeyError(key)

    @overload
    def update(self, other: _Keyed, /) -> None: ...
    @overload
    def update(self, other: Iterable[tuple[Buffer, Buffer]] = (), /) -> None: ...
    def update(self, other: Any = (), /, **others: Any) -> None:
        """Put every key and value of a mapping or of pairs.  Raises as :meth:`put`.

        Each is a write of its own, and stays if a later one fails (not so in :meth:`write_batch`).
        """
        super().update(other, **others)

    @overload
    def pop(self, key: Buffer) -> bytes: ...
    @overload
    def pop(self, key: Buffer, default: _T) -> bytes | _T: ...
    def pop(self, key: Buffer, default: object = _MISSING) -> object:
        """Remove ``key``, and return its value or ``default``; KeyError without either.

        In one step: each value goes to one thread.  Raises as :meth:`put`.
        """
        value = self._engine.writer.revise(key_bytes(key), False, _removed)
        if value is None and default is _MISSING:
            raise KeyError(key)
        return default if value is None else value

    def setdefault(self, key: Buffer, default: Buffer) -> bytes:
        """The value of ``key``, set to ``default`` if missing, in one step.  Raises as :meth:`put`."""
        data, value = key_bytes(key), value_bytes(default)
        held = self._state.clock.held(value, None, None)

        def revised(old: bytes | None) -> Held | Absent:
            return held if old is None else ABSENT

        found = self._engine.writer.revise(data, False, revised)
        return value if found is None else found

    def popitem(self, *, prefix: Buffer = b"") -> tuple[bytes, bytes]:
        """Remove the first key with ``prefix``, and return it with its value; KeyError without one.

        In one step: no two threads pop the same entry, and no write is lost.  Deletions of earlier pops
        do not slow it down, for up to a thousand prefixes.  Raises as :meth:`put`.
        """
        item = self._engine.first_keys.pop(scan_range(None, None, prefix, False))
        if item is None:
            whose = f"there is no key with prefix {prefix!r}" if prefix else "the store is empty"
            raise KeyError(f"popitem(): {whose}")
        return item

    def clear(self) -> None:
        """Remove every key, in one step.  Raises as :meth:`put`."""
        self.delete_range(b"")

    # Transactions

    def transaction(self, *given: Never, sync: bool = False) -> Transaction:
        """Reads and writes that the ``with`` block commits together, or not; ``sync`` as for :meth:`put`.

        It sees the store as it is now, and its own writes.  Committed transactions are serialisable: as
        if they had run one after the other, each at its commit.  What one inside another commits stays,
        whatever becomes of the other.  On a read-only handle it can only read.

        Raises:
            ConflictError: at the end, if someone else wrote to what it read; nothing was written.
                :meth:`transact` tries again.
            ClosedError: this handle is closed.

        >>> import lsmkv, tempfile
        >>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
        ...     db.update({b"ada": b"50", b"alan": b"10"})
        ...     with db.transaction() as t:
        ...         t[b"ada"] = b"%d" % (int(t[b"ada"]) - 20)
        ...         t[b"alan"] = b"%d" % (int(t[b"alan"]) + 20)
        ...     dict(db)
        {b'ada': b'30', b'alan': b'30'}
        """
        from lsmkv.api.transaction import Transaction

        check_unnamed("DB.transaction", given)
        return Transaction(self._engine.readers, self._engine.writer, sync, self)

    def transact(
        self, function: Callable[[Transaction], _T], attempts: int = 10, *, sync: bool = False
    ) -> _T:
        """Call ``function`` with a transaction, commit, and return what it returned.

        After a ConflictError it begins anew, so ``function`` may run several times: it should do nothing
        but read and write the transaction.  An exception of another kind discards the transaction.

        Args:
            function: called with the :class:`Transaction`.
            attempts: how often it is called at most, with short random pauses in between.
            sync: as for :meth:`put`, whose errors it raises, too.

        Raises:
            ConflictError: all attempts met a conflict; the last one is the cause.
            ValueError: ``attempts`` is less than 1.

        >>> import lsmkv, tempfile
        >>> def count(t):
        ...     t[b"visits"] = b"%d" % (int(t.get(b"visits", b"0")) + 1)
        ...     return int(t[b"visits"])
        >>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
        ...     db.transact(count), db.transact(count)
        (1, 2)
        """
        if not isinstance(attempts, int) or attempts < 1:
            raise ValueError(f"attempts={attempts!r}: give a number from 1 on")
        pause_s = _FIRST_PAUSE_S
        for attempt in range(1, attempts + 1):
            try:
                with self.transaction(sync=sync) as transaction:
                    return function(transaction)
            except ConflictError as error:
                if attempt == attempts:
                    raise ConflictError(error.key, attempts) from error
            time.sleep(random.uniform(0, pause_s))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        raise AssertionError  # the last attempt returns or raises

    def compare_and_set(
        self,
        key: Buffer,
        expected: Buffer | None,
        value: Buffer | None,
        *,
        ttl_s: float | None = None,
        expires_at: float | None = None,
        sync: bool = False,
    ) -> bool:
        """Set ``key`` if it has the value ``expected``, in one step; returns whether it was set.

        Args:
            key, ttl_s, expires_at, sync: as for :meth:`put`, whose errors it raises, too.
            expected: the value that it must have; None: it must not be there.
            value: the new value; None removes it.

        >>> import lsmkv, tempfile
        >>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
        ...     db.compare_and_set(b"lock", None, b"mine"), db.compare_and_set(b"lock", None, b"yours")
        (True, False)
        """
        data = key_bytes(key)
        wanted = None if expected is None else value_bytes(expected)
        due_s = self._state.clock.expiry_s(ttl_s, expires_at)
        new = None if value is None else expiring(value_bytes(value), due_s)

        def revised(old: bytes | None) -> Held | Absent:
            return new if old == wanted else ABSENT

        return self._engine.writer.revise(data, sync, revised) == wanted

    # Upkeep

    def sync(self) -> None:
        """Make every write so far survive a power failure.

        OSError: syncing the log failed; the store refuses writes until ``resume``.
        """
        self._engine.writer.sync()

    def flush(self) -> None:
        """Write the memtable to a table, and wait.  BackgroundError: it failed (see ``__cause__``)."""
        self._engine.upkeep.flush()

    def compact_range(
        self,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        *,
        force: bool = False,
    ) -> None:
        """Flush, then merge all entries between two keys into one sorted run.

        Overwritten entries and deletions that no snapshot sees go.  It needs space to copy the range.

        Args:
            start, stop: start <= key < stop; None sets no bound.
            force: rewrite also what is one run already, with the present options (another error rate,
                block size, compression, ...).

        Raises:
            BackgroundError, OSError: the flush or the merge failed.
        """
        self._engine.upkeep.compact_range(scan_range(start, stop, None, False), force)

    def wait_until_settled(self) -> None:
        """Wait until no flush and no compaction is due.  BackgroundError: one failed."""
        self._engine.upkeep.wait_until_settled()

    def resume(self) -> None:
        """Accept writes again after a failure, such as a full disk.

        OSError or BackgroundError: the cause of the failure persists.
        """
        self._engine.upkeep.resume()

    def refresh(self) -> bool:
        """Show what another process has written or published since the last look.

        O(new writes + files of the store).  Another store at the same path is read anew.

        Returns:
            Whether there are new writes since the last call, with ``refresh_every_s`` also such as the
            store has taken in by itself.  False on a store that is open for writing.

        Raises:
            CorruptionError, OSError: the store is damaged or cannot be read, now or when it last looked
                by itself (``refresh_every_s``); the handle shows what it showed before.

        >>> import lsmkv, tempfile
        >>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as writer:
        ...     with lsmkv.open(path, read_only=True) as reader:
        ...         writer[b"key"] = b"value"
        ...         b"key" in reader, reader.refresh(), reader[b"key"], reader.refresh()
        (False, True, b'value', False)
        """
        return self._engine.refresh()

    # Tables in, copies out

    def ingest(
        self, paths: Iterable[PathLike], *, move: bool = False, verify: bool = True
    ) -> IngestReport:
        """Add tables that :class:`lsmkv.TableWriter` wrote, all or none.

        Their entries replace what the store has under these keys; snapshots and iterators that exist do
        not see them.  It flushes the memtable and waits for a running compaction; writers wait for the
        last part, some milliseconds.  Once the call returns, the entries survive a power failure.

        Args:
            paths: table files, whose keys do not overlap.
            move: the store takes the files over, without a copy where the file system has links; each
                is whole under its old name until the store has it.  False: they are copied.
            verify: read every byte of the tables first.  False reads their ends alone: for tables that
                a job of yours has just written, perhaps on other machines.

        Raises:
            CorruptionError, UnsupportedFormatError: a file is no table, is damaged, or of an unknown
                format.
            ValueError: keys of two tables overlap, a table belongs to a store, or it has several
                versions of a key.
            TypeError: ``paths`` is one path.
            OSError: a file cannot be read or copied; or the commit failed, and the store refuses writes
                until ``resume``.
            BackgroundError, ReadOnlyError, ClosedError: as :meth:`put`.

        After an error, files and entries are as they were.  After an interrupt (Ctrl-C) a commit that has
        begun goes on, in a thread of its own; ``compact_range`` and ``close`` wait for it.
        """
        from lsmkv.engine.ingest import ingest

        return ingest(self._engine.upkeep, paths, move, verify)

    @contextlib.contextmanager
    def staging(self) -> Iterator[str]:
        """A directory for tables that other processes write for ``ingest(move=True)``.

        It is in the store's, so a table in it moves without a copy.  The end of the ``with`` block, or
        after a crash the next opening, removes it with all that was not ingested; a process that still
        writes there then gets an OSError.

        OSError: it cannot be created.  ReadOnlyError, ClosedError: as :meth:`put`.

        >>> import lsmkv, os, tempfile
        >>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
        ...     with db.staging() as folder:
        ...         with lsmkv.TableWriter(os.path.join(folder, "1.sst")) as table:
        ...             table.add(b"fox", b"red")
        ...         report = db.ingest([os.path.join(folder, "1.sst")], move=True)
        ...     db[b"fox"], os.path.exists(folder)
        (b'red', False)
        """
        from lsmkv.background.process.staged import StagingDirectory

        self._state.check_for_writing()
        with StagingDirectory(self._engine.tables) as staging:
            yield staging.path

    def bulk_load(
        self,
        pairs: Iterable[tuple[Buffer, Buffer] | tuple[Buffer, Buffer, float | None]]
        | Mapping[bytes, bytes],
        *,
        ttl_s: float | None = None,
        expires_at: float | None = None,
        sorted: bool = False,
        memory_bytes: int = 256 * MIB,
        progress: Callable[[int, int], object] | None = None,
    ) -> IngestReport:
        """Put many entries at once, as finished tables: all or none.

        It writes neither log nor memtable, and leaves compactions nothing to merge where the store has no
        keys between those loaded.  It commits at the end, as :meth:`ingest` does.  The store needs space
        for a second copy of what is loaded, and for a third if it sorts more than fits into memory.

        Args:
            pairs: keys and values, or a mapping.  When a pair goes may be its third item.
            ttl_s, expires_at: as for :meth:`put`, for all others.
            sorted: the keys ascend, each once.  False: they are sorted; of a repeated key the last
                value counts.
            memory_bytes: about how much memory sorting may take, at least 1 MiB; if more comes, it
                writes sorted runs to the store's directory and merges them.  256 MiB.
            progress: called with the pairs read and the entries written to tables so far.

        Raises:
            TypeError, ValueError: not a key or value; or, if ``sorted``, a key not above the last.
            OSError, BackgroundError, ReadOnlyError, ClosedError: as :meth:`ingest`.
            RuntimeError: no thread can be started; or inside another call of this thread.

        After any error, also one that ``pairs`` or ``progress`` raises, nothing is loaded; interrupts are
        as in :meth:`ingest`.

        >>> import lsmkv, tempfile
        >>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
        ...     report = db.bulk_load((b"%06d" % n, b"x") for n in range(1000))
        ...     len(db), report.tables
        (1000, 1)
        """
        from lsmkv.engine.bulk_load import bulk_load

        due_s = self._state.clock.expiry_s(ttl_s, expires_at)
        return bulk_load(self._engine.upkeep, pairs, sorted, memory_bytes, progress, due_s)

    def publish(
        self,
        url: str,
        keep: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> PublishReport:
        """Flush, and copy the tables to object storage, where ``lsmkv.open`` reads them.

        Tables that are not there yet are sent first.  Then one object that names them all makes the new
        *generation*: readers see it whole or not at all, from their next ``refresh`` on.  Credentials
        come from where the tools of the cloud find them.

        Args:
            url: ``s3://bucket/prefix``, ``gs://...``, ``az://...`` or ``file:///folder``; nothing else
                may be below it.
            keep: remove all but the newest ``keep`` generations, and tables that none of these needs.  A
                reader of a removed one gets CorruptionError until it refreshes.  None removes nothing.
            progress: called with the bytes that are there so far, and with those of all tables.

        Raises:
            TypeError, ValueError: ``url`` or ``keep`` is wrong, or ``url`` is inside the store.
            PublishConflictError: another process published to ``url`` meanwhile; publish again.
            OSError: a request failed; the next call sends only what is missing.
            MissingExtraError: ``lsmkv[remote]`` is not installed.
            ReadOnlyError, ClosedError, BackgroundError: the store cannot be flushed.
        """
        if keep is not None and (type(keep) is not int or keep < 1):
            raise ValueError(f"keep={keep!r}: give the number of generations to keep, 1 or more")
        from lsmkv.remote.urls import check_outside

        state = self._state
        state.check_for_writing()
        check_outside(url, state.directory)
        from lsmkv.remote.bucket import Bucket  # MissingExtraError without its library
        from lsmkv.remote.publish import publish

        with contextlib.closing(Bucket(url, state.options, state.stats)) as bucket:
            self._engine.upkeep.flush()
            current, _pin = self._engine.readers.pin_current()
            return publish(bucket, current, self._contents, keep, progress)

    def checkpoint(
        self, path: PathLike, *, progress: Callable[[int, int], object] | None = None
    ) -> CheckpointReport:
        """Make a store of its own in ``path``: this one, as it is now.

        The copy has an identity of its own (``StoreInfo.store_id``), and all that was acknowledged before
        the call.  Tables are shared by hard link; where links are refused, as between devices, they are
        copied, as are the logs.  Writers go on meanwhile.  A read-only handle copies what the writer has
        acknowledged by now, or downloads a published store.  A crash leaves all or nothing.

        Args:
            path: an empty directory, or one that does not exist; not inside the store.  What an
                interrupted checkpoint left there is removed.
            progress: called with the bytes that are there so far, and with all.

        Raises:
            FileExistsError: there is something in ``path``.
            ValueError: ``path`` is the store's directory, or inside it.
            LockedError: another checkpoint or backup is being made there.
            BackgroundError: the store takes no writes after a failure; ``resume`` first.
            CorruptionError, OSError: a file cannot be read or written; there is no store in ``path``.

        >>> import lsmkv, os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with lsmkv.open(os.path.join(folder, "store")) as db:
        ...         db[b"fox"] = b"red"
        ...         report = db.checkpoint(os.path.join(folder, "monday"))
        ...         db[b"fox"] = b"grey"
        ...     with lsmkv.open(report.path) as monday:
        ...         monday[b"fox"]
        b'red'
        """
        from lsmkv.copies.checkpoint import checkpoint

        self._state.require_open()
        location, target = self._engine.location, absolute_path(path)
        return checkpoint(
            location.storage, location.directory, self._engine.capture, target, progress
        )

    # Looking inside

    def stats(self) -> Stats:
        """All counters since the store was opened; two results can be subtracted."""
        self._state.require_open()
        return self._state.stats.copy()

    def memory_usage(self) -> MemoryUsage:
        """Memory by purpose; of index and filters also by key and by block."""
        return memory_usage(self._engine)

    @property
    def write_room_bytes(self) -> int:
        """How many bytes of log the next writes may fill without waiting; 0 if the next may wait.

        It waits for a flush, a new log file or compactions.  All threads that write use up the same room.
        """
        return self._engine.writer.room_bytes()

    def approximate_count(self) -> int:
        """About how many keys there are; overwritten ones may count twice.  O(tables)."""
        return approximate_count(self._state.require_open())

    def approximate_size(self, start: Buffer | None = None, stop: Buffer | None = None) -> int:
        """About how many bytes of tables and logs a range takes.

        start <= key < stop.  Of a log counts the share that the range has of its memtable's entries.  All
        keys: O(tables).  Part of them: O(tables + log blocks + keys in memtables).  Reads no block.
        """
        return approximate_size(self._engine, scan_range(start, stop, None, False))

    def disk_bytes(self) -> int:
        """How many bytes all files of the store have: tables, logs and the rest.

        A log counts with its room for writes, a table in full also where a copy shares it by a hard link.
        Of a published store count the tables.  O(files).  OSError: the directory cannot be read.

        >>> import lsmkv, tempfile
        >>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
        ...     db[b"key"] = b"value"
        ...     0 < db.approximate_size() < db.disk_bytes()
        True
        """
        return disk_bytes(self._engine)

    def explain(self, key: Buffer) -> Explanation:
        """Every step of one lookup, as data; ``print`` shows it as text.

        It goes through the tables even where the entry cache would answer, and its reads are counted.
        ``reads_saved`` are the reads that filters saved.
        """
        from lsmkv.inspection.explain import explain_lookup

        data = key_bytes(key)
        current, pin = self._engine.readers.pin_current()
        entries = self._engine.cache.entries
        return explain_lookup(current, data, pin.seq, pin.moment, entries)

    def explore(self) -> Drawn:
        """The page of ``lsmkv explore``, which notebooks draw.

        It shows the store's map and plays lookups of sampled keys, which are run for it on read-only
        handles of their own: this takes seconds, and counts nothing here.  Raises as ``lsmkv.open``.
        """
        self._state.require_open()
        # By name: the page stands on the store, which knows nothing else of it.
        page: Drawn = loaded("lsmkv.explore.notebook", "notebook_page")(self)
        return page

    def inspect(self) -> StoreInfo:
        """Levels, runs and tables, with the properties that need no block read."""
        from lsmkv.inspection.store_info import inspect_store

        return inspect_store(self._state.require_open(), self._engine.tables.store_id)

    def blocks(self, table_number: int) -> Iterator[BlockInfo]:
        """Every block of a table, with its filter's n, m, k, rate.  Reads each, bypassing the cache.

        TypeError, ValueError: the store has no such table (``inspect`` lists them).  CorruptionError:
        damage.
        """
        from lsmkv.inspection.store_info import block_infos

        if not isinstance(table_number, int):
            raise TypeError(
                f"table_number={table_number!r}: give the number of a table, as an int; tables() has them"
            )
        for reader in self._state.require_open().version.tables():
            if reader.meta.number == table_number:
                return block_infos(reader)
        raise ValueError(f"table_number={table_number!r}: the store has no such table now")

    def tables(self) -> tuple[Table, ...]:
        """The tables of the tree as it is now, to look into: newest data first, a run's by key."""
        from lsmkv.inspection.tables import Table

        runs = self._state.require_open().version.runs
        return tuple(Table(reader, run.level, run.number) for run in runs for reader in run.tables)

    @property
    def memtable_key_counts(self) -> tuple[int, ...]:
        """Keys of each memtable, the active one first."""
        return tuple(map(len, self._state.require_open().memtables))

    def tree_changes(self, after: TreeChange | None = None) -> list[TreeChange]:
        """The changes of the tree that the manifest records, oldest first.  O(manifest).

        They are those of whoever writes the store, up to now.  A manifest that grows is begun anew, with
        one change that adds the whole tree.  A published store records none.

        ``after``: only changes since this one; all if its manifest was begun anew meanwhile.
        TypeError: ``after`` is no change.  CorruptionError, NotAStoreError, OSError: the manifest cannot
        be read.
        """
        from lsmkv.inspection.tree_changes import TreeChange, tree_changes

        if not isinstance(after, TreeChange | None):
            raise TypeError(
                f"after={after!r}: give a TreeChange that tree_changes returned, or None for all"
            )
        self._state.require_open()
        location = self._engine.location
        if location.directory is None:
            return []
        return tree_changes(location.storage, location.directory, after)

    def verify(self, progress: Callable[[int, int], None] | None = None) -> VerifyReport:
        """Check every byte of every file, and report all damage.

        ``progress`` is called with the number of blocks checked so far, and of all blocks.
        """
        current, _pin = self._engine.readers.pin_current()
        return self._engine.location.verify(current, progress)

    # Opening and closing

    @property
    def path(self) -> str:
        """The store's directory, or the URL it was opened at."""
        return self._state.directory

    @property
    def generation(self) -> int | None:
        """The number of the published generation that is open; None for a store in a directory."""
        if self._state.life is UNOPENED:
            self._state.require_open()
        return self._engine.location.generation

    @property
    def options(self) -> Options:
        """The options in force."""
        return self._state.options

    @property
    def read_only(self) -> bool:
        """Whether this handle was opened with ``read_only=True``."""
        return self._state.read_only

    @property
    def closed(self) -> bool:
        """Whether this handle is closed."""
        state = self._state
        return state.super_version is None and state.life is not UNOPENED

    def close(self) -> None:
        """Sync all writes, stop the background work, unlock.

        After an interrupt (Ctrl-C) it goes on in its own thread, and a second call waits for it.  In a
        thread of a store, as inside ``on_event``, a second call does not wait: the first may wait for
        that thread.
        OSError: syncing failed; the store is closed anyway, and other calls return.  StoreReplacedError,
        which is one: the directory was removed or replaced meanwhile.
        """
        self._engine.close()

    def __enter__(self) -> Self:
        self._state.require_open()
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __del__(self) -> None:
        engine: Engine | None = getattr(self, "_engine", None)
        if engine is None:
            return
        is_left = engine.is_left_open
        try:
            if not (self.closed or engine.opened_by_itself or is_left):
                message = f"{engine.location.name} was not closed"
                warnings.warn(message, ResourceWarning, stacklevel=2, source=self)
        finally:  # also where warnings are errors
            if not (engine.is_closed or is_left):
                with contextlib.suppress(Exception):
                    engine.close()
            if self._guard is not None:  # unless an interrupt came
                self._guard.cancel()

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        engine = self._engine
        reader = f"lsmkv.open({self.path!r}, read_only=True)"
        if self.closed:
            raise uncopyable("a DB that is closed", f"open the store anew: {reader}")
        if not self.read_only:
            raise uncopyable(
                "a DB that is open for writing",
                f"one process writes; give others a handle to read: {reader}",
            )
        if type(engine.location.storage) is not Storage:
            raise uncopyable("a DB with storage= of its own", f"open it without: {reader}")
        return _opened_on_use, (self.path, self.options, engine.refresh_every_s)

    def __repr__(self) -> str:
        state = "closed" if self.closed else "read-only" if self.read_only else "open"
        return f"<lsmkv.DB at {self.path!r}, {state}>"

    def _repr_html_(self) -> str:
        """Where it is, about how much is in it, and its memory.  O(tables)."""
        state = "closed" if self.closed else "read-only" if self.read_only else "open for writing"
        rows: list[Row] = [("path", repr(self.path)), ("state", state)]
        try:
            if not self.closed:
                rows += size_rows(self._engine)
        except Error as error:  # closed meanwhile; or its first use, which opens it, cannot
            rows.append(("sizes", f"{type(error).__name__}: {error}"))
        return table("lsmkv.DB", rows)


def _opened_on_use(path: str, options: Options, refresh_every_s: float | None) -> DB:
    """What a pickled handle becomes."""
    check_interpreter()
    location = location_on_use(path, options)
    engine = Engine(location, options, read_only=True, refresh_every_s=refresh_every_s)
    engine.leave_to_first_use()
    return DB(engine)
