"""The rows of ``compaction``: one for each configuration, key space and seed."""

from __future__ import annotations

from dataclasses import dataclass

from ...harness.records import Observation, column
from ...harness.tables import percent


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Observation):
    """One configuration; means and most are over the second half of the load."""

    load: str = column("what was written", "setting")
    style: str = column("compaction style", "setting")
    size_ratio: int = column("T, between levels", "setting", heading="T")
    error_rate: float = column("error rate asked for", "setting", heading="p, %", form=percent)
    allocation: str = column("how filter memory is shared among runs", "setting", heading="filters")
    key_space_count: int = column("keys that the load draws from", "setting")

    live_bytes: int = column("keys and values that are live at the end")
    user_bytes: int = column("keys and values handed to the store, whole load")
    flush_bytes: int = column("tables written by flushes, whole load")
    compaction_write_bytes: int = column("tables written by compactions, whole load")
    compaction_read_bytes: int = column("data blocks read by compactions, whole load")

    write_amplification: float = column(
        "bytes flushed and compacted, per byte handed over", heading="write amp.", form=".2f"
    )
    write_amplification_min: float = column("the least of four equal windows")
    write_amplification_max: float = column("the most of four equal windows")
    write_amplification_expected: float = column(
        "in theory, with full levels and no overwrites", heading="theory", form=".1f"
    )
    write_burst_max: float = column(
        "the most bytes written after one write buffer, per byte in that buffer",
        heading="burst",
        form=".0f",
    )
    space_amplification_mean: float = column(
        "bytes of table files per live byte", heading="space amp.", form=".2f"
    )
    space_amplification_max: float = column(
        "the most after any write buffer", heading="most", form=".2f"
    )
    run_count_mean: float = column("sorted runs", heading="runs", form=".1f")
    run_count_max: int = column("the most after any write buffer", heading="most", form=".0f")
    level_count: int = column("most levels with tables below level 0", heading="levels", form=".0f")
    filter_bytes_per_key: float = column(
        "filters in memory by live key", heading="B/key", form=".2f"
    )
    filter_bytes_per_entry: float = column(
        "filters in memory per stored entry", heading="B/entry", form=".2f"
    )

    sample_count: int = column("states in which reads were measured")
    absent_reads_mean: float = column(
        "data blocks read per lookup of an absent key, cache off", heading="absent", form="#.3g"
    )
    absent_reads_expected_mean: float = column(
        "by the filters' exact rates, in the same states", heading="exact", form="#.3g"
    )
    absent_reads_expected_max: float = column(
        "by the exact rates, the most after any write buffer", heading="worst", form="#.3g"
    )
    absent_lookup_count: int = column("lookups of absent keys in all")
    absent_block_reads: int = column("data blocks that they read")
    present_reads_mean: float = column(
        "data blocks read per lookup of a present key, cache off", heading="present", form=".3f"
    )
    present_reads_max: float = column(
        "the most of all samples (chance included)", heading="most", form=".3f"
    )
    scan_reads_mean: float = column(
        "data blocks read per scan of 100 entries, cache off", heading="scan", form=".1f"
    )
    scan_reads_max: float = column(
        "the most of all samples (chance included)", heading="most", form=".1f"
    )
    wrong_answers: int = column("lookups and scans with a wrong answer; must be 0")
    run_counts: str = column("sorted runs after each write buffer, from the first on")

    load_s: float = column("writes, flushes and compactions, without what is sampled", "time")
