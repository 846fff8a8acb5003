"""Giving the memory that background work has let go of back to the operating system.

A merge takes and drops buffers of all sizes, and glibc's ``malloc`` keeps what was freed: once a block of
some MiB was (the table of a memtable's dict), it maps none of up to that size any more, and each thread
that allocates keeps up to twice as much for itself (``M_MMAP_THRESHOLD``, mallopt(3)).
``malloc_trim`` gives it back.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from typing import Final

_REST: Final = 50  # it takes so small a part of the time, however large the program's own heap is


def trimmer() -> Callable[[int], object] | None:
    """``malloc_trim``, which lets other threads of the interpreter run; None where there is none."""
    with contextlib.suppress(ImportError, OSError, TypeError, AttributeError):
        import ctypes

        found: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
        return found
    return None


class Heap:
    """The memory that the process has taken from the operating system.  For any number of threads."""

    def __init__(
        self,
        find_trim: Callable[[], Callable[[int], object] | None] = trimmer,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._find_trim = find_trim
        self._trim: Callable[[int], object] | None = None
        self._clock = clock
        self._due_s = -math.inf

    def give_back(self) -> None:
        """Give back what is free, unless that was done a short while ago."""
        started_s = self._clock()
        if started_s < self._due_s:
            return
        if self._trim is None:
            self._trim = self._find_trim()
            if self._trim is None:
                self._due_s = math.inf
                return
        self._trim(0)
        ended_s = self._clock()
        self._due_s = ended_s + _REST * (ended_s - started_s)
