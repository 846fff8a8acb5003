"""What happens when the last reference to something goes.  Never compiled.

mypyc calls the ``__del__`` of its own classes with an exception pending, if one is on its way; a call
made there fails then.  Python sets it aside.  So compiled objects hold a :class:`Finalizer`.

An interrupt (Ctrl-C) may come at the first instruction of any Python function, and one that comes in a
finalizer is lost, and the finalizer with it.  So a :class:`Finalizer` has no function of its own: Python
calls the action itself, and nothing interrupts one that is written in C.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from functools import partial

_add_one = (1).__add__


class Finalizer:
    """Runs ``action`` once the last reference to it goes, unless it was cancelled before."""

    __slots__ = ("__del__",)

    def __init__(self, action: Callable[[], object]) -> None:
        self.__del__ = action

    def cancel(self) -> None:
        """Do nothing in the end."""
        self.__del__ = object


class Opened(Finalizer):
    """A descriptor, owned from the moment it is open: it is closed when the last reference goes.

    ``numbers``: its number, once there is one.
    """

    __slots__ = ("numbers",)

    def __init__(self) -> None:
        numbers: list[int] = []
        self.numbers = numbers
        # Each looks at ``numbers`` when it runs.  ``closerange`` passes over errors.
        closing = map(os.closerange, numbers, map(_add_one, numbers))
        super().__init__(partial(deque, closing, 0))

    def open(self, path: str, flags: int, mode: int) -> None:
        """Open ``path`` as ``os.open`` does."""
        # One call: an interrupt comes before it or when the number is in its place.
        self.numbers.extend(map(os.open, (path,), (flags,), (mode,)))
