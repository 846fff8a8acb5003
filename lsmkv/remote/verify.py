"""Verifies a published store: reads every byte of it once, and reports all damage."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from lsmkv.encoding.checksums import running_content_checksum
from lsmkv.errors import CorruptionError, untraced
from lsmkv.inspection.report import Problem, Progress
from lsmkv.inspection.table_check import UNREADABLE, TableCheck, check_table, open_uncached
from lsmkv.inspection.verify import VerifyReport, run_problems
from lsmkv.read.view import SuperVersion
from lsmkv.remote.bucket import PART_BYTES, Bucket
from lsmkv.remote.generation import Generation, PublishedTable, generation_name, read_generation
from lsmkv.remote.object_file import ObjectFile, OneFile
from lsmkv.stats import Stats


class WholeFile(ObjectFile):
    """An object that is read from start to end, in large parts.  One thread uses it.

    The sections behind the blocks are read first, and held.  After a failed request none is sent.

    Attributes:
        failure: why a request failed.
    """

    def __init__(self, bucket: Bucket, table: PublishedTable, stats: Stats) -> None:
        super().__init__(bucket, table.object_name, table.meta.size_bytes, stats, None)
        self.failure: Exception | None = None
        self._content = table.content
        self._running = running_content_checksum()
        self._blocks_end = table.data_length
        self._part = b""
        self._part_end = 0
        start = table.data_length
        self._tail = b"".join(self._parts(start, self.size))
        self.hold([(start, self._tail)])

    def _parts(self, start: int, end: int) -> list[bytes]:
        return [
            super(WholeFile, self)._read(offset, min(PART_BYTES, end - offset), False)
            for offset in range(start, end, PART_BYTES)
        ]

    def _read(self, offset: int, length: int, keep: bool) -> bytes:
        if self.failure is not None:
            raise untraced(self.failure)
        try:
            if offset < self._part_end - len(self._part):
                return super()._read(offset, length, False)
            while self._part_end < min(offset + length, self._blocks_end):
                self._go_on(offset)
        except Exception as error:
            self.failure = untraced(error)
            raise
        start = offset - (self._part_end - len(self._part))
        return self._part[start : start + length]

    def _go_on(self, offset: int) -> None:
        """Read the next part; bytes before ``offset`` are not needed any more."""
        size = min(PART_BYTES, self._blocks_end - self._part_end)
        read = super()._read(self._part_end, size, False)
        self._running.update(read)
        passed = max(0, offset - (self._part_end - len(self._part)))
        self._part = self._part[passed:] + read
        self._part_end += size

    def content_problem(self) -> Problem | None:
        """The problem of the file as a whole, if it has one."""
        try:
            while self._part_end < self._blocks_end:  # a block that failed may have ended it
                self._go_on(self._part_end)
        except UNREADABLE as error:
            return Problem.of(error, self.path)
        self._running.update(self._tail)
        if self._running.hexdigest() == self._content:
            return None
        return Problem(self.path, None, "checksum of the whole file is not that in its name")


def verify_published(
    bucket: Bucket,
    generation: Generation,
    current: SuperVersion,
    stats: Stats,
    progress: Progress | None,
) -> VerifyReport:
    """Check every byte of the generation and its tables; ``progress`` gets blocks done and in all."""
    problems = run_problems(current) + _generation_problems(bucket, generation)
    total = sum(table.properties.block_count for table in current.version.tables())
    done = itertools.count(1)
    step = None if progress is None else lambda: progress(next(done), total)
    entries = damaged = 0
    for table in generation.tables:
        check = _checked(bucket, table, stats, step)
        problems += check.problems
        entries += check.entry_count
        damaged += len(check.damaged)
    return VerifyReport(
        len(generation.tables), total, entries, damaged, 0, 0, 0, tuple(dict.fromkeys(problems))
    )


def _generation_problems(bucket: Bucket, generation: Generation) -> list[Problem]:
    path = bucket.path(generation_name(generation.number))
    try:
        there = read_generation(bucket, generation.number)
    except FileNotFoundError:
        return [Problem(path, None, "the object is missing")]
    except UNREADABLE as error:
        return [Problem.of(error, path)]
    if there != generation:
        return [Problem(path, None, f"generation {generation.number} was replaced by another")]
    return []


def _checked(
    bucket: Bucket, table: PublishedTable, stats: Stats, step: Callable[[], object] | None
) -> TableCheck:
    try:
        file = WholeFile(bucket, table, stats)
        reader = open_uncached(OneFile(file, stats), file.path, table.meta)
    except UNREADABLE as error:
        return TableCheck(0, (), (Problem.of(error, bucket.path(table.object_name)),))
    check = check_table(reader, step)
    if file.failure is not None and not isinstance(file.failure, CorruptionError):
        return TableCheck(check.entry_count, (), (Problem.of(file.failure, file.path),))
    if problem := file.content_problem():
        return TableCheck(check.entry_count, check.damaged, (*check.problems, problem))
    return check
