"""The rows of ``openings``: one for each store and number of lookups between openings."""

from __future__ import annotations

from dataclasses import dataclass

from ...harness.records import Observation, column, optional


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Observation):
    """What a store reads between two openings."""

    run_count: int = column("overlapping sorted runs", "setting")
    block_size_bytes: int = column("size at which a data block is closed", "setting")
    error_rate: float = column("false-positive rate asked for; 1: no filters are used", "setting")
    lookups_per_key: float = column("lookups of absent keys in an opening, by keys", "setting")
    key_count: int = column("entries", "setting")
    request_cost_bytes: int = column("bytes that a read request costs besides its own", "setting")

    error_rate_exact: float = column("theory for the filters as built, weighted by keys")
    filter_bits_per_key: float = column("size of the filters, one copy")
    data_bytes: int = column("bytes of all tables without filters")
    counted_lookups: int = column("lookups of different absent keys that counted block reads")
    counted_block_reads: int = column("data blocks read by these")
    counted_block_bytes: int = column("their bytes")
    openings: int = column("openings whose loads of filters were counted")
    is_extrapolated: bool = column(
        "filters: the load after fewer lookups, all that was left to load by then"
    )
    filter_requests: float = column("reads of filters after an opening, mean of openings")
    filter_bytes: float = column("their bytes, mean")
    filter_bytes_least: int = column("the least of the openings")
    filter_bytes_most: int = column("the most")
    index_requests: int = column("reads of indexes and properties after an opening")
    index_bytes: int = column("their bytes, which no error rate changes much")
    direct_block_reads: int | None = optional(
        "data blocks that the lookups after the openings themselves read, all openings"
    )

    @property
    def lookup_count(self) -> float:
        return self.lookups_per_key * self.key_count

    @property
    def block_requests(self) -> float:
        """Block reads between two openings: so many per lookup, as all lookups of the store had."""
        return self.lookup_count * self.counted_block_reads / self.counted_lookups

    @property
    def block_bytes(self) -> float:
        return self.lookup_count * self.counted_block_bytes / self.counted_lookups

    @property
    def bytes_per_lookup(self) -> float:
        return (self.filter_bytes + self.block_bytes) / self.lookup_count

    @property
    def requests_per_lookup(self) -> float:
        return (self.filter_requests + self.block_requests) / self.lookup_count

    @property
    def mixed_per_lookup(self) -> float:
        """Bytes, and ``request_cost_bytes`` for each request."""
        return self.bytes_per_lookup + self.request_cost_bytes * self.requests_per_lookup
