"""Reading damaged logs: what of a chain of logs can be applied without leaving a hole."""

from __future__ import annotations

from dataclasses import dataclass, field

from lsmkv.encoding.entries import Value
from lsmkv.errors import CorruptionError
from lsmkv.inspection.report import Problem
from lsmkv.inspection.verify import was_given_up
from lsmkv.log.batch import decode_batch
from lsmkv.log.reader import HEADER_BYTES, MAX_LOG_BYTES, LogReader, read_log
from lsmkv.salvage.report import left_out, raise_unless_damage
from lsmkv.storage.file_names import log_path
from lsmkv.storage.storage import ReadKind, Storage
from lsmkv.tree.manifest import State


@dataclass(slots=True)
class SalvagedLogs:
    """What a store's logs still tell.

    Attributes:
        newest: the newest operation on each key, and its sequence number.
        record_count, operation_count: records applied, and operations in them.
        lost_bytes: bytes of logs that were not applied, though they were to be; those that are
            missing from the files too, where something tells of them.
        last_seq: the highest sequence number applied; 0 when none was.
        last_log: number of the last log that was applied, and where its good records end.
        ignored: logs that are not needed, because tables hold what they held.
        problems: what is wrong with the logs.
    """

    newest: dict[bytes, tuple[Value, int]] = field(default_factory=dict)
    record_count: int = 0
    operation_count: int = 0
    lost_bytes: int = 0
    last_seq: int = 0
    last_log: tuple[int, int] | None = None
    ignored: list[int] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Log:
    """One log file: its good records, if it has any, and whether damage follows them."""

    number: int
    path: str
    size: int
    contents: LogReader | None
    is_damaged: bool

    @property
    def end(self) -> int:
        """Where its good records end."""
        return 0 if self.contents is None else self.contents.end


def salvage_logs(
    storage: Storage, directory: str, numbers: list[int], state: State | None
) -> SalvagedLogs:
    """Read the logs ``numbers``, oldest first, up to the first damage.

    With the manifest's ``state``, the logs from the one it names on count, and each must follow the
    one before.  Without it, those count that follow each other up to the last: logs are removed in
    order, once their writes are in tables, so that what stands before a missing log is not needed.

    Raises:
        UnsupportedFormatError: a log is in another format version.
    """
    result = SalvagedLogs()
    first = 0 if state is None else state.log_number
    result.ignored = [number for number in numbers if number < first]
    read = [
        _own(_read(storage, directory, number, result), state, result)
        for number in numbers
        if number >= first
    ]
    logs = _begun(read)
    if state is None:
        start = _chain_start(logs)
        result.ignored += [log.number for log in logs[:start]]
        _apply(logs[start:], None, (0, 0), result)
        return result
    closed = state.closed_log or (0, 0)
    if logs and logs[0].number == state.log_number:
        _apply(logs, state.last_seq + 1, closed, result)
    else:
        path = log_path(directory, state.log_number)
        reason = "the log that the manifest names is missing, or cut short inside its header"
        result.problems.append(Problem(path, None, reason))
        if closed[0] != state.log_number:
            result.lost_bytes += HEADER_BYTES  # it was begun; what else it held nobody knows
        _give_up(logs, closed, result)
    if closed[0] and closed[0] not in [log.number for log in logs]:
        path = log_path(directory, closed[0])
        if closed[0] != state.log_number:
            reason = "the log that the store was closed with is missing"
            result.problems.append(Problem(path, None, reason))
        result.lost_bytes += closed[1]
    return result


def _read(storage: Storage, directory: str, number: int, result: SalvagedLogs) -> _Log:
    path = log_path(directory, number)
    try:
        contents = read_log(storage, path, number, "log")
    except (CorruptionError, OSError) as error:
        raise_unless_damage(error)
        result.problems.append(Problem.of(error, path))
        size = _written_bytes(storage, path)
        end = error.offset if isinstance(error, CorruptionError) else None
        if end is None or end < HEADER_BYTES:
            return _Log(number, path, size, None, True)
        return _Log(number, path, size, _prefix(storage, path, number, end), True)
    size = storage.file_size(path) if contents is None else contents.end + contents.torn_bytes
    return _Log(number, path, size, contents, False)


def _written_bytes(storage: Storage, path: str) -> int:
    """How long a damaged log is, without the zeros at its end, if they are room for more."""
    size = storage.file_size(path)
    try:
        written = len(storage.read_whole(path, ReadKind.LOG, MAX_LOG_BYTES).rstrip(b"\0"))
    except OSError:
        return size
    return size if size - written < 8 else written  # the number in a sync mark ends with zeros, too


