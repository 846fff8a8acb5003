"""Tables written outside a store, for ``DB.ingest``."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Self, SupportsIndex, Unpack

from lsmkv.encoding.entries import Buffer, key_bytes, out_of_order, value_bytes
from lsmkv.encoding.entry_batch import EntryBatch, batch_of_columns
from lsmkv.encoding.expiry import Clock, Held, held_bytes
from lsmkv.errors import ClosedError, uncopyable
from lsmkv.options import Options, OptionsDict, chosen_options
from lsmkv.runtime import check_interpreter
from lsmkv.sstable import writer
from lsmkv.sstable.table_end import new_seal
from lsmkv.storage.file_names import UNFINISHED
from lsmkv.storage.storage import PathLike, Storage, absolute_path
from lsmkv.tree.version_set import table_format

_BATCH_ENTRIES: Final = 512
_BATCH_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class TableFileInfo:
    """A finished table file.

    Attributes:
        path: its absolute path.
        entries: the keys in it, deletions included.
        size_bytes: the length of the file.
        smallest, largest: its first and its last key.
    """

    path: str
    entries: int
    size_bytes: int
    smallest: bytes
    largest: bytes


def _column(name: str, data: object) -> bytes:
    try:
        return bytes(memoryview(data))  # type: ignore[arg-type]  # raises if not
    except TypeError:
        raise TypeError(
            f"{name} is bytes, all of them one after another, not {type(data).__name__}: "
            f'join them, as b"".join(list_of_{name}) does'
        ) from None


class TableWriter:
    """Writes one table file outside any store, for :meth:`DB.ingest`.

    Keys come in ascending order, each once.  Leaving the ``with`` block finishes the table, or abandons
    it after an exception.  The file has its name only once it is whole and synced, and replaces none;
    until then random digits and ``.lsmkv-tmp`` follow ``path``.  A process that is killed leaves such a
    file, which may be removed.  One thread at a time may use a writer.

    >>> import lsmkv, os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "animals.sst")
    ...     with lsmkv.TableWriter(path) as table:
    ...         table.add(b"fox", b"red")
    ...         table.add(b"hare", b"brown")
    ...     with lsmkv.open(os.path.join(folder, "store")) as db:
    ...         report = db.ingest([path])
    ...         dict(db), report.entries
    ({b'fox': b'red', b'hare': b'brown'}, 2)
    """

    def __init__(
        self, path: PathLike, options: Options | None = None, **overrides: Unpack[OptionsDict]
    ) -> None:
        """Begin a table at ``path``.

        Args:
            path: the file to write; nothing may be there.
            options: block size, compression and filters of the table, and the file's mode (default:
                ``Options()``).  The store that adopts the table may have others.
            **overrides: single options that replace those in ``options``.

        Raises:
            FileExistsError: there is something at ``path``.
            TypeError, ValueError: an option or the path is wrong.
            OSError: the file cannot be created.
        """
        check_interpreter()
        chosen = chosen_options(options, overrides, besides=("options",))
        self._path = absolute_path(path)
        self._storage = Storage(file_mode=chosen.file_mode)
        self._keys: list[bytes] = []
        self._values: list[Held] = []
        self._held_bytes = 0
        self._clock = Clock(default_ttl_s=chosen.default_ttl_s)
        self._last: bytes | None = None
        self._finished: TableFileInfo | None = None
        self._writer: writer.TableWriter | None = None  # None once finished or abandoned
        self._check_free()
        # A name that nobody else has: not another writer of the same path, either.
        self._unfinished = f"{self._path}-{os.urandom(8).hex()}{UNFINISHED}"
        form = table_format(chosen, chosen.error_rate)
        self._writer = writer.TableWriter(self._storage, self._unfinished, new_seal(), form)

    def _check_free(self) -> None:
        if self._storage.exists(self._path):
            raise FileExistsError(errno.EEXIST, "a table is written to a new file", self._path)

    def _take_name(self) -> None:
        """Give the file its name; FileExistsError if another has it."""
        self._check_free()
        try:
            self._storage.link(self._unfinished, self._path)  # unlike a rename, replaces nothing
        except FileExistsError:
            self._check_free()
            raise
        except OSError:  # a file system without links
            self._storage.create(self._path).close()  # or what somebody else writes there would go
            try:
                self._storage.replace(self._unfinished, self._path)
            except OSError:
                self._storage.remove(self._path)
                raise
        else:
            self._storage.remove(self._unfinished)

    def _open(self) -> writer.TableWriter:
        if self._writer is None:
            raise ClosedError(f"the table {self._path} was finished or abandoned already")
        return self._writer

    def add(
        self,
        key: Buffer,
        value: Buffer,
        *,
        ttl_s: float | None = None,
        expires_at: float | None = None,
    ) -> None:
        """Add an entry: a key above the last one, of up to 65,535 bytes; a value of up to 256 MiB.

        ``ttl_s`` and ``expires_at`` are as for ``DB.put``.

        Raises:
            TypeError, ValueError: not a key or value, or the key is not above the last one.  The entry
                was not added.
            ClosedError: the table was finished or abandoned.
            OSError: writing failed; the table is abandoned.
        """
        self._add(key_bytes(key), self._clock.held(value_bytes(value), ttl_s, expires_at))

    def delete(self, key: Buffer) -> None:
        """Add a deletion: ingesting the table removes ``key``.  Raises as :meth:`add`."""
        self._add(key_bytes(key), None)

    def add_columns(
        self,
        keys: Buffer,
        key_ends: Iterable[int],
        values: Buffer,
        value_ends: Iterable[int],
    ) -> None:
        """Add entries in columns, thousands at a time, without an object each.

        Args:
            keys, values: all keys one after another, in ascending order, and all values.
            key_ends, value_ends: where in them each key and each value ends, in bytes.

        Raises:
            TypeError, ValueError: as :meth:`add`, or the ends are not those of ``keys`` or ``values``.
                No entry was added.
            ClosedError, OSError: as :meth:`add`.
        """
        table = self._open()
        all_keys = keys if type(keys) is bytes else _column("keys", keys)
        all_values = values if type(values) is bytes else _column("values", values)
        for name, ends in (("key_ends", key_ends), ("value_ends", value_ends)):
            if not isinstance(ends, Iterable):
                raise TypeError(f"{name} is a list of ints, where each one ends, not {ends!r}")
        batch = batch_of_columns(all_keys, key_ends, all_values, value_ends)
        if not batch.count:
            return
        if self._last is not None and batch.key(0) <= self._last:
            raise ValueError(out_of_order(batch.key(0), self._last))
        self._write(table)
        self._write_batch(table, batch)
        self._last = batch.key(batch.count - 1)

    @property
    def size_bytes(self) -> int:
        """About how long the file would be if finished now; 0 once it was."""
        return 0 if self._writer is None else self._writer.size_bytes + self._held_bytes

    def _add(self, key: bytes, value: Held) -> None:
        table = self._open()
        last = self._last
        if last is not None and key <= last:
            raise ValueError(out_of_order(key, last))
        size_bytes = len(key) + held_bytes(value)
        if self._held_bytes + size_bytes > _BATCH_BYTES or len(self._keys) >= _BATCH_ENTRIES:
            self._write(table)
        self._keys.append(key)
        self._values.append(value)
        self._held_bytes += size_bytes
        self._last = key

    def _write(self, table: writer.TableWriter) -> None:
        if self._keys:
            batch = EntryBatch.of(self._keys, self._values, [], may_repeat=False, one_seq=0)
            self._keys, self._values, self._held_bytes = [], [], 0
            self._write_batch(table, batch)

    def _write_batch(self, table: writer.TableWriter, batch: EntryBatch) -> None:
        """Write entries; after an error the table is incomplete, and abandoned."""
        try:
            if table.add_from(batch, 0, writer.NO_LIMIT) < batch.count:
                raise ValueError(f"{self._path}: more than a table can hold; write several tables")
        except BaseException:
            self.abandon()
            raise

    def finish(self) -> TableFileInfo:
        """Write the rest, sync the file, and give it its name.  A second call returns the same.

        Any error abandons the table:

        Raises:
            ValueError: nothing was added.
            FileExistsError: there is something at the path by now.
            ClosedError: the table was abandoned before.
            OSError: writing failed.
        """
        if self._finished is not None:
            return self._finished
        table = self._open()
        try:
            self._write(table)
            if self._last is None:
                raise ValueError(f"{self._path}: a table needs at least one entry")
            meta = table.finish([], for_adoption=True)
            self._take_name()
            self._storage.sync_directory(os.path.dirname(self._path))
        except BaseException:
            self.abandon()
            raise
        self._writer = None
        self._finished = TableFileInfo(
            self._path, meta.entry_count, meta.size_bytes, meta.smallest, meta.largest
        )
        return self._finished

    def abandon(self) -> None:
        """Remove what was written; does nothing to a finished table."""
        table, self._writer = self._writer, None
        self._keys, self._values = [], []
        if table is not None:
            table.abandon()

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None and self._writer is not None:
            self.finish()
        self.abandon()

    def __del__(self) -> None:
        if getattr(self, "_writer", None) is not None:
            with contextlib.suppress(Exception):
                self.abandon()

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        raise uncopyable("a TableWriter", "let each process write tables of its own")

    def __repr__(self) -> str:
        state = "open" if self._writer else "finished" if self._finished else "abandoned"
        return f"<lsmkv.TableWriter at {self._path!r}, {state}>"
