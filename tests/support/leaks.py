"""Resources that this process holds, for tests of leaks."""

from __future__ import annotations

from torture.framework.store_checks import open_descriptors as open_descriptors
from torture.framework.store_checks import store_threads as our_threads

__all__ = ["open_descriptors", "our_threads", "write_calls"]


def write_calls() -> int:
    """The number of write calls of this process so far."""
    with open("/proc/self/io", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("syscw:"))
