"""The rows of ``policies``: one for each store, kind of filters, and stretch of lookups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from ...harness.records import Observation, column, optional
from ...harness.seeds import Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Observation):
    """What lookups of absent keys read in one store."""

    part: str = column("trees, skew, shift or repeats: what varies", "setting")
    load: str = column("style of the tree, or draw of absent keys", "setting", heading="lookups")
    filters: str = column(
        "uniform: one rate; monkey: rates as the runs' sizes; hits: one rate, and no filters in the last "
        "level; budget: filter_memory_bytes; learning: one rate, and adaptive_filters; or another way to "
        "deny keys that passed, simulated",
        "setting",
        heading="filters",
    )
    bits_per_key: float = column("bits per key that were asked for", "setting")
    key_count: int = column("keys of the store", "setting")
    lookup_count: int = column("lookups of absent keys", "setting")
    size_ratio: int | None = optional("T: keys of a level by those of the one above", "setting")
    level_count: int | None = optional("levels, all full", "setting")
    hot_share: float | None = optional("lookups in a tenth of the key range", "setting")
    is_compacted: bool | None = optional("the store is one run, not the tree before", "setting")
    phase: int | None = optional("in each another tenth of the key range is hot", "setting")
    point: int | None = optional("number of the point in the phase", "setting")
    cache_share: float | None = optional("block cache by the bytes of all blocks", "setting")
    is_shared: bool | None = optional("present keys are looked up too", "setting")

    independent_lookups: float = column(
        "as many lookups of different keys tell as much, as keys are repeated (Kish)"
    )
    run_count: int = column("sorted runs", heading="runs")
    entry_count: int = column("entries of the tree, with old versions")
    filter_bytes: int = column("filters, one copy, with what they learnt", form=",")
    index_bytes: int | None = optional("indexes, which a budget counts with the filters")
    learnt_bits_per_key: float = column("memory of what denies keys that passed")
    wasted_reads: int = column("data blocks read for absent keys", form=",")
    passed: int = column("times that a filter let a key pass, or that a block had none")
    filters_asked: int = column("times a filter was asked")
    expected_reads: float | None = optional("wasted reads of a lookup, by theory")
    recounted: int | None = optional("what a second count finds of the counted reads")
    counted: int | None = optional("the reads that were counted a second time")
    asked_keys: int | None = optional("absent keys that were asked for at least once")
    present_reads: float | None = optional("data blocks read by a lookup of a present key")

    @property
    def reads(self) -> float:
        """Data blocks read by a lookup."""
        return self.wasted_reads / self.lookup_count

    @property
    def built_bits_per_key(self) -> float:
        return 8 * self.filter_bytes / self.key_count


READS: Final = Figure(
    "reads of an absent key", "wasted_reads", "lookup_count", "independent_lookups"
)


def of(rows: Sequence[Row], **wanted: object) -> list[Row]:
    """The rows that have these values."""
    return [row for row in rows if all(getattr(row, name) == wanted[name] for name in wanted)]


def mean(rows: Sequence[Row], name: str) -> float:
    """The mean of an attribute over the rows; 0 for None."""
    return fmean(getattr(row, name) or 0.0 for row in rows)
