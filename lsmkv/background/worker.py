"""A thread that runs one kind of job whenever there is something to do."""

from __future__ import annotations

import _thread
import contextlib
import threading
from collections.abc import Callable

from lsmkv.background.threads import Thread, run_named
from lsmkv.background.threads import in_worker as in_worker
from lsmkv.changes import Changes, await_change, held_lock


class Worker:
    """Runs ``job`` again and again until it returns False, each time it is woken.

    The thread starts with the first ``wake``, and anew with a later one if an exception has ended it.
    It is a daemon, so that the end of the process does not wait for work without end: the store is
    closed then, which stops the worker.

    Args:
        job: does one piece of work; True when there may be more.
        failed: told of an exception that ``job`` raised; the worker then waits to be woken.
    """

    def __init__(
        self, name: str, job: Callable[[], bool], failed: Callable[[BaseException], None]
    ) -> None:
        self._name = name
        self._job = job
        self._failed = failed
        self._starting = threading.Lock()
        self._has_thread = False
        self._thread: Thread = None
        self._ident = 0
        self._bell = held_lock()  # released to wake the thread
        self._idle = Changes()
        self._woken = False
        self._working = False
        self._stopping = False

    @property
    def busy(self) -> bool:
        """Whether there is, or may be, something to do."""
        return self._woken or self._working

    def wake(self) -> None:
        """Have the job run soon.  Never waits for it.

        Raises:
            RuntimeError: no thread can be started; nothing has changed.
        """
        if self._stopping:
            return
        if not self._has_thread:
            self._start()
        self._woken = True
        self._ring()

    def _start(self) -> None:
        with self._starting:
            if not self._has_thread and not self._stopping:
                self._has_thread = True
                try:
                    _thread.start_new_thread(run_named, (self._name, self._run))
                except RuntimeError:
                    self._has_thread = False
                    raise

    def _ring(self) -> None:
        with contextlib.suppress(RuntimeError):  # it rings already
            self._bell.release()

    def rest(self) -> None:
        """Return once the job that runs now, if any, has ended, and nothing is left to do."""
        while self.busy and not self._stopping:
            ticket = self._idle.ticket
            self._wake_again()
            if self.busy and not self._stopping:
                await_change(ticket)

    def _wake_again(self) -> None:
        """Make good for an interrupt that has cut a :meth:`wake` short."""
        if self._woken:
            self.wake()

    def stop(self) -> None:
        """Take no more work, and return once the job that runs now has ended."""
        self._stopping = True
        self._idle.announce()
        self._ring()
        if self._ident == threading.get_ident():
            return
        while self._has_thread:
            ticket = self._idle.ticket
            self._ring()
            if self._has_thread:
                await_change(ticket)
        if self._thread is not None:
            self._thread.join()  # it does nothing any more

    def _run(self, thread: Thread) -> None:
        try:
            self._thread = thread
            self._ident = threading.get_ident()
            self._loop()
        except BaseException as error:  # set by another thread, and come between two jobs
            self._failed(error)
        finally:
            self._ident = 0
            self._working = False
            self._has_thread = False
            self._idle.announce()

    def _loop(self) -> None:
        while not self._stopping:
            if not self._woken:
                self._working = False
                self._idle.announce()
                self._bell.acquire()
                continue
            self._working = True
            self._woken = False
            try:
                while not self._stopping and self._job():
                    pass
            except BaseException as error:  # whatever it is, the store must know
                self._failed(error)
