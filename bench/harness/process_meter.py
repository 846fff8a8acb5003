"""CPU time, memory and reads of this process; the page cache."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import time
from collections.abc import Iterator
from typing import Literal, NamedTuple, Self

import psutil


class Meter:
    """Seconds and CPU seconds spent inside a ``with`` block.

    Attributes:
        seconds: on the wall clock.
        cpu_s: user and system time of all threads, and of child processes.
    """

    seconds = 0.0
    cpu_s = 0.0

    def __enter__(self) -> Self:
        gc.collect()  # earlier garbage must not cost time here
        self._cpu_before = cpu_s()
        self._before = time.perf_counter()
        return self

    def __exit__(self, *_error: object) -> None:
        self.seconds = time.perf_counter() - self._before
        self.cpu_s = cpu_s() - self._cpu_before


def cpu_s() -> float:
    """CPU seconds of this process and all its children, ended ones too."""
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        used = resource.getrusage(who)
        total += used.ru_utime + used.ru_stime
    for child in _children():
        with contextlib.suppress(psutil.Error):
            times = child.cpu_times()
            total += times.user + times.system
    return total


def restart_peak_memory() -> int:
    """Reset :func:`peak_memory_bytes` where the kernel allows it; the present resident bytes."""
    gc.collect()
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return int(psutil.Process().memory_info().rss)


def peak_memory_bytes() -> int:
    """Summed peak resident memory of this process and its children."""
    pids = [os.getpid(), *(child.pid for child in _children())]
    return sum(_high_water_mark(pid) for pid in pids)


def _high_water_mark(pid: int) -> int:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def _children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def os_read_bytes(of: Literal["self", "thread-self"] = "self") -> int | None:
    """Bytes that this process or thread has read from storage; None where nothing counts them."""
    try:
        with open(f"/proc/{of}/io", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("read_bytes:"))
    except (OSError, StopIteration):
        return None


class Calls(NamedTuple):
    """Read calls, their bytes, and the bytes of write calls."""

    reads: int = 0
    read_bytes: int = 0
    written_bytes: int = 0

    def since(self, earlier: Calls) -> Calls:
        return Calls(*(now - before for now, before in zip(self, earlier, strict=True)))

    def plus(self, other: Calls) -> Calls:
        return Calls(*map(sum, zip(self, other, strict=True)))


class KernelCalls:
    """The calls of this process as the kernel counts them, but for those that look at the counts.

    OSError: this kernel counts none.  Reads through a map are no calls.
    """

    def __init__(self) -> None:
        self._file = os.open("/proc/self/io", os.O_RDONLY)
        self._own_calls = self._own_bytes = 0

    def so_far(self) -> Calls:
        """The calls since the process began."""
        text = os.pread(self._file, 512, 0)
        words = text.split()  # rchar, wchar, syscr and others, each with its number
        read_bytes, written_bytes, reads = int(words[1]), int(words[3]), int(words[5])
        found = Calls(reads - self._own_calls, read_bytes - self._own_bytes, written_bytes)
        self._own_calls += 1
        self._own_bytes += len(text)
        return found


def sync_files(directory: str) -> int:
    """Sync every file below ``directory``, and return their size in bytes."""
    total = 0
    for descriptor in _opened(directory):
        os.fsync(descriptor)
        total += os.fstat(descriptor).st_size
    return total


def drop_pages(directory: str) -> None:
    """Drop files below ``directory`` from the page cache; mapped pages stay."""
    sync_files(directory)  # only clean pages can be dropped
    for descriptor in _opened(directory):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def _opened(directory: str) -> Iterator[int]:
    """A descriptor of each file below ``directory``, but for those that an open store removes."""
    for path in files_below(directory):
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                yield descriptor
            finally:
                os.close(descriptor)


def files_below(directory: str) -> list[str]:
    """The paths of all files below ``directory``."""
    return [os.path.join(folder, name) for folder, _, names in os.walk(directory) for name in names]
