"""The report of a repair."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import ClassVar, Final

from lsmkv.errors import UnsupportedFormatError
from lsmkv.inspection.report import Problem, Report, count, count_entries

LOST_FOLDER: Final = "lost"
"""Folder inside a store to which repair in place moves what is not part of the repaired store."""

_NO_DAMAGE: Final = (errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def raise_unless_damage(error: Exception) -> None:
    """Raise an error of permissions, resources or releases: no bytes are lost."""
    is_other = isinstance(error, OSError) and error.errno in _NO_DAMAGE
    if is_other or isinstance(error, UnsupportedFormatError):
        try:
            raise error
        finally:
            del error  # or its traceback would keep it, and open tables, alive


def left_out(byte_count: int) -> str:
    """The problem of a log that goes on behind its good records.

    >>> left_out(1200)
    '1,200 bytes from the first damaged record on are left out'
    """
    verb = "is" if byte_count == 1 else "are"
    return f"{count(byte_count, 'byte')} from the first damaged record on {verb} left out"


@dataclass(frozen=True, slots=True)
class LostRange(Report):
    """A range of keys with lost entries; lookups in it may find older values.

    Attributes:
        first, last: bounds of the keys, both included; None if no bound is known.
        entry_count: how many entries are lost; None if it is not known (it may be none).
    """

    table: int
    first: bytes | None
    last: bytes | None
    entry_count: int | None
    reason: str

    def __str__(self) -> str:
        low = "the first key" if self.first is None else repr(self.first)
        high = "the last key" if self.last is None else repr(self.last)
        lost = "an unknown number of entries"
        if self.entry_count is not None:
            lost = count_entries(self.entry_count)
        return f"table {self.table}: {lost} from {low} to {high}: {self.reason}"


@dataclass(frozen=True, slots=True)
class RepairReport(Report):
    """The result of a repair: what it kept, and what is lost.

    Attributes:
        path, output: the damaged store, and the repaired one.
        manifest: name of the manifest that named the tables; None if none could be read.
        tables_kept, tables_salvaged, tables_lost: tables that were whole, damaged, and not readable
            at all.
        tables_merged: kept or salvaged tables that were merged, because only their sequence numbers
            tell which is newer.
        tables_ignored: table files that the manifest does not name, or, without one, that other
            tables say they replaced.
        tables_uncertain: numbers of tables that were used although compaction may have replaced
            them, or others that were ingested with them may be missing.
        blocks_kept, blocks_lost: blocks of tables; lost ones are None if a table with losses has lost
            its properties too, which alone tell how many it had.
        entries_kept, entries_lost: entries of tables; lost ones are None if neither the manifest nor
            the index or properties of a table with losses tell how many it had.
        log_records_kept, log_operations_kept: applied records of logs, and operations in them.
        log_bytes_lost: bytes of logs that should have been applied and were not.
        range_deletes_lost: whether the list of range deletes is lost, so that what they erased may
            be there again.
        lost_ranges: ranges of keys with lost entries of tables.
        moved: names of the files that repair in place moved to ``lost``.
    """

    derived: ClassVar[tuple[str, ...]] = ("is_complete",)

    path: str
    output: str
    manifest: str | None
    tables_kept: int
    tables_salvaged: int
    tables_lost: int
    tables_merged: int
    tables_ignored: int
    tables_uncertain: tuple[int, ...]
    blocks_kept: int
    blocks_lost: int | None
    entries_kept: int
    entries_lost: int | None
    log_records_kept: int
    log_operations_kept: int
    log_bytes_lost: int
    range_deletes_lost: bool
    lost_ranges: tuple[LostRange, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    moved: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Whether nothing is lost or outdated; without a manifest as far as files tell."""
        lost = self.lost_ranges or self.log_bytes_lost or self.tables_lost
        return not (lost or self.tables_uncertain or self.range_deletes_lost)

    def __str__(self) -> str:
        known = ": nothing is lost" if self.manifest else ": nothing is known to be lost"
        lines = [
            f"{self.path} repaired into {self.output}" + ("" if not self.is_complete else known),
            f"  tables: {self.tables_kept} kept, {self.tables_salvaged} salvaged, "
            f"{self.tables_lost} lost, {self.tables_merged} merged, {self.tables_ignored} ignored",
            f"  blocks: {self.blocks_kept} kept, {_number(self.blocks_lost)} lost",
            f"  entries: {self.entries_kept} kept, {_number(self.entries_lost)} lost",
            f"  logs: {count(self.log_records_kept, 'record')} kept "
            f"({count(self.log_operations_kept, 'operation')}), "
            f"{count(self.log_bytes_lost, 'byte')} lost",
        ]
        if self.tables_uncertain:
            numbers = ", ".join(map(str, self.tables_uncertain))
            lines.append(
                f"  uncertain: tables {numbers}: nothing tells whether compaction had replaced them, "
                "so keys that were deleted, and values that were overwritten, may reappear from them; "
                "or whether others were ingested with them"
            )
        if self.range_deletes_lost:
            lines.append("  range deletes: lost, so what they erased may be there again")
        if self.moved:
            lines.append(f"  moved to {LOST_FOLDER}: {', '.join(self.moved)}")
        lines += [f"  problem: {problem}" for problem in self.problems]
        lines += [f"  lost: {lost}" for lost in self.lost_ranges]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


def _number(number: int | None) -> str:
    return "an unknown number" if number is None else str(number)
