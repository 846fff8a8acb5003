"""A control group of Linux that limits this process's memory, page cache included.

Version 1 (``memory.limit_in_bytes``) and version 2 (``memory.max``) of cgroups(7).  What the process
holds when it joins still counts in the group that it comes from; what it then allocates, and the pages
of files that it is first to read, count in the new one.  That needs the right to make groups, which
root has on most machines and in few containers.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Final

_ROOTS: Final = ("/sys/fs/cgroup/memory", "/sys/fs/cgroup")
_LIMITS: Final = ("memory.limit_in_bytes", "memory.max")
_GROUPS_OF_PROCESS: Final = "/proc/self/cgroup"
_REMOVAL_S: Final = 10.0
_POLL_S: Final = 0.01


@contextlib.contextmanager
def memory_group(limit_bytes: int) -> Iterator[None]:
    """Have this process in a new group of so much memory for the block; OSError says why not."""
    before = _present_group()
    group = _made(limit_bytes)
    try:
        _join(group)
        try:
            yield
        finally:
            _join(before)
    finally:
        _remove(group)


def why_no_memory_group() -> str | None:
    """Why no control group can limit this process's memory; None: one can.  It tries."""
    try:
        with memory_group(1 << 30):
            return None
    except OSError as error:
        return f"no control group can be made here: {error}"


def _made(limit_bytes: int) -> str:
    root = _root()
    group = os.path.join(root, f"bench-{os.getpid()}-{time.monotonic_ns()}")
    os.mkdir(group)
    try:
        for name in _LIMITS:
            if os.path.exists(os.path.join(group, name)):
                _write(os.path.join(group, name), str(limit_bytes))
                return group
        raise FileNotFoundError(f"{root} does not limit memory")
    except OSError:
        os.rmdir(group)
        raise


def _root() -> str:
    for root in _ROOTS:
        if os.path.exists(os.path.join(root, "cgroup.procs")):
            return root
    raise FileNotFoundError("there are no control groups")


def _present_group() -> str:
    """The directory of the group that this process is in, in the same hierarchy."""
    root = _root()
    with open(_GROUPS_OF_PROCESS, encoding="utf-8") as file:
        for line in file:
            _, controllers, group = line.rstrip("\n").split(":", 2)
            if ("memory" in controllers.split(",")) == (root == _ROOTS[0]):
                return root + group
    raise FileNotFoundError(f"{_GROUPS_OF_PROCESS} names no group of {root}")


def _join(group: str) -> None:
    _write(os.path.join(group, "cgroup.procs"), str(os.getpid()))


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _remove(group: str) -> None:
    """Remove it; a process that has just left may hold it for a moment."""
    give_up = time.monotonic() + _REMOVAL_S
    while True:
        try:
            os.rmdir(group)
            return
        except OSError:
            if time.monotonic() > give_up:
                raise
            time.sleep(_POLL_S)
