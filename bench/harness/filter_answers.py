"""What each filter of a store answers, and what each block costs to read: a second count of lookups.

The store's counters are sums.  Intervals need to know how often each filter was asked, because the
answers of one filter depend on how full it is, and because one key asked twice gives one answer.
Bytes of the device need to know which blocks were read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import lsmkv
from lsmkv.filters.hashing import hash_key
from lsmkv.inspection.store_info import StoreInfo

from .intervals import Interval, clustered_interval, effective_trials, rate_interval
from .table_readers import open_tables

PAGE_BYTES: Final = 4096
"""The unit that a device reads: direct reads are aligned to it, and so are page caches."""

_CACHE_BYTES: Final = 64 * 1024 * 1024


def page_bytes(offset: int, length: int) -> int:
    """The bytes of the whole pages that hold a range.

    >>> page_bytes(0, 4096), page_bytes(4000, 4096), page_bytes(10, 0)
    (4096, 8192, 0)
    """
    if not length:
        return 0
    first, last = offset // PAGE_BYTES, (offset + length - 1) // PAGE_BYTES
    return (last - first + 1) * PAGE_BYTES


@dataclass(frozen=True, slots=True)
class Answers:
    """What the lookups of some keys ask and read, without a block cache.

    Attributes:
        trials, hits: by filter, how often it was asked for a key that it does not hold, and how often
            it let that pass.
        effective: how many independent trials the trials are worth as far as keys repeat.
        block_reads, block_read_bytes: as the store counts them.
        block_page_bytes: bytes of whole pages that these reads touch.
    """

    trials: tuple[int, ...]
    hits: tuple[int, ...]
    effective: float
    block_reads: int
    block_read_bytes: int
    block_page_bytes: int

    def interval(self) -> Interval | None:
        """The rate of false positives with its 95 % interval; None if no filter was asked."""
        trials, hits = sum(self.trials), sum(self.hits)
        if not trials:
            return None
        repeated = trials / self.effective
        if len(self.trials) > 1:
            return clustered_interval(self.hits, self.trials, repeated)
        low, high = rate_interval(hits, trials, effective=self.effective)
        return Interval(hits / trials, low, high, repeated)


@dataclass(frozen=True, slots=True)
class SectionBytes:
    """What a store's filters and indexes take to hold.

    Attributes:
        filter_page_bytes: bytes of whole pages of all filters, which are one read for each table.
        index_page_bytes: the same of indexes, with the properties and footers behind them.
        index_memory_bytes: bytes of indexes in memory.
    """

    filter_page_bytes: int
    index_page_bytes: int
    index_memory_bytes: int


def section_bytes(directory: str, info: StoreInfo) -> SectionBytes:
    """The bytes of the sections of a store's tables that are loaded at an opening."""
    filters = indexes = memory = 0
    for table in open_tables(directory, info):
        footer = table.footer
        filters += page_bytes(footer.filters_offset, footer.filters_length)
        indexes += page_bytes(footer.index_offset, table.file.size - footer.index_offset)
        memory += table.index.memory_bytes
    return SectionBytes(filters, indexes, memory)


def answers(directory: str, keys: Iterable[bytes]) -> Answers:
    """Look up each different key once in a store whose runs are tables, counted as often as it occurs."""
    with lsmkv.open(directory, read_only=True) as db:
        info = db.inspect()
    tables = open_tables(directory, info, _CACHE_BYTES)
    asked = Counter(keys)
    trials = [[0] * table.index.block_count for table in tables]
    passed = [[0] * table.index.block_count for table in tables]
    reads = [[0] * table.index.block_count for table in tables]
    repeats: Counter[int] = Counter()
    # In order, so that a small cache has the block.
    for key in sorted(asked):
        times, h = asked[key], hash_key(key)
        for number, table in enumerate(tables):
            if not table.smallest <= key <= table.largest:
                continue
            block = int(table.index.find(key))
            filters = table.filters
            may_hold = filters.may_hold(block, filters.hash_of(key, h))
            if may_hold:
                reads[number][block] += times
                if table.block(block, True).find(key, h) >= 0:
                    break
            if filters.exist:
                trials[number][block] += times
                repeats[times] += 1
                passed[number][block] += times * may_hold
    read_bytes = pages = 0
    for table, counts in zip(tables, reads, strict=True):
        for block, count in enumerate(counts):
            offset, length = table.index.offset(block), table.block_length(block)
            read_bytes += count * length
            pages += count * page_bytes(offset, length)
    were_asked = [
        (trial, hit)
        for of_trials, of_hits in zip(trials, passed, strict=True)
        for trial, hit in zip(of_trials, of_hits, strict=True)
        if trial
    ]
    return Answers(
        trials=tuple(trial for trial, _ in were_asked),
        hits=tuple(hit for _, hit in were_asked),
        effective=effective_trials(repeats.elements()),
        block_reads=sum(map(sum, reads)),
        block_read_bytes=read_bytes,
        block_page_bytes=pages,
    )
