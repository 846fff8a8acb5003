"""The rows of ``saved-io``: one for each store, hit ratio and repetition."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ...harness.intervals import FEWEST_EVENTS
from ...harness.records import Observation, column, optional
from ...harness.tables import percent
from .datasets import RANGES

OS_TOLERANCE: Final = 0.01
"""The largest accepted difference between the operating system's count of bytes and ours."""


REFERENCE_RATE: Final = 0.01  # the rate that filters are judged at
REFERENCE: Final = "bloom"
EQUAL_RATE: Final = "equal rate"
EQUAL_BYTES: Final = "equal bytes"
"""What a row is in the comparison of ribbon filters with Bloom filters of :data:`REFERENCE_RATE`."""

DRAWN: Final = "drawn"
TRACE: Final = "trace"
TRACE_ABSENT: Final = "trace, absent"
TRACE_PRESENT: Final = "trace, present"  # the lookups of a row


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Observation):
    """One store and hit ratio; None where a column does not apply."""

    dataset: str = column(
        "digits: 16-byte keys, 100-byte values; hbase: cells of 200 bytes; paths: the files of this "
        "Python; tenant: digits, of which a tenth gets most lookups; zipf-N: digits, of which some "
        "stretches get most; values-N: digits with values of N bytes; ranges-N: evenly drawn numbers of "
        "N bytes; larger-than-memory: digits with values of 400 bytes; yours: --keys and --lookups",
        "setting",
    )
    filter_policy: str = column(
        "kind of filter; prefix-N: Bloom filters of prefixes that N numbers share", "setting"
    )
    block_size_bytes: int | None = optional("size at which a data block is closed", "setting")
    run_count: int | None = optional("sorted runs, each spanning all keys", "setting")
    lookups_of: str = column(
        "drawn: keys drawn at random; trace: the data set's own lookups, all of them or those of "
        "absent or of present keys; empty and long ranges: scans with both bounds",
        "setting",
    )
    range_numbers: int | None = optional("numbers in an empty range", "setting")
    correlation: float | None = optional(
        "D: an empty range begins 1 to 2^(30 (1 - D)) numbers after a present key", "setting"
    )
    hit_ratio: float = column(
        "part of the lookups whose key is there", "setting", heading="present\n%", form=percent
    )
    error_rate_requested: float | None = optional(
        "what filters were sized for; empty: tables without filters", "setting"
    )
    comparison: str | None = optional(
        "ribbon beside Bloom, counted only: bloom at 1 %; equal rate: ribbon at 1 %; equal bytes: "
        "ribbon in no more bytes than Bloom's",
        "setting",
    )
    lookup_count: int = column("lookups that were counted, or absent keys asked", "setting")

    entry_count: int = column("entries in the store, or keys in each filter")
    table_count: int | None = optional("table files")
    block_count: int | None = optional("data blocks")
    data_bytes: int | None = optional("size of the table files")
    found_count: int | None = optional("lookups that found their key")

    error_rate_exact: float | None = optional(
        "expectation for filters of these n, m and k: mean of E[(X/m)^k] over blocks, weighted by keys; "
        "the very bits of a store differ from it",
        heading="exact\n%",
        form=percent,
    )
    error_rate_measured: float | None = optional(
        "filter_false_positives over the times a filter was asked for an absent key"
    )
    error_rate_low: float | None = optional(
        "lower end of its 95 % interval (Korn and Graubard: filters are clusters of trials, and keys may "
        "repeat)"
    )
    error_rate_high: float | None = optional("upper end")
    design_effect: float | None = optional(
        "the variance of error_rate_measured over that of independent trials"
    )
    range_rate_most: float | None = optional(
        "the most that may pass by theory of the ranges of which a block has no key: the exact rate of "
        "keys, times the numbers in the range"
    )
    absent_reads_wasted_mean: float | None = optional(
        "blocks without the key that a lookup of an empty range's first number reads"
    )
    present_reads_wasted_mean: float | None = optional(
        "blocks without the key that a lookup of a present number reads"
    )
    filters_asked_half: int | None = optional(
        "the fewest filters that half of the questions went to",
        heading="filters asked\nhalf of it",
        form=",",
    )
    filter_trials: int | None = optional(
        "times a filter was asked for a key that it does not hold, found keys' lookups included"
    )
    filter_negatives: int | None = optional("block searches that a filter spared")
    filter_false_positives: int = column("times a filter let an absent key pass")
    miscounted: int | None = optional(
        "by how much the store's counters differ from a second count, filter by filter; 0"
    )

    data_block_reads: int | None = optional(
        "data blocks read, block cache off", heading="block\nreads", form=","
    )
    data_block_reads_unfiltered: int | None = optional(
        "the same lookups on the same blocks without filters", heading="without\nfilters", form=","
    )
    data_block_read_bytes: int | None = optional("bytes of these reads, filters in blocks included")
    data_block_read_bytes_unfiltered: int | None = optional("bytes without filters")
    data_block_page_bytes: int | None = optional(
        "bytes of the whole 4 KiB pages that these reads touch, as a device reads them"
    )
    data_block_page_bytes_unfiltered: int | None = optional("the same without filters")
    filter_reads: int | None = optional(
        "read calls that load filters: one for each table, at open, whatever its size"
    )
    filter_read_bytes: int | None = optional("bytes of these reads")
    filter_page_bytes: int | None = optional("bytes of the whole 4 KiB pages that they touch")
    index_read_bytes: int | None = optional("footers, properties and indexes read at open")
    index_page_bytes: int | None = optional("bytes of the whole 4 KiB pages that hold them")
    reads_saved_gross: int | None = optional("data_block_reads_unfiltered - data_block_reads")
    reads_saved_net: int | None = optional(
        "reads_saved_gross - filter_reads: read calls, of blocks and of filters"
    )
    reads_saved_gross_share: float | None = optional(
        "reads_saved_gross over data_block_reads_unfiltered"
    )
    reads_saved_net_share: float | None = optional("reads_saved_net over the same")
    bytes_saved_gross: int | None = optional("bytes of data blocks not read")
    bytes_saved_net: int | None = optional("bytes_saved_gross - filter_read_bytes")
    page_bytes_saved_net: int | None = optional(
        "bytes of whole pages not read: of data blocks, less filter_page_bytes"
    )
    page_bytes_saved_net_share: float | None = optional(
        "page_bytes_saved_net over data_block_page_bytes_unfiltered"
    )
    page_bytes_saved_net_of_index_share: float | None = optional(
        "the same, less index_page_bytes too"
    )

    filter_bytes: int | None = optional("filters, one copy", heading="filter\nbytes", form=",")
    filter_bits_per_key: float = column("bits of filters for each key, one copy")
    filter_bytes_per_key: float = column(
        "the same in bytes", heading="filter\nbytes/key", form=".2f"
    )
    filter_disk_bytes_per_key: float | None = optional(
        "bytes on disk: in the blocks, and in the section that is loaded at open"
    )
    filter_memory_bytes_per_key: float | None = optional("bytes held in memory while open")
    index_memory_bytes_per_key: float | None = optional(
        "bytes of indexes held in memory while open", heading="index\nbytes/key", form=".2f"
    )

    counted_read_bytes: int | None = optional(
        "bytes the storage layer counts in the cold pass, opening included (direct reads, so "
        "multiples of 4096)"
    )
    os_read_bytes: int | None = optional(
        "bytes the operating system counts for the same thread (read_bytes of "
        "/proc/thread-self/io)",
        "time",
    )
    os_check: str = column("agrees: within 1 %; FAILED: not; or why it cannot tell", "time")

    limited_lookup_count: int | None = optional(
        "lookups with less memory than data; empty: only of the data set larger-than-memory",
        "setting",
    )
    limited_bytes: int | None = optional(
        "memory of the control group, an eighth of the data: page cache, block cache and all else"
    )
    limited_us_mean: float | None = optional("microseconds a lookup there, cold", "time")
    limited_us_p99: float | None = optional("its 99th percentile", "time")
    limited_read_bytes: int | None = optional(
        "bytes the operating system counts for these lookups (read_bytes of /proc/self/io)", "time"
    )
    limited_page_cache_bytes: int | None = optional(
        "bytes of the store in the page cache after them", "time"
    )
    limited_check: str | None = optional("measured, or why not", "time")

    load_s: float | None = optional("seconds to write the store", "time")
    filter_build_ns_per_key: float | None = optional(
        "nanoseconds for each key, of these, to hash it and set its bits", "time"
    )

    @property
    def is_store(self) -> bool:
        """Whether a store was asked, with its own baseline: no comparison."""
        return self.comparison is None

    @property
    def tells_rate(self) -> bool:
        """Whether the lookups tell the rate of any other ones: few popular keys tell of themselves."""
        hits, effect = self.filter_false_positives, self.design_effect or 1.0
        return (self.filter_trials or 0) >= effect * FEWEST_EVENTS and (not hits or hits >= effect)

    @property
    def holds_exact(self) -> bool:
        """Whether the exact rate lies in the interval of the measured one."""
        exact, low, high = self.error_rate_exact, self.error_rate_low, self.error_rate_high
        return None not in (exact, low, high) and low <= exact <= high  # type: ignore[operator]


