"""Waiting for another thread to change some state, safe from interrupts.

``threading.Condition`` and ``Event`` are Python code: an interrupt (Ctrl-C) inside them may leave a lock
held for ever, or release one that another thread holds.  Here a waiter holds no lock while it waits.
It takes a ticket, looks at the state, waits for the ticket in one call of a C function, and looks again.

A thread changes the state first and then announces the change.  An interrupt may come in between, so
every wait ends after :data:`LOOK_S` at the latest, and every waiter looks again.
"""

from __future__ import annotations

import threading
from typing import Final

LOOK_S: Final = 0.25  # the longest that a waiter waits before it looks again


class Changes:
    """Announces changes; take ``ticket``, which is for the next one, before looking at the state."""

    __slots__ = ("ticket",)

    def __init__(self) -> None:
        self.ticket = held_lock()

    def announce(self) -> None:
        """Wake every thread that waits for the current ticket."""
        following = held_lock()
        # No interrupt comes between these two: the first calls nothing.
        ticket, self.ticket = self.ticket, following
        ticket.release()


def await_change(ticket: threading.Lock, timeout_s: float = LOOK_S) -> None:
    """Wait until the change of ``ticket`` is announced, or for ``timeout_s``."""
    if ticket.acquire(timeout=timeout_s):
        ticket.release()  # for the next waiter


def held_lock() -> threading.Lock:
    """A lock that is already held; releasing it wakes one waiter."""
    lock = threading.Lock()
    lock.acquire()
    return lock
