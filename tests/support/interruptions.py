"""Interrupts at each place where one can come, one after the other.

The interpreter heeds an interrupt where a Python function begins and when a function written in C has
returned (and where a loop goes back).  A profile function is called at just these places, and what it
raises goes the way of an interrupt.  Compiled modules have no such places; what they call may.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
from collections.abc import Callable
from types import FrameType

from gates import WAIT_S

_PLACES = ("call", "c_return")


class Interruption:
    """Raises KeyboardInterrupt in this thread at place ``at`` of what runs within the block.

    Attributes:
        came: whether there was such a place.
    """

    def __init__(self, at: int) -> None:
        self.came = False
        self._left = at

    def __enter__(self) -> Interruption:
        sys.setprofile(self._pass)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _pass(self, frame: FrameType, event: str, argument: object) -> None:
        if event not in _PLACES or argument is sys.setprofile or frame.f_code is _EXIT:
            return
        self._left -= 1
        if self._left < 0:
            self.came = True
            raise KeyboardInterrupt  # which ends the profiling, too


_EXIT = Interruption.__exit__.__code__


def at_each_place(
    action: Callable[[], object], afterwards: Callable[[], object], *, stride: int = 1
) -> int:
    """Call ``action`` again and again, each time with an interrupt at a later place, until none comes.

    ``afterwards`` is called each time, in another thread: it must not hang.  Returns how many came.
    With ``stride`` only every so many places are tried.
    """
    for count, at in enumerate(itertools.count(0, stride)):
        interruption = Interruption(at)
        with contextlib.suppress(KeyboardInterrupt), interruption:
            action()
        in_time(afterwards)
        if not interruption.came:
            return count
    raise AssertionError  # there is no end of numbers


def in_time(action: Callable[[], object]) -> None:
    """Call ``action`` in a thread; whatever it raises, and that it hangs, fails the test."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(WAIT_S)
    assert not thread.is_alive(), "it hangs"
    if errors:
        raise errors[0]
