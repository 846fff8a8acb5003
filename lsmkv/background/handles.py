"""Ends the work of stores at exit; invalidates them after a fork.

At exit, stores stay open.  Exit handlers that were registered before lsmkv was imported run later, and
daemon threads run on until the interpreter stops them.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from typing import Protocol

from lsmkv.errors import ClosedError


class Handle(Protocol):
    """An open store or helper process, which belongs to one process."""

    def mark_forked(self) -> None:
        """In the child of a fork: become unusable, waiting for no lock."""

    def end_with_program(self) -> None:
        """Start no more work; may come after it was closed, and before."""


_watched: set[Handle] = set()


def watch(handle: Handle) -> None:
    _watched.add(handle)


def unwatch(handle: Handle) -> None:
    """Forget a handle, which need not be watched."""
    _watched.discard(handle)


def _mark_forked() -> None:
    for handle in list(_watched):
        handle.mark_forked()


def _end_all() -> None:
    _silence_daemons()
    for handle in list(_watched):
        with contextlib.suppress(Exception):  # writes that were not synced may be lost
            handle.end_with_program()


def _silence_daemons() -> None:
    """Show no traceback of daemon threads that a store refused more work."""
    told = threading.excepthook

    def hook(failed: threading.ExceptHookArgs) -> None:
        is_daemon = failed.thread is not None and failed.thread.daemon
        if not (is_daemon and isinstance(failed.exc_value, ClosedError)):
            told(failed)

    threading.excepthook = hook


os.register_at_fork(after_in_child=_mark_forked)
atexit.register(_end_all)
