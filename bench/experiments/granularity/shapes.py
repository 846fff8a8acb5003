"""The trees of the comparison: their load, and a prediction of their tables.

A load consists of flushes of equal size.  Each is awaited with its compactions, so that timing does
not decide the shape.  Every run is one table and every merge takes whole levels, so sizes are
multiples of a flush, far from the thresholds of compaction: the filters' bytes change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import lsmkv
from lsmkv.compaction.picker import Compaction, PickState, output_error_rate, pick
from lsmkv.options import Options
from lsmkv.sstable.format import TableMeta
from lsmkv.tree.levels import Levels, PlacedTable

from ...workloads.keys import KEY_BYTES, Values, chunks, present_key, shuffled

Style = Literal["leveled", "tiered"]
STYLES: Final[tuple[Style, ...]] = ("leveled", "tiered")

SIZE_RATIO: Final = 4
FLUSHES: Final = 127
"""One before the next cascade of compactions: every level is as full as it gets."""

BLOCK_KEYS: Final = 32
"""Keys of a full block: whole bytes of filter at every even number of bits per key."""

BLOCK_BYTES: Final = 4096
VALUE_BYTES: Final = BLOCK_BYTES // BLOCK_KEYS - KEY_BYTES - 7  # 7: as block_size_bytes counts
_ENTRY_BYTES: Final = 124  # an entry's share of a table file, within a few per cent
_LEVEL1_FLUSHES: Final = 7  # between 4 and 8; level 2's 28 lies between 24 and 32


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a tree."""

    style: Style
    flushes: int
    flush_entries: int
    seed: int

    @property
    def entries(self) -> int:
        """The number of entries; no key is written twice."""
        return self.flushes * self.flush_entries

    def options(self) -> Options:
        """The options of the store, without those of its filters."""
        return Options(
            compaction=self.style,
            size_ratio=SIZE_RATIO,
            level0_compaction_trigger=SIZE_RATIO,
            level1_size_bytes=_LEVEL1_FLUSHES * self.flush_entries * _ENTRY_BYTES,
            table_size_bytes=1 << 40,
            block_size_bytes=BLOCK_BYTES,
            fit_pages=False,  # the same blocks with any filters
            compression="none",
        )


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """A table, and the tree at its writing, for Monkey's rate."""

    level: int
    entries: int
    tree: Levels
    removed: tuple[int, ...]
    joined: tuple[int, int | None]

    def error_rate(self, options: Options) -> float:
        return output_error_rate(self.tree, self.removed, self.entries, options, self.joined)


def plan(load: Load) -> list[PlannedTable]:
    """The loaded tree's tables, newest first, by the store's picker."""
    options, state = load.options(), PickState()
    written: dict[int, PlannedTable] = {}
    tree = Levels()
    number = 0
    for _ in range(load.flushes):
        number += 1
        written[number] = PlannedTable(0, load.flush_entries, tree, (), (0, None))
        meta = _meta(number, load.flush_entries)
        tree = tree.changed([PlacedTable(0, number, meta)], [])
        while (chosen := pick(tree, options, state)) is not None:
            number += 1
            tree = _after(tree, chosen, number, written)
    return [
        PlannedTable(placed.level, table.entries, table.tree, table.removed, table.joined)
        for placed in tree.placed()
        for table in [written[placed.meta.number]]
    ]


def _after(
    tree: Levels, chosen: Compaction, number: int, written: dict[int, PlannedTable]
) -> Levels:
    level, inputs = chosen.output_level, chosen.tables()
    removed = tuple(meta.number for meta in inputs)
    run = number if chosen.output_run is None else chosen.output_run
    if chosen.move:
        return tree.changed([PlacedTable(level, run, meta) for meta in inputs], removed)
    entries = sum(meta.entry_count for meta in inputs)
    written[number] = PlannedTable(level, entries, tree, removed, (level, chosen.output_run))
    return tree.changed([PlacedTable(level, run, _meta(number, entries))], removed)


def _meta(number: int, entries: int) -> TableMeta:
    """A table that spans all keys, as with random keys."""
    return TableMeta(
        number=number,
        size_bytes=entries * _ENTRY_BYTES,
        smallest=present_key(0),
        largest=present_key(10**12),
        smallest_seq=0,
        largest_seq=0,
        entry_count=entries,
        tombstone_count=0,
    )


def fill(db: lsmkv.DB, load: Load) -> None:
    """Put the entries; wait for each flush and its compactions."""
    values = Values(VALUE_BYTES, load.seed)
    for numbers in chunks(shuffled(load.entries, load.seed), load.flushes):
        with db.write_batch() as batch:
            for number in numbers:
                batch.put(present_key(number), values.of(number))
        db.flush()
        db.wait_until_settled()
