"""Open stores, to be told of what befalls their process: a fork, and its end.

In the child of a fork they must not be used; at the end of the process those that nobody closed are
closed, while their threads can still run.
"""

from __future__ import annotations

import atexit
import contextlib
from typing import Protocol

from lsmkv.storage.posix import register_at_fork


class Handle(Protocol):
    """Something that belongs to one process and is to be closed."""

    def mark_forked(self) -> None:
        """Called in the child of a fork: be unusable there, and wait for no lock."""

    def close(self) -> None:
        """Called at the end of the process; may have been called before."""


_watched: set[Handle] = set()


def watch(handle: Handle) -> None:
    """Tell ``handle`` of forks and of the end of the process, until it is closed."""
    _watched.add(handle)


def unwatch(handle: Handle) -> None:
    """Tell ``handle`` no more: it is closed.  It may not have been watched."""
    _watched.discard(handle)


def _mark_forked() -> None:
    for handle in list(_watched):
        handle.mark_forked()


def _close_all() -> None:
    for handle in list(_watched):
        with contextlib.suppress(Exception):  # what was not synced was promised to nobody
            handle.close()


register_at_fork(after_in_child=_mark_forked)
atexit.register(_close_all)
