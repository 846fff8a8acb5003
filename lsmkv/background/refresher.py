"""Refreshes a read-only store by itself, in a thread."""

from __future__ import annotations

import time
from collections.abc import Callable

from lsmkv.background.worker import Worker
from lsmkv.changes import LOOK_S, Changes, await_change
from lsmkv.errors import untraced


class Refresher:
    """Calls ``refresh`` every ``every_s`` seconds until :meth:`stop`; logs errors, and keeps the last."""

    def __init__(self, path: str, every_s: float, refresh: Callable[[], object]) -> None:
        self._path = path
        self._every_s = every_s
        self._refresh = refresh
        self._worker = Worker("lsmkv-refresh", self._run_once, self._failed)
        self._ending = Changes()
        self._stopping = False
        self._error: BaseException | None = None
        self._logged = ""

    def start(self) -> None:
        """Start the thread, if it does not run; RuntimeError if none can be started."""
        self._worker.wake()

    def stop(self) -> None:
        """End the thread, and wait for a refresh that is under way."""
        self._stopping = True
        self._ending.announce()
        self._worker.stop()

    def raise_error(self) -> None:
        """Raise the last error that was not raised yet."""
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # or its traceback would keep it, and its caller's frames, alive

    def _run_once(self) -> bool:
        """Wait until a refresh is due, and do it; False when there is none."""
        due_s = time.monotonic() + self._every_s
        while not self._stopping:
            ticket = self._ending.ticket
            left_s = due_s - time.monotonic()
            if left_s <= 0:
                self._refresh()
                self._logged = ""
                return True
            if not self._stopping:
                await_change(ticket, min(left_s, LOOK_S))
        return False

    def _failed(self, error: BaseException) -> None:
        if self._stopping:
            return
        self._error = untraced(error)
        message = f"{type(error).__name__}: {error}"
        if message != self._logged:
            self._logged = message
            import logging  # here, because most programs never need it

            text = f"{self._path}: refreshing failed, and will be tried every {self._every_s:g} s"
            logging.getLogger("lsmkv").warning("%s: %s", text, message)
        self._worker.wake()
