"""The rows of ``allocation``: one for each tree, allocation and memory."""

from __future__ import annotations

from dataclasses import dataclass

from bench.harness.records import column, optional


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What lookups read in one tree."""

    style: str = column("which levels have one run, and which T - 1", "setting", heading="tree")
    size_ratio: int = column("T: keys of a level by those of the one above", "setting", heading="T")
    level_count: int = column("levels, all full", "setting", heading="levels")
    allocation: str = column(
        "uniform: one rate; monkey: rates as the runs' sizes, in the same memory; hits: the uniform "
        "rate, and no filters in the last level (RocksDB's optimize_filters_for_hits)",
        "setting",
        heading="filters",
    )
    bits_per_key: float = column("bits per key of one rate for all runs", "setting")
    key_count: int = column("entries", "setting")
    seed: int = column("what decided which run has which key", "setting")
    lookup_count: int = column("lookups of different absent keys", "setting")

    run_entries: tuple[int, ...] = column("keys of each run, the newest first")
    filter_bits_per_key: float = column(
        "bits of the filters as built, one copy", heading="bits\n/key", form=".2f"
    )
    filters_asked: int = column("times a filter was asked by these lookups")
    wasted_reads: int = column("data blocks read by these lookups, block cache off", form=",")
    unfiltered_reads: int = column("those of them in runs without filters")
    present_reads: float = column(
        "data blocks read by a lookup of a present key",
        heading="reads of a\npresent key",
        form=".3f",
    )
    formula_reads: float = column(
        "the sum of the rates of all runs, by the papers", heading="formula", form=".4f"
    )
    exact_reads: float = column("the same of the exact rates of the filters as built")
    endless_reads: float | None = optional("Dostoevsky's closed form, of very many levels; Monkey")

    @property
    def run_count(self) -> int:
        return len(self.run_entries)

    @property
    def measured_reads(self) -> float:
        """Data blocks read by a lookup of an absent key."""
        return self.wasted_reads / self.lookup_count
