"""The rows of ``saved-requests``: what lookups of one kind asked of the server."""

from __future__ import annotations

from dataclasses import dataclass

from ...harness.records import Observation, column, optional

OPENING = "opening"
COLD = "cold"
WARM = "warm"
ONE_BY_ONE = "one by one"
AT_ONCE = "multi_get"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Observation):
    """Requests of an opening, or of lookups that follow it."""

    part: str = column("rates: by error rate; engines: beside others; parallel: many", "setting")
    engine: str = column("what is asked", "setting")
    run_count: int = column("overlapping sorted runs; side by side each is one table", "setting")
    error_rate: float = column("false-positive rate asked for; 1: no filters", "setting")
    phase: str = column(
        "opening; cold: lookups of different keys, filters loaded and no block cached; warm: the same "
        "keys again, with a cache for all; one by one and multi_get: cold lookups of the same keys",
        "setting",
    )
    keys: str = column("present, absent, or none in an opening", "setting")
    key_count: int = column("entries", "setting")
    server: str = column("the object store's server", "setting")
    get_ms: float = column("assumed time of a GET, milliseconds", "setting")
    get_usd: float = column("assumed price of a GET, US dollars", "setting")

    lookups: int = column("lookups made")
    gets: int = column("GETs of objects in the server's log")
    get_bytes: int = column("bytes of their answers")
    other_requests: int = column(
        "other requests in the log: lists, HEADs, PUTs, GETs of what is not there"
    )
    counted_gets: int | None = optional("GETs by the store's own counters")
    counted_get_bytes: int | None = optional("their bytes by the store's own counters")
    expected_gets: float | None = optional("GETs in theory, by the filters' exact rates")
    filter_bits_per_key: float | None = optional("size of the filters, one copy")
    elapsed_s: float | None = optional("seconds for all lookups, with the latency added", "time")

    @property
    def gets_per_lookup(self) -> float:
        return self.gets / self.lookups

    @property
    def bytes_per_lookup(self) -> float:
        return self.get_bytes / self.lookups

    @property
    def ms_per_lookup(self) -> float:
        """Milliseconds that a lookup waits for GETs, one after the other."""
        return self.gets_per_lookup * self.get_ms

    @property
    def usd_per_million(self) -> float:
        """US dollars that the GETs of a million lookups cost."""
        return self.gets_per_lookup * self.get_usd * 1e6
