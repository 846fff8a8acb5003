"""The rows of ``peers``: one for each engine, phase and repetition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from ...harness.records import Observation, column
from .measure import Measured
from .outcome import median_outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Observation):
    """One phase on one engine in one repetition; None where the phase has no such figure."""

    engine: str = column("name of the engine", "setting")
    engine_version: str = column("version of its library", "setting")
    phase: str = column("what was measured", "setting")
    passes: int = column("passes of the phase, by turns; times are their medians", "setting")
    page_cache_limit_bytes: int = column("of the phases that limit the page cache", "setting")
    entries: int = column("entries of a large store", "setting")
    bits_per_key: float = column("of Bloom filters, where the engine has any", "setting")
    compression: str = column("of data blocks, but in disk_none and disk_zstd", "setting")
    background: str = column("where lsmkv flushes and compacts", "setting")
    operations: int = column("operations that were timed")
    result_count: int = column(
        "keys found, entries scanned, or after a fill entries in the store; the same for all engines"
    )
    result_checksum: int = column("CRC-32 of the values found by lookups; the same for all engines")
    us_per_operation: float | None = column("microseconds for each operation", "time")
    latency_us_p50: float | None = column("median of single operations, microseconds", "time")
    latency_us_p99: float | None = column("99th percentile of the same", "time")
    latency_us_p999: float | None = column("99.9th percentile of the same", "time")
    latency_us_most: float | None = column("the longest of the same", "time")
    cpu_s: float | None = column("CPU seconds, background threads and children included", "time")
    peak_memory_bytes: int | None = column(
        "peak resident memory from opening the store on, above that before (mapped pages count)",
        "time",
    )
    disk_bytes: int | None = column("size of the closed store's files", "time")
    data_block_reads: int | None = column(
        "data blocks that were not in the engine's cache, by its own count, in a pass with direct reads",
        "time",
    )
    filter_negatives: int | None = column("searches that filters spared, by its own count", "time")
    filter_false_positives: int | None = column("false positives, by its own count", "time")
    os_read_bytes: int | None = column(
        "bytes read from storage in the pass with direct reads, by the operating system's count",
        "time",
    )
    os_read_bytes_timed: int | None = column(
        "the same in a pass that was timed, through the page cache", "time"
    )
    page_cache_bytes_before: int | None = column(
        "bytes of the store's files in the page cache when a cold pass began", "time"
    )
    page_cache_bytes_most: int | None = column(
        "the most that was found there in a pass with a limit", "time"
    )
    writer_operations: int | None = column("puts of the writing thread meanwhile", "time")
    compacting_share: float | None = column(
        "part of the time of the lookups in which a forced compaction ran", "time"
    )


def rows(measured: Iterable[list[Measured]]) -> list[Row]:
    return [_row(each) for repetition in measured for each in repetition]


def _row(measured: Measured) -> Row:
    task = measured.task
    outcome = median_outcome(measured.outcomes)
    columns = asdict(outcome)
    seconds = columns.pop("seconds")
    return Row(
        engine=measured.engine,
        engine_version=measured.engine_version,
        phase=measured.phase,
        passes=len(measured.outcomes),
        page_cache_limit_bytes=task.page_cache_limit_bytes,
        entries=task.entries,
        bits_per_key=task.bits_per_key,
        compression=task.compression,
        background=task.background,
        us_per_operation=None if seconds is None else seconds * 1e6 / outcome.operations,
        **columns,
    )
