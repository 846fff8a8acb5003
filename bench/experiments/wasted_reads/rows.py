"""The rows of ``wasted-reads``: one for each store and budget."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...harness.records import Observation, column, optional
from .tasks import label


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Observation):
    """One store, asked for absent keys; without counts if it does not fit its budget."""

    engine: str = column("the store", "setting")
    engine_version: str = column("its version", "time")
    filters: str = column("kind of filter; none: a check of the counts", "setting")
    form: str = column("form of index and filters, if it is not the default", "setting")
    keys: str = column("shape of the keys, or their file", "setting")
    value_bytes: int = column("bytes of a value", "setting")
    budget_bits_per_key: float = column("bits a key of filters and index to be met", "setting")
    entries: int = column("entries, all keys distinct, in one sorted run", "setting")
    block_size_bytes: int = column("size at which a data block is closed", "setting")
    passes: int = column("absent keys looked up between each two present ones", "setting")
    lookups: int = column("lookups, all of absent keys between two present ones", "setting")

    index_bytes: int = column("bytes of the index, as in memory", heading="index\nbytes", form=",")
    filter_bytes: int | None = optional(
        "bytes of the filters; empty: none fit beside the index", heading="filter\nbytes", form=","
    )
    setting: float | None = optional(
        "what the store was given: bits per key, or (lsmkv) the error rate; found by trial"
    )
    reported_bytes: int | None = optional(
        "memory of table readers and of what they keep in the cache (RocksDB), of indexes and filters "
        "(lsmkv), by the engine's own account; LevelDB has none",
        "time",
        heading="told by\nthe engine",
        form=",",
    )
    grown_bytes: int | None = optional(
        "growth of a process that opens the store and loads all of its filters and indexes",
        "time",
        heading="process\ngrew by",
        form=",",
    )
    found: int = column("lookups that found something; always 0")
    block_count: int | None = optional("data blocks; LevelDB does not tell")
    filters_asked: int | None = optional("filters asked")
    block_reads: int | None = optional(
        "data blocks read, all of them wasted", heading="wasted\nreads", form=","
    )
    outside_reads: int | None = optional(
        "read calls of the store's files during the same lookups, counted outside the process; empty: "
        "no C compiler",
        heading="told by an\noutsider",
        form=",",
    )
    passed: int | None = optional(
        "lookups that no filter denied, by the store's own count: filters let the key pass, or their "
        "block has none (ribbon filters of high rates); LevelDB has no count"
    )
    error_rate_exact: float | None = optional(
        "lsmkv: expectation for filters of these sizes, weighted by keys"
    )

    @property
    def name(self) -> str:
        return label(self.engine, self.filters, self.form)

    @property
    def most_double_reads(self) -> int:
        """The most lookups that can read two blocks: RocksDB's of keys between two blocks."""
        return (self.block_count or 0) * self.passes if self.engine == "rocksdb" else 0

    @property
    def index_bits_per_key(self) -> float:
        return 8 * self.index_bytes / self.entries

    @property
    def bits_per_key(self) -> float:
        """Bits a key of filters and index together."""
        return 8 * (self.index_bytes + (self.filter_bytes or 0)) / self.entries


def least_index_bits(entries: int, blocks: int) -> float:
    """The least bits a key of an index that tells ``blocks`` blocks of equally many random keys apart.

    An index is a border between each two blocks.  Borders suit a set of random keys with a probability,
    which is greatest if each key falls into each block with the same: that of the multinomial
    distribution's mode.  So many different indexes must there be.

    >>> round(least_index_bits(100_000, 3000), 3), round(least_index_bits(100_000, 25_000), 3)
    (0.116, 0.589)
    """
    per_block = entries / blocks
    likely = (
        math.lgamma(entries + 1) - blocks * math.lgamma(per_block + 1) - entries * math.log(blocks)
    )
    return max(0.0, -likely / math.log(2) / entries)
