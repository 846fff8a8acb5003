"""Places adopted tables: as deep in the tree as they fit, as pure functions of the levels.

Their entries are newer than everything in the tree.  So a table fits into a level if it overlaps
neither a table there nor one above.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final

from lsmkv.compaction.picker import LEVELED_RUN, level_target_bytes
from lsmkv.options import Options
from lsmkv.sstable.format import TableMeta
from lsmkv.tree.levels import MAX_LEVELS, Levels, RunMeta

_LARGEST: Final = attrgetter("largest")

Place = tuple[int, int | None]
"""A level, and the run to join; None: a new run there."""

_ON_TOP: Final[Place] = (0, None)


def places(levels: Levels, options: Options, tables: Sequence[TableMeta]) -> list[Place]:
    """The place of each of ``tables``, which do not overlap each other."""
    if options.compaction == "leveled":
        bottom = _bottom(levels, options, tables)
        return [_leveled_place(levels, table, bottom) for table in tables]
    return [_tiered_place(levels, table) for table in tables]


def _bottom(levels: Levels, options: Options, tables: Iterable[TableMeta]) -> int:
    """The deepest level to use: one that ``tables`` do not make too large."""
    added_bytes = sum(table.size_bytes for table in tables)
    level = max(1, levels.deepest)
    while level + 1 < MAX_LEVELS and levels.level_bytes(level) + added_bytes > level_target_bytes(
        level, options
    ):
        level += 1
    return level


def _leveled_place(levels: Levels, table: TableMeta, bottom: int) -> Place:
    place = _ON_TOP
    for level in range(bottom + 1):
        runs = levels.by_depth[level] if level < len(levels.by_depth) else ()
        if any(_overlaps(run, table) for run in runs):
            break
        if level > 0:
            place = level, LEVELED_RUN
    return place


def _tiered_place(levels: Levels, table: TableMeta) -> Place:
    """The oldest run that the table can join: one of its own would wait to be merged."""
    place = _ON_TOP
    for level, runs in enumerate(levels.by_depth):
        for run in runs:
            if _overlaps(run, table):
                return place
            if level > 0:
                place = level, run.number
    return (1, None) if place == _ON_TOP else place


def _overlaps(run: RunMeta, table: TableMeta) -> bool:
    at = bisect_left(run.tables, table.smallest, key=_LARGEST)
    return at < len(run.tables) and run.tables[at].smallest <= table.largest
