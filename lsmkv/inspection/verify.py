"""Verifies a store: reads every byte of it and reports all damage."""

from __future__ import annotations

import contextlib
import itertools
import os
from dataclasses import dataclass
from typing import ClassVar

from lsmkv.errors import CorruptionError, NotAStoreError
from lsmkv.inspection.report import Problem, Progress, Report, count, count_entries
from lsmkv.inspection.table_check import UNREADABLE, check_table, open_uncached
from lsmkv.log.batch import decode_batch
from lsmkv.log.chain import MAX_READ_ATTEMPTS, log_numbers, missing_logs, read_chain
from lsmkv.log.reader import LogReader
from lsmkv.read.view import SuperVersion
from lsmkv.sstable.reader import TableReader
from lsmkv.storage.file_names import CURRENT, ERASED, manifest_path
from lsmkv.storage.storage import Storage
from lsmkv.tree.erased_file import read_erased
from lsmkv.tree.manifest import State, read_current, read_manifest


@dataclass(frozen=True, slots=True)
class VerifyReport(Report):
    """The result of verifying a store.

    Attributes:
        table_count, block_count, entry_count: tables and blocks checked, and entries in whole blocks.
        damaged_block_count: damaged blocks.
        log_count, log_record_count: logs whose writes are not in tables yet, and their records.
        torn_bytes: bytes at the ends of logs and manifest that are no records: writes under way, or
            cut short by a crash.  They are no damage.
    """

    derived: ClassVar[tuple[str, ...]] = ("ok",)

    table_count: int
    block_count: int
    entry_count: int
    damaged_block_count: int
    log_count: int
    log_record_count: int
    torn_bytes: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether there is no damage."""
        return not self.problems

    def __str__(self) -> str:
        checked = (
            f"{count(self.table_count, 'table')}, {count(self.block_count, 'block')}, "
            f"{count_entries(self.entry_count)}, {count(self.log_count, 'log')}, "
            f"{count(self.log_record_count, 'log record')}"
        )
        torn = ""
        if self.torn_bytes:
            verb = "is" if self.torn_bytes == 1 else "are"
            torn = f"; {count(self.torn_bytes, 'byte')} at their ends {verb} torn"
        if self.ok:
            return f"ok: {checked}{torn}"
        found = (
            f"{count(len(self.problems), 'problem')}, "
            f"{count(self.damaged_block_count, 'damaged block')}"
        )
        return "\n".join([f"{found} in {checked}{torn}", *(f"  {item}" for item in self.problems)])


def verify_store(
    storage: Storage, directory: str, current: SuperVersion, progress: Progress | None = None
) -> VerifyReport:
    """Check every byte of tables, manifest and logs on disk; ``progress`` gets blocks done and in all."""
    problems = run_problems(current)
    tables = list(current.version.tables())
    total = sum(table.properties.block_count for table in tables)
    entries = damaged = 0
    done = itertools.count(1)
    step = None if progress is None else lambda: progress(next(done), total)
    for table in tables:
        fresh, opening = _opened_anew(storage, directory, table)
        check = check_table(fresh, step)
        problems += [*opening, *check.problems]
        entries += check.entry_count
        damaged += len(check.damaged)
    logs = _check_logs(storage, directory)
    problems += logs.problems
    return VerifyReport(
        len(tables),
        total,
        entries,
        damaged,
        logs.count,
        logs.records,
        logs.torn,
        tuple(dict.fromkeys(problems)),  # the same damage may be found twice
    )


def _opened_anew(
    storage: Storage, directory: str, table: TableReader
) -> tuple[TableReader, list[Problem]]:
    """The table opened from disk; if that fails, ``table`` and the reason."""
    try:
        fresh = open_uncached(storage, table.path, table.meta)
    except UNREADABLE as error:
        # A writer beside this reader removes the tables that it has replaced, and another store may
        # have taken the place of this one.
        state = _read_manifest(storage, directory, _LogCheck())
        if state is not None:
            there = [meta for meta in state.levels.tables() if meta.number == table.meta.number]
            is_missing = not there and isinstance(error, FileNotFoundError)
            if is_missing or (there and there != [table.meta]):
                return table, []
        return table, [Problem.of(error, table.path)]
    return fresh, []


def run_problems(current: SuperVersion) -> list[Problem]:
    """Tables of one run whose key ranges overlap."""
    return [
        Problem(right.path, None, f"it overlaps {os.path.basename(left.path)}, of the same run")
        for run in current.version.runs
        for left, right in itertools.pairwise(run.tables)
        if left.meta.largest >= right.meta.smallest
    ]


class _LogCheck:
    def __init__(self) -> None:
        self.count = self.records = self.torn = 0
        self.problems: list[Problem] = []


def _check_logs(storage: Storage, directory: str) -> _LogCheck:
    """Check CURRENT, manifest and logs; a writer may interfere, so problems count if found twice."""
    earlier: list[Problem] = []
    for _ in range(MAX_READ_ATTEMPTS):
        check = _LogCheck()
        state = _read_manifest(storage, directory, check)
        if state is not None:
            _check_chain(storage, directory, state, check)
        lasting = [problem for problem in check.problems if problem in earlier]
        if lasting == check.problems:
            return check
        earlier = check.problems
    check.problems = lasting
    return check


def _read_manifest(storage: Storage, directory: str, check: _LogCheck) -> State | None:
    """The manifest's state; None if it is damaged or missing."""
    for _ in range(MAX_READ_ATTEMPTS):
        path = os.path.join(directory, CURRENT)
        number: int | None = None
        try:
            number = read_current(storage, directory)
            path = manifest_path(directory, number)
            state, contents = read_manifest(storage, directory, number)
        except NotAStoreError:
            check.problems.append(Problem(path, None, "it is missing"))
            return None
        except UNREADABLE as error:
            if number is not None:
                with contextlib.suppress(NotAStoreError, *UNREADABLE):
                    if read_current(storage, directory) != number:  # a writer has replaced it
                        continue
            check.problems.append(Problem.of(error, path))
            return None
        check.torn += contents.torn_bytes
        try:
            read_erased(storage, directory)
        except UNREADABLE as error:
            check.problems.append(Problem.of(error, os.path.join(directory, ERASED)))
        return state
    check.problems.append(
        Problem(path, None, f"it changed during each of {MAX_READ_ATTEMPTS} attempts")
    )
    return None


