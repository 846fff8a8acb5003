"""Sizes of a store's tree."""

from __future__ import annotations

from lsmkv.inspection.store_info import StoreInfo


def run_count(store: StoreInfo) -> int:
    return sum(len(level.runs) for level in store.levels)


def block_count(store: StoreInfo) -> int:
    return sum(table.block_count for table in store.tables())


def filter_disk_bytes(store: StoreInfo) -> int:
    """Bytes of filters in files: a filter per block is in its block and in the filter section."""
    return sum(
        table.filter_bytes * (2 if table.granularity == "block" else 1) for table in store.tables()
    )
