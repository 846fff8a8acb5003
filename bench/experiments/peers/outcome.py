"""The outcome of one phase on one engine."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from statistics import median, median_low
from typing import Any, Final

from ...harness.process_meter import Meter


@dataclass(slots=True, kw_only=True)
class Outcome:
    """The columns of these names; None where the phase has no such figure."""

    operations: int
    seconds: float | None
    cpu_s: float | None
    result_count: int
    result_checksum: int = 0
    peak_memory_bytes: int | None = None
    disk_bytes: int | None = None
    data_block_reads: int | None = None
    filter_negatives: int | None = None
    filter_false_positives: int | None = None
    os_read_bytes: int | None = None
    os_read_bytes_timed: int | None = None
    page_cache_bytes_before: int | None = None
    page_cache_bytes_most: int | None = None
    latency_us_p50: float | None = None
    latency_us_p99: float | None = None
    latency_us_p999: float | None = None
    latency_us_most: float | None = None
    writer_operations: int | None = None
    compacting_share: float | None = None


Passes = Generator[Outcome, None, None]  # one outcome after another of the same work


def timed(meter: Meter, operations: int, result_count: int, result_checksum: int = 0) -> Outcome:
    """An outcome with the meter's times."""
    return Outcome(
        operations=operations,
        seconds=meter.seconds,
        cpu_s=meter.cpu_s,
        result_count=result_count,
        result_checksum=result_checksum,
    )


_RESULTS: Final = ("operations", "result_count", "result_checksum")


def median_outcome(passes: Sequence[Outcome]) -> Outcome:
    """The median of each column over the passes that have it; ValueError if they found other things."""
    columns: dict[str, Any] = {}
    for field in fields(Outcome):
        known = [value for one in passes if (value := getattr(one, field.name)) is not None]
        if field.name in _RESULTS:
            if len(set(known)) > 1:
                raise ValueError(f"{field.name} differs between passes: {known}")
            columns[field.name] = known[0]
        elif known:
            whole = all(isinstance(value, int) for value in known)
            columns[field.name] = (median_low if whole else median)(known)
        else:
            columns[field.name] = None
    return Outcome(**columns)


def with_latencies(outcome: Outcome, taken_ns: Iterable[int]) -> Outcome:
    """Add percentiles (nearest rank) and the longest of the nanoseconds of single operations."""
    ordered = sorted(taken_ns)

    def at(part: float) -> float:
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))] / 1000

    outcome.latency_us_p50 = at(0.5)
    outcome.latency_us_p99 = at(0.99)
    outcome.latency_us_p999 = at(0.999)
    outcome.latency_us_most = at(1)
    return outcome


def steps(stamps: Iterable[int]) -> list[int]:
    """The time between each two readings of a clock."""
    return [after - before for before, after in pairwise(stamps)]