def _check_chain(storage: Storage, directory: str, state: State, check: _LogCheck) -> None:
    """Check the logs, and that they follow each other without a gap."""
    first, closed = state.log_number, state.closed
    numbers = log_numbers(storage.list_directory(directory), first)
    chain = read_chain(storage, directory, numbers, first, closed)
    check.count += len(numbers)
    for missing in missing_logs(directory, [log.number for log in chain], first, closed):
        check.problems.append(Problem.of(missing, missing.path))
    expected: int | None = state.last_seq + 1
    for log in chain:
        problems = [log.error] if log.error is not None else [log.gap, log.shortfall]
        check.problems += [Problem.of(problem, log.path) for problem in problems if problem]
        if log.error is not None or log.gap is not None:
            expected = None
        if log.error is None and log.contents is not None:
            check.torn += log.contents.torn_bytes
            expected = _check_records(log.contents, expected, check)


def _check_records(contents: LogReader, expected: int | None, check: _LogCheck) -> int | None:
    """Check each batch of a log; returns the next sequence number, if known."""
    for offset, payload in contents.records():
        check.records += 1
        try:
            seq, ranges, operations = decode_batch(payload, contents.path, offset)
        except CorruptionError as error:
            check.problems.append(Problem.of(error, contents.path))
            expected = None
            continue
        if expected is not None and seq != expected:
            reason = f"a write is missing before this record (expected {expected}, got {seq})"
            check.problems.append(Problem(contents.path, offset, reason))
        expected = seq + len(ranges) + len(operations)
    return expected
