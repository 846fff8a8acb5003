"""A thread that runs one kind of job whenever there is work."""

from __future__ import annotations

import _thread
import contextlib
import threading
from collections.abc import Callable

from lsmkv.background.threads import Strand
from lsmkv.changes import Changes, await_change, held_lock


class Worker:
    """Runs ``job`` until it returns False, each time it is woken.

    An exception of ``job`` goes to ``failed``; the worker then sleeps until it is woken.  A ``wake``
    starts the thread, again if an exception has ended it.  It is a daemon, so that endless work cannot
    hold up the end of the process, which closes the store.
    """

    def __init__(
        self, name: str, job: Callable[[], bool], failed: Callable[[BaseException], None]
    ) -> None:
        self._name = name
        self._job = job
        self._failed = failed
        self._starting = threading.Lock()
        self._strand: Strand | None = None
        self._running = threading.Lock()  # one loop at a time, even after a thread was ended
        self._bell = held_lock()  # released to wake the thread
        self._idle = Changes()
        self._woken = False
        self._working = False
        self._stopping = False

    @property
    def busy(self) -> bool:
        """Whether the worker runs a job, or may have one to run."""
        return self._woken or self._working

    @property
    def is_this_thread(self) -> bool:
        return self._strand is not None and self._strand.is_this_thread

    def wake(self) -> None:
        """Have the job run soon; RuntimeError if no thread can be started."""
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

    def wait_idle(self) -> None:
        """Return once no job runs and none is left to run."""
        while self.busy and not self._stopping:
            ticket = self._idle.ticket
            if self._woken:
                self.wake()  # again, in case an interrupt cut a wake short
            if self.busy and not self._stopping:
                await_change(ticket)

    def dismiss(self) -> None:
        """Run nothing more, and do not wait for the running job."""
        self._stopping = True
        self._idle.announce()
        self._ring()

    def stop(self) -> None:
        """Run nothing more, and return once the running job has ended."""
        self.dismiss()
        with self._starting:  # a thread that is being started is there afterwards
            strand = self._strand
        if strand is None or strand.is_this_thread:
            return
        self._ring()
        strand.await_end()

    def _run(self) -> None:
        try:
            with self._running:
                self._loop()
        except BaseException as error:  # set by another thread, between two jobs
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
            except BaseException as error:  # the store must know of every one
                _release_locals(error)
                self._failed(error)


def _release_locals(error: BaseException) -> None:
    """Clear the frames of ``error``; their locals would keep tables and memtables alive."""
    traceback = error.__traceback__
    while traceback is not None:
        with contextlib.suppress(RuntimeError):  # this frame, and those above it, still run
            traceback.tb_frame.clear()
        traceback = traceback.tb_next
