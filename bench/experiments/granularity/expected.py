"""Expected counts of lookups, from key ranges and exact rates.

The rules are those of a lookup: it asks each run whose key range holds the key, newest first, until
one has it.  It asks a filter per table, or per chunk of its keys, before it searches the index of
blocks, and a filter per block after that, when the fence keys have named the block.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import lsmkv
from bench.experiments.granularity.chunks import ChunkFile


@dataclass(frozen=True, slots=True)
class TableSpans:
    """A table's and its blocks' key ranges, with their filters' rates.

    A rate is 1.0 where there is no such filter.

    Attributes:
        chunk_firsts, rates: the first key and the rate of each filter of the table: of its one filter
            for all keys, or of each of its chunks.
    """

    smallest: bytes
    largest: bytes
    firsts: list[bytes]
    lasts: list[bytes]
    chunk_firsts: list[bytes]
    rates: list[float]
    block_rates: list[float]

    def rate_of(self, key: bytes) -> float:
        """The rate of the table's filter that covers ``key``."""
        return self.rates[max(0, bisect_right(self.chunk_firsts, key) - 1)]

    def block_of(self, key: bytes) -> int | None:
        """The block that spans ``key``; None when it lies between two."""
        at = bisect_left(self.lasts, key)
        return at if self.firsts[at] <= key else None


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected counts for absent keys.

    Attributes:
        probes: filters asked.
        block_reads: data blocks read without a cache.
        out_of_range: runs whose tables do not span the key.
        between_blocks: runs in which the key lies between two blocks.
    """

    probes: int
    false_positives: float
    block_reads: float
    out_of_range: int
    between_blocks: int


def table_spans(db: lsmkv.DB, filters: ChunkFile | None = None) -> list[TableSpans]:
    """Every table's spans, newest data first; reads each block once, past the cache.

    ``filters`` are those beside a store without filters.
    """
    found = []
    for number, table in enumerate(db.inspect().tables()):
        blocks = list(db.blocks(table.number))
        per_table = table.granularity == "table" and table.filter_bytes > 0
        firsts, rates = [table.smallest], [float(table.expected_rate or 0.0) if per_table else 1.0]
        if filters is not None:
            firsts = [chunk.first_key for chunk in filters.tables[number]]
            rates = [chunk.exact_rate for chunk in filters.tables[number]]
        found.append(
            TableSpans(
                table.smallest,
                table.largest,
                [block.first_key for block in blocks],
                [block.last_key for block in blocks],
                firsts,
                rates,
                [1.0 if per_table else block.expected_rate for block in blocks],
            )
        )
    return found


def expect_absent(
    tables: Sequence[TableSpans], keys: Sequence[bytes], filter_first: bool
) -> Expected:
    """Expected counts for these absent keys, if each run is one table.

    ``filter_first`` tells that a table's filter is asked before its index is searched.
    O(keys x tables x log blocks).
    """
    probes = out_of_range = between = 0
    positives: list[float] = []
    reads: list[float] = []
    for table in tables:
        for key in keys:
            if not table.smallest <= key <= table.largest:
                out_of_range += 1
                continue
            block = table.block_of(key)
            between += block is None
            rate = table.rate_of(key)
            if block is not None:
                rate *= table.block_rates[block]
            if block is not None:
                reads.append(rate)
            if filter_first or block is not None:
                probes += 1
                positives.append(rate)
    return Expected(probes, math.fsum(positives), math.fsum(reads), out_of_range, between)
