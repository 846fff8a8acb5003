"""Loads a saved filter of whatever kind."""

from __future__ import annotations

from typing import Final

from lsmkv.errors import UnsupportedFormatError
from lsmkv.filters.family.blocked import BlockedBloomFilter
from lsmkv.filters.family.classic import BloomFilter, SingleHashFilter
from lsmkv.filters.family.counting import CountingBloomFilter
from lsmkv.filters.family.cuckoo import CuckooFilter
from lsmkv.filters.family.folding import FoldableBloomFilter
from lsmkv.filters.family.fuse import BinaryFuseFilter
from lsmkv.filters.family.partitioned import PartitionedBloomFilter
from lsmkv.filters.family.rolling import RollingBloomFilter, RollingCountingFilter
from lsmkv.filters.family.saved import SavedFilter, SavedParts
from lsmkv.filters.family.sorted_fingerprints import FingerprintFilter
from lsmkv.filters.family.strategies import StrategyBloomFilter

FILTER_CLASSES: Final[tuple[type[SavedFilter], ...]] = (
    BloomFilter,
    SingleHashFilter,
    FoldableBloomFilter,
    PartitionedBloomFilter,
    BlockedBloomFilter,
    CountingBloomFilter,
    RollingBloomFilter,
    RollingCountingFilter,
    FingerprintFilter,
    CuckooFilter,
    BinaryFuseFilter,
    StrategyBloomFilter,
)
"""Every kind of filter that can be saved."""


def load(data: bytes, path: str = "filter") -> SavedFilter:
    """The filter that ``data`` was made from by its ``to_bytes``, whatever its kind.

    Args:
        data: a saved filter.
        path: what errors call the place that the bytes come from.

    Raises:
        CorruptionError: the bytes are damaged, or no saved filter.
        UnsupportedFormatError: they are of a version or kind that this release does not know.

    >>> load(BloomFilter(10, 3).to_bytes())
    BloomFilter(byte_count=10, probe_count=3)
    """
    kind = SavedParts(data, path).kind
    for filter_class in FILTER_CLASSES:
        if kind == filter_class.KIND:
            return filter_class.from_bytes(data, path)
    raise UnsupportedFormatError(path, f"a saved filter of unknown kind {kind}")
