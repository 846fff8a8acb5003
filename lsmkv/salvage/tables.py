"""Rescues tables: keeps whole ones, and the whole blocks of damaged ones."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from lsmkv.errors import CorruptionError
from lsmkv.filters.keys import filter_key_from_spec
from lsmkv.filters.policy import policy_for
from lsmkv.inspection.report import Problem
from lsmkv.inspection.table_check import check_table, open_uncached
from lsmkv.options import Options
from lsmkv.salvage.damaged_table import LostBlock, TableSalvage
from lsmkv.salvage.report import LostRange, raise_unless_damage
from lsmkv.sstable.block.block import Block
from lsmkv.sstable.format import Footer, TableFormat, TableMeta, TableProperties
from lsmkv.sstable.writer import TableWriter
from lsmkv.storage.file_names import table_path
from lsmkv.storage.storage import Storage
from lsmkv.tree.version_set import table_format


@dataclass(frozen=True, slots=True)
class RescuedTable:
    """A table for the repaired store; ``is_original``: its old file."""

    meta: TableMeta
    path: str
    is_original: bool


@dataclass(slots=True)
class TableRescue:
    """Takes tables one after another, and counts them, their blocks and entries."""

    storage: Storage
    source: str
    target: str
    allocate: Callable[[], int]
    advance: Callable[[int], None]
    form: TableFormat = field(default_factory=lambda: table_format(Options(), Options().error_rate))
    newest_range: int = 0  # range deletes up to it spare a table that lost its properties
    kept: int = 0
    salvaged: int = 0
    lost: int = 0
    blocks_kept: int = 0
    entries_kept: int = 0
    blocks_lost: int | None = 0
    entries_lost: int | None = 0
    lost_ranges: list[LostRange] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    created: list[str] = field(default_factory=list)

    def take(self, number: int, expected: TableMeta | None) -> RescuedTable | None:
        """Table ``number``, or a new one with its whole blocks, or None; ``expected`` by the manifest."""
        path = table_path(self.source, number)
        try:
            size = self.storage.file_size(path)
        except OSError as error:
            raise_unless_damage(error)
            self._lose(number, expected, Problem.of(error, path))
            return None
        rescued = self._keep(number, path, expected)
        if rescued is None:
            rescued = self._salvage(number, path, expected, size)
        self.advance(size)
        return rescued

    def _keep(self, number: int, path: str, expected: TableMeta | None) -> RescuedTable | None:
        """The table if it is whole; else None, and its damage is noted."""
        try:
            table = open_uncached(self.storage, path, expected)
        except (CorruptionError, OSError) as error:
            raise_unless_damage(error)
            self.problems.append(Problem.of(error, path))
            return None
        check = check_table(table)
        self.problems += check.problems
        if check.problems or table.meta.number != number:
            return None
        self.form = form_of(table.properties, table.footer)
        self.kept += 1
        self.blocks_kept += int(table.index.block_count)
        self.entries_kept += table.meta.entry_count
        return RescuedTable(table.meta, path, True)

    def _lose(
        self,
        number: int,
        known: TableMeta | None,
        problem: Problem,
        block_count: int | None = None,
    ) -> None:
        self.lost += 1
        self._note(problem)
        count = None if known is None else known.entry_count
        self.blocks_lost = _added(self.blocks_lost, block_count)
        self.entries_lost = _added(self.entries_lost, count)
        whole = LostBlock(0, problem.reason, entry_count=count)
        self.lost_ranges.append(_lost_range(number, whole, known))

    def _note(self, problem: Problem) -> None:
        """Keep a problem, unless there is one for the same place."""
        if (problem.path, problem.offset) not in {(old.path, old.offset) for old in self.problems}:
            self.problems.append(problem)

    def _salvage(
        self, number: int, path: str, expected: TableMeta | None, size: int
    ) -> RescuedTable | None:
        try:
            sealed_number = 0 if expected is None else expected.sealed_number
            salvage = TableSalvage(self.storage, path, number, sealed_number)
        except OSError as error:
            raise_unless_damage(error)
            self._lose(number, expected, Problem.of(error, path))
            return None
        known = expected
        block_count: int | None = None
        if salvage.properties is not None:
            stored = salvage.properties.meta(size, 0 if expected is None else expected.checksum)
            if expected is not None and stored != expected:
                self._lose(number, expected, Problem(path, None, "it is another table"))
                return None
            known = stored
            block_count = salvage.properties.block_count
        meta, lost, kept_blocks = self._rewrite(salvage, known)
        for damage in salvage.problems:
            self._note(Problem.of(damage, path))
        if meta is None:
            self._lose(
                number, known, Problem(path, None, "no whole block is left in it"), block_count
            )
            return None
        missing = None if known is None else known.entry_count - meta.entry_count
        lost = _counted(lost, missing)
        if missing is None and all(block.entry_count is not None for block in lost):
            missing = sum(block.entry_count or 0 for block in lost)
        missing_blocks = 0 if missing == 0 else None
        if block_count is not None:
            missing_blocks = block_count - kept_blocks
        self.salvaged += 1
        self.blocks_kept += kept_blocks
        self.blocks_lost = _added(self.blocks_lost, missing_blocks)
        self.entries_kept += meta.entry_count
        self.entries_lost = _added(self.entries_lost, missing)
        for block in lost:
            self._note(Problem(path, block.offset, block.reason))
            self.lost_ranges.append(_lost_range(number, block, known))
        return RescuedTable(meta, table_path(self.target, meta.number), False)

    def _rewrite(
        self, salvage: TableSalvage, known: TableMeta | None
    ) -> tuple[TableMeta | None, list[LostBlock], int]:
        """Write the whole blocks to a table; returns it, if any, the lost blocks, and how many it has."""
        form = self.form
        if salvage.properties is not None and salvage.footer is not None:
            with contextlib.suppress(ValueError):  # a filter key that is none
                form = form_of(salvage.properties, salvage.footer)
        erased_seq = self.newest_range if known is None else known.erased_seq
        number = self.allocate()
        path = table_path(self.target, number)
        lost: list[LostBlock] = []
        kept = 0
        writer = TableWriter(self.storage, path, number, replace(form, erased_seq=erased_seq))
        try:
            for offset, item in salvage.blocks():
                if isinstance(item, LostBlock):
                    lost.append(item)
                elif known is not None and not _belongs(item, known):
                    lost.append(LostBlock(offset, "block of another table"))
                else:
                    kept += 1
                    seqs = item.seqs()
                    if known is not None and known.sealed_number:  # an adopted table
                        seqs = [known.largest_seq] * item.count
                    for entry in zip(item.keys(), item.values(), seqs, strict=True):
                        writer.add(*entry)
            if not kept:
                writer.abandon()
                return None, lost, 0
            meta = writer.finish([])
        except BaseException:
            writer.abandon()
            raise
        self.created.append(path)
        return meta, lost, kept


def form_of(properties: TableProperties, footer: Footer) -> TableFormat:
    """The format of a table, for writing another like it; ValueError if its filter key is none."""
    options = Options()
    block_size = footer.data_length // max(1, properties.block_count)  # as stored
    return TableFormat(
        block_size_bytes=min(max(block_size, 256), options.block_size_bytes * 4096),
        fit_pages=options.fit_pages,
        compression="zstd" if footer.data_length < properties.raw_bytes else "none",
        compression_level=options.compression_level,
        dictionary_size_bytes=footer.dictionary_length,
        filter_key=filter_key_from_spec(properties.filter_key).to_spec(),
        granularity=properties.granularity,
        policy=policy_for(properties.filter_scheme, properties.filter_policy).name,
        error_rate=properties.error_rate,
    )


def _belongs(block: Block, known: TableMeta) -> bool:
    keys, seqs = block.keys(), block.seqs()
    if keys[0] < known.smallest or known.largest < keys[-1]:
        return False
    if known.sealed_number:  # an adopted table, whose blocks do not know its sequence number
        return True
    return known.smallest_seq <= min(seqs) and max(seqs) <= known.largest_seq


def _counted(lost: list[LostBlock], missing: int | None) -> list[LostBlock]:
    """Lost blocks, with counts where ``missing`` entries of all tell them."""
    if missing is None:
        return lost
    rest = missing - sum(block.entry_count or 0 for block in lost)
    unknown = [block for block in lost if block.entry_count is None]
    if missing == 0 or rest == 0:
        return [block for block in lost if block.entry_count is not None]
    if len(unknown) == 1:
        return [replace(block, entry_count=rest) if block in unknown else block for block in lost]
    return lost


def _added(total: int | None, more: int | None) -> int | None:
    """The sum; None if either is unknown."""
    return None if total is None or more is None else total + more


def _lost_range(number: int, lost: LostBlock, known: TableMeta | None) -> LostRange:
    first, last = lost.first, lost.last
    if known is not None:
        first = known.smallest if first is None else first
        last = known.largest if last is None else last
    return LostRange(number, first, last, lost.entry_count, lost.reason)
