"""The memory that this process may use: the machine's, or a control group's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

CGROUPS = "/sys/fs/cgroup"
GROUPS_OF_PROCESS: Final = "/proc/self/cgroup"
_NO_LIMIT: Final = 1 << 60  # version 1 has a huge number for none


def usable_memory_bytes() -> int:
    """The machine's memory, or its control group's lower limit; 0 if not known."""
    known = "SC_PHYS_PAGES" in os.sysconf_names
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if known else 0
    limit = memory_limit_bytes()
    return machine if limit is None else min(machine, limit)


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
