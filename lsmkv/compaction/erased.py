"""Range deletes in compactions: which apply, and which tables are worth the work.

A compaction applies every range delete that all snapshots see: it leaves out what they hide, and its
tables note that (``TableMeta.erased_seq``).  A range delete goes once no table needs it any more.
"""

from __future__ import annotations

from typing import Final

from lsmkv.compaction.picker import Compaction, in_place
from lsmkv.encoding.range_deletes import RangeDelete, RangeDeletes
from lsmkv.sstable.format import TableMeta
from lsmkv.sstable.reader import TableReader
from lsmkv.tree.version import Version

_MOST_RANGES: Final = 32
"""With more, every table that one touches is rewritten: each lookup asks them all."""


def applied(version: Version, tables: list[TableMeta], snapshots: list[int]) -> list[RangeDelete]:
    """The range deletes to apply to ``tables``: they have keys there, and every snapshot sees them.

    Also those that hide nothing in them: entries that get the number 0 must count as newer.
    """
    erased = version.range_deletes
    if erased is not None and snapshots:
        erased = erased.as_of(snapshots[0])
    if erased is None:
        return []
    smallest = min(table.smallest for table in tables)
    largest = max(table.largest for table in tables)
    return [
        each
        for each in erased.ranges
        if each[0] <= largest and (each[1] is None or smallest < each[1])
    ]


def pick_erased(version: Version, oldest_view: int) -> Compaction | None:
    """Drop the tables that range deletes hide, or rewrite one in place.

    The latter pays if they hide half of its blocks, or if there are too many of them.
    """
    erased = version.range_deletes
    if erased is not None:
        erased = erased.as_of(oldest_view)
    if erased is None:
        return None
    hidden: list[tuple[TableMeta, ...]] = []
    rewritten: Compaction | None = None
    for run in version.runs:
        hidden_here: list[TableMeta] = []
        for table in run.tables:
            stop = table.meta.above
            if not erased.touches(table.smallest, stop, table.meta.least_seq):
                continue
            if not erased.gaps(table.smallest, stop, table.newest_seq):
                hidden_here.append(table.meta)
            elif (rewritten is None and not hidden) and (
                len(erased.ranges) > _MOST_RANGES or _is_half_hidden(erased, table)
            ):
                rewritten = in_place(version.levels, run.level, run.number, table.meta)
        if hidden_here:
            hidden.append(tuple(hidden_here))
    if hidden:
        return Compaction(tuple(hidden), 0, None, False, drop=True)
    return rewritten


def _is_half_hidden(erased: RangeDeletes, table: TableReader) -> bool:
    """Whether half of the blocks or more are covered.  O(gaps log blocks)."""
    left = 0
    for start, stop in erased.gaps(table.smallest, table.meta.above, table.meta.least_seq):
        first, end = table.block_range(start, stop)
        left += int(end - first)
    return 2 * left <= int(table.index.block_count)
