"""The phases with a warm cache that holds everything."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Final

from bench.experiments.peers.outcome import Outcome, steps, timed, with_latencies
from bench.experiments.peers.stores import Stores
from bench.harness.process_meter import Meter

OPENINGS: Final = 5
MULTI_GET_KEYS: Final = 100


def found_of(get: Callable[[bytes], bytes | None], keys: Sequence[bytes]) -> tuple[int, int]:
    """The number of found keys, and a CRC-32 of their values."""
    found = checksum = 0
    for key in keys:
        value = get(key)
        if value is not None:
            found += 1
            checksum = zlib.crc32(value, checksum)
    return found, checksum


def _warm_gets(stores: Stores, warm: Sequence[bytes], keys: Sequence[bytes]) -> Outcome:
    store = stores.for_reads()
    found, checksum = found_of(store.get, warm)
    get = store.get
    with Meter() as meter:
        for key in keys:
            get(key)
    outcome = timed(meter, len(keys), found)
    outcome.result_checksum = checksum
    return outcome


def readrandom(stores: Stores) -> Outcome:
    """Lookups of present keys."""
    numbers = stores.asked()
    return _warm_gets(stores, stores.present(numbers), stores.present(numbers))


def readmissing(stores: Stores) -> Outcome:
    """Lookups of absent keys that lie between present ones."""
    numbers = stores.asked()
    return _warm_gets(stores, stores.absent(numbers), stores.absent(numbers))


def multi_get(stores: Stores) -> Outcome:
    """Lookups of 100 present keys a call; per key.

    The library takes them in one call if it can.
    """
    numbers = stores.asked()
    calls = []
    for _ in range(2):
        keys = stores.present(numbers)
        calls.append([keys[at : at + MULTI_GET_KEYS] for at in range(0, len(keys), MULTI_GET_KEYS)])
    store = stores.for_reads()
    found = checksum = 0
    for call in calls[0]:
        for value in store.multi_get(call):
            if value is not None:
                found += 1
                checksum = zlib.crc32(value, checksum)
    ask = store.multi_get
    with Meter() as meter:
        for call in calls[1]:
            ask(call)
    outcome = timed(meter, len(numbers), found)
    outcome.result_checksum = checksum
    return outcome


def _warm_scan(stores: Stores, reverse: bool) -> Outcome:
    store = stores.for_reads()
    store.scan(None, None, reverse)
    with Meter() as meter:
        taken = store.scan(None, None, reverse)
    return timed(meter, taken, taken)


def readseq(stores: Stores) -> Outcome:
    """All entries in key order; per entry."""
    return _warm_scan(stores, reverse=False)


def readreverse(stores: Stores) -> Outcome:
    """All entries in the opposite order; per entry."""
    return _warm_scan(stores, reverse=True)


def _warm_seeks(stores: Stores, count: int, limit: int) -> Outcome:
    store = stores.for_reads()
    store.scan(None, None)
    numbers = stores.order(2)[:count]
    keys = stores.present(numbers)
    entries = sum([store.scan(key, limit) for key in stores.present(numbers)])
    scan = store.scan
    with Meter() as meter:
        for key in keys:
            scan(key, limit)
    return timed(meter, len(keys), entries)


def seekrandom(stores: Stores) -> Outcome:
    """Scans of 10 entries from a random key; per scan."""
    return _warm_seeks(stores, max(100, stores.entries // 50), 10)


def seekrandom_100(stores: Stores) -> Outcome:
    """Scans of 100 entries from a random key; per scan."""
    return _warm_seeks(stores, max(100, stores.entries // 100), 100)


def reopen(stores: Stores) -> Outcome:
    """Opening the settled store, and one lookup; per opening.

    Some engines open lazily.
    """
    stores.closed_for_reads()
    keys = stores.present(stores.order(2)[:OPENINGS])
    seconds = cpu = 0.0
    found = 0
    for key in keys:
        with Meter() as meter:
            store = stores.open("reads")
            found += store.get(key) is not None
        seconds += meter.seconds
        cpu += meter.cpu_s
        store.close()
    return Outcome(operations=len(keys), seconds=seconds, cpu_s=cpu, result_count=found)


def readwhilewriting(stores: Stores) -> Outcome:
    """Lookups of present keys while another thread overwrites keys at full speed."""
    count = max(500, stores.entries // 10)
    keys = stores.present(stores.order(2)[:count])
    numbers = stores.order(3)
    written_keys, values = stores.present(numbers), stores.values(numbers)
    store = stores.for_reads()
    found, _ = found_of(store.get, keys)
    stop, begun = threading.Event(), threading.Event()
    written = 0

    def write() -> None:
        nonlocal written
        put, stopped = store.put, stop.is_set
        while True:
            for key, value in zip(written_keys, values, strict=True):
                put(key, value)
                written += 1
                begun.set()
                if stopped():
                    return

    writer = threading.Thread(target=write)
    writer.start()
    begun.wait()
    clock = time.perf_counter_ns
    written_before = written
    try:
        with Meter() as meter:
            stamps = [clock()]
            for key in keys:
                store.get(key)  # the store may replace ``get``: see Store
                stamps.append(clock())
        written_after = written
    finally:
        stop.set()
        writer.join()
    outcome = with_latencies(timed(meter, len(keys), found), steps(stamps))
    outcome.writer_operations = written_after - written_before
    return outcome
