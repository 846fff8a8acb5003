"""Expected counts of lookups, from key ranges and exact rates.

The rules are those of a lookup: it asks each run whose key range holds the key, newest first, until
one has it.  In each it asks one filter: that of the table, that of the chunk of keys, or that of the
block which the index names.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import lsmkv

from .chunks import ChunkFile


@dataclass(frozen=True, slots=True)
class TableSpans:
    """A table's key range, and the rates of its filters.

    Attributes:
        froms, rates: the key from which on a filter is asked, and its rate: of the table's one filter,
            or of each of its chunks or blocks.  A rate is 1.0 where there is no filter.
    """

    smallest: bytes
    largest: bytes
    froms: list[bytes]
    rates: list[float]

    def rate_of(self, key: bytes) -> float:
        """The rate of the filter that is asked for ``key``."""
        return self.rates[bisect_right(self.froms, key) - 1]


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected counts for absent keys.

    Attributes:
        probes: filters asked.
        block_reads: data blocks read without a cache: one for each key that a filter lets pass.
        out_of_range: runs whose tables do not span the key.
    """

    probes: int
    block_reads: float
    out_of_range: int


def table_spans(db: lsmkv.DB, filters: ChunkFile | None = None) -> list[TableSpans]:
    """Every table's spans, newest data first, with ``filters`` beside a store without any."""
    found = []
    for number, table in enumerate(db.tables()):
        info = table.info()
        if filters is not None:
            chunks = filters.tables[number]
            froms = [chunk.first_key for chunk in chunks]
            rates = [chunk.exact_rate for chunk in chunks]
        elif info.granularity == "table" and info.filter_bytes:
            froms, rates = [info.smallest], [float(info.expected_rate or 0.0)]
        else:
            froms = [table.separator(block) for block in range(table.block_count)]
            rates = [block.expected_rate for block in db.blocks(table.number)]
        found.append(TableSpans(info.smallest, info.largest, froms, rates))
    return found


def expect_absent(tables: Sequence[TableSpans], keys: Sequence[bytes]) -> Expected:
    """Expected counts for these absent keys, if each run is one table.  O(keys x tables x log blocks)."""
    out_of_range = 0
    rates: list[float] = []
    for table in tables:
        for key in keys:
            if table.smallest <= key <= table.largest:
                rates.append(table.rate_of(key))
            else:
                out_of_range += 1
    return Expected(len(rates), math.fsum(rates), out_of_range)
