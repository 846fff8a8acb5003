"""The phases with dropped pages, which count their reads."""

from __future__ import annotations

from collections.abc import Sequence

from bench.experiments.peers.outcome import Outcome, timed
from bench.experiments.peers.reading import found_of
from bench.experiments.peers.stores import Stores
from bench.harness import process_meter
from bench.harness.process_meter import Meter


def _cold_gets(stores: Stores, keys: Sequence[bytes]) -> Outcome:
    """Lookups with dropped pages and a small cache: one pass for time, one for counts.

    Statistics and direct reads take time, so they belong to a pass of their own.
    """
    directory = stores.closed_for_reads()
    cache = stores.small_cache_bytes()
    process_meter.drop_pages(directory)
    store = stores.open("reads", cache_size_bytes=cache)
    get = store.get
    timed_before = process_meter.os_read_bytes()
    with Meter() as meter:
        for key in keys:
            get(key)
    timed_after = process_meter.os_read_bytes()
    store.close()
    process_meter.drop_pages(directory)
    store = stores.open(
        "reads", cache_size_bytes=cache, count=True, direct_reads=stores.direct_reads
    )
    before, read_before = store.counters(), process_meter.os_read_bytes()
    found, checksum = found_of(store.get, keys)
    read_after, after = process_meter.os_read_bytes(), store.counters()
    store.close()
    outcome = timed(meter, len(keys), found)
    outcome.result_checksum = checksum
    if read_before is not None and read_after is not None:
        outcome.os_read_bytes = read_after - read_before
    if timed_before is not None and timed_after is not None:
        outcome.os_read_bytes_timed = timed_after - timed_before
    counted = {name: after[name] - before[name] for name in after}
    outcome.data_block_reads = counted.get("data_block_reads")
    outcome.filter_negatives = counted.get("filter_negatives")
    if "filter_positives" in counted:
        outcome.filter_false_positives = (
            counted["filter_positives"] - counted["filter_true_positives"]
        )
    return outcome


def _cold_numbers(stores: Stores) -> list[int]:
    return stores.order(2)[: max(500, stores.entries // 50)]


def readrandom_cold(stores: Stores) -> Outcome:
    """Lookups of present keys, with dropped pages and a small cache.

    The cache has room for a 64th of the data.
    """
    return _cold_gets(stores, stores.present(_cold_numbers(stores)))


def readmissing_cold(stores: Stores) -> Outcome:
    """Lookups of absent keys, with dropped pages and a small cache.

    The cache has room for a 64th of the data.
    """
    return _cold_gets(stores, stores.absent(_cold_numbers(stores)))
