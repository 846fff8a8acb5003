"""Theory of a store of n entries: its levels, its reads, its memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import lsmkv
from bench.workloads.keys import key_number
from lsmkv.inspection.store_info import StoreInfo, TableInfo

_INDEX_BYTES_PER_BLOCK: Final = 3 * 8 + 2 * 4 + 1 + 2 * 4
"""Two fences and an offset of 8 bytes, two numbers of 4, one of 1, and the ends of two keys."""


def level_count(data_bytes: float, options: lsmkv.Options) -> int:
    """Levels below level 0 that a tree needs for its data: a logarithm to the base T.

    Level 0 alone counts 0.  Leveled: the target sizes of the levels must hold the data.  The others: a
    run of level 1 is a compaction of level 0, and a run of each further level is T runs of the level
    above.

    >>> default = lsmkv.Options()
    >>> [level_count(gib * 2**30, default) for gib in (0.2, 0.25, 2, 20, 200)]
    [0, 1, 2, 3, 4]
    """
    flushed = options.write_buffer_size_bytes * options.level0_compaction_trigger
    if data_bytes < flushed:
        return 0
    levels = 1
    if options.compaction == "leveled":
        room = size = options.level1_size_bytes
        while room < data_bytes:
            size *= options.size_ratio
            room += size
            levels += 1
    else:
        while flushed * options.size_ratio**levels <= data_bytes:
            levels += 1
    return levels


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected counts per operation in the store's present state, without a cache.

    Attributes:
        fence_comparisons: steps of the binary searches of an absent lookup: in each run log2 of its
            tables, and log2 of the blocks of the table that spans the key.
        fence_comparisons_least: the same if every run had one array of fences: log2 of its blocks.
        absent_filters: filters that an absent lookup asks.
        filter_rate: exact rate of these filters.
        absent_reads, present_reads, seek_reads: data blocks read.
        seek_reads_without_fences: the same if only a read told where a block begins.
    """

    fence_comparisons: float
    fence_comparisons_least: float
    absent_filters: float
    filter_rate: float
    absent_reads: float
    present_reads: float
    seek_reads: float
    seek_reads_without_fences: float


def expected(store: StoreInfo, entries: int, seek_entries: int) -> Expected:
    """Expected counts for keys that are spread over the whole tree.

    A lookup searches the tables that span the key.  An absent key falls into a block of such a table,
    and not between two, with the chance 1 - blocks / entries; then the lookup asks the block's filter,
    which errs at its exact rate.  A present key costs one block, and the errors of the newer tables.  A
    seek reads a block in each run where it falls into one, because no fence names the next key there,
    and the blocks of the further entries; without fences, a block of each run with keys from there on.
    """
    runs = [
        [_Span.of(table, entries) for table in run.tables]
        for level in store.levels
        for run in level.runs
    ]
    spans = [span for run in runs for span in run]
    asked = math.fsum(span.part * span.inside for span in spans)
    wasted = math.fsum(span.part * span.wasted for span in spans)
    steps = sum(math.log2(len(run) + 1) for run in runs)
    wasted_above = math.fsum(
        own.table.entry_count * own.overlap(other) * other.wasted
        for place, run in enumerate(runs)
        for own in run
        for newer in runs[:place]
        for other in newer
    )
    blocks = sum(span.table.block_count for span in spans)
    gone_on = seek_entries * blocks / store.entry_count
    return Expected(
        fence_comparisons=steps
        + math.fsum(span.part * math.log2(span.table.block_count + 1) for span in spans),
        fence_comparisons_least=math.fsum(
            sum(span.part for span in run)
            * math.log2(sum(span.table.block_count for span in run) + 1)
            for run in runs
        ),
        absent_filters=asked,
        filter_rate=wasted / asked,
        absent_reads=wasted,
        present_reads=1 + wasted_above / store.entry_count,
        seek_reads=asked + gone_on,
        seek_reads_without_fences=sum(run[-1].stop for run in runs) / entries + gone_on,
    )


@dataclass(frozen=True, slots=True)
class _Span:
    """A table, and the keys of its range.

    Attributes:
        first, stop: the numbers of the keys.
        part: their share of all keys.
        inside: the chance that an absent key of the range falls into a block.
        wasted: the chance that it costs a read.
    """

    table: TableInfo
    first: int
    stop: int
    part: float
    inside: float
    wasted: float

    @classmethod
    def of(cls, table: TableInfo, entries: int) -> _Span:
        assert table.expected_rate is not None, (
            "without snapshots the index tells all filters' keys"
        )
        first, stop = key_number(table.smallest), key_number(table.largest) + 1
        inside = 1 - table.block_count / table.entry_count
        part = (stop - first) / entries
        return cls(table, first, stop, part, inside, inside * table.expected_rate)

    def overlap(self, other: _Span) -> float:
        """The share of its keys that the other one spans too."""
        shared = min(self.stop, other.stop) - max(self.first, other.first)
        return max(0, shared) / (self.stop - self.first)


def filter_bytes_per_key(error_rate: float) -> float:
    """A Bloom filter's bytes for each key: -ln p / (ln 2)^2 bits.

    >>> round(filter_bytes_per_key(0.01), 3)
    1.198
    """
    return -math.log(error_rate) / math.log(2) ** 2 / 8


def index_bytes_per_key(entries_per_block: float, key_bytes: int) -> float:
    """Bytes of an index for each key: fences and ends of each block, by its entries.

    >>> index_bytes_per_key(32, 16)
    2.28125
    """
    return (_INDEX_BYTES_PER_BLOCK + 2 * key_bytes) / entries_per_block


def curves(sizes: Sequence[int], first: float, steps: Sequence[float]) -> dict[str, list[float]]:
    """Growth from the first size's figure: constant, with log2 n, with ``steps``, with n.

    >>> curves([2, 4], 5.0, [1, 3])
    {'constant': [5.0, 5.0], 'log2 n': [5.0, 10.0], 'levels': [5.0, 15.0], 'n': [5.0, 10.0]}
    """
    return {
        "constant": [first for _ in sizes],
        "log2 n": [first * math.log2(size) / math.log2(sizes[0]) for size in sizes],
        "levels": [first * step / steps[0] for step in steps],
        "n": [first * size / sizes[0] for size in sizes],
    }
