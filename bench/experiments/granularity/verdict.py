"""When filters per table are right, and when filters per block."""

from __future__ import annotations

from typing import Final

from ...harness.intervals import FEWEST_EVENTS
from .rows import Row

ORDERS: Final = {"uniform": "random keys", "hot": "hot keys", "near": "neighbours"}
"""The orders of lookups with cached filters, by their part of column names."""


def filter_read_bytes(row: Row, order: str) -> float:
    """Bytes of filters read for a lookup with cached filters."""
    return float(getattr(row, f"cached_{order}_filter_read_bytes_per_lookup"))


def rocksdb_read_bytes(row: Row, order: str) -> float | None:
    """The same as RocksDB counts it; None where it was not asked."""
    found: float | None = getattr(row, f"rocksdb_{order}_filter_read_bytes_per_lookup")
    return found


def rocksdb_reads(row: Row, order: str) -> float | None:
    found: float | None = getattr(row, f"rocksdb_{order}_filter_reads_per_lookup")
    return found


def filter_reads(row: Row, order: str) -> float:
    """Reads of filters for a lookup with cached filters."""
    return float(getattr(row, f"cached_{order}_filter_reads_per_lookup"))


def rocksdb_by_ours(row: Row, order: str) -> float | None:
    """RocksDB's bytes by those here; None where either counted too few reads for a ratio."""
    theirs, read = rocksdb_read_bytes(row, order), rocksdb_reads(row, order)
    if theirs is None or read is None:
        return None
    if min(read, filter_reads(row, order)) * row.cached_lookups < FEWEST_EVENTS:
        return None
    return theirs / filter_read_bytes(row, order)
