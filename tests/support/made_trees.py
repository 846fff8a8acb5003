"""Trees made by hand for picking compactions, with options for level sizes."""

from __future__ import annotations

from lsmkv.options import CompactionStyle, Options
from lsmkv.sstable.format import TableExpiry, TableMeta
from lsmkv.tree.levels import Levels, PlacedTable

KIB = 1024
STYLES: tuple[CompactionStyle, ...] = ("leveled", "tiered", "lazy-leveled")

# Levels of 40 KiB, 160 KiB, ...; four runs make a level full.
OPTIONS = Options(
    size_ratio=4,
    level0_compaction_trigger=4,
    level1_size_bytes=40 * KIB,
    write_buffer_size_bytes=8 * KIB,
)
LEVELED, TIERED, LAZY = (OPTIONS.replace(compaction=style) for style in STYLES)


def table(
    number: int,
    smallest: str,
    largest: str,
    *,
    size_bytes: int = 10 * KIB,
    entries: int = 100,
    deletions: int = 0,
    seq: int = 1,
    expiry: TableExpiry | None = None,
) -> TableMeta:
    return TableMeta(
        number=number,
        size_bytes=size_bytes,
        smallest=smallest.encode(),
        largest=largest.encode(),
        smallest_seq=0,
        largest_seq=seq,
        entry_count=entries,
        tombstone_count=deletions,
        expiry=expiry,
    )


def tree(placed: dict[tuple[int, int], list[TableMeta]]) -> Levels:
    """A tree of these tables, by level and run."""
    return Levels().changed(
        [PlacedTable(level, run, meta) for (level, run), metas in placed.items() for meta in metas],
        (),
    )


def level0(
    run_count: int, smallest: str = "a", largest: str = "z"
) -> dict[tuple[int, int], list[TableMeta]]:
    """Level 0 with so many runs of one table, numbered from 101."""
    return {
        (0, number): [table(number, smallest, largest)] for number in range(101, 101 + run_count)
    }
