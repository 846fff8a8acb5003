"""Sizes of a store's tree."""

from __future__ import annotations

from collections import Counter

import lsmkv
from lsmkv.inspection.store_info import StoreInfo


def run_count(store: StoreInfo) -> int:
    return sum(len(level.runs) for level in store.levels)


def filter_disk_bytes(store: StoreInfo) -> int:
    """Bytes of filters in files: a filter per block is in its block and in the filter section."""
    return sum(
        table.filter_bytes * (2 if table.granularity == "block" else 1) for table in store.tables()
    )


def block_keys(db: lsmkv.DB) -> Counter[int]:
    """The number of blocks by their number of keys."""
    return Counter(
        block.key_count for table in db.inspect().tables() for block in db.blocks(table.number)
    )


def exact_rate(db: lsmkv.DB) -> float:
    """The exact rate of the filters per block as built, weighted by their keys."""
    keys = 0
    passed = 0.0
    for table in db.inspect().tables():
        for block in db.blocks(table.number):
            keys += block.key_count
            passed += block.key_count * block.expected_rate
    return passed / keys
