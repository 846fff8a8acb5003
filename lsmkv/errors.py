"""The exceptions that lsmkv raises.

All of them derive from :class:`Error`.  Wrong arguments raise the built-in ``TypeError`` and
``ValueError``; failures of the operating system stay ``OSError``.
"""

from __future__ import annotations

import os
from typing import Any, Final, TypeVar

E = TypeVar("E", bound=BaseException)


def caused(error: E, cause: BaseException | None) -> E:
    """``error``, to be raised with that cause; with None, without one and without a context.

    What ``raise ... from`` does, for modules that are compiled: mypyc leaves the cause out.

    >>> caused(ValueError("wrong"), KeyError("k")).__cause__
    KeyError('k')
    """
    error.__cause__ = cause  # which suppresses the context, too
    return error


def uncopyable(what: str, remedy: str) -> TypeError:
    """What the ``__reduce_ex__`` of an object raises that cannot be copied or pickled.

    ``copy.copy``, ``copy.deepcopy`` and ``pickle`` all call that method.
    """
    return TypeError(f"cannot copy or pickle {what}: {remedy}")


_LONGEST_DETAIL: Final = 300


def _shortened(text: str) -> str:
    """What came from a file may be long; a message is for people, and may end up in logs."""
    return text if len(text) <= _LONGEST_DETAIL else f"{text[:_LONGEST_DETAIL]}..."


class Error(Exception):
    """Base of every exception that is lsmkv's own.

    A copy, also one that ``pickle`` makes, keeps message, fields and notes.  It has no cause and no
    traceback.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        # The constructors of subclasses take fields, not the message that ``args`` holds.
        return _made_again, (type(self), self.args), self.__dict__


def _made_again(kind: type[Error], args: tuple[object, ...]) -> Error:
    error: Error = kind.__new__(kind, *args)  # which keeps ``args``, and calls no constructor
    return error


class CorruptionError(Error):
    """Bytes on disk are not what was written.

    Attributes:
        path: the damaged file.
        offset: where in the file the damage was noticed, in bytes; None when no place can be named.
        reason: what was found wrong, without the place.
        expected, got: the two values that should have been equal, where there are two.
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
    """A file is intact but was written in a format version, codec or scheme this release lacks."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {_shortened(reason)}")
        self.path = path
        self.reason = reason


class ClosedError(Error):
    """The store, snapshot, cursor, batch or iterator was used after it was closed."""


class LockedError(Error):
    """Another handle has the store open for writing, in another process or in this one.

    Args:
        may_read: whether to open the store with ``read_only=True`` would serve as well.

    Attributes:
        path: the store's directory.
        pid: the process that holds it, or None when it could not be read.
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
    """There is no lsmkv store at the path (and none was to be created)."""


class StoreExistsError(Error):
    """There is a store at the path already, and ``error_if_exists=True`` was given."""


class ReadOnlyError(Error):
    """A write was asked of a handle opened with ``read_only=True``."""


class BackgroundError(Error):
    """A flush, compaction or log write failed, so the store takes no more writes.

    Reads go on.  ``__cause__`` is the failure.  Once its cause is mended, ``DB.resume()`` takes
    writes again.
    """


class ForkedError(Error):
    """A handle opened before ``os.fork()`` was used in the child process; open the store anew there."""


def note_rebuilt_filters(path: str, offset: int, chunk_count: int) -> None:
    """Tell that filters in the table at ``path`` were damaged, first at ``offset``, and made anew."""
    import logging  # not to be loaded by every program that stores data

    logging.getLogger("lsmkv").warning(
        "%s at offset %d: the checksum of a table's filters fails (of %d parts of them); the copies "
        "that its blocks hold are used instead. The file stays damaged until its keys are compacted: "
        "compact_range(force=True) rewrites it.",
        path,
        offset,
        chunk_count,
    )
