"""Trees of tables as text drawings, to read and to draw again.

::

          a b c d e f g h i
    L0/4   [4-------]
    L0/3 [3-----------------]
    L1   [1-]   [2--]             1=30K,9del  2=@0

The first line is the ruler: one key in each column that has a letter.  A table's keys are those between
its brackets; its number stands in them.  ``L0/4`` is run 4 of level 0, ``L1`` run 0 of level 1; several
lines may draw one run.  At the end of a line, and after ``=``, stands what is not usual: the size in
KiB (10K), the count of deletions (0del), the highest sequence number (@1).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from lsmkv.sstable.format import TableMeta
from lsmkv.tree.levels import Levels, PlacedTable
from made_trees import KIB, table

_TABLE: Final = re.compile(r"\[(\d+)-*\]")
_LABEL: Final = re.compile(r"L(\d+)(?:/(\d+))?")
_USUAL: Final = {"K": 10, "del": 0, "@": 1}


class Drawing:
    """The columns in which keys and tables are drawn."""

    def __init__(self) -> None:
        self._ruler = ""
        self._columns: dict[int, tuple[int, int]] = {}

    def read(self, lines: Sequence[str]) -> list[PlacedTable]:
        """The tables of a drawing; without a ruler, the last one counts."""
        if lines and "[" not in lines[0]:
            self._ruler, lines = lines[0], lines[1:]
        return [placed for line in lines for placed in self._read_line(line)]

    def _read_line(self, line: str) -> Iterable[PlacedTable]:
        unusual = dict(re.findall(r"(\d+)=(\S+)", line))
        label = _LABEL.match(line)
        for found in _TABLE.finditer(line):
            number = int(found[1])
            self._columns[number] = found.start(), found.end()
            keys = self._ruler[found.start() : found.end()].split()
            assert keys, f"no key stands above table {number}"
            meta = _meta(number, keys[0][0], keys[-1][-1], unusual.get(found[1], ""))
            level = int(label[1]) if label else 0
            run = int(label[2] or 0) if label else 0
            yield PlacedTable(level, run, meta)

    def join(self, number: int, inputs: Iterable[TableMeta]) -> None:
        """Table ``number`` is drawn where ``inputs`` were."""
        starts, ends = zip(*(self._columns[meta.number] for meta in inputs), strict=True)
        self._columns[number] = min(starts), max(ends)

    def draw(self, levels: Levels) -> str:
        if not levels.by_depth:
            return "the tree is empty"
        lines = [self._ruler]
        for level, runs in enumerate(levels.by_depth):
            for run in runs:
                label = f"L{level}/{run.number}" if run.number else f"L{level}"
                lines.append(self._draw_run(label, run.tables))
        return "\n".join(lines)

    def _draw_run(self, line: str, tables: Iterable[TableMeta]) -> str:
        unusual = []
        for meta in tables:
            start, end = self._columns[meta.number]
            width = end - start - 2
            line = f"{line:{start}}[{meta.number:-<{width}}]"
            assert len(line) == end, f"there is too little room for table {meta.number}"
            if words := _unusual(meta):
                unusual.append(f"{meta.number}={words}")
        return f"{line:{len(self._ruler) + 2}}  {' '.join(unusual)}".rstrip()


def _meta(number: int, smallest: str, largest: str, words: str) -> TableMeta:
    said = dict(_USUAL)
    for word in filter(None, words.split(",")):
        said[word.strip("0123456789")] = int(re.sub(r"\D", "", word))
    assert said.keys() == _USUAL.keys(), f"{words!r} has words other than {list(_USUAL)}"
    return table(
        number,
        smallest,
        largest,
        size_bytes=said["K"] * KIB,
        deletions=said["del"],
        seq=said["@"],
    )


def _unusual(meta: TableMeta) -> str:
    words = []
    if meta.size_bytes != _USUAL["K"] * KIB:
        words.append(f"{meta.size_bytes // KIB}K")
    if meta.tombstone_count:
        words.append(f"{meta.tombstone_count}del")
    if meta.largest_seq != _USUAL["@"]:
        words.append(f"@{meta.largest_seq}")
    return ",".join(words)
