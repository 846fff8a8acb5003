"""Shared parts of the ``load`` scenarios: job, options and final checks."""

from __future__ import annotations

import gc
import random
import resource
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import lsmkv
from lsmkv.storage.storage import Storage
from torture.framework.part import Scale
from torture.framework.store_checks import check_no_leftovers

SMALL: Final = lsmkv.Options(
    write_buffer_size_bytes=16_384,
    block_size_bytes=512,
    block_cache_size_bytes=65_536,
    table_size_bytes=32_768,
    level1_size_bytes=65_536,
    size_ratio=4,
    level0_compaction_trigger=2,
)
"""Options with buffers so small that flushes and compactions run all the time."""

BACKGROUNDS: Final[dict[str, dict[str, Any]]] = {
    "thread": {"background": "thread"},
    "process": {"background": "process", "process_job_size_bytes": 0},
}
"""Options that choose where background work runs."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a scenario.

    Attributes:
        variant: name of the scenario's variant.
        directory: an empty directory of its own.
        seconds: about how long the run works.
        counts: counts that the scenario adds to.
    """

    variant: str
    seed: int
    directory: Path
    seconds: float
    scale: Scale
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def path(self) -> Path:
        return self.directory / "store"

    def dice(self, name: object) -> random.Random:
        """A random generator of its own for each name."""
        return random.Random(f"load {self.seed} {name}")

    def deadline(self) -> float:
        """The end of the run's time, as ``time.monotonic`` counts."""
        return time.monotonic() + self.seconds


def check_tidy(db: lsmkv.DB) -> None:
    """UnsoundError if the directory of a store without readers holds unneeded files."""
    gc.collect()  # iterators and snapshots that nobody closed
    check_no_leftovers(db, Storage())


def allow_many_descriptors() -> int:
    """Raise this process's limit on open files as far as possible; return the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 1 << 16 if hard == resource.RLIM_INFINITY else hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most
