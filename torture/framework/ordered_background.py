"""Background work in a fixed order, so that a run can be repeated operation by operation.

A store starts a thread for flushes and one for compactions, and the operating system decides who
goes first.  Below :func:`in_order`, stores that are opened have their jobs run one after the other
instead: when somebody waits for them to rest, or, flushes alone, :meth:`Background.beside` a call
that waits for one.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from unittest import mock

from lsmkv.background import background_thread


class Background:
    """The jobs of all stores that are open."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._workers: list[OrderlyWorker] = []

    def worker(
        self, name: str, job: Callable[[], bool], failed: Callable[[BaseException], None]
    ) -> OrderlyWorker:
        """What takes the place of :class:`lsmkv.background.worker.Worker`."""
        made = OrderlyWorker(self, name, job, failed)
        self._workers.append(made)
        return made

    def forget(self, worker: OrderlyWorker) -> None:
        """The worker does nothing any more."""
        with contextlib.suppress(ValueError):
            self._workers.remove(worker)

    def due(self, *, flushes_alone: bool = False) -> list[OrderlyWorker]:
        """Who has something to do, in the order in which they were made."""
        return [
            worker
            for worker in self._workers
            if worker.busy and (worker.is_flusher or not flushes_alone)
        ]

    def rest(self) -> None:
        """Run whatever is to be done, in the present thread."""
        while due := self.due():
            due[0].step()

    @contextlib.contextmanager
    def beside(self) -> Iterator[None]:
        """Run flushes in a thread while the block runs, and until none is left to do.

        Not compactions: the tables that they make superfluous are removed when the last who reads
        them lets go, and that would be one thread or the other.
        """
        ended = False

        def loop() -> None:
            while True:
                with self.changed:
                    while not ended and not self.due(flushes_alone=True):
                        self.changed.wait()
                    due = self.due(flushes_alone=True)
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
    """A worker without a thread of its own; see :class:`lsmkv.background.worker.Worker`."""

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
        """Do one piece of work."""
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
    """Within the block, stores that are opened work as :class:`Background` says."""
    background = Background()
    with mock.patch.object(background_thread, "Worker", background.worker):
        yield background
