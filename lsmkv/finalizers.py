"""What happens when the last reference to something goes.  Never compiled.

mypyc calls the ``__del__`` of its own classes with an exception pending, if one is on its way; a call
made there fails then.  Python sets it aside.  So compiled objects hold a :class:`Finalizer`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable


class Finalizer:
    """Runs ``action`` once the last reference to it goes, unless it was cancelled before.

    An OSError of the action is passed over: nobody is there to be told.
    """

    __slots__ = ("_action",)

    def __init__(self, action: Callable[[], object]) -> None:
        self._action: Callable[[], object] | None = action

    def cancel(self) -> None:
        """Do nothing in the end."""
        self._action = None

    def __del__(self) -> None:
        action, self._action = self._action, None
        if action is not None:
            with contextlib.suppress(OSError):
                action()
