"""Lookups beside a thread that does something else to the store."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ...engines.base import Store
from ...harness.process_meter import Meter
from .outcome import steps


@contextmanager
def beside(work: Callable[[threading.Event, threading.Event], None]) -> Iterator[None]:
    """Run ``work(begun, stop)`` in a thread, from when it sets ``begun`` to the end of the block."""
    begun, stop = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work(begun, stop)
        except BaseException as error:
            errors.append(error)
        finally:
            begun.set()  # or it would be awaited for ever

    thread = threading.Thread(target=run)
    thread.start()
    begun.wait()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if errors:
        raise errors[0]


def gets_with_latencies(store: Store, keys: Sequence[bytes]) -> tuple[Meter, list[int]]:
    """Look all keys up; also the nanoseconds of each lookup."""
    gc.freeze()  # or a lookup waits for the collector, which walks the lists of all keys
    clock = time.perf_counter_ns
    with Meter() as meter:
        stamps = [clock()]
        for key in keys:
            store.get(key)  # the store may replace ``get``: see Store
            stamps.append(clock())
    return meter, steps(stamps)
