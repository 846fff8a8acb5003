"""Waiting for a change, so that an interrupt at any moment breaks nothing.

``threading.Condition`` and ``Event`` are Python code: an interrupt (Ctrl-C) inside of them may leave a
lock held for ever, or let go of one that another thread holds.  Here a waiter holds no lock while it
waits, and takes none again: it takes a ticket while it looks at the state, waits for that in one call
of a C function, and looks again.  A ticket that is not used any more is harmless.

Whoever changes the state does so first, and then announces it.  An interrupt may come in between: so
every wait ends by itself after :data:`LOOK_S`, and every waiter looks again.
"""

from __future__ import annotations

import threading
from typing import Final

LOOK_S: Final = 0.25
"""How long a waiter waits at most before it looks again."""


class Changes:
    """Announces changes to whoever waits for one.  For any number of threads.

    Attributes:
        ticket: for the next change.  Take it before you look at what may change.
    """

    __slots__ = ("ticket",)

    def __init__(self) -> None:
        self.ticket = held_lock()

    def announce(self) -> None:
        """End the wait of everybody who has a ticket."""
        following = held_lock()
        # No interrupt comes between these: none is a call, but for the last.
        ticket, self.ticket = self.ticket, following
        ticket.release()


def await_change(ticket: threading.Lock, timeout_s: float = LOOK_S) -> None:
    """Wait until the change that ``ticket`` is for is announced, or the time is over.

    An exception, of an interrupt for one, leaves everything as it was.
    """
    if ticket.acquire(timeout=timeout_s):
        ticket.release()  # the next one's turn


def held_lock() -> threading.Lock:
    """A lock that is taken already: whoever releases it wakes one that waits for it."""
    lock = threading.Lock()
    lock.acquire()
    return lock
