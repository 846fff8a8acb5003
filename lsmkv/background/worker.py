"""A thread that runs one kind of job whenever there is something to do."""

from __future__ import annotations

import threading
from collections.abc import Callable


def in_worker() -> bool:
    """Whether the present thread is a worker's."""
    return isinstance(threading.current_thread(), _WorkerThread)


class _WorkerThread(threading.Thread):
    """Tells a worker's thread from others."""


class Worker:
    """Runs ``job`` again and again until it returns False, each time it is woken.

    The thread starts with the first ``wake``.  It is a daemon, so that the end of the process does not
    wait for work without end: the store is closed then, which stops the worker.

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
        self._thread: threading.Thread | None = None
        self._state = threading.Condition()
        self._woken = False
        self._stopping = False
        self.busy = False

    def wake(self) -> None:
        """Have the job run soon.  Never waits for it.

        Raises:
            RuntimeError: no thread can be started; nothing has changed.
        """
        with self._state:
            if self._stopping:
                return
            if self._thread is None:
                thread = _WorkerThread(target=self._loop, name=self._name, daemon=True)
                thread.start()
                self._thread = thread
            self._woken = True
            self.busy = True
            self._state.notify_all()

    def rest(self) -> None:
        """Return once the job that runs now, if any, has ended, and nothing is left to do."""
        with self._state:
            while self.busy and not self._stopping:
                self._state.wait()

    def stop(self) -> None:
        """Take no more work, and return once the job that runs now has ended."""
        with self._state:
            self._stopping = True
            self._state.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _loop(self) -> None:
        while True:
            with self._state:
                while not self._woken and not self._stopping:
                    self.busy = False
                    self._state.notify_all()
                    self._state.wait()
                if self._stopping:
                    self.busy = False
                    return
                self._woken = False
            try:
                while not self._stopping and self._job():
                    pass
            except BaseException as error:  # whatever it is, the store must know
                self._failed(error)
