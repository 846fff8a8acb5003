"""The rows of ``replay``: one for each engine and window."""

from __future__ import annotations

from dataclasses import dataclass

from ...harness.records import Observation, column, optional


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Observation):
    """What one engine read and wrote in a window of the trace: so many of its operations in turn."""

    engine: str = column("store", "setting", heading="store")
    engine_version: str = column("its version", "setting")
    policy: str = column("lsmkv's filter policy; empty: Bloom filters, or none", "setting")
    trace: str = column("file name of the trace", "setting")
    format: str = column("its form", "setting")
    window: int = column("window of the trace, from 0", "setting", heading="window")
    buffer_bytes: int = column("the store settled after so many bytes of puts", "setting", form=",")
    memory_bytes: int = column("memory of filters, indexes and cache together", "setting", form=",")
    metadata_bytes: int = column(
        "of it, filters and indexes of the tree when they were largest", heading="filters\n+ index"
    )
    cache_bytes: int = column("of it, the block cache", heading="cache", form=",")
    operations: int = column("operations of the trace in the window", form=",")
    puts: int = column("puts", form=",")
    deletes: int = column("deletes, also those of ranges and of entries that were due", form=",")
    absent_lookups: int = column("lookups of keys that were absent by then", form=",")
    present_lookups: int = column("lookups of keys that were there", form=",")
    multi_gets: int = column("calls that looked up several keys", form=",")
    scans: int = column("scans", form=",")
    scanned_entries: int = column("entries that scans read", form=",")
    wrong_answers: int = column("answers that differ from the trace's own; always 0", form=",")
    lookup_block_reads: int | None = optional(
        "data blocks, filters and indexes that lookups of one key read, by the engine's own count"
    )
    absent_reads: int = column(
        "read calls of lookups of absent keys, by the kernel", "time", heading="absent", form=","
    )
    present_reads: int = column(
        "read calls of lookups of present keys", "time", heading="present", form=","
    )
    multi_get_reads: int = column(
        "read calls of lookups of several keys", "time", heading="multi-\nget", form=","
    )
    scan_reads: int = column("read calls of scans", "time", heading="scans", form=",")
    compaction_reads: int = column(
        "read calls of puts, flushes and compactions", "time", heading="compac-\ntion", form=","
    )
    lookup_read_bytes: int = column("bytes that lookups read", "time", form=",")
    scan_read_bytes: int = column("bytes that scans read", "time", form=",")
    compaction_read_bytes: int = column("bytes that compactions read", "time", form=",")
    written_bytes: int = column("bytes of all write calls", "time", form=",")
    outside_reads: int | None = optional(
        "all read calls of the store's files, counted between the process and its C library; empty: "
        "no C compiler",
        "time",
        heading="told by an\noutsider",
        form=",",
    )
    maps: int | None = optional(
        "files of the store that were mapped: reads through a map are no calls"
    )

    @property
    def name(self) -> str:
        return f"{self.engine}, {self.policy}" if self.policy else self.engine

    @property
    def asked_reads(self) -> int:
        """Read calls of lookups and scans."""
        return self.absent_reads + self.present_reads + self.multi_get_reads + self.scan_reads

    @property
    def all_reads(self) -> int:
        return self.asked_reads + self.compaction_reads
