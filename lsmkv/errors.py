"""The exceptions of lsmkv, all derived from :class:`Error`.

Wrong arguments raise the built-in ``TypeError`` or ``ValueError``.  Failures of the operating system
are ``OSError``.
"""

from __future__ import annotations

import contextlib
import copy
import os
import threading
from typing import Any, Final, TypeVar

E = TypeVar("E", bound=BaseException)


def caused(error: E, cause: BaseException | None) -> E:
    """Set the cause of ``error``, as ``raise ... from`` does, and return it.

    For compiled modules, where mypyc loses the cause.

    >>> caused(ValueError("wrong"), KeyError("k")).__cause__
    KeyError('k')
    """
    error.__cause__ = cause  # which suppresses the context, too
    return error


def untraced(error: E) -> E:
    """A copy of ``error`` to keep, without traceback and cause.

    Their frames hold what functions and their callers used: open tables, a handle that nobody closed.
    """
    kept = error
    with contextlib.suppress(Exception):  # a class whose constructor takes other arguments
        kept = copy.copy(error)
    kept.__cause__ = kept.__context__ = None  # which a library may have copied, as Dask's does
    return kept.with_traceback(None)


def uncopyable(what: str, remedy: str) -> TypeError:
    """The error that ``__reduce_ex__`` of an uncopyable object raises."""
    return TypeError(f"cannot copy or pickle {what}: {remedy}")


# What to do instead, by what was asked for and what was given.
_REMEDIES: Final = {
    ("key", slice): "a range is db.items(start=..., stop=...)",
    ("key", list): "for several keys: db.multi_get(keys)",
    ("value", type(None)): "to remove a key: delete(key)",
}


def unbounded_delete() -> ValueError:
    """For a range delete without any bound."""
    return ValueError(
        "delete_range() without bounds would remove every key: give start, stop or prefix, "
        "or call clear()"
    )


def not_bytes(data: object, what: str) -> TypeError:
    """The error for a key, value or prefix that is not bytes-like."""
    if isinstance(data, str):
        return TypeError(
            f"a {what} is bytes, not str: encode it, for example {data[:40]!r}.encode()"
        )
    if isinstance(data, int):
        return TypeError(
            f"a {what} is bytes, not int: encode it, for example ({data}).to_bytes(8, 'big')"
        )
    remedy = _REMEDIES.get((what, type(data)), "lsmkv.typed has codecs for other types")
    return TypeError(
        f"a {what} is bytes or another bytes-like object, not {type(data).__name__}; {remedy}"
    )


_LONGEST_DETAIL: Final = 300  # text from a damaged file may be long


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_DETAIL else f"{text[:_LONGEST_DETAIL]}..."


class Error(Exception):
    """Base class of lsmkv's own exceptions.

    A copy or unpickled error has the message, attributes and notes, but no cause and no traceback.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        # The constructors of subclasses take other arguments than the message in ``args``.
        return _made_again, (type(self), self.args), self.__dict__


def _made_again(kind: type[Error], args: tuple[object, ...]) -> Error:
    error: Error = kind.__new__(kind, *args)  # without calling the constructor
    error.args = args
    return error


class CorruptionError(Error):
    """A file is missing or damaged: its bytes are not those that were written.

    ``DB.verify`` lists all damage; ``lsmkv.repair`` rebuilds a store from what is readable.

    Attributes:
        path: the damaged file.
        offset: byte offset of the damaged part in the file, or None if it has no offset.
        reason: what is wrong, without path and offset.
        expected, got: the two values that differ, if the damage was found by comparing.
    """

    def __init__(
        self,
        path: str,
        offset: int | None,
        reason: str,
        *,
        expected: object = None,
        got: object = None,
    ) -> None:
        place = path if offset is None else f"{path} at offset {offset}"
        detail = ""
        if expected is not None or got is not None:
            detail = f" (expected {_shortened(repr(expected))}, got {_shortened(repr(got))})"
        super().__init__(f"{place}: {_shortened(reason)}{detail}")
        self.path = path
        self.offset = offset
        self.reason = reason
        self.expected = expected
        self.got = got


class UnsupportedFormatError(Error):
    """This release does not know a file's format version, codec or filter.

    The file is intact.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {_shortened(reason)}")
        self.path = path
        self.reason = reason


def unfit(path: str, offset: int, what: str, error: Exception) -> UnsupportedFormatError:
    """The error for a whole ``what`` with fields of another release."""
    reason = (
        f"the {what} at offset {offset} is whole, but its fields are not those that this release "
        "knows: read it with the release that wrote it, and copy what it holds to a new store"
    )
    return UnsupportedFormatError(path, f"{reason} ({error})")


class ClosedError(Error):
    """A closed store, snapshot, cursor, batch or iterator was used."""


class CursorError(Error):
    """The cursor is at no key: it was never moved, or moved past an end."""


