"""The rows of ``learning``: one for each load, block cache and repetition, and each way to deny."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bench.harness.records import column


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The lookups of one store."""

    load: str = column("how absent keys are drawn; caches: those of the block caches", "setting")
    how: str = column("what denies keys that passed", "setting")
    cache_share: float = column("block cache by the bytes of all blocks", "setting")
    is_shared: bool = column("present keys are looked up too", "setting")
    learns: bool = column("adaptive_filters", "setting")
    repetition: int = column("number of the repetition", "setting")
    seed: int = column("what decided values and order", "setting")
    key_count: int = column("present keys, and as many absent ones", "setting")
    lookup_count: int = column("lookups of absent keys", "setting")
    present_lookup_count: int = column("lookups of present keys between these", "setting")
    error_rate: float = column("requested false-positive rate", "setting")

    cache_bytes: int = column("size of the block cache")
    block_count: int = column("data blocks")
    asked_keys: int = column("absent keys that were asked for at least once")
    wasted_reads: int = column("data blocks read for absent keys")
    false_positives: int = column(
        "absent keys that a filter let pass, in the cache or not",
        heading="false\npositives",
        form=",",
    )
    lessons: int = column("false positives learnt")
    filter_bits_per_key: float = column(
        "memory of the filters after all lookups, with what they could not learn",
        heading="bits\nper key",
        form=".2f",
    )
    filter_bits_per_key_before: float = column("the same before the first lookup")

    counted_again: int = column("wasted reads by a second count; -1: not counted twice")
    learnt_bits_per_key: float = column("memory of what denies keys that passed")

    lookup_us: float = column("microseconds for each lookup, present ones included", "time")


def join(measured: Iterable[tuple[Row, ...]]) -> list[Row]:
    return [row for rows in measured for row in rows]
