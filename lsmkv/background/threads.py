"""Threads of the store's own, started and waited for so that an interrupt at any moment breaks nothing.

An interrupt (Ctrl-C) comes in the main thread alone.  ``Thread.start`` and ``join`` wait in Python code:
an interrupt there may stop the new thread for ever, or have a thread that runs taken for one that has
ended.  So threads are started by a thread, and whoever waits for one waits as :mod:`lsmkv.changes` says.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from lsmkv.changes import Changes, await_change

_T = TypeVar("_T")
Thread = threading.Thread | None
"""A thread to join in the end; None when there is no object for it."""

_idents: set[int] = set()


def in_worker() -> bool:
    """Whether the present thread is one of those that do background work."""
    return threading.get_ident() in _idents


def run_named(name: str, target: Callable[[Thread], object]) -> None:
    """Run ``target`` in a thread of that name, which the end of the process does not wait for.

    To be run by ``_thread.start_new_thread`` itself, which no interrupt cuts short.  Where there can be
    no second thread, ``target`` runs in this one.
    """

    def run(thread: Thread) -> None:
        ident = threading.get_ident()
        try:
            _idents.add(ident)
            target(thread)
        finally:
            _idents.discard(ident)

    named = threading.Thread(target=lambda: run(named), name=name, daemon=True)
    try:
        named.start()
    except RuntimeError:
        run(None)


class Errand(Generic[_T]):
    """A call made in a thread of its own, for somebody who waits for it.

    Attributes:
        given_up: set when nobody waits any more, because of an interrupt.
    """

    def __init__(self, name: str, action: Callable[[], _T]) -> None:
        self.given_up = False
        self._name = name
        self._action = action
        self._thread: Thread = None
        self._results: list[_T] = []
        self._error: BaseException | None = None
        self._is_done = False
        self._ended = Changes()

    def run(self) -> _T:
        """What the action returns.

        Raises:
            RuntimeError: no thread can be started.
            Others: what the action raises.
        """
        try:
            _thread.start_new_thread(run_named, (self._name, self._run))
            while not self._is_done:
                ticket = self._ended.ticket
                if not self._is_done:
                    await_change(ticket)
        except BaseException:
            self.given_up = True
            raise
        if self._thread is not None:
            self._thread.join()  # it does nothing any more
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._results[0]

    def _run(self, thread: Thread) -> None:
        self._thread = thread
        try:
            self._results.append(self._action())
        except BaseException as error:
            self._error = error
        finally:
            self._is_done = True
            self._ended.announce()