class LockedError(Error):
    """Another handle, in any process, has the store open for writing.

    Attributes:
        path: the store's directory.
        pid: the process that holds the lock, or None if that is not known.
    """

    def __init__(self, path: str, pid: int | None, *, may_read: bool = False) -> None:
        if pid == os.getpid():
            reason = (
                f"{path} is open for writing in this process ({pid}) already; "
                "close that handle, or share it between threads"
            )
        else:
            holder = "another process" if pid is None else f"process {pid}"
            advice = ", or open it with read_only=True" if may_read else ""
            reason = f"{path} is open for writing in {holder}; close it there{advice}"
        super().__init__(reason)
        self.path = path
        self.pid = pid


class NotAStoreError(Error):
    """There is no store at the path, and none may be created; or it is another program's."""


class StoreExistsError(Error):
    """There is already a store at the path, and ``error_if_exists`` is True."""


class StoreReplacedError(Error, OSError):
    """The directory of a store open for writing was removed or replaced.

    The handle has changed nothing at its path since then.
    """

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} was removed or replaced while it was open for writing: this handle changes "
            "nothing there any more, and what it wrote is in the old files alone, if they are "
            "anywhere; close it, and open the store that is there now"
        )
        self.path = path


class ReadOnlyError(Error):
    """A store that was opened with ``read_only=True`` was written to."""


class BackgroundError(Error):
    """A flush, compaction or log write failed: the store takes no more writes.

    Reads still work.  ``__cause__`` is the failure.  Remove its cause (free some disk space, for
    example), and call ``DB.resume()`` to write again.
    """


class ConflictError(Error):
    """Another write changed what the transaction read.  Nothing was committed.

    Run it again, from its first read on, or leave that to ``DB.transact``.

    Attributes:
        key: a key that was read, and then written by someone else.  None if the transaction was open for
            so long that the store no longer knows what was written since.
        attempts: how often it was tried.
    """

    def __init__(self, key: bytes | None, attempts: int = 1) -> None:
        if key is None:
            reason = (
                "the transaction was open for too long: the store no longer knows all that was "
                "written since it began"
            )
        else:
            reason = (
                f"key {_shortened(repr(key))}, which the transaction had read, was written since"
            )
        advice = "; run it again, as DB.transact does"
        if attempts > 1:
            advice = f"; so it was in {attempts} attempts"
        super().__init__(reason + advice)
        self.key = key
        self.attempts = attempts


class WorkerError(Error):
    """A cluster's worker or a helper process ended without a result.

    The store is as it was before the call, and no file is left.  ``__cause__`` is what was reported, if
    anything was.
    """


class ForkedError(Error):
    """Something from before ``os.fork()`` was used in the child process.

    A handle for writing: the child must open its own.  A snapshot, cursor, view or iterator: the child
    must make another; the read-only handle that it came from works in the child.

    Object storage cannot be used at all in the child of a process that has used it: start such processes
    with ``multiprocessing``'s "spawn" or "forkserver".
    """


class PublishConflictError(Error):
    """Another process published to the same URL meanwhile; nothing of it was replaced.

    ``DB.publish`` may simply be called again.
    """


class MissingExtraError(Error, ImportError):
    """A library that an optional part needs is not installed."""


_telling = threading.local()


def _warn(text: str) -> None:
    """Log a warning; if a logging handler of this thread caused it, after that handler returns.

    A handler that uses the store may meet the damage of another table, and so on.
    """
    waiting: list[str] | None = getattr(_telling, "waiting", None)
    if waiting is not None:
        waiting.append(text)
        return
    import logging  # here, because most programs never need it

    waiting = _telling.waiting = [text]
    try:
        while waiting:
            logging.getLogger("lsmkv").warning("%s", waiting.pop(0))
    finally:
        _telling.waiting = None


def note_rebuilt_filters(path: str, offset: int, chunk_count: int) -> None:
    """Log that a table's damaged filters are read from its blocks instead."""
    _warn(
        f"{path} at offset {offset}: the checksum of a table's filters fails (in {chunk_count} of their "
        "parts); the copies that its blocks hold are used instead. The file stays damaged until its keys "
        "are compacted: compact_range(force=True) rewrites it."
    )


def note_full_budget(path: str, budget_bytes: int, reserved_bytes: int) -> None:
    """Log that filters do not fit into the memory budget."""
    _warn(
        f"{path}: the filters of this table, and maybe of others, are read through the block cache: "
        f"memory_budget_bytes leaves {budget_bytes} bytes to cache, filters and indexes, of which "
        f"filters and indexes have {reserved_bytes} already. A larger budget keeps them in memory; a "
        "higher error_rate or larger blocks make them smaller."
    )


def note_lost_filters(path: str, offset: int, chunk_count: int) -> None:
    """Log that a table's filters are damaged in every copy."""
    _warn(
        f"{path} at offset {offset}: the checksum of a table's filters fails (in {chunk_count} of their "
        "parts), and there is no whole copy. Answers stay right, but lookups search the blocks without "
        "these filters, and read more, until the table's keys are compacted: compact_range(force=True) "
        "rewrites it."
    )


def note_disk_cache_failure(path: str, reason: str) -> None:
    """Log that a disk cache cannot use its directory or a file."""
    _warn(
        f"{path}: the disk cache of a published store keeps less, or nothing: {reason}. Reads are right "
        "without it. Stats.disk_cache_failures counts such failures; this handle logs only the first."
    )
