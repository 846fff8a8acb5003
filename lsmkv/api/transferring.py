"""The part of ``DB`` that takes in tables and copies stores."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from lsmkv.encoding.entries import Buffer
from lsmkv.engine.engine import Engine
from lsmkv.options import MIB
from lsmkv.storage.storage import PathLike, absolute_path

if TYPE_CHECKING:  # imported where it is used: most programs never need it
    from lsmkv.copies.checkpoint import CheckpointReport
    from lsmkv.engine.adoption import IngestReport
    from lsmkv.remote.publish import PublishReport


class Transferring:
    """``ingest``, ``bulk_load``, ``publish`` and ``checkpoint`` of a store."""

    _engine: Engine
    _contents: dict[int, str]
    """Whole-file checksums of tables, by number."""

    def ingest(self, paths: Iterable[PathLike], *, move: bool = False) -> IngestReport:
        """Add tables that :class:`lsmkv.TableWriter` wrote, all or none.

        Their entries replace what the store has under these keys.  Snapshots and iterators that exist
        do not see them.  It reads every byte of the tables, flushes the memtable, and waits for a
        running compaction; writers wait for the last part, some milliseconds.  Each table goes as deep
        into the tree as it fits.  Once the call returns, the entries survive a power failure.

        Args:
            paths: table files.  Their keys may not overlap.
            move: the store takes the files over, without copying them where the file system has links
                and the table was written for it.  Whatever ends the process, a file is whole under its
                old name until the store has it.  False: they are copied.

        Raises:
            CorruptionError, UnsupportedFormatError: a file is no table, is damaged, or of an unknown
                format.
            ValueError: keys of two tables overlap, a table belongs to a store, or it has several
                versions of a key.
            TypeError: ``paths`` is one path.
            OSError: a file cannot be read or copied, or the commit failed.
            BackgroundError: the store refuses writes after a failure.
            ReadOnlyError, ClosedError: this handle is read-only or closed.

        After an error the store is as it was, and so are the files.  If the commit itself failed, the
        store refuses writes until ``resume``.

        An interrupt (KeyboardInterrupt, or what a signal handler raises) leaves all or none of the
        tables in the store, too.  But a thread of its own commits, and goes on if the interrupt comes
        after it has begun: then the call has raised, and the tables are in the store, or will be some
        milliseconds later; ``compact_range`` and ``close`` wait for that.  The next opening removes
        files that an interrupt leaves in the store's directory.
        """
        from lsmkv.engine.ingest import ingest

        return ingest(self._engine, paths, move)

    def bulk_load(
        self,
        pairs: Iterable[tuple[Buffer, Buffer]] | Mapping[bytes, bytes],
        *,
        sorted: bool = False,
        memory_bytes: int = 256 * MIB,
        progress: Callable[[int, int], object] | None = None,
    ) -> IngestReport:
        """Put many entries at once, as finished tables: all or none.

        It writes neither log nor memtable, and compactions have nothing to merge where the store has no
        keys between those loaded.  It commits as :meth:`ingest` does, at the end: nothing is to be seen
        before.  The store needs free space for a second copy of what is loaded, and for a third if it
        sorts more than fits into memory.

        Args:
            pairs: keys and values, or a mapping.
            sorted: the keys ascend, each once.  False: they are sorted; of a repeated key the last
                value counts.
            memory_bytes: about how much memory sorting may take, at least 1 MiB; if more comes, it
                writes sorted runs to the store's directory and merges them.  256 MiB.
            progress: called with the pairs read and the entries written to tables so far.

        Raises:
            TypeError, ValueError: not a key or value; or a key that is not above the one before, with
                ``sorted``.
            OSError, BackgroundError, ReadOnlyError, ClosedError: as :meth:`ingest`.
            RuntimeError: no thread can be started; or inside another call of this thread.

        After any error, also one that ``pairs`` or ``progress`` raises, nothing is loaded.  An interrupt
        is different, as in :meth:`ingest`: one that comes during the commit cannot take it back.

        >>> import lsmkv, tempfile
        >>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
        ...     report = db.bulk_load((b"%06d" % n, b"x") for n in range(1000))
        ...     len(db), report.tables
        (1000, 1)
        """
        from lsmkv.engine.bulk_load import bulk_load

        return bulk_load(self._engine, pairs, sorted, memory_bytes, progress)

    def publish(
        self,
        url: str,
        keep: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> PublishReport:
        """Flush, and copy the tables to object storage, where ``lsmkv.open`` reads them.

        Tables are sent first, several at a time, and those that are there already not again.  Then one
        object that names them all makes the new *generation*.  Readers see it whole or not at all, from
        their next ``refresh`` on.  Credentials come from where the tools of the cloud find them.  Needs
        ``pip install "lsmkv[remote]"``.

        Args:
            url: ``s3://bucket/prefix``, ``gs://...`` or ``az://...``; nothing else may be below it.
            keep: remove older generations than the newest ``keep``, and tables that none of these
                needs.  A reader of a removed generation gets CorruptionError until it refreshes.  None
                removes nothing.
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
        from lsmkv.remote.bucket import Bucket
        from lsmkv.remote.publish import check_outside, publish

        engine = self._engine
        engine.check_for_writing()
        check_outside(url, engine.directory)
        with contextlib.closing(Bucket(url, engine.options, engine.stats)) as bucket:
            engine.flush()
            current, _pin = engine.pin_current()
            return publish(bucket, current, self._contents, keep, progress)

    def checkpoint(
        self, path: PathLike, *, progress: Callable[[int, int], object] | None = None
    ) -> CheckpointReport:
        """Make a store of its own in ``path``: this one, as it is now.

        It has everything that was acknowledged before the call.

        Tables are shared by hard link, so that it takes little time and space; on another device, or
        where links are refused, they are copied, as are the logs.  Writers go on meanwhile.  A
        read-only handle makes one too, beside the writer, of what the writer has acknowledged by now;
        of a published store it downloads one.  Everything is synced when it returns.

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

        After a crash there is the whole store or none: CURRENT is written last.

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

        engine = self._engine
        engine.require_open()
        source = None if engine.published is not None else engine.directory
        return checkpoint(engine.storage, source, engine.capture, absolute_path(path), progress)
