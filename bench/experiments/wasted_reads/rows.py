"""The rows of ``wasted-reads``: one for each engine, kind of filter and budget."""

from __future__ import annotations

from dataclasses import dataclass

from bench.harness.records import column, optional
from bench.harness.tables import percent


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One store, asked for absent keys."""

    engine: str = column("the store", "setting")
    engine_version: str = column("its version", "time")
    filters: str = column("kind of filter; none: a check of the counts", "setting")
    budget_bits_per_key: float = column("filter bits per key that were to be met", "setting")
    setting: float = column(
        "what the store was given: bits per key, or (lsmkv) the error rate; found by trial, except "
        "LevelDB's"
    )
    entries: int = column("entries, all keys distinct, in one sorted run", "setting")
    block_size_bytes: int = column("size at which a data block is closed", "setting")
    seed: int = column("what decided keys and values", "setting")
    lookups: int = column("lookups, all of absent keys between two present ones", "setting")

    found: int = column("lookups that found something; always 0")
    passes: int = column("absent keys looked up between each two present ones", "setting")
    block_count: int | None = optional("data blocks; LevelDB does not tell")
    filter_bytes: int = column(
        "bytes of filters as written, one copy", heading="filter\nbytes", form=","
    )
    filter_bits_per_key: float = column(
        "the same in bits by entries", heading="bits\n/key", form=".2f"
    )
    filter_disk_bytes: int = column("bytes of filters in files: lsmkv also has each in its block")
    filters_asked: int = column(
        "filters asked; lsmkv asks none for a key between two blocks, which costs no read either"
    )
    block_reads: int = column(
        "data blocks read, all of them wasted", heading="wasted\nreads", form=","
    )
    outside_reads: int | None = optional(
        "read calls of the store's files during the same lookups, counted outside the process; empty: "
        "no C compiler",
        heading="told by an\noutsider",
        form=",",
    )
    filter_false_positives: int | None = optional(
        "filters that let a key pass, by the store's own count; LevelDB has none"
    )
    error_rate_measured: float = column(
        "false positives by filters asked; LevelDB: blocks read by filters asked"
    )
    error_rate_low: float = column("lower end of its 95 % interval (Clopper-Pearson)")
    error_rate_high: float = column("upper end")
    error_rate_exact: float | None = optional(
        "lsmkv: expectation for filters of these sizes, weighted by keys",
        heading="exact\n%",
        form=percent,
    )

    @property
    def name(self) -> str:
        return f"{self.engine}, {self.filters}"

    @property
    def most_double_reads(self) -> int:
        """The most lookups that can read two blocks: RocksDB's of keys between two blocks."""
        return (self.block_count or 0) * self.passes if self.engine == "rocksdb" else 0

    @property
    def reads_per_lookup(self) -> float:
        return self.block_reads / self.lookups

    @property
    def bound(self) -> float:
        """The lowest rate of any filter with these bits: 2^(-bits per key)."""
        return float(2.0**-self.filter_bits_per_key)
