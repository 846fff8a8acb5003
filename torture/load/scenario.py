"""What a scenario of the part ``load`` is given, and what it is asked of every store in the end."""

from __future__ import annotations

import gc
import os
import random
import resource
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import lsmkv
from lsmkv.storage.storage import Storage
from torture.crash.examination import left_over
from torture.framework.part import Scale, UnsoundError

SMALL: Final = lsmkv.Options(
    write_buffer_size_bytes=16_384,
    block_size_bytes=512,
    block_cache_size_bytes=65_536,
    table_size_bytes=32_768,
    level1_size_bytes=65_536,
    size_ratio=4,
    level0_compaction_trigger=2,
)
"""Buffers so small that flushes and compactions run all the time."""

DESCRIPTORS: Final = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
"""A directory of the numbers of the descriptors that a process has open."""

BACKGROUNDS: Final[dict[str, dict[str, Any]]] = {
    "thread": {"background": "thread"},
    "process": {"background": "process", "process_job_size_bytes": 0},
}
"""Options that say where background work is done."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a scenario.

    Attributes:
        variant: which of the scenario's.
        seed: of everything random, with the number of the round.
        directory: an empty directory of its own.
        seconds: about how long it may take.
        scale: how much is tried.
        counts: to be filled.
    """

    variant: str
    seed: int
    directory: Path
    seconds: float
    scale: Scale
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def path(self) -> Path:
        """Where the store is to be."""
        return self.directory / "store"

    def dice(self, name: object) -> random.Random:
        """Chances of their own for whoever has that name."""
        return random.Random(f"load {self.seed} {name}")

    def deadline(self) -> float:
        """When the time is up, of ``time.monotonic``."""
        return time.monotonic() + self.seconds


def check_tidy(db: lsmkv.DB) -> None:
    """Whether nothing is left over in the directory of a store that nobody reads."""
    gc.collect()
    db.wait_until_settled()
    leftovers = left_over(Storage(), db.path)
    if leftovers:
        raise UnsoundError(f"left over: {', '.join(leftovers)}")


def check_files(db: lsmkv.DB) -> None:
    """Verify every byte."""
    report = db.verify()
    if not report.ok:
        raise UnsoundError(f"verify: {report}")


class Traces:
    """Threads and descriptors of the process as they are now, to see later whether some were added."""

    def __init__(self) -> None:
        self._threads = set(threading.enumerate())
        self._descriptors = open_descriptors()

    def check(self) -> None:
        """Compare."""
        threads = set(threading.enumerate()) - self._threads
        if threads:
            raise UnsoundError(f"threads are left behind: {threads}")
        descriptors = open_descriptors()
        if descriptors > self._descriptors:
            raise UnsoundError(
                f"{descriptors - self._descriptors} descriptors are left open: {_open_files()}"
            )


def open_descriptors() -> int:
    """How many descriptors the process has open, the one that is needed to count them included."""
    gc.collect()
    return len(os.listdir(DESCRIPTORS))


def _open_files() -> list[str]:
    if sys.platform != "linux":
        return []
    links = [os.path.join(DESCRIPTORS, name) for name in os.listdir(DESCRIPTORS)]
    return sorted(os.readlink(link) for link in links if os.path.lexists(link))[:10]


def allow_many_descriptors() -> int:
    """Raise this process's own limit on open files as far as it may go; the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 1 << 16 if hard == resource.RLIM_INFINITY else hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most
