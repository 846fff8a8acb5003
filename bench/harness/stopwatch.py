"""Times of single operations, without the garbage collector."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Keep the garbage collector off."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def each_us(operation: Callable[[bytes], object], keys: Sequence[bytes]) -> list[float]:
    """Microseconds of the operation on each key, reading the clock included."""
    clock = time.perf_counter_ns
    taken = []
    with no_collection():
        for key in keys:
            began = clock()
            operation(key)
            taken.append((clock() - began) / 1000)
    return taken
