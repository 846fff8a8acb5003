"""Filters of rows beside filters of rows and columns, in small stores of HBase's kind of keys."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import lsmkv
from lsmkv import DB, DelimitedPrefix, FilterKey, FixedPrefix, Stats, WholeKey

from .figure import Figure

ROWS: Final = 2000
COLUMNS: Final = 8
VALUE: Final = bytes(180)  # cells of about 200 bytes
ROW_BYTES: Final = 8  # "r", six digits, "/"
FILTER_KEYS: Final[tuple[tuple[str, FilterKey], ...]] = (
    ("rows", DelimitedPrefix(b"/")),
    ("rows (fixed length)", FixedPrefix(ROW_BYTES)),
    ("rows and columns", WholeKey()),
)


@dataclass(frozen=True, slots=True)
class Counts:
    """What one store counted.

    Attributes:
        filter_bytes: bytes of all filters in memory.
        absent_row_scans: of scans of "any column" of absent rows.
        absent_column_gets: of lookups of absent columns in present rows.
        absent_row_gets: of lookups of one column in absent rows.
    """

    filter_bytes: int
    absent_row_scans: Stats
    absent_column_gets: Stats
    absent_row_gets: Stats


def rows_and_columns() -> Iterator[Figure]:
    """Blocks that filters of rows, and of rows and columns, let a store skip."""
    counted = {name: _count(filter_key) for name, filter_key in FILTER_KEYS}

    def told(asked: Callable[[Counts], Stats]) -> str:
        return "; ".join(f"{name}: {_skipped_and_read(asked(c))}" for name, c in counted.items())

    yield (
        f"filters of {ROWS:,} rows of {COLUMNS} columns",
        "those of rows are smaller",
        "; ".join(f"{name}: {counts.filter_bytes:,} bytes" for name, counts in counted.items()),
    )
    yield (
        "any column of an absent row, scanned: blocks",
        "filters of rows skip",
        told(lambda counts: counts.absent_row_scans),
    )
    yield (
        "an absent column of a present row, looked up: blocks",
        "only filters of rows and columns skip",
        told(lambda counts: counts.absent_column_gets),
    )
    yield (
        "a column of an absent row, looked up: blocks",
        "both skip",
        told(lambda counts: counts.absent_row_gets),
    )


def _skipped_and_read(stats: Stats) -> str:
    skipped = stats.prefix_filter_skips + stats.filter_negatives
    return f"{skipped:,} skipped, {stats.block_reads:,} read"


def _cell(row: int, column: int) -> bytes:
    return b"r%06d/%02d" % (row, column)


def _count(filter_key: FilterKey) -> Counts:
    """Even rows and even columns are present."""
    options = lsmkv.Options(
        filter_policy="bloom",
        error_rate=0.01,
        filter_key=filter_key,
        block_size_bytes=4096,
        block_cache_size_bytes=0,
        read_around=False,
    )
    with tempfile.TemporaryDirectory() as path, lsmkv.open(path, options) as db:
        with db.write_batch() as batch:
            for row in range(0, 2 * ROWS, 2):
                for column in range(0, 2 * COLUMNS, 2):
                    batch.put(_cell(row, column), VALUE)
        db.compact_range()
        assert _cell(0, 0) in db
        absent_rows = range(1, 2 * ROWS, 2)
        return Counts(
            db.memory_usage().filter_bytes,
            _counted(db, lambda row: any(db.items(prefix=_cell(row, 0)[:ROW_BYTES])), absent_rows),
            _counted(db, lambda row: _cell(row, 7) in db, range(0, 2 * ROWS, 2)),
            _counted(db, lambda row: _cell(row, 8) in db, absent_rows),
        )


def _counted(db: DB, ask: Callable[[int], bool], rows: range) -> Stats:
    before = db.stats()
    found = [row for row in rows if ask(row)]
    if found:
        raise AssertionError(f"absent cells were found: rows {found[:5]}")
    return db.stats() - before