def join(measured: Iterable[list[Row]]) -> list[Row]:
    """All rows, each with the reads of the same lookups without filters."""
    rows = [row for rows in measured for row in rows]
    bases = {_shape(row): row for row in rows if row.is_store and row.error_rate_requested is None}
    return [_beside(row, bases[_shape(row)]) if row.is_store else row for row in rows]


def _shape(row: Row) -> tuple[object, ...]:
    return (
        row.dataset,
        row.dataset in RANGES or row.filter_policy,  # of ranges the base is measured once
        row.block_size_bytes,
        row.run_count,
        row.lookups_of,
        row.range_numbers,
        row.correlation,
        row.hit_ratio,
    )


def _beside(row: Row, base: Row) -> Row:
    if row.block_count != base.block_count or row.found_count != base.found_count:
        raise ValueError(
            f"{row.dataset}, p {row.error_rate_requested}: {row.block_count} blocks and "
            f"{row.found_count} keys found, against {base.block_count} and {base.found_count} "
            "without filters: not the same store"
        )
    reads, read_bytes = base.data_block_reads or 0, base.data_block_read_bytes or 0
    page_bytes = base.data_block_page_bytes or 0
    gross = reads - (row.data_block_reads or 0)
    net = gross - (row.filter_reads or 0)
    gross_bytes = read_bytes - (row.data_block_read_bytes or 0)
    net_bytes = gross_bytes - (row.filter_read_bytes or 0)
    net_pages = page_bytes - (row.data_block_page_bytes or 0) - (row.filter_page_bytes or 0)
    net_index = net_pages - (row.index_page_bytes or 0)
    return dataclasses.replace(
        row,
        data_block_reads_unfiltered=reads,
        data_block_read_bytes_unfiltered=read_bytes,
        data_block_page_bytes_unfiltered=page_bytes,
        reads_saved_gross=gross,
        reads_saved_net=net,
        reads_saved_gross_share=gross / reads if reads else None,
        reads_saved_net_share=net / reads if reads else None,
        bytes_saved_gross=gross_bytes,
        bytes_saved_net=net_bytes,
        page_bytes_saved_net=net_pages,
        page_bytes_saved_net_share=net_pages / page_bytes if page_bytes else None,
        page_bytes_saved_net_of_index_share=net_index / page_bytes if page_bytes else None,
    )
