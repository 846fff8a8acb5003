"""Back-pressure: slows writers down while level 0 has too many runs."""

from __future__ import annotations

import threading
import time
from typing import Final

from lsmkv.changes import await_change
from lsmkv.stats import Stats

SLOWED_BYTES_PER_S: Final = 16 * 1024 * 1024
_SHORTEST_SLEEP_S: Final = 0.001  # shorter ones add up first


class Throttle:
    """Limits writers to :data:`SLOWED_BYTES_PER_S` while ``on``."""

    def __init__(self, stats: Stats) -> None:
        self.on = False
        self._stats = stats
        self._owed_s = 0.0

    def delay(self, size_bytes: int, ticket: threading.Lock) -> float:
        """Sleep for as long as this write takes at the limit.  The caller holds no lock.

        Short sleeps add up first.  Returns the seconds.
        """
        self._owed_s += size_bytes / SLOWED_BYTES_PER_S
        self._stats.write_slowdowns += 1
        slept_s = 0.0
        if self._owed_s >= _SHORTEST_SLEEP_S:
            started = time.perf_counter()
            await_change(ticket, self._owed_s)
            slept_s = time.perf_counter() - started
            self._owed_s = 0.0
            self._stats.write_slowdown_s += slept_s
        return slept_s
