"""A thread that runs one kind of job whenever there is something to do."""

from __future__ import annotations

import _thread
import contextlib
import threading
from collections.abc import Callable

from lsmkv.background.threads import Strand
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
        self._strand: Strand | None = None
        self._running = threading.Lock()  # one loop at a time, whatever becomes of a thread
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
        strand = self._strand
        if strand is None or strand.has_ended():
            self._start()
        self._woken = True
        self._ring()

    def _start(self) -> None:
        with self._starting:
            before = self._strand
            if self._stopping or not (before is None or before.has_ended()):
                return
            strand = Strand(self._name, self._run)
            self._strand = strand
            try:
                _thread.start_new_thread(strand.begin, ())
            except RuntimeError:
                self._strand = before
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
        with self._starting:  # whatever starts has started
            strand = self._strand
        if strand is None or strand.is_this_thread:
            return
        self._ring()
        strand.await_end()

    def _run(self) -> None:
        try:
            with self._running:
                self._loop()
        except BaseException as error:  # set by another thread, and come between two jobs
            self._failed(error)
        finally:
            self._working = False
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
