"""Threads of the store's own, started and waited for so that an interrupt at any moment breaks nothing.

An interrupt (Ctrl-C) comes in the main thread alone.  ``Thread.start`` and ``join`` wait in Python code:
an interrupt there may stop the new thread for ever, or have a thread that runs taken for one that has
ended.  So threads are started by a thread, and whoever waits for one waits as :mod:`lsmkv.changes` says.
"""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from lsmkv.changes import Changes, await_change

_T = TypeVar("_T")
_BEGINNING_S: Final = 0.0005  # a thread needs less than that to begin
_PATIENCE_S: Final = 2.0  # with one that does not begin
_idents: set[int] = set()


def in_worker() -> bool:
    """Whether the present thread is one of those that do background work."""
    return threading.get_ident() in _idents


class Strand:
    """A call of ``target`` in a thread of that name, which the end of the process does not wait for."""

    def __init__(self, name: str, target: Callable[[], object]) -> None:
        self._target = target
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._running = threading.Lock()
        self._ident = 0
        self._has_begun = False
        self._made_s = time.monotonic()

    def begin(self) -> None:
        """For ``_thread.start_new_thread`` itself, one call that no interrupt cuts short."""
        try:
            self._thread.start()
        except RuntimeError:  # there can be no second thread: be it
            self._run()
        finally:
            self._has_begun = True

    def _run(self) -> None:
        with self._running:
            try:
                self._ident = threading.get_ident()
                _idents.add(self._ident)
                self._target()
            finally:
                _idents.discard(self._ident)

    @property
    def is_this_thread(self) -> bool:
        """Whether the present thread is the one."""
        return self._ident == threading.get_ident()

    def has_ended(self) -> bool:
        """Whether it ended, or never will begin: an exception that is set from outside may do that."""
        # First of all: an interrupt in ``is_alive`` may have a thread that runs taken for ended.
        if self._running.locked() or self._thread.is_alive():
            return False
        return self._has_begun or time.monotonic() - self._made_s > _PATIENCE_S

    def await_end(self) -> None:
        """Return once ``target`` has returned and the thread is no more."""
        while not self._has_begun and not self.has_ended():
            time.sleep(_BEGINNING_S)
        with self._running:
            pass
        if self._thread.is_alive():
            self._thread.join()  # it does nothing any more: no harm in an interrupt


class Errand(Generic[_T]):
    """A call made in a thread of its own, for somebody who waits for it.

    Attributes:
        given_up: set when nobody waits any more, because of an interrupt.
    """

    def __init__(self, name: str, action: Callable[[], _T]) -> None:
        self.given_up = False
        self._strand = Strand(name, self._run)
        self._action = action
        self._results: list[_T] = []
        self._error: BaseException | None = None
        self._is_done = False
        self._ended = Changes()

    def run(self) -> _T:
        """What the action returns.

        Raises:
            RuntimeError: no thread can be started, or it was ended from outside.
            Others: what the action raises.
        """
        try:
            _thread.start_new_thread(self._strand.begin, ())
            while not self._is_done:
                ticket = self._ended.ticket
                if not self._is_done:
                    await_change(ticket)
                if self._strand.has_ended() and not self._is_done:
                    raise RuntimeError("the thread was ended before its work was done")
            self._strand.await_end()
        except BaseException:
            self.given_up = True
            raise
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._results[0]

    def _run(self) -> None:
        try:
            self._results.append(self._action())
        except BaseException as error:
            self._error = error
        finally:
            self._is_done = True
            self._ended.announce()
