"""What lookups found in one open table: counted, and learnt from."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from lsmkv.sstable.block.block import Block
from lsmkv.sstable.block_cache import TableMemory
from lsmkv.sstable.table_filters import TableFilters
from lsmkv.stats import Stats

_LEARNT_STEP_BITS: Final = 10  # what is learnt is taken from the memory budget by the KiB


class AskCounts:
    """The lookups of absent keys in one table, beside the store's counts."""

    def __init__(self, stats: Stats, memory: TableMemory, *, learns: bool) -> None:
        self._stats = stats
        self._memory = memory
        self.absent: i64 = 0  # lookups of keys that the table lacks
        self.false_positives: i64 = 0  # those of them that passed a filter
        self._unfiltered_misses: i64 = 0  # absent keys that searched a block without a filter
        self.learns = learns  # whether keys that passed are listed, to be denied
        self.has_learnt = False  # whether one is
        self.lookups_before: int = stats.gets  # those of the store before the table was opened

    @property
    def filter_negatives(self) -> int:
        """How often the table's filters denied a key, and spared a block."""
        return int(self.absent - self.false_positives - self._unfiltered_misses)

    def denied(self) -> None:
        """A filter, or the list of what was learnt, denied a key."""
        self._stats.filter_negatives += 1
        self.absent += 1

    def passed(self) -> None:
        """A filter let an absent key pass."""
        self._stats.filter_false_positives += 1
        self.false_positives += 1
        self.absent += 1

    def searched_unfiltered(self, found: bool) -> None:
        """A block was searched that no filter was asked about."""
        self._stats.unfiltered_probes += 1
        if not found:
            self.absent += 1
            self._unfiltered_misses += 1

    def learn(self, filters: TableFilters, block: Block, block_number: i64, h: i64) -> None:
        """List the hash of a key that ``block`` lacks; only if the table ``learns``."""
        learnt = filters.learnt
        before = learnt.memory_bytes >> _LEARNT_STEP_BITS
        if learnt.add(block_number, h, block.shared_hash_bits(h)):
            self.has_learnt = True
            self._stats.filter_lessons += 1
            if learnt.memory_bytes >> _LEARNT_STEP_BITS != before:
                self._memory.hold_filters(filters.memory_bytes)
