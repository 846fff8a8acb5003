"""A model of compaction: the bytes that a fill of evenly spread keys writes.

The store's own picker (:func:`lsmkv.compaction.picker.pick`) chooses the compactions of a tree whose
tables have sizes and key ranges, but no contents.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, pairwise

import numpy

import lsmkv
from bench.workloads.keys import key_number, present_key
from lsmkv.compaction.picker import PickState, pick
from lsmkv.sstable.format import TableMeta
from lsmkv.tree.levels import Levels, PlacedTable

_LEAST_BYTES = 1024  # a table of less would have no room for its own footer


def bytes_written(
    flushes: Sequence[float], key_count: int, options: lsmkv.Options, table_bytes: float
) -> float:
    """Bytes of tables that these flushes and their compactions write.

    Every flush spans keys 0 to ``key_count`` - 1, evenly, and no key is written twice.  ``table_bytes``
    is the size of a full table's file.
    """
    tree, state, numbers = Levels(), PickState(), count(1)
    written = 0.0
    for size in flushes:
        number = next(numbers)
        flushed = _table(number, size, 0, key_count - 1)
        tree = tree.changed([PlacedTable(0, number, flushed)], [])
        written += flushed.size_bytes
        while (chosen := pick(tree, options, state)) is not None:
            inputs = chosen.tables()
            if chosen.move:
                outputs = inputs
            else:
                outputs = [
                    _table(next(numbers), size, first, last)
                    for size, first, last in _merged(inputs, table_bytes)
                ]
                written += sum(table.size_bytes for table in outputs)
            run = outputs[0].number if chosen.output_run is None else chosen.output_run
            added = [PlacedTable(chosen.output_level, run, table) for table in outputs]
            tree = tree.changed(added, [table.number for table in inputs])
    return written


def _table(number: int, size: float, first: int, last: int) -> TableMeta:
    return TableMeta(
        number=number,
        size_bytes=max(_LEAST_BYTES, round(size)),
        smallest=present_key(first),
        largest=present_key(last),
        smallest_seq=0,
        largest_seq=0,
        entry_count=1,
        tombstone_count=0,
    )


def _merged(inputs: Sequence[TableMeta], table_bytes: float) -> list[tuple[float, int, int]]:
    """Size, first and last key of each output of merging these."""
    firsts = numpy.array([key_number(table.smallest) for table in inputs], dtype=float)
    stops = numpy.array([key_number(table.largest) + 1 for table in inputs], dtype=float)
    sizes = numpy.array([table.size_bytes for table in inputs], dtype=float)
    ends = numpy.unique(numpy.concatenate((firsts, stops)))
    # The bytes below each end: from every table its share of the range below.
    parts = numpy.clip((ends[:, None] - firsts) / (stops - firsts), 0, 1)
    below = parts @ sizes
    cuts = numpy.interp(numpy.arange(table_bytes, below[-1], table_bytes), below, ends)
    borders = numpy.unique(numpy.concatenate((ends[:1], numpy.rint(cuts), ends[-1:])))
    masses = numpy.interp(borders, ends, below)
    return [
        (masses[place + 1] - masses[place], int(first), int(stop) - 1)
        for place, (first, stop) in enumerate(pairwise(borders))
    ]
