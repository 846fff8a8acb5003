"""Blocks that a compaction copies as they are stored.

They are not decoded, not compressed again, and keep their filters.  Only their checksums are made anew,
because these depend on the table and the offset.
"""

from __future__ import annotations

from mypy_extensions import i64

from lsmkv.sstable.reader import TableReader
from lsmkv.sstable.table_file import NewBlock


class StoredBlocks:
    """Blocks ``first`` to ``end`` (not included) of a table, at least one."""

    def __init__(self, table: TableReader, first: i64, end: i64) -> None:
        self.table = table
        self.first = first
        self.end = end

    @property
    def count(self) -> int:
        return int(self.end - self.first)

    @property
    def entry_count(self) -> int:
        return sum(map(self.table.index.entry_count, range(int(self.first), int(self.end))))

    def new_block(self, frame: bytes, number: i64, first: bytes | None) -> NewBlock:
        """Block ``number``, which is stored as ``frame``, for another table.

        ``first`` is its first key; None for a block that follows the one before it there, too.
        """
        table = self.table
        stored, bits, trailer = table.checked_frame(frame, number)
        return NewBlock(
            first or b"",
            b"",
            stored,
            trailer.codec,
            trailer.raw_length,
            trailer.entry_count,
            bits,
            trailer.filter_scheme,
            trailer.filter_key_count,
            trailer.probe_count,
            table.largest_seq,
            table.largest_seq,
            table.index.separator(number) if first is None else None,
        )
