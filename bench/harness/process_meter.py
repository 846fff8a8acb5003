"""What the operating system tells of this process: CPU, memory, bytes read; and its page cache."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import time
from types import TracebackType
from typing import Self

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
        gc.collect()  # what came before is not to be paid for here
        self._cpu_before = cpu_s()
        self._before = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.seconds = time.perf_counter() - self._before
        self.cpu_s = cpu_s() - self._cpu_before


def cpu_s() -> float:
    """CPU seconds of this process and its children so far, those that have ended included."""
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
    """Have :func:`peak_memory_bytes` begin anew, and return the present resident memory in bytes.

    Where the kernel does not allow that, the peak is that since the process began.
    """
    gc.collect()
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return int(psutil.Process().memory_info().rss)


def peak_memory_bytes() -> int:
    """The highest resident memory of this process, and of each of its children, in all."""
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


def os_read_bytes() -> int | None:
    """Bytes that this process has had read from storage so far; None where nothing tells."""
    try:
        with open("/proc/self/io", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("read_bytes:"))
    except (OSError, StopIteration):
        return None


def sync_files(directory: str) -> int:
    """Have every file below ``directory`` on disk; their size in bytes."""
    total = 0
    for path in _files(directory):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            total += os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
    return total


def drop_pages(directory: str) -> None:
    """Have the page cache forget every file below ``directory``, which nobody may have mapped."""
    sync_files(directory)  # only clean pages can be dropped
    for path in _files(directory):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def _files(directory: str) -> list[str]:
    return [os.path.join(folder, name) for folder, _, names in os.walk(directory) for name in names]


def takes_direct_reads(directory: str) -> bool:
    """Whether the file system below ``directory`` can be read past the page cache."""
    path = os.path.join(directory, "direct-reads")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_DIRECT, 0o600))
    except OSError:
        return False
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
    return True
