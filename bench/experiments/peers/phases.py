"""The phases by name: each is a function of one engine's stores.

A timed loop has nothing but the operation.  Results are counted before the clock starts, in the pass
that warms the cache, or after it has stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bench.experiments.peers import cold, reading, writing
from bench.experiments.peers.outcome import Outcome
from bench.experiments.peers.stores import Stores

PHASES: Final[dict[str, Callable[[Stores], Outcome]]] = {
    "sustained": writing.sustained,  # first: its memory is best measured in a new process
    "fillseq": writing.fillseq,
    "fillbatch": writing.fillbatch,
    "overwrite": writing.overwrite,
    "fillsync": writing.fillsync,
    "fillsync_8": writing.fillsync_8,
    "fillrandom": writing.fillrandom,
    "readrandom": reading.readrandom,
    "readmissing": reading.readmissing,
    "multi_get": reading.multi_get,
    "readseq": reading.readseq,
    "readreverse": reading.readreverse,
    "seekrandom": reading.seekrandom,
    "seekrandom_100": reading.seekrandom_100,
    "readrandom_cold": cold.readrandom_cold,
    "readmissing_cold": cold.readmissing_cold,
    "open": reading.reopen,
    "readwhilewriting": reading.readwhilewriting,  # the last to use the store: it changes it
    "disk_none": writing.disk_none,
    "disk_zstd": writing.disk_zstd,
}
"""In the order of measurement."""
