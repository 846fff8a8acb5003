"""The rows of ``adaptive``: one for each load, kind of filters, repetition and point of time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bench.harness.records import column


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Some lookups, after some writes."""

    load: str = column(
        "new keys: no absent key is asked for twice; popular keys: by a Zipf law of exponent 1",
        "setting",
    )
    how: str = column(
        "uniform: one rate; monkey: rates as the runs' sizes; learning: one rate, and adaptive_filters; "
        "budget: filter_memory_bytes",
        "setting",
        heading="filters",
    )
    repetition: int = column("number of the repetition", "setting")
    seed: int = column("what decided keys, values and orders", "setting")
    key_count: int = column("keys of the store", "setting")
    phase: int = column("number of the phase; in each another tenth of the keys is hot", "setting")
    point: int = column("number of the point in the phase", "setting")
    lookup_count: int = column("lookups of absent keys", "setting")

    wasted_reads: int = column(
        "data blocks read for them, no block cache", heading="wasted", form=","
    )
    passed: int = column("times that a filter let one pass, or that a block had no filter")
    recounted: int = column(
        "blocks read for the last step of the phase by a second count; -1: not counted twice"
    )
    last_reads: int = column("wasted reads of that step; -1: not counted twice")
    memory_asked_bytes: int = column("filter_memory_bytes; 0: not set")
    memory_bytes: int = column("memory of the filters, with what they learnt; mean of the steps")
    entry_count: int = column("entries of the tree, with old versions; mean of the steps")
    run_count: int = column("sorted runs after the last step")

    @property
    def per_10000(self) -> float:
        """Wasted reads of 10,000 lookups."""
        return 10_000 * self.wasted_reads / self.lookup_count


def join(measured: Iterable[list[Row]]) -> list[Row]:
    return [row for rows in measured for row in rows]
