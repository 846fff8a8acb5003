"""The rows of ``ycsb``: one for each engine, workload and repetition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ...harness.records import Observation, column
from .workloads import Kind

_NOT_COUNTING = "; empty in the counting pass"
_ONLY_COUNTING = ", in the counting pass; depends on when background work ran"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Observation):
    """One engine, workload and repetition."""

    engine: str = column("store", kind="setting")
    engine_version: str = column("version of its library", kind="setting")
    workload: str = column("load, YCSB's A to F, or N: reads of absent keys", kind="setting")
    is_timed: bool = column("not so: the counting pass", kind="setting")
    group: str = column("workloads that follow each other on one store", kind="setting")
    records: int = column("records loaded, of 1000 bytes each", kind="setting")
    operations: int = column("operations done", kind="setting")
    cache_size_bytes: int = column("block cache", kind="setting")
    write_buffer_size_bytes: int = column("memtable", kind="setting")
    bits_per_key: float = column("of the Bloom filters", kind="setting")

    present_records: int = column("records in the store when the workload began")
    read_count: int = column("reads")
    update_count: int = column("updates")
    insert_count: int = column("inserts")
    scan_count: int = column("scans")
    rmw_count: int = column("read-modify-writes")
    found_count: int = column("reads that gave a value, those of read-modify-writes included")
    scanned_entries: int = column("entries that scans walked over")
    wrong_count: int = column(
        "of 1000 records read back afterwards, those that did not hold what was written last"
    )

    operations_per_s: float = column(f"operations per second{_NOT_COUNTING}", kind="time")
    us_per_operation: float = column(
        f"microseconds per operation, loop and clock included{_NOT_COUNTING}", kind="time"
    )
    loop_us_per_operation: float = column(
        "the same operations on a Python dict, which does not scan: microseconds per operation",
        kind="time",
    )
    settle_s: float = column("seconds of work left to the background afterwards", kind="time")
    read_us_p50: float = column("median of a read, microseconds", kind="time")
    read_us_p99: float = column("99th percentile of a read, microseconds", kind="time")
    update_us_p50: float = column("median of an update, microseconds", kind="time")
    update_us_p99: float = column("99th percentile of an update, microseconds", kind="time")
    insert_us_p50: float = column("median of an insert, microseconds", kind="time")
    insert_us_p99: float = column("99th percentile of an insert, microseconds", kind="time")
    scan_us_p50: float = column("median of a scan, microseconds", kind="time")
    scan_us_p99: float = column("99th percentile of a scan, microseconds", kind="time")
    rmw_us_p50: float = column("median of a read-modify-write, microseconds", kind="time")
    rmw_us_p99: float = column("99th percentile of a read-modify-write, microseconds", kind="time")
    data_block_reads: int | None = column(
        f"data blocks not in the engine's cache, by its own count{_ONLY_COUNTING}", kind="time"
    )
    filter_negatives: int | None = column(
        f"searches that a filter spared, by the engine's own count{_ONLY_COUNTING}", kind="time"
    )

    @property
    def phase(self) -> str:
        """The workload, by the name that ratios use."""
        return self.workload


Cells = dict[tuple[str, str], list[Row]]  # workload and engine -> the rows of the repetitions
OPERATION_TIMES: Final = {
    Kind.READ: "read",
    Kind.UPDATE: "update",
    Kind.INSERT: "insert",
    Kind.SCAN: "scan",
    Kind.RMW: "rmw",
}
"""Kind of operation -> the prefix of its columns."""

PERCENTILES: Final = (50, 99)
_TIMES = ("operations_per_s", "us_per_operation", "loop_us_per_operation", "settle_s")
NOT_A_TIME: Final[dict[str, Any]] = dict.fromkeys(
    (
        *_TIMES,
        *(f"{name}_us_p{part}" for name in OPERATION_TIMES.values() for part in PERCENTILES),
    ),
    float("nan"),
)
"""The columns of times in the counting pass."""
