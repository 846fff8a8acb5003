"""The contenders: what one filter covers, its kind and allocation, and the memory of all."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from lsmkv.filters.maths.sizing import filter_bytes_for, keys_for
from lsmkv.options import KIB, FilterAllocation, Options

from ...harness.ribbon_sizes import expected_bytes
from .shapes import BLOCK_KEYS, PlannedTable

Policy = Literal["none", "bloom", "ribbon"]
Granularity = Literal["block", "partition", "chunk", "table"]

CHUNK_BYTES: Final[dict[Granularity, int]] = {"partition": 4 * KIB, "chunk": 128 * KIB}
"""The most bytes of one filter of consecutive keys.

Partitions are RocksDB's (``partition_filters`` with the default ``metadata_block_size``), chunks
HBase's (the default ``io.storefile.bloom.block.size``).  lsmkv has neither: the experiment adds them.
"""

_NAMES: Final[dict[Granularity, str]] = {
    "block": "per block",
    "partition": "per 4 KiB partition (RocksDB's)",
    "chunk": "per 128 KiB chunk (HBase's)",
    "table": "per table",
}

_HALVINGS: Final = 40
_MOST_NATS: Final = 30.0  # -ln of the lowest rate tried


@dataclass(frozen=True, slots=True)
class Contender:
    """One use of filter memory."""

    granularity: Granularity
    policy: Policy
    allocation: FilterAllocation

    @property
    def kind(self) -> str:
        """Granularity and filter in words."""
        return (
            "no filters" if self.policy == "none" else f"{_NAMES[self.granularity]}, {self.policy}"
        )

    def __str__(self) -> str:
        return f"{self.kind}{', Monkey' if self.allocation == 'monkey' else ''}"

    @property
    def chunk_bytes(self) -> int | None:
        """The most bytes of a filter that the experiment adds; None where the store has filters."""
        return CHUNK_BYTES.get(self.granularity)

    @property
    def asks_filter_first(self) -> bool:
        """Whether a filter is asked before the index of blocks is searched."""
        return self.policy != "none" and self.granularity != "block"

    def options(self, base: Options, error_rate: float) -> Options:
        """``base`` with these filters; without any where the experiment adds them."""
        return base.replace(
            filter_granularity="block" if self.granularity == "block" else "table",
            filter_policy="none" if self.chunk_bytes else self.policy,
            filter_allocation=self.allocation,
            error_rate=error_rate,
        )

    @property
    def meets_any_budget(self) -> bool:
        """Whether its filters can have any size; a large ribbon filter has whole columns."""
        return (self.granularity, self.policy) != ("table", "ribbon")

    def table_bytes(self, entries: int, error_rate: float) -> float:
        """The bytes of a table's filters; of ribbon filters the mean."""
        if self.granularity == "table":
            return filter_bytes(self.policy, entries, error_rate)
        covered = BLOCK_KEYS
        if self.chunk_bytes:
            covered = keys_within(self.chunk_bytes, error_rate)
        full, rest = divmod(entries, covered)
        return full * filter_bytes(self.policy, covered, error_rate) + filter_bytes(
            self.policy, rest, error_rate
        )

    def memory_bytes(
        self, tables: Sequence[PlannedTable], base: Options, error_rate: float
    ) -> float:
        options = self.options(base, error_rate)
        return sum(self.table_bytes(table.entries, table.error_rate(options)) for table in tables)

    def rate_for(self, tables: Sequence[PlannedTable], base: Options, budget_bytes: float) -> float:
        """The ``error_rate`` whose filters come nearest to a budget, by bisection of its logarithm."""
        low, high = 0.0, _MOST_NATS
        best, nearest = math.exp(-high), math.inf
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            rate = math.exp(-middle)
            over = self.memory_bytes(tables, base, rate) - budget_bytes
            if abs(over) < nearest:
                best, nearest = rate, abs(over)
            if over == 0:
                break
            low, high = (low, middle) if over > 0 else (middle, high)
        return best


def keys_within(chunk_bytes: int, error_rate: float) -> int:
    """The most keys whose Bloom filter has at most ``chunk_bytes``; at least 1.

    >>> keys_within(128 * KIB, 0.01), keys_within(4 * KIB, 0.01)
    (109396, 3418)
    """
    if error_rate >= 1.0:
        return sys.maxsize
    return max(1, keys_for(chunk_bytes * 8, error_rate))


def filter_bytes(policy: Policy, key_count: int, error_rate: float) -> float:
    """The bytes of one filter by the store's policies (ribbon: on average); 0 for no filter.

    >>> filter_bytes("bloom", 32, 0.01)
    39
    """
    if policy == "none" or key_count == 0 or error_rate >= 1.0:
        return 0
    if policy == "bloom":
        return filter_bytes_for(key_count, error_rate)
    return expected_bytes(key_count, error_rate)
