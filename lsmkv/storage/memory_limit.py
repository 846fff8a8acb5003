"""The memory that this process may use: what is left of the machine's, or a control group's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

CGROUPS = "/sys/fs/cgroup"
MEMINFO = "/proc/meminfo"
GROUPS_OF_PROCESS: Final = "/proc/self/cgroup"
_NO_LIMIT: Final = 1 << 60  # version 1 has a huge number for none


def usable_memory_bytes() -> int:
    """Memory that other programs leave, or a group's lower limit; 0 if not known."""
    machine = _available_bytes()
    limit = memory_limit_bytes()
    return machine if limit is None else min(machine, limit)


def _available_bytes() -> int:
    """The kernel's estimate, page cache included (proc(5)); without one, all of the memory."""
    for line in _text(MEMINFO).splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    if "SC_PHYS_PAGES" not in os.sysconf_names:
        return 0
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def memory_limit_bytes(groups: str = GROUPS_OF_PROCESS) -> int | None:
    """The memory that this process's control group may use, page cache included; None: no limit.

    The least of the limits of the group and of those above it: ``memory.max`` of version 2,
    ``memory.limit_in_bytes`` of version 1 (cgroups(7)).
    """
    limits = []
    for path in _limit_files(groups):
        text = _text(path).strip()
        if text.isdigit() and int(text) < _NO_LIMIT:
            limits.append(int(text))
    return min(limits, default=None)


def _limit_files(groups: str) -> Iterator[str]:
    for line in _text(groups).splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            root, name = CGROUPS, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = os.path.join(CGROUPS, "memory"), "memory.limit_in_bytes"
        else:
            continue
        names = group.strip("/").split("/")
        for count in range(len(names) + 1):
            yield os.path.join(root, *names[:count], name)


def _text(path: str) -> str:
    """A file's text; empty where there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""
