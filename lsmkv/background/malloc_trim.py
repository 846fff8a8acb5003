"""Returns memory that background work has freed to the operating system.

glibc keeps what merges free, in each thread (``M_MMAP_THRESHOLD`` in mallopt(3)).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from functools import cache
from time import monotonic
from typing import Final

_REST: Final = 50  # trimming takes at most this part of the time, however large the heap is
_due_s = -math.inf


def trim_heap() -> None:
    """Call ``malloc_trim`` from time to time; other threads run meanwhile."""
    global _due_s
    started_s = monotonic()
    if started_s < _due_s:
        return
    trim = find_malloc_trim()
    if trim is None:
        _due_s = math.inf
        return
    trim(0)
    ended_s = monotonic()
    _due_s = ended_s + _REST * (ended_s - started_s)


@cache
def find_malloc_trim() -> Callable[[int], object] | None:
    with contextlib.suppress(ImportError, OSError, TypeError, AttributeError):
        import ctypes

        found: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
        return found
    return None
