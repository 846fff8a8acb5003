"""The story of ``granularity``: failures, and the section of a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lsmkv.options import KIB

from ...harness.story import Story
from .charts import charts
from .groups import (
    BLOCK_BLOOM,
    PARTITION_BLOOM,
    TABLE_BLOOM,
    at_budget,
    budgets,
    contender,
    kind,
    reads_at,
    styles,
    typical_budget,
)
from .rows import Row
from .tables import summary, tables
from .verdict import (
    ORDERS,
    filter_read_bytes,
    filter_reads,
    rocksdb_read_bytes,
)

BUDGET_TOLERANCE: Final = 0.05  # the largest accepted deviation of filter memory from its budget
CHUNK_TOLERANCE: Final = 0.05
"""The largest accepted deviation of the wasted reads of chunks from those per table, by exact rates."""

ROCKSDB_FACTOR: Final = 3.0
"""The largest accepted factor between RocksDB's bytes of partitions read and those here."""

ROCKSDB_CACHE_BYTES: Final = 128 * KIB
"""From this cache on they are compared: in a smaller one RocksDB's other blocks take the room."""

_ROCKSDB_READS: Final = 100  # fewer are too few to compare


def story(rows: list[Row]) -> Story:
    """Tables and charts; failures where counts contradict each other."""
    first = summary(rows, styles(rows)[0]) if budgets(rows) else None
    found = tables(rows)
    return Story(found, charts(rows), failures(rows), first, _headline(rows))


def _headline(rows: Sequence[Row]) -> str:
    if not budgets(rows):
        return ""
    bits, style = typical_budget(rows), styles(rows)[0]
    block, table = (
        reads_at(at_budget(rows, style, wanted, "uniform", bits), bits)
        for wanted in (BLOCK_BLOOM, TABLE_BLOOM)
    )
    return (
        f"At {bits:g} bits per key an absent key reads {block:.4f} blocks with filters per block, "
        f"{table:.4f} with filters per table ({style}, exact rates)."
    )


def failures(rows: Sequence[Row]) -> list[str]:
    """The broken promises."""
    found = []
    for style in styles(rows):
        shapes = {row.shape for row in rows if row.style == style}
        if len(shapes) > 1:
            found.append(f"{style} trees have different shapes: {' and '.join(sorted(shapes))}")
    for row in rows:
        name = f"{row.style}, {contender(row)}"
        if row.wrong_answers:
            found.append(f"{name}: {row.wrong_answers} wrong answers")
        if row.miscounted:
            found.append(f"{name}: counters are off by {row.miscounted} from the key ranges")
        budget = row.budget_bits_per_key
        if budget is not None and contender(row).meets_any_budget:
            off = abs(row.filter_bits_per_key / budget - 1)
            if off > BUDGET_TOLERANCE:
                found.append(f"{name}: {off:.1%} off its budget of {budget:g} bits per key")
        found += _chunk_failures(row, rows) + _rocksdb_failures(row)
    return found


def _chunk_failures(row: Row, rows: Sequence[Row]) -> list[str]:
    """Filters of chunks must be as good as those per table."""
    budget = row.budget_bits_per_key
    if contender(row).chunk_bytes is None or budget is None:
        return []
    table = at_budget(rows, row.style, TABLE_BLOOM, row.allocation, budget)  # type: ignore[arg-type]
    apart = abs(reads_at(row, budget) / reads_at(table, budget) - 1)
    if apart <= CHUNK_TOLERANCE:
        return []
    return [
        f"{row.style}, {contender(row)}, {budget:g} bits: wasted reads {apart:.1%} from those per table"
    ]


def _rocksdb_failures(row: Row) -> list[str]:
    """RocksDB must read about as many bytes of partitions as are read here."""
    cache_bytes = row.filter_bytes * row.cached_share
    if kind(row) != PARTITION_BLOOM or cache_bytes < ROCKSDB_CACHE_BYTES:
        return []
    found = []
    for order, words in ORDERS.items():
        ours, theirs = filter_read_bytes(row, order), rocksdb_read_bytes(row, order)
        if theirs is None or filter_reads(row, order) * row.cached_lookups < _ROCKSDB_READS:
            continue
        if not 1 / ROCKSDB_FACTOR <= theirs / ours <= ROCKSDB_FACTOR:
            found.append(
                f"{row.style}, {contender(row)}, {words}: RocksDB reads {theirs:,.0f} bytes of filters "
                f"for a lookup, {ours:,.0f} are read here"
            )
    return found
