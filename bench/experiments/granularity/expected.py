"""What look-ups must find, told from the tables' key ranges and their filters' exact rates.

The rules are those of a look-up: each run whose key range holds the key is asked, newest first, until
one has it.  A filter per block is asked once the fence keys have shown which block spans the key; a
filter per table is asked before.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import lsmkv


@dataclass(frozen=True, slots=True)
class TableSpans:
    """A table's key range, those of its blocks, and the exact rates of its filters.

    Attributes:
        rate: of the table's filter; 1.0 when filters are per block, or there are none.
        block_rates: of each block's filter; 1.0 without.
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
    """What absent keys must come to.

    Attributes:
        probes: filters asked.
        false_positives: how often a filter is expected to be wrong.
        block_reads: data blocks expected to be read for that, without a cache.
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
    """What look-ups of these absent keys must come to, each run being one table.

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
