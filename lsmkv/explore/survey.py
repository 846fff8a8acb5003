"""Reads a store's shape for the map: levels, runs, tables, and cells of blocks.

It reads indexes and filters, but no data block.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Final

from lsmkv import DB, RunInfo, Table, TableInfo
from lsmkv.explore import contract
from lsmkv.explore.contract import part_of
from lsmkv.explore.keys import KeyAxis, on_screen, text_of

WastedReads = Mapping[tuple[int, int], int]
"""How often each block was read, by the numbers of table and block."""

CodecOf = Callable[[Table], str]  # the codec of a table's first block
_SUMMED: Final = [
    field.name for field in fields(TableInfo) if field.name.endswith(("_bytes", "_count"))
]
"""Fields that several tables shown as one have together."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How much detail a map has at most."""

    cells: int = 4000
    tables: int = 400


@dataclass(frozen=True, slots=True)
class _Cell:
    """Blocks ``first`` to ``stop`` (not included) of a table."""

    table: Table
    first: int
    stop: int

    @property
    def from_key(self) -> bytes:
        """What no key of the cell is below."""
        return self.table.separator(self.first)

    @property
    def to_key(self) -> bytes:
        """What no key of the cell is above."""
        return self.table.largest if self.is_last else self.table.separator(self.stop)

    @property
    def is_last(self) -> bool:
        """Whether it ends with its table's largest key."""
        return self.stop == self.table.block_count

    def end_on(self, axis: KeyAxis) -> float:
        return axis.end(self.to_key) if self.is_last else axis.start(self.to_key)

    @property
    def size_bytes(self) -> int:
        return sum(map(self.table.length_bytes, _blocks(self)))


class Survey:
    """The shape of a store, divided into cells; nobody refreshes it meanwhile."""

    def __init__(self, db: DB, extent: Extent) -> None:
        self._path = db.path
        self._info = db.inspect()
        self.tables = {table.number: table for table in db.tables()}
        block_counts = [table.block_count for table in self.tables.values()]
        self._blocks_per_cell = blocks_per_cell(block_counts, extent.cells)
        self._tables_per_item = max(1, math.ceil(len(block_counts) / extent.tables))
        self.axis = KeyAxis(
            (cell.from_key, cell.size_bytes)
            for table in self.tables.values()
            for cell in self._cells(table)
        )

    def _cells(self, table: Table) -> Iterator[_Cell]:
        count = table.block_count
        step = count if self._tables_per_item > 1 else self._blocks_per_cell
        for first in range(0, count, step):
            yield _Cell(table, first, min(count, first + step))

    def as_map(self, wasted: WastedReads, codec_of: CodecOf) -> contract.StoreMap:
        """The map; ``codec_of`` is called for each table that it shows."""

        def run_part(run: RunInfo) -> contract.Run:
            step = self._tables_per_item
            parts = [run.tables[at : at + step] for at in range(0, len(run.tables), step)]
            tables = [self._table(infos, wasted, codec_of) for infos in parts]
            return part_of(contract.Run, run, tables=tables)

        return part_of(
            contract.StoreMap,
            self._info,
            table_count=len(self.tables),
            blocks_per_cell=self._blocks_per_cell,
            levels=[
                part_of(contract.Level, level, runs=list(map(run_part, level.runs)))
                for level in self._info.levels
            ],
        )

    def _table(
        self, infos: tuple[TableInfo, ...], wasted: WastedReads, codec_of: CodecOf
    ) -> contract.Table:
        """One table, or several as one."""
        first, last = infos[0], infos[-1]
        tables = [self.tables[info.number] for info in infos]
        total = sum(info.block_count for info in infos)
        terms = [
            info.expected_rate * info.block_count
            for info in infos
            if info.expected_rate is not None
        ]
        written_at_s = None
        with contextlib.suppress(OSError):  # a compaction may have removed it just now
            written_at_s = os.path.getmtime(os.path.join(self._path, first.file_name))
        return part_of(
            contract.Table,
            first,
            **{name: sum(getattr(info, name) for info in infos) for name in _SUMMED},
            smallest=on_screen(first.smallest),
            largest=on_screen(last.largest),
            smallest_seq=min(info.smallest_seq for info in infos),
            largest_seq=max(info.largest_seq for info in infos),
            expected_rate=math.fsum(terms) / total if len(terms) == len(infos) else None,
            codec=codec_of(tables[0]),
            table_count=len(infos),
            written_at_s=written_at_s,
            start=self.axis.start(first.smallest),
            end=self.axis.end(last.largest),
            cells=self._columns([cell for table in tables for cell in self._cells(table)], wasted),
        )

    def _columns(self, cells: list[_Cell], wasted: WastedReads) -> contract.Cells:
        filters = [_filters_of(cell) for cell in cells]
        first_blocks = []
        blocks = 0
        for cell in cells:
            first_blocks.append(blocks)
            blocks += cell.stop - cell.first
        return contract.Cells(
            first_block=first_blocks,
            from_key=[text_of(cell.from_key) for cell in cells],
            to_key=[text_of(cell.to_key) for cell in cells],
            size_bytes=[cell.size_bytes for cell in cells],
            entry_count=[sum(map(cell.table.entries, _blocks(cell))) for cell in cells],
            filter_bits=[bit_count for bit_count, _, _ in filters],
            parameter=[parameter for _, parameter, _ in filters],
            rate=[rate for _, _, rate in filters],
            start=[self.axis.start(cell.from_key) for cell in cells],
            end=[cell.end_on(self.axis) for cell in cells],
            wasted=[
                sum(wasted.get((cell.table.number, number), 0) for number in _blocks(cell))
                for cell in cells
            ],
        )


def blocks_per_cell(block_counts: list[int], most_cells: int) -> int:
    """The fewest blocks in a cell that give few enough cells.

    Each table has a cell at least.

    >>> blocks_per_cell([10, 10], 20), blocks_per_cell([10, 11], 20), blocks_per_cell([5, 5, 5], 1)
    (1, 2, 5)
    """
    longest = max(block_counts, default=1)
    step = max(1, min(longest, math.ceil(sum(block_counts) / most_cells)))
    while step < longest and (sum(math.ceil(count / step) for count in block_counts) > most_cells):
        step += 1
    return step


def _blocks(cell: _Cell) -> range:
    return range(cell.first, cell.stop)


def _filters_of(cell: _Cell) -> tuple[int, int, float | None]:
    """Bits, parameter and mean exact rate of a cell's filters."""
    filters = [cell.table.filter(number) for number in _blocks(cell)]
    first = filters[0]
    if first.scope == "table":
        return 0, first.probe_count, None
    rates = [filter.expected_rate for filter in filters if filter.expected_rate is not None]
    rate = math.fsum(rates) / len(rates) if len(rates) == len(filters) else None
    return sum(filter.bit_count for filter in filters), first.probe_count, rate
