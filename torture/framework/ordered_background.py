"""Background work in a fixed order, so that runs can be repeated.

A store starts a thread for flushes and one for compactions, and the operating system schedules them.
Stores opened within :func:`in_order` have no such threads.  Their jobs run one after the other instead:
during :meth:`Background.rest`, or, flushes only, within :meth:`Background.beside`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from unittest import mock

from lsmkv.background import background_thread


class Background:
    """The background jobs of all open stores."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._workers: list[OrderlyWorker] = []

    def worker(
        self, name: str, job: Callable[[], bool], failed: Callable[[BaseException], None]
    ) -> OrderlyWorker:
        """Replaces the class :class:`lsmkv.background.worker.Worker`."""
        made = OrderlyWorker(self, name, job, failed)
        self._workers.append(made)
        return made

    def forget(self, worker: OrderlyWorker) -> None:
        with contextlib.suppress(ValueError):
            self._workers.remove(worker)

    def due(self, *, only_flushes: bool = False) -> list[OrderlyWorker]:
        """Workers with work to do, the oldest first."""
        return [
            worker
            for worker in self._workers
            if worker.busy and (worker.is_flusher or not only_flushes)
        ]

    def rest(self) -> None:
        """Run all jobs in the present thread."""
        while due := self.due():
            due[0].step()

    @contextlib.contextmanager
    def beside(self) -> Iterator[None]:
        """Run flushes, but no compactions, in a thread during the block, until none is left."""
        ended = False

        def loop() -> None:
            while True:
                with self.changed:
                    while not ended and not self.due(only_flushes=True):
                        self.changed.wait()
                    due = self.due(only_flushes=True)
                if not due:
                    return
                due[0].step()

        thread = threading.Thread(target=loop, name="torture-background", daemon=True)
        thread.start()
        try:
            yield
        finally:
            with self.changed:
                ended = True
                self.changed.notify_all()
            thread.join()


class OrderlyWorker:
    """A :class:`lsmkv.background.worker.Worker` without a thread."""

    is_this_thread = False

    def __init__(
        self,
        background: Background,
        name: str,
        job: Callable[[], bool],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.is_flusher = "flush" in name
        self._background = background
        self._job = job
        self._failed = failed
        self._stopped = False
        self._woken = False
        self.busy = False

    def wake(self) -> None:
        with self._background.changed:
            if not self._stopped:
                self._woken = self.busy = True
                self._background.changed.notify_all()

    def step(self) -> None:
        self._woken = False
        try:
            more = self._job()
        except BaseException as error:  # as Worker does
            self._failed(error)
            more = False
        with self._background.changed:
            self.busy = (more or self._woken) and not self._stopped

    def wait_idle(self) -> None:
        self._background.rest()

    def stop(self) -> None:
        with self._background.changed:
            self._stopped = True
            self.busy = False
        self._background.forget(self)


@contextlib.contextmanager
def in_order() -> Iterator[Background]:
    """Give stores opened within the block ordered background work."""
    background = Background()
    with mock.patch.object(background_thread, "Worker", background.worker):
        yield background
