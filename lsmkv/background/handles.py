"""Closes open stores at exit, and invalidates them after a fork."""

from __future__ import annotations

import atexit
import contextlib
from typing import Protocol

from lsmkv.storage.posix import register_at_fork


class Handle(Protocol):
    """An open store or helper process, which belongs to one process."""

    def mark_forked(self) -> None:
        """In the child of a fork: become unusable, waiting for no lock."""

    def close(self) -> None:
        """Close it at the end of the process; may come twice."""


_watched: set[Handle] = set()


def watch(handle: Handle) -> None:
    _watched.add(handle)


def unwatch(handle: Handle) -> None:
    """Forget a handle, which need not be watched."""
    _watched.discard(handle)


def _mark_forked() -> None:
    for handle in list(_watched):
        handle.mark_forked()


def _close_all() -> None:
    for handle in list(_watched):
        with contextlib.suppress(Exception):  # writes that were not synced may be lost
            handle.close()


register_at_fork(after_in_child=_mark_forked)
atexit.register(_close_all)
