"""Raises an interrupt at each possible place, one after the other.

The interpreter checks for interrupts when a Python function begins, when a C function has returned, and
where a loop goes back.  A profile function is called at the first two places, and its exceptions
propagate as an interrupt does.  Compiled modules have no such places, but functions that they call may.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from types import FrameType

from time_limits import in_time

_PLACES = ("call", "c_return")


class Interruption:
    """Raises KeyboardInterrupt in this thread at place ``at`` within the block.

    Attributes:
        came: whether there was such a place.
    """

    def __init__(self, at: int) -> None:
        self.came = False
        self._left = at
        # The interpreter borrows it: a garbage collection on the way to a call of it may call it too, and
        # an exception there ends the profiling.
        self._profile = self._pass

    def __enter__(self) -> Interruption:
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _pass(self, frame: FrameType, event: str, argument: object) -> None:
        if event not in _PLACES or argument is sys.setprofile or frame.f_code is _EXIT:
            return
        self._left -= 1
        if self._left < 0:
            self.came = True
            raise KeyboardInterrupt  # this ends the profiling, too


_EXIT = Interruption.__exit__.__code__


def at_each_place(
    action: Callable[[], object],
    afterwards: Callable[[], object],
    *,
    stride: int = 1,
    keep_traceback: bool = False,
) -> int:
    """Call ``action`` with an interrupt at each place in turn.

    After each call ``afterwards`` runs in another thread, and must not hang.  Returns the number of
    places tried; with ``stride`` only every so many are tried.  It never ends if the action has more
    and more places, as a scan has that passes what earlier calls deleted: let ``afterwards`` compact.

    Args:
        keep_traceback: until ``afterwards`` has run, as an interactive session does; it keeps the
            objects alive that interrupted functions used.
    """
    for count, at in enumerate(itertools.count(0, stride)):
        interruption = Interruption(at)
        kept = None
        try:
            with interruption:
                action()
        except KeyboardInterrupt as error:
            kept = error if keep_traceback else None
        in_time(afterwards)
        del kept
        if not interruption.came:
            return count
    raise AssertionError  # there is no end of numbers
