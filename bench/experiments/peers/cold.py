"""The phases with dropped pages and a small cache, which count their reads.

Engines load indexes and filters at different times: RocksDB when it opens, lsmkv and LevelDB at the
first lookup in a table.  So there are two windows, the same for all: opening and lookups together, and
lookups alone when everything is loaded.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ...engines.base import Store
from ...harness import page_cache
from ...harness.memory_group import memory_group
from ...harness.process_meter import Meter, cpu_s, os_read_bytes
from .outcome import Outcome, Passes, timed, with_latencies
from .reading import found_of
from .stores import Stores

THREADS: Final = 8
LOADING_STEP: Final = 1000
"""Before lookups that are measured alone, one absent key of so many neighbours is asked for."""

Keys = Callable[[Sequence[int]], list[bytes]]


def readrandom_cold_open(stores: Stores) -> Passes:
    """Opening, and lookups of present keys; per lookup, in one thread as all without an 8."""
    return _cold_gets(stores, stores.present, opening=True)


def readmissing_cold_open(stores: Stores) -> Passes:
    """Opening, and lookups of absent keys; per lookup."""
    return _cold_gets(stores, stores.absent, opening=True)


def readrandom_cold(stores: Stores) -> Passes:
    """Lookups of present keys alone, when the engine has loaded what it keeps."""
    return _cold_gets(stores, stores.present)


def readmissing_cold(stores: Stores) -> Passes:
    """Lookups of absent keys alone, when the engine has loaded what it keeps."""
    return _cold_gets(stores, stores.absent)


def readrandom_cold_8(stores: Stores) -> Passes:
    """The same of present keys, by eight threads at once; per lookup of all of them."""
    return _cold_gets(stores, stores.present, threads=THREADS)


def readmissing_cold_8(stores: Stores) -> Passes:
    """The same of absent keys, by eight threads at once; per lookup of all of them."""
    return _cold_gets(stores, stores.absent, threads=THREADS)


def readrandom_limited(stores: Stores) -> Passes:
    """Lookups of present keys, with less page cache than data."""
    return _limited_gets(stores, stores.present)


def readmissing_limited(stores: Stores) -> Passes:
    """Lookups of absent keys, with less page cache than data."""
    return _limited_gets(stores, stores.absent)


def _cold_numbers(stores: Stores) -> list[int]:
    return stores.order(2)[: max(500, stores.entries // 50)]


def _load(stores: Stores, store: Store) -> None:
    """Have every table's index and filters loaded by absent keys, and in B+ trees every inner page."""
    for key in stores.absent(
        range(LOADING_STEP // 2 % stores.entries, stores.entries, LOADING_STEP)
    ):
        store.get(key)


@dataclass(frozen=True, slots=True)
class _Read:
    """One pass of lookups from a cold start."""

    meter: Meter
    results: tuple[int, int]
    counted: dict[str, int]
    os_bytes: int | None
    page_cache_bytes: int


def _cold_gets(stores: Stores, keys_of: Keys, *, opening: bool = False, threads: int = 1) -> Passes:
    """The first pass counts too: with statistics and direct reads, which take time, outside the clock."""
    numbers = _cold_numbers(stores)
    counting = _read(stores, keys_of(numbers), opening, threads, counting=True)
    found, checksum = counting.results
    first = True
    while True:
        read = _read(stores, keys_of(numbers), opening, threads, counting=False)
        outcome = timed(read.meter, len(numbers), found, checksum)
        outcome.os_read_bytes_timed = read.os_bytes
        outcome.page_cache_bytes_before = read.page_cache_bytes
        if first:
            _add_counts(outcome, counting)
            first = False
        yield outcome


def _add_counts(outcome: Outcome, counting: _Read) -> None:
    outcome.os_read_bytes = counting.os_bytes
    counted = counting.counted
    outcome.data_block_reads = counted.get("data_block_reads")
    outcome.filter_negatives = counted.get("filter_negatives")
    if "filter_positives" in counted:
        outcome.filter_false_positives = (
            counted["filter_positives"] - counted["filter_true_positives"]
        )


def _read(
    stores: Stores, keys: Sequence[bytes], opening: bool, threads: int, *, counting: bool
) -> _Read:
    directory = stores.closed_for_reads()
    parts = [keys[part::threads] for part in range(threads)]
    ask = _results if counting else _ask
    left = page_cache.drop(directory)
    if opening:
        before = os_read_bytes()
        with Meter() as meter:
            store = _open(stores, counting)
            results = _by_threads(store, parts, ask)
        after = os_read_bytes()
        counted = store.counters()
    else:
        store = _open(stores, counting)
        _load(stores, store)
        left = page_cache.drop(directory)
        counters, before = store.counters(), os_read_bytes()
        with Meter() as meter:
            results = _by_threads(store, parts, ask)
        after = os_read_bytes()
        counted = {name: value - counters[name] for name, value in store.counters().items()}
    store.close()
    os_bytes = None if before is None or after is None else after - before
    return _Read(meter, _joined(results), counted, os_bytes, left)


def _open(stores: Stores, counting: bool) -> Store:
    return stores.open(
        "reads",
        cache_size_bytes=stores.small_cache_bytes(),
        count=counting,
        direct_reads=counting and stores.direct_reads,
    )


Get = Callable[[bytes], bytes | None]
Ask = Callable[[Get, Sequence[bytes]], tuple[int, int]]


def _ask(get: Get, keys: Sequence[bytes]) -> tuple[int, int]:
    for key in keys:
        get(key)
    return 0, 0


_results: Ask = found_of


def _by_threads(store: Store, parts: Sequence[Sequence[bytes]], ask: Ask) -> list[tuple[int, int]]:
    """What each thread finds, in the order of the parts."""
    if len(parts) == 1:
        return [ask(store.get, parts[0])]
    getters = store.getters(len(parts))
    found: dict[int, tuple[int, int]] = {}

    def work(number: int) -> None:
        found[number] = ask(getters[number], parts[number])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(parts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[number] for number in range(len(parts))]  # KeyError: a thread failed


def _joined(results: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The keys found by all threads, and one checksum."""
    if len(results) == 1:
        return results[0]
    checksums = b"".join(checksum.to_bytes(4, "little") for _, checksum in results)
    return sum(found for found, _ in results), zlib.crc32(checksums)


class _Limiter:
    """Drops a store's pages when its reads have filled as much of the page cache as is allowed.

    Attributes:
        read_bytes: what was read in all.
        most_bytes: the most that was found in the page cache.
    """

    def __init__(self, directory: str, limit_bytes: int) -> None:
        left = page_cache.drop(directory)
        began = os_read_bytes()
        if began is None or left > limit_bytes:
            raise RuntimeError(
                f"{left:,} bytes of {directory} stay in the page cache: it cannot be limited to "
                f"{limit_bytes:,} bytes here; name a directory on a disk with --work"
            )
        self._directory = directory
        self._limit_bytes = limit_bytes
        self._began = self._emptied = began
        self.read_bytes = self.most_bytes = 0

    def check(self) -> None:
        """To be called after each lookup, outside the clock."""
        now = os_read_bytes() or 0
        self.read_bytes = now - self._began
        if now - self._emptied >= self._limit_bytes:
            self.measure()
            page_cache.drop(self._directory, tries=1)
            self._emptied = os_read_bytes() or 0

    def measure(self) -> None:
        """Look at how much the page cache holds."""
        self.most_bytes = max(self.most_bytes, page_cache.resident_bytes(self._directory))


def _limited_gets(stores: Stores, keys_of: Keys) -> Passes:
    """Lookups while the page cache holds from nothing to the limit, when all is dropped."""
    numbers = stores.order(2)[: max(500, stores.entries // 500)]
    limit = stores.page_cache_limit_bytes()
    found, checksum = found_of(stores.for_reads().get, keys_of(numbers))
    while True:
        directory = stores.closed_for_reads()
        store = stores.open(
            "reads", cache_size_bytes=stores.small_cache_bytes(), larger_than_memory=True
        )
        try:
            _load(stores, store)
            limiter = _Limiter(directory, limit)
            for key in keys_of(stores.order(3)[: 4 * len(numbers)]):
                if limiter.read_bytes >= limit // 2:
                    break
                store.get(key)
                limiter.check()
            keys = keys_of(numbers)
            get, clock = store.get, time.perf_counter_ns
            read_before, cpu_before = limiter.read_bytes, cpu_s()
            taken = []
            for key in keys:
                began = clock()
                get(key)
                taken.append(clock() - began)
                limiter.check()
            limiter.measure()
            cpu = cpu_s() - cpu_before
        finally:
            store.close()
        outcome = Outcome(
            operations=len(keys),
            seconds=sum(taken) / 1e9,
            cpu_s=cpu,
            result_count=found,
            result_checksum=checksum,
            os_read_bytes_timed=limiter.read_bytes - read_before,
            page_cache_bytes_most=limiter.most_bytes,
        )
        yield with_latencies(outcome, taken)


def readrandom_group(stores: Stores) -> Passes:
    """Lookups of present keys in half as much memory as data, an eighth for the cache."""
    numbers = stores.order(2)[: max(500, stores.entries // 25)]
    found, checksum = found_of(stores.for_reads().get, stores.present(numbers))
    while True:
        directory = stores.closed_for_reads()
        before, keys = stores.present(stores.order(3)[: len(numbers)]), stores.present(numbers)
        left = page_cache.drop(directory)
        with memory_group(stores.group_limit_bytes()):
            store = stores.open(
                "reads", cache_size_bytes=stores.data_bytes // 8, larger_than_memory=True
            )
            try:
                _ask(store.get, before)
                read_before = os_read_bytes() or 0
                with Meter() as meter:
                    _ask(store.get, keys)
                read_bytes = (os_read_bytes() or 0) - read_before
                held = page_cache.resident_bytes(directory)
            finally:
                store.close()
        outcome = timed(meter, len(keys), found, checksum)
        outcome.os_read_bytes_timed = read_bytes
        outcome.page_cache_bytes_before = left
        outcome.page_cache_bytes_most = held
        yield outcome
