"""Expected counts of lookups, from key ranges and exact rates.

The rules are those of a lookup: it asks each run whose key range holds the key, newest first, until
one has it.  It asks a filter per table before it searches the index, and a filter per block after
that, when the fence keys have named the block.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import lsmkv


@dataclass(frozen=True, slots=True)
class TableSpans:
    """A table's and its blocks' key ranges, with their filters' rates.

    A rate is 1.0 where there is no such filter.
    """

    smallest: bytes
    largest: bytes
    firsts: list[bytes]
    lasts: list[bytes]
    rate: float
    block_rates: list[float]

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


def table_spans(db: lsmkv.DB) -> list[TableSpans]:
    """Every table's spans, newest data first; reads each block once, past the cache."""
    found = []
    for table in db.inspect().tables():
        blocks = list(db.blocks(table.number))
        per_table = table.granularity == "table" and table.filter_bytes > 0
        found.append(
            TableSpans(
                table.smallest,
                table.largest,
                [block.first_key for block in blocks],
                [block.last_key for block in blocks],
                float(table.expected_rate or 0.0) if per_table else 1.0,
                [1.0 if per_table else block.expected_rate for block in blocks],
            )
        )
    return found


def expect_absent(
    tables: Sequence[TableSpans], keys: Sequence[bytes], granularity: str
) -> Expected:
    """Expected counts for these absent keys, if each run is one table.

    O(keys x tables x log blocks).
    """
    per_table = granularity == "table"
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
            rate = table.rate if block is None else table.rate * table.block_rates[block]
            if block is not None:
                reads.append(rate)
            if per_table or block is not None:
                probes += 1
                positives.append(rate)
    return Expected(probes, math.fsum(positives), math.fsum(reads), out_of_range, between)
