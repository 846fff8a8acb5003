"""One configuration of ``compaction``, and the options of its store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import lsmkv
from lsmkv.options import CompactionStyle, FilterAllocation

SCALE: Final = 4096  # sizes of write buffer, tables and levels are the defaults divided by this


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One configuration.

    Attributes:
        key_count: keys that the load draws from.
        chunk_count: write buffers of the load; its second half is measured.
        stride: reads are measured after every ``stride`` chunks.
    """

    load: str
    style: CompactionStyle
    size_ratio: int
    error_rate: float
    allocation: FilterAllocation
    key_count: int
    chunk_count: int
    stride: int
    seed: int

    def __str__(self) -> str:
        return (
            f"{self.load} {self.key_count}, {self.style} T={self.size_ratio}, "
            f"{self.error_rate * 100:g} % {self.allocation}"
        )

    def options(self) -> lsmkv.Options:
        """The options of the store: the defaults scaled down, the cache off; one kind in every build."""
        default = lsmkv.Options()
        return lsmkv.Options(
            compaction=self.style,
            size_ratio=self.size_ratio,
            filter_policy="bloom",
            error_rate=self.error_rate,
            filter_allocation=self.allocation,
            write_buffer_size_bytes=default.write_buffer_size_bytes // SCALE,
            table_size_bytes=default.table_size_bytes // SCALE,
            level1_size_bytes=default.level1_size_bytes // SCALE,
            read_compaction_rate_bytes=0,  # only writes shape the tree
            block_cache_size_bytes=0,
            compression="none",
        )
