"""What this process holds, for tests that nothing of it is left over."""

from __future__ import annotations

import os
import sys
import threading


def open_descriptors() -> set[str]:
    """Number and target of every descriptor that is open."""
    directory = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
    links = set()
    for name in os.listdir(directory):
        try:
            links.add(f"{name} {os.readlink(os.path.join(directory, name))}")
        except OSError:  # the descriptor of the listing itself
            continue
    return links


def our_threads() -> set[threading.Thread]:
    """Threads that stores have started."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("lsmkv")}


def write_calls() -> int:
    """How many system calls of this process have written so far."""
    with open("/proc/self/io", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("syscw:"))
