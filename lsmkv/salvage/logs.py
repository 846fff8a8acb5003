"""Reads damaged logs: the writes that can be applied without a hole."""

from __future__ import annotations

from itertools import pairwise

from lsmkv.encoding.expiry import Held
from lsmkv.encoding.range_deletes import RangeDelete
from lsmkv.errors import CorruptionError
from lsmkv.inspection.report import Problem
from lsmkv.log.batch import decode_batch
from lsmkv.log.chain import ChainedLog, ClosedLog, missing_logs, read_chain
from lsmkv.log.reader import HEADER_BYTES, MAX_LOG_BYTES, LogReader
from lsmkv.salvage.report import left_out, raise_unless_damage
from lsmkv.storage.storage import ReadKind, Storage
from lsmkv.tree.manifest import State


class SalvagedLogs:
    """The writes that logs still hold, up to the first damage.

    Attributes:
        newest: the newest operation on each key, and its sequence number.
        range_deletes: those that may hide entries of tables.
        lost_bytes: bytes of logs that should have been applied, as far as their number is known.
        last_seq: the highest sequence number applied; 0 when none was.
        last_log: number of the last log that was applied, and where its good records end.
    """

    def __init__(
        self, storage: Storage, directory: str, numbers: list[int], state: State | None
    ) -> None:
        self.newest: dict[bytes, tuple[Held, int]] = {}
        self.range_deletes: list[RangeDelete] = []
        self.record_count = self.operation_count = 0
        self.lost_bytes = 0
        self.last_seq = 0
        self.last_log: tuple[int, int] | None = None
        self.problems: list[Problem] = []
        self._storage = storage
        self._closed = closed = ClosedLog() if state is None else state.closed
        first = 0 if state is None else state.log_number
        needed = [number for number in numbers if number >= first]
        chain = read_chain(self._storage, directory, needed, first, closed)
        for log in chain:
            if log.error is not None:
                raise_unless_damage(log.error)
                self._note(log.error, log.path)
        if state is None:  # those from the last log on that does not name its predecessor
            start = 0
            for at, (before, log) in enumerate(pairwise(chain), 1):
                if log.contents is not None and log.contents.previous_number != before.number:
                    start = at
            self._apply(chain[start:], None)
            return
        present = [log.number for log in chain]
        for missing in missing_logs(directory, present, first, closed):
            self._note(missing, missing.path)
        if present[:1] == [first]:
            self._apply(chain, state.last_seq + 1)
        else:
            if closed.number != first:
                self.lost_bytes += HEADER_BYTES  # nothing tells what else it held
            self._give_up(chain)
        if closed.number and closed.number not in present:
            self.lost_bytes += closed.end

    def _apply(self, chain: list[ChainedLog], expected: int | None) -> None:
        """Apply records from number ``expected`` (None: any) to the first hole."""
        for position, log in enumerate(chain):
            contents = log.contents
            if contents is None or (position and log.gap is not None):
                if log.gap is not None:
                    self._note_gap(log.gap, contents, chain[position - 1])
                self._give_up(chain[position:])
                return
            size = self._size(log)
            applied_end, expected = self._replay(contents, expected)
            self.last_log = log.number, contents.end
            closed_end = self._closed_end(log)
            if log.error is None and log.shortfall is not None:
                self._note(log.shortfall, log.path)
            elif log.error is None and contents.end < size:
                reason = left_out(size - contents.end)
                self.problems.append(Problem(log.path, contents.end, reason))
            self.lost_bytes += max(size, closed_end) - applied_end
            if log.error is not None or log.shortfall is not None or applied_end < contents.end:
                self._give_up(chain[position + 1 :])
                return

    def _replay(self, contents: LogReader, expected: int | None) -> tuple[int, int | None]:
        """Apply a log's records; returns the offset reached and the next number."""
        for offset, payload in contents.records():
            try:
                seq, ranges, operations = decode_batch(payload, contents.path, offset)
                if expected is not None and seq != expected:
                    raise CorruptionError(
                        contents.path,
                        offset,
                        "a write is missing before this record",
                        expected=expected,
                        got=seq,
                    )
            except CorruptionError as error:
                self._note(error, contents.path)
                return offset, expected
            for start, stop in ranges:
                self.range_deletes.append((start, stop, seq))
                self.newest = {
                    key: entry
                    for key, entry in self.newest.items()
                    if key < start or (stop is not None and stop <= key)
                }
            for number, (key, value) in enumerate(operations, seq + len(ranges)):
                self.newest[key] = value, number
            expected = seq + len(ranges) + len(operations)
            self.last_seq = expected - 1
            self.record_count += 1
            self.operation_count += len(ranges) + len(operations)
        return contents.end, expected

    def _note_gap(self, gap: CorruptionError, log: LogReader | None, before: ChainedLog) -> None:
        self._note(gap, gap.path)
        if log is not None and log.previous_number == before.number:
            self.lost_bytes += max(0, log.previous_end - self._size(before))

    def _give_up(self, logs: list[ChainedLog]) -> None:
        """Count logs behind a hole as lost, at least with their headers."""
        for log in logs:
            size = max(self._size(log), HEADER_BYTES, self._closed_end(log))
            self.lost_bytes += size
            if log.contents is not None and log.contents.end > HEADER_BYTES:
                reason = "its records are not applied, because writes before them are lost"
                self.problems.append(Problem(log.path, HEADER_BYTES, reason))

    def _closed_end(self, log: ChainedLog) -> int:
        """Where the store was closed with this log; 0 if it was not."""
        return self._closed.end if log.number == self._closed.number else 0

    def _size(self, log: ChainedLog) -> int:
        """The length of a log without its room."""
        if log.error is None and log.contents is not None:
            return log.contents.end + log.contents.torn_bytes
        size = self._storage.file_size(log.path)
        try:
            data = self._storage.read_whole(log.path, ReadKind.LOG, MAX_LOG_BYTES)
        except OSError:
            return size
        written = len(data.rstrip(b"\0"))
        return size if size - written < 8 else written  # the number in a sync mark ends with zeros

    def _note(self, error: Exception, path: str) -> None:
        self.problems.append(Problem.of(error, path))
