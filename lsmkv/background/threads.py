"""Threads that an interrupt cannot harm when they start or end.

``Thread.start`` and ``join`` wait in Python code.  An interrupt there (Ctrl-C, in the main thread only)
may block the new thread for ever, or mark a running thread as ended.  So a thread starts each of these,
and whoever waits for one waits as :mod:`lsmkv.changes` says.
"""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable
from typing import Final

from lsmkv.changes import Changes, await_change

_POLL_S: Final = 0.0005  # a thread needs less time than that to begin
_BEGIN_LIMIT_S: Final = 2.0  # a thread that has not begun by then never will
_idents: set[int] = set()


def _nothing() -> None:
    """What a thread that has ended has left to do."""


def in_worker() -> bool:
    return threading.get_ident() in _idents


class Strand:
    def __init__(self, name: str, target: Callable[[], object]) -> None:
        self._target = target
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._running = threading.Lock()
        self._ident = 0
        self._has_begun = False
        self._made_s = time.monotonic()

    def begin(self) -> None:
        """Start the thread; for ``_thread.start_new_thread``, which no interrupt cuts short."""
        try:
            self._thread.start()
        except RuntimeError:  # no second thread can start: use this one
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
                self._target = _nothing

    @property
    def is_this_thread(self) -> bool:
        return self._ident == threading.get_ident()

    def has_ended(self) -> bool:
        """Whether the thread has ended, or an exception keeps it from beginning."""
        # The lock first: an interrupt in ``is_alive`` may mark a running thread as ended.
        if self._running.locked() or self._thread.is_alive():
            return False
        return self._has_begun or time.monotonic() - self._made_s > _BEGIN_LIMIT_S

    def await_end(self) -> None:
        while not self._has_begun and not self.has_ended():
            time.sleep(_POLL_S)
        with self._running:
            pass
        if self._thread.is_alive():
            self._thread.join()  # the target has returned: an interrupt does no harm


class Errand:
    """Runs ``action`` in its own thread; an interrupted wait is ``given_up``."""

    def __init__(self, name: str, action: Callable[[], object]) -> None:
        self.given_up = False
        self._strand = Strand(name, self._run)
        self._action = action
        self._error: BaseException | None = None
        self._is_done = False
        self._ended = Changes()

    def run(self) -> None:
        """Wait for the action; raises what it raised, or RuntimeError without a thread."""
        error: BaseException | None = None
        try:
            _thread.start_new_thread(self._strand.begin, ())
            while not self._is_done:
                ticket = self._ended.ticket
                if not self._is_done:
                    await_change(ticket)
                if self._strand.has_ended() and not self._is_done:
                    raise RuntimeError("the thread was ended before its work was done")
            self._strand.await_end()
            error, self._error = self._error, None
            if error is not None:
                raise error
        except BaseException:
            self.given_up = True
            raise
        finally:
            self._error = None
            del error  # or its traceback would keep it, and all that its frames use, alive

    def _run(self) -> None:
        try:
            self._action()
        except BaseException as error:
            if not self.given_up:
                self._error = error
        finally:
            self._action = _nothing  # the thread's end frees what it uses
            self._is_done = True
            self._ended.announce()


def in_own_thread(name: str, action: Callable[[], object]) -> None:
    """Wait for ``action``, which no interrupt cuts short; it is called again if no thread starts."""
    try:
        Errand(name, action).run()
    except RuntimeError:
        action()
