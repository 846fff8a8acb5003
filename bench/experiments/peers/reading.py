"""The phases with a warm cache that holds everything."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Final

from ...engines.base import Store
from ...harness.process_meter import Meter
from .beside import beside, gets_with_latencies
from .outcome import Outcome, Passes, timed, with_latencies
from .stores import Stores

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


def warm_gets(
    stores: Stores, open_store: Callable[[], Store], keys_of: Callable[[Sequence[int]], list[bytes]]
) -> Passes:
    numbers = stores.asked()
    found, checksum = found_of(open_store().get, keys_of(numbers))
    while True:
        keys = keys_of(numbers)
        get = open_store().get
        with Meter() as meter:
            for key in keys:
                get(key)
        yield timed(meter, len(keys), found, checksum)


def readrandom(stores: Stores) -> Passes:
    """Lookups of present keys."""
    return warm_gets(stores, stores.for_reads, stores.present)


def readmissing(stores: Stores) -> Passes:
    """Lookups of absent keys that lie between present ones."""
    return warm_gets(stores, stores.for_reads, stores.absent)


def multi_get(stores: Stores) -> Passes:
    """Lookups of 100 present keys a call, if the library can; per key."""
    numbers = stores.asked()

    def calls() -> list[list[bytes]]:
        keys = stores.present(numbers)
        return [keys[at : at + MULTI_GET_KEYS] for at in range(0, len(keys), MULTI_GET_KEYS)]

    store = stores.for_reads()
    found = checksum = 0
    for call in calls():
        for value in store.multi_get(call):
            if value is not None:
                found += 1
                checksum = zlib.crc32(value, checksum)
    while True:
        fresh = calls()
        ask = stores.for_reads().multi_get
        with Meter() as meter:
            for call in fresh:
                ask(call)
        yield timed(meter, len(numbers), found, checksum)


def _warm_scan(stores: Stores, reverse: bool) -> Passes:
    stores.for_reads().scan(None, None, reverse)
    while True:
        store = stores.for_reads()
        with Meter() as meter:
            taken = store.scan(None, None, reverse)
        yield timed(meter, taken, taken)


def readseq(stores: Stores) -> Passes:
    """All entries in key order; per entry."""
    return _warm_scan(stores, reverse=False)


def readreverse(stores: Stores) -> Passes:
    """All entries in the opposite order; per entry."""
    return _warm_scan(stores, reverse=True)


def warm_seeks(stores: Stores, open_store: Callable[[], Store], count: int, limit: int) -> Passes:
    """Scans of ``limit`` entries from random keys."""
    store = open_store()
    store.scan(None, None)
    numbers = stores.order(2)[:count]
    entries = sum([store.scan(key, limit) for key in stores.present(numbers)])
    while True:
        keys = stores.present(numbers)
        scan = open_store().scan
        with Meter() as meter:
            for key in keys:
                scan(key, limit)
        yield timed(meter, len(keys), entries)


def seekrandom(stores: Stores) -> Passes:
    """Scans of 10 entries from a random key; per scan."""
    return warm_seeks(stores, stores.for_reads, max(100, stores.entries // 50), 10)


def seekrandom_100(stores: Stores) -> Passes:
    """Scans of 100 entries from a random key; per scan."""
    return warm_seeks(stores, stores.for_reads, max(100, stores.entries // 100), 100)


def reopen(stores: Stores) -> Passes:
    """Opening the settled store, and one lookup, as some open lazily; per opening."""
    while True:
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
        yield Outcome(operations=len(keys), seconds=seconds, cpu_s=cpu, result_count=found)


def readwhilewriting(stores: Stores) -> Passes:
    """Lookups of present keys while another thread overwrites keys at full speed."""
    numbers = stores.order(2)[: max(500, stores.entries // 10)]
    found, _ = found_of(stores.for_reads().get, stores.present(numbers))
    written_numbers = stores.order(3)
    pairs = list(zip(stores.present(written_numbers), stores.values(written_numbers), strict=True))
    written = 0

    def write(begun: threading.Event, stop: threading.Event) -> None:
        nonlocal written
        put, stopped = stores.for_reads().put, stop.is_set
        for key, value in cycle(pairs):
            put(key, value)
            written += 1
            begun.set()
            if stopped():
                return

    while True:
        store, keys = stores.for_reads(), stores.present(numbers)
        with beside(write):
            written_before = written
            meter, taken = gets_with_latencies(store, keys)
            written_after = written
        outcome = with_latencies(timed(meter, len(keys), found), taken)
        outcome.writer_operations = written_after - written_before
        yield outcome
