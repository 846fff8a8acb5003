"""The phases that read what deletions, overwrites and compactions have made of a store."""

from __future__ import annotations

import gc
import threading
import time
from itertools import chain, cycle

from ...engines.base import Store
from ...harness.process_meter import cpu_s
from .beside import beside, gets_with_latencies
from .outcome import Outcome, Passes, timed, with_latencies
from .reading import found_of, warm_gets, warm_seeks
from .stores import Stores


def readdeleted(stores: Stores) -> Passes:
    """Lookups after half of the keys were deleted, the rest overwritten thrice; half ask for those."""
    return warm_gets(stores, stores.with_deletions, stores.present)


def scandeleted(stores: Stores) -> Passes:
    """Scans of 100 entries from a random key of that store, across deleted ones; per scan."""
    return warm_seeks(stores, stores.with_deletions, max(100, stores.entries // 100), 100)


def readcompacting(stores: Stores) -> Passes:
    """Lookups, half absent, while a thread overwrites and compacts (LMDB, SQLite: overwrites)."""
    batches = stores.batches(stores.order(3)[: max(1, stores.entries // 16)])
    numbers = stores.order(2)[: max(500, stores.entries // 10)]
    with stores.fresh(
        "compacting", write_buffer_size_bytes=stores.small_write_buffer_bytes()
    ) as store:
        for batch in stores.batches(stores.order(0)):
            store.put_batch(batch)
        store.settle()
        found, checksum = found_of(store.get, stores.mixed(numbers))
        compacted: list[tuple[float, float]] = []

        def compact(begun: threading.Event, stop: threading.Event) -> None:
            while not stop.is_set():
                for batch in batches:
                    store.put_batch(batch)
                began = time.perf_counter()
                begun.set()
                store.compact()
                compacted.append((began, time.perf_counter()))

        while True:
            compacted.clear()
            keys = stores.mixed(numbers)
            with beside(compact):
                began = time.perf_counter()
                meter, taken = gets_with_latencies(store, keys)
                ended = time.perf_counter()
            outcome = with_latencies(timed(meter, len(keys), found, checksum), taken)
            outcome.compacting_share = share_inside(compacted, began, ended)
            yield outcome


def compacting(stores: Stores) -> Outcome:
    """Two full compactions beside lookups, after a fill and after overwrites; per entry merged."""
    fills = [
        stores.batches(stores.order(0)),
        stores.batches(stores.order(3)[: stores.entries // 16]),
    ]
    keys = stores.mixed(stores.order(2)[: max(500, stores.entries // 10)])
    taken: list[int] = []
    spent_s = 0.0
    with stores.fresh("compacting") as store:
        merges = type(store).compact is not Store.compact

        def look_up(begun: threading.Event, stop: threading.Event) -> None:
            gc.freeze()
            clock = time.perf_counter_ns
            for key in cycle(keys):
                began = clock()
                store.get(key)
                taken.append(clock() - began)
                begun.set()
                if stop.is_set():
                    return

        before = cpu_s()
        for batches in fills:
            for batch in batches:
                store.put_batch(batch)
            with beside(look_up):
                began = time.perf_counter()
                store.compact()
                spent_s += time.perf_counter() - began
        outcome = Outcome(
            operations=sum(map(len, chain(*fills))),
            seconds=spent_s if merges else None,
            cpu_s=cpu_s() - before,
            result_count=store.scan(None, None),
        )
    return with_latencies(outcome, taken)


def share_inside(spans: list[tuple[float, float]], began: float, ended: float) -> float:
    """The part of the time between two moments that lies in these spans.

    >>> share_inside([(0.0, 2.0), (3.0, 9.0)], 1.0, 5.0)
    0.75
    """
    inside = (min(end, ended) - max(start, began) for start, end in spans)
    return sum(max(0.0, part) for part in inside) / (ended - began)