def _own(log: _Log, state: State | None, result: SalvagedLogs) -> _Log:
    """The log, or nothing of it if it is not the one that the store was closed with."""
    if state is None or state.closed_log is None or log.contents is None:
        return log
    if state.closed_log[0] != log.number or state.closed_salt in (None, log.contents.salt):
        return log
    result.problems.append(Problem(log.path, 0, "it is the log of another store"))
    return _Log(log.number, log.path, log.size, None, True)


def _prefix(storage: Storage, path: str, number: int, end: int) -> LogReader | None:
    """The good records before the damage at ``end``."""
    try:
        return read_log(_CutStorage(storage, end), path, number, "log")
    except CorruptionError:
        return None


class _CutStorage(Storage):
    """Shows only the beginning of a file."""

    def __init__(self, storage: Storage, end: int) -> None:
        super().__init__(storage.stats)
        self._end = end

    def read_whole(self, path: str, kind: ReadKind, limit: int, start: int = 0) -> bytes:
        return super().read_whole(path, kind, limit, start)[: self._end - start]


def _begun(logs: list[_Log]) -> list[_Log]:
    """Without those whose making was cut short or given up: nothing was ever written to them."""
    begun: list[_Log] = []
    for log in logs:
        contents = log.contents
        if contents is None and not log.is_damaged:
            continue
        if contents is not None and len(begun) > 1:
            last = begun[-1].contents
            if last is not None and not begun[-1].is_damaged and was_given_up(last, contents):
                begun.pop()
        begun.append(log)
    return begun


def _chain_start(logs: list[_Log]) -> int:
    """The position of the last log that does not follow the one before it."""
    start = 0
    for position in range(1, len(logs)):
        contents = logs[position].contents
        if contents is not None and contents.previous_number != logs[position - 1].number:
            start = position
    return start


def _apply(
    logs: list[_Log], expected: int | None, closed: tuple[int, int], result: SalvagedLogs
) -> None:
    """Apply the records of a chain of logs, up to the first hole.

    ``expected`` is the first sequence number, where that is known; ``closed`` number and end of the
    log that the store was closed with, 0 when it was not.
    """
    before: _Log | None = None
    for position, log in enumerate(logs):
        contents = log.contents
        if contents is None or (before is not None and not _follows(before, contents, result)):
            _give_up(logs[position:], closed, result)
            return
        applied_end, expected = _replay(contents, expected, result)
        result.last_log = log.number, contents.end
        closed_end = closed[1] if closed[0] == log.number else 0
        if not log.is_damaged and contents.end < max(log.size, closed_end):
            reason = left_out(log.size - contents.end)
            if contents.end < closed_end:
                reason = f"the log ends before {closed_end}, where it was closed"
            result.problems.append(Problem(log.path, contents.end, reason))
        result.lost_bytes += max(log.size, closed_end) - applied_end
        if log.is_damaged or contents.end < closed_end or applied_end < contents.end:
            _give_up(logs[position + 1 :], closed, result)
            return
        before = log


def _follows(before: _Log, contents: LogReader, result: SalvagedLogs) -> bool:
    """Whether nothing is missing between the log ``before`` and the next one."""
    if contents.previous_number != before.number:
        reason = f"it follows log {contents.previous_number}, which is missing"
        result.problems.append(Problem(contents.path, 0, reason))
        return False
    if contents.previous_end > before.end:
        reason = f"the log ended at {contents.previous_end} when the next one was begun"
        result.problems.append(Problem(before.path, before.end, reason))
        result.lost_bytes += max(0, contents.previous_end - before.size)
        return False
    return True


def _replay(
    contents: LogReader, expected: int | None, result: SalvagedLogs
) -> tuple[int, int | None]:
    """Apply a log's records: up to which offset that went, and the sequence number to follow."""
    for offset, payload in contents.records():
        try:
            seq, operations = decode_batch(payload, contents.path, offset)
            if expected is not None and seq != expected:
                raise CorruptionError(
                    contents.path,
                    offset,
                    "a write is missing before this record",
                    expected=expected,
                    got=seq,
                )
        except CorruptionError as error:
            result.problems.append(Problem.of(error, contents.path))
            return offset, expected
        for number, (key, value) in enumerate(operations, seq):
            result.newest[key] = value, number
        expected = seq + len(operations)
        result.last_seq = expected - 1
        result.record_count += 1
        result.operation_count += len(operations)
    return contents.end, expected


def _give_up(logs: list[_Log], closed: tuple[int, int], result: SalvagedLogs) -> None:
    """Count logs that stand behind a hole, or have no header, as lost.

    Each has been at least a header, or as long as it was when the store was closed with it.
    """
    for log in logs:
        closed_end = closed[1] if closed[0] == log.number else 0
        result.lost_bytes += max(log.size, HEADER_BYTES, closed_end)
        if log.end > HEADER_BYTES:
            reason = "its records are not applied, because writes before them are lost"
            result.problems.append(Problem(log.path, HEADER_BYTES, reason))
