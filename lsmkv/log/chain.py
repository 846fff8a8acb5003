"""The chain of write-ahead logs: which logs count, in order.

The chain starts at the log that the manifest names; tables hold the writes of older logs.  Each log's
header names the log before it and the offset where that one ended.  Not part of the chain are a log
whose creation was cut short inside its header, and an *unused* log: one created to follow a log that
then took more writes, or that another log followed instead.

Bytes may be missing at the end of the chain for two reasons:

- A *torn tail*: writes that were never synced, and so never acknowledged as durable.  Recovery drops
  them.  A torn tail follows the last good record of a log, and no sync mark lies beyond it.  The
  next log is dropped too, if its header says that this log was longer than its good records.  A next
  log with a sync mark makes that damage: syncing a log syncs the log before it first.
- *Damage* to acknowledged writes, a CorruptionError: bad bytes below a sync mark; a synced log after
  a lost tail; a missing log; and whatever contradicts the manifest's note of the log that the store
  was closed with.

A byte counts as synced only if this process synced it, or if a mark or a note behind it says so: each is
written after the sync that it tells of.  It says nothing of itself.  So the mark with which a log was
closed is not synced at the next opening, and a log that follows syncs it first, as any record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from lsmkv.errors import CorruptionError, UnsupportedFormatError
from lsmkv.log.reader import HEADER_BYTES, LogReader, read_log, read_more
from lsmkv.storage.file_names import log_path, parse_file_name
from lsmkv.storage.storage import Storage

MAX_READ_ATTEMPTS: Final = 1000
"""How often a reader starts anew because a flush or compaction replaced a file meanwhile."""


@dataclass(frozen=True, slots=True)
class ClosedLog:
    """The manifest's note of the log that the store was closed with.

    ``number`` is 0 when there is none.  ``salt`` is None in manifests that do not note it.
    """

    number: int = 0
    end: int = 0
    salt: int | None = None


@dataclass(frozen=True, slots=True)
class ChainedLog:
    """One log of the chain, and what is wrong with it."""

    number: int
    path: str
    # Its records up to the first damage; None when its header cannot be trusted.
    contents: LogReader | None
    error: Exception | None  # why it cannot be read, or not to its end
    # Why it does not follow the log before it; ``gap_is_torn`` if that is a torn tail.
    gap: CorruptionError | None = None
    gap_is_torn: bool = False
    shortfall: CorruptionError | None = None  # it ends before the offset where the store was closed


def log_numbers(names: Iterable[str], first: int) -> list[int]:
    parsed = filter(None, map(parse_file_name, names))
    return sorted(number for kind, number in parsed if kind == "log" and number >= first)


def read_chain(
    storage: Storage,
    directory: str,
    numbers: list[int],
    first: int,
    closed: ClosedLog,
    known: Mapping[int, LogReader] = MappingProxyType({}),
) -> list[ChainedLog]:
    """The logs ``numbers``, ascending, without those that do not count.

    ``first`` is the log that the manifest names, which always counts; 0 without a manifest.  Of the logs
    in ``known`` it reads only what is new; CorruptionError, FileNotFoundError: that cannot be told.
    """
    chain: list[ChainedLog] = []
    for number in numbers:
        path = log_path(directory, number)
        contents, error = _read(storage, path, number, closed, known.get(number))
        if contents is None:
            if error is None and number == first:
                error = CorruptionError(path, 0, "the log is cut short inside its header")
            if error is not None:
                chain.append(ChainedLog(number, path, None, error))
            continue
        if len(chain) > 1 and _was_replaced_by(chain[-1], contents):
            chain.pop()
        before = chain[-1] if chain else None
        if before is None or before.error is not None or before.contents is None:
            gap, is_torn = None, False
        elif error is None and _was_never_used(contents, before.contents):
            continue
        else:
            gap, is_torn = _gap(before.contents, contents)
        shortfall = _shortfall(contents, closed) if number == closed.number else None
        chain.append(ChainedLog(number, path, contents, error, gap, is_torn, shortfall))
    return chain


def missing_logs(
    directory: str, present: Iterable[int], first: int, closed: ClosedLog
) -> Iterator[CorruptionError]:
    """An error for each log that the manifest names, but is missing."""
    numbers = {0, *present}
    if first not in numbers:
        reason = "the log that the manifest names is missing"
        yield CorruptionError(log_path(directory, first), None, reason)
    if closed.number not in {first, *numbers}:
        reason = "the log that the store was closed with is missing"
        yield CorruptionError(log_path(directory, closed.number), None, reason)


def trusted_logs(
    storage: Storage,
    directory: str,
    numbers: list[int],
    first: int,
    closed: ClosedLog,
    known: Mapping[int, LogReader] = MappingProxyType({}),
) -> list[LogReader]:
    """The logs to recover from, oldest first, without a torn tail.

    Of the logs in ``known`` it reads only what is new.  Raises CorruptionError for damage,
    UnsupportedFormatError, and OSError.
    """
    trusted: list[LogReader] = []
    for log in read_chain(storage, directory, numbers, first, closed, known):
        if log.error is None and log.gap_is_torn:
            break
        overlap = _overlap(trusted[-1], log) if trusted else None
        problem = log.error or log.gap or overlap or log.shortfall
        if problem is not None:
            try:
                raise problem
            finally:
                del log, problem, overlap  # or its traceback would keep it, and all logs, alive
        assert log.contents is not None
        trusted.append(log.contents)
    missing = list(missing_logs(directory, [log.number for log in trusted], first, closed))
    if missing:
        raise missing.pop(0)
    return trusted


def _overlap(before: LogReader, log: ChainedLog) -> CorruptionError | None:
    began = before.end if log.contents is None else log.contents.previous_end
    if began >= before.end:
        return None
    reason = "the log before it holds more than it held when this one was begun"
    return CorruptionError(log.path, 0, reason, expected=began, got=before.end)


def _read(
    storage: Storage, path: str, number: int, closed: ClosedLog, known: LogReader | None
) -> tuple[LogReader | None, Exception | None]:
    """A log and what is wrong with it; neither, when its creation was cut short.

    The errors lose their tracebacks, whose frames would keep whole logs alive.
    """
    if known is not None:
        return _checked(read_more(storage, known), closed)
    try:
        contents = read_log(storage, path, number, "log")
    except CorruptionError as error:
        error.__traceback__ = None
        if error.offset is None or error.offset < HEADER_BYTES:
            return None, error
        try:
            return read_log(storage, path, number, "log", stop=error.offset), error
        except (CorruptionError, OSError):
            return None, error
    except (UnsupportedFormatError, OSError) as error:
        return None, error.with_traceback(None)
    return (None, None) if contents is None else _checked(contents, closed)


def _checked(contents: LogReader, closed: ClosedLog) -> tuple[LogReader | None, Exception | None]:
    if contents.number != closed.number or closed.salt in (None, contents.salt):
        return contents, None
    return None, CorruptionError(contents.path, 0, "it is the log of another store")


def _was_replaced_by(log: ChainedLog, following: LogReader) -> bool:
    """Whether ``following`` took the place of ``log``: its creation failed, but its file stayed."""
    contents = log.contents
    return (
        log.error is None
        and contents is not None
        and contents.end == HEADER_BYTES
        and contents.previous_number == following.previous_number
    )


def _was_never_used(log: LogReader, before: LogReader) -> bool:
    """Whether ``before`` took more writes after ``log`` was created."""
    return (
        log.end == HEADER_BYTES
        and log.previous_number == before.number
        and log.previous_end < before.end
    )


def _gap(before: LogReader, log: LogReader) -> tuple[CorruptionError | None, bool]:
    """The error for records missing between logs, and whether they are torn."""
    if log.previous_number != before.number:
        reason = f"it follows log {log.previous_number}, which is missing"
        if log.previous_number < before.number:
            reason = f"it follows log {log.previous_number}, but log {before.number} lies between"
        return CorruptionError(log.path, 0, reason), False
    if log.previous_end > before.end:
        reason = f"records are missing: the log ended at {log.previous_end} when the next was begun"
        return CorruptionError(before.path, before.end, reason), log.durable <= HEADER_BYTES
    return None, False


def _shortfall(log: LogReader, closed: ClosedLog) -> CorruptionError | None:
    if log.end >= closed.end:
        return None
    reason = f"the log ends before {closed.end}, where it was closed"
    return CorruptionError(log.path, log.end, reason)
