"""The phases that write: fills, synced puts, and sizes on disk."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from ...engines.base import Store
from ...harness import process_meter
from ...harness.process_meter import Meter
from .outcome import Outcome, steps, timed, with_latencies
from .stores import Stores

THREADS: Final = 8


def _put_all(store: Store, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
    put = store.put
    for key, value in zip(keys, values, strict=True):
        put(key, value)


def _put_each(
    put: Callable[[bytes, bytes], object], keys: Sequence[bytes], values: Sequence[bytes]
) -> list[int]:
    """The nanoseconds of each put."""
    gc.freeze()  # or a put waits for the collector, which walks the lists of all keys
    clock = time.perf_counter_ns
    stamps = [clock()]
    stamp = stamps.append
    for key, value in zip(keys, values, strict=True):
        put(key, value)
        stamp(clock())
    return steps(stamps)


def sustained(stores: Stores) -> Outcome:
    """A random fill, with flushes and compactions until none is due; then once more for latencies."""
    numbers = stores.order(0)
    keys, values = stores.present(numbers), stores.values(numbers)
    buffer = stores.small_write_buffer_bytes()
    memory_before = process_meter.restart_peak_memory()
    with stores.fresh("sustained", write_buffer_size_bytes=buffer) as store:
        with Meter() as meter:
            _put_all(store, keys, values)
            store.settle()
        peak = process_meter.peak_memory_bytes() - memory_before
        outcome = timed(meter, len(keys), store.scan(None, None))
    outcome.peak_memory_bytes = peak
    with stores.fresh("sustained", write_buffer_size_bytes=buffer) as store:
        return with_latencies(outcome, _put_each(store.put, stores.present(numbers), values))


def fillcompacted(stores: Stores) -> Outcome:
    """A random fill with a write buffer of 64 MiB, its flush and a full compaction, all timed."""
    numbers = stores.order(0)
    keys, values = stores.present(numbers), stores.values(numbers)
    memory_before = process_meter.restart_peak_memory()
    with stores.fresh("fillcompacted") as store:
        with Meter() as meter:
            _put_all(store, keys, values)
            store.compact()
        peak = process_meter.peak_memory_bytes() - memory_before
        outcome = timed(meter, len(keys), store.scan(None, None))
    outcome.peak_memory_bytes = peak
    return outcome


def fillseq(stores: Stores) -> Outcome:
    """Single puts in key order."""
    numbers = range(stores.entries)
    keys, values = stores.present(numbers), stores.values(numbers)
    with stores.fresh("fillseq") as store:
        with Meter() as meter:
            _put_all(store, keys, values)
        return timed(meter, len(keys), store.scan(None, None))


def fillrandom(stores: Stores) -> Outcome:
    """Single puts in random order; the store is settled, outside the clock, and kept for reading."""
    numbers = stores.order(0)
    keys, values = stores.present(numbers), stores.values(numbers)
    stores.close()
    stores.remove("reads")
    store = stores.open("reads")
    with Meter() as meter:
        _put_all(store, keys, values)
    store.settle()
    store.close()
    return timed(meter, len(keys), stores.for_reads().scan(None, None))


def fillbatch(stores: Stores) -> Outcome:
    """Atomic batches of 1000 in random order."""
    batches = stores.batches(stores.order(0))
    with stores.fresh("fillbatch") as store:
        put_batch = store.put_batch
        with Meter() as meter:
            for batch in batches:
                put_batch(batch)
        return timed(meter, stores.entries, store.scan(None, None))


def overwrite(stores: Stores) -> Outcome:
    """Single puts of new values for present keys, in another random order."""
    numbers = stores.order(1)
    keys, values = stores.present(numbers), stores.values(numbers, shift=1)
    with stores.fresh("overwrite") as store:
        for batch in stores.batches(stores.order(0)):
            store.put_batch(batch)
        store.settle()
        with Meter() as meter:
            _put_all(store, keys, values)
        return timed(meter, len(keys), store.scan(None, None))


def sync_count(entries: int) -> int:
    """The number of synced puts: few, because each waits for the disk; a multiple of the threads."""
    return THREADS * max(2, min(250, entries // 2000))


def fillsync(stores: Stores) -> Outcome:
    """Single synced puts of one thread."""
    numbers = stores.order(0)[: sync_count(stores.entries)]
    keys, values = stores.present(numbers), stores.values(numbers)
    with stores.fresh("fillsync", synced=True) as store:
        with Meter() as meter:
            taken = _put_each(store.put_sync, keys, values)
        return with_latencies(timed(meter, len(keys), store.scan(None, None)), taken)


def fillsync_8(stores: Stores) -> Outcome:
    """Single synced puts of eight threads at once; per operation of all of them."""
    numbers = stores.order(0)[: sync_count(stores.entries)]
    keys, values = stores.present(numbers), stores.values(numbers)
    taken: list[int] = []
    with stores.fresh("fillsync_8", synced=True) as store:

        def write(part: int) -> None:
            took = _put_each(store.put_sync, keys[part::THREADS], values[part::THREADS])
            taken.extend(took)

        threads = [threading.Thread(target=write, args=(part,)) for part in range(THREADS)]
        with Meter() as meter:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return with_latencies(timed(meter, len(keys), store.scan(None, None)), taken)


def _disk(stores: Stores, compression: str) -> Outcome:
    numbers = stores.order(0)
    stores.remove("disk")
    store = stores.open("disk", compression=compression)
    # Single puts: for each random batch LMDB would copy most pages, and its file never shrinks.
    _put_all(store, stores.present(numbers), stores.values(numbers))
    store.settle()
    count = store.scan(None, None)
    store.close()
    size_bytes = process_meter.sync_files(stores.path("disk"))
    stores.remove("disk")
    return Outcome(
        operations=stores.entries,
        seconds=None,
        cpu_s=None,
        result_count=count,
        disk_bytes=size_bytes,
    )


def disk_none(stores: Stores) -> Outcome:
    """Size of the settled store's uncompressed files after a random fill."""
    return _disk(stores, "none")


def disk_zstd(stores: Stores) -> Outcome:
    """The same with zstd (LevelDB: Snappy; LMDB and SQLite: no compression)."""
    return _disk(stores, "zstd")
