"""Open stores, so that the child of a fork can be kept from using its parent's."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """Something that belongs to one process."""

    def mark_forked(self) -> None:
        """Called in the child of a fork: be unusable there, and wait for no lock."""


_watched: weakref.WeakSet[Forkable] = weakref.WeakSet()


def watch(handle: Forkable) -> None:
    """Tell ``handle`` when it finds itself in the child of a fork, for as long as it lives."""
    _watched.add(handle)


def _mark_forked() -> None:
    for handle in list(_watched):
        handle.mark_forked()


os.register_at_fork(after_in_child=_mark_forked)
