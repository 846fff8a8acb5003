"""What readers ask of an open store."""

from __future__ import annotations

import time
from collections.abc import Iterable
from threading import get_ident
from typing import Final

from librt.threading import Lock

from lsmkv.batch import Operation
from lsmkv.encoding import Buffer, key_bytes, keys_bytes
from lsmkv.errors import ClosedError, Error, ForkedError
from lsmkv.moments import Moment, Moments
from lsmkv.pins import Pin, Pins
from lsmkv.stats import Stats
from lsmkv.version import View

_LOOKS: Final = 4
_LOOK_S: Final = 0.01


class Readable:
    """A view that is replaced as the store changes, and what readers of the past need of it.

    Attributes:
        view: what readers look into; None once the store is closed (or in a forked child).
        last_seq: sequence number of the last write.
        forked: whether this is the child of a fork, in which the store was not opened.
        pins: what snapshots still need.
        moments: what scans still need.
        floor: no key below it has a value; None when nothing is known.
        popping: held to find the first entry and to remove it.

    Args:
        directory: the store's.
    """

    def __init__(self, stats: Stats, directory: str) -> None:
        self.stats = stats
        self.directory = directory
        self.view: View | None = None
        self.last_seq = 0
        self.pins = Pins()
        self.moments = Moments(self.pins)
        self.forked = False
        self.floor: bytes | None = None
        self.popping = Lock()
        self._mutex = Lock()
        self._owner = 0  # the thread that took the mutex last; 0 where it let go of it by itself
        self._get_ident = get_ident  # found sooner here than in the module

    def entering(self) -> int:
        """The present thread, which is about to take the mutex, and to become its ``_owner``.

        (Asked before, so that nothing runs between taking the mutex and naming its owner.)

        Raises:
            RuntimeError: it holds the mutex already, and would wait for itself.
        """
        thread = self._get_ident()
        if self._owner == thread and self._mutex.locked():
            self._refuse_own_lock(thread)
        return thread

    def _refuse_own_lock(self, thread: int) -> None:
        """Raise if ``thread`` holds the mutex: in a finalizer or signal handler inside of a call."""
        for _look in range(_LOOKS):  # who has just taken it may not be named yet
            if not self._mutex.locked() or self._owner != thread:
                return
            time.sleep(_LOOK_S)
        raise RuntimeError(
            f"{self.directory} is being used by this very thread, further up: a finalizer, signal "
            "handler or trace function may look keys up, and must leave the rest for later"
        )

    def usable_view(self) -> View:
        """The present view.

        Raises:
            ClosedError, ForkedError: there is none any more.
        """
        view = self.view
        if view is None:
            raise self.unusable()
        return view

    def unusable(self) -> Error:
        """What to raise when there is no view.

        It is made anew for each caller: an exception keeps the frames of all that it passed through.
        """
        if self.forked:
            reason = "was opened before the process forked; open it anew in the child"
            return ForkedError(f"{self.directory} {reason}")
        return ClosedError(f"{self.directory} is closed")

    def pin_view(self) -> tuple[View, Pin]:
        """The present view, and a pin on the last write: a consistent whole."""
        thread = self.entering()
        with self._mutex:
            self._owner = thread
            view = self.usable_view()
            return view, self.pins.pin(self.last_seq)

    def moment(self) -> Moment:
        """The store as it is now, for a reader that keeps its view."""
        thread = self.entering()
        with self._mutex:
            self._owner = thread
            moment = self.moments.of(self.usable_view(), self.last_seq)
            self._owner = 0
            return moment

    def moment_and_floor(self) -> tuple[Moment, bytes | None]:
        """:meth:`moment`, and the ``floor`` at that moment."""
        thread = self.entering()
        with self._mutex:
            self._owner = thread
            return self.moments.of(self.usable_view(), self.last_seq), self.floor

    def raise_floor(self, key: bytes, seq: int) -> None:
        """Note that no key below ``key`` had a value at ``seq``, if nothing was written since."""
        thread = self.entering()
        with self._mutex:
            self._owner = thread
            if self.last_seq == seq:
                self.floor = key

    def lower_floor(self, operations: list[Operation]) -> None:
        """Take note of operations that are about to be written (the mutex is held)."""
        for key, value in operations:
            if value is not None and self.floor is not None and key < self.floor:
                self.floor = key

    def moment_at(self, view: View, seq: int) -> Moment:
        """``view`` as of ``seq``, which is pinned."""
        thread = self.entering()
        with self._mutex:
            self._owner = thread
            return self.moments.of(view, seq)

    def lookup(self, key: Buffer) -> bytes | None:
        """The present value of ``key``; None when it has none.  Raises as ``DB.get``."""
        view = self.view
        if view is None:
            view = self.usable_view()  # says why there is none
        return view.get(key_bytes(key), self.stats)

    def lookup_many(self, keys: Iterable[Buffer]) -> list[bytes | None]:
        """The present value of each of ``keys``.  Raises as ``DB.multi_get``."""
        checked = keys_bytes(keys)
        return self.usable_view().get_many(checked, self.stats)
