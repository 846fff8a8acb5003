"""Refreshes a read-only store by itself, in a thread."""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable

from lsmkv.background.threads import Strand
from lsmkv.changes import LOOK_S, Changes, await_change
from lsmkv.errors import untraced


class Refresher:
    """Calls ``refresh`` every ``every_s`` seconds until :meth:`stop`; logs errors, and keeps the last."""

    def __init__(self, path: str, every_s: float, refresh: Callable[[], object]) -> None:
        self._path = path
        self._every_s = every_s
        self._refresh = refresh
        self._starting = threading.Lock()
        self._strand: Strand | None = None
        self._ending = Changes()
        self._stopping = False
        self._error: Exception | None = None
        self._logged = ""

    def start(self) -> None:
        """Start the thread, once; RuntimeError if none can be started."""
        with self._starting:
            if self._strand is not None or self._stopping:
                return
            strand = Strand("lsmkv-refresh", self._run)
            _thread.start_new_thread(strand.begin, ())
            self._strand = strand

    def stop(self) -> None:
        """End the thread, and wait for a refresh that is under way."""
        self._stopping = True
        self._ending.announce()
        strand = self._strand
        if strand is not None and not strand.is_this_thread:
            strand.await_end()

    def raise_error(self) -> None:
        """Raise the last error that was not raised yet."""
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # or its traceback would keep it, and its caller's frames, alive

    def _run(self) -> None:
        while self._waited():
            try:
                self._refresh()
                self._logged = ""
            except Exception as error:
                if self._stopping:
                    return
                self._error = untraced(error)
                self._tell(error)

    def _waited(self) -> bool:
        """Wait for the next refresh; False when there is none."""
        due_s = time.monotonic() + self._every_s
        while not self._stopping:
            ticket = self._ending.ticket
            left_s = due_s - time.monotonic()
            if left_s <= 0:
                return True
            if not self._stopping:
                await_change(ticket, min(left_s, LOOK_S))
        return False

    def _tell(self, error: Exception) -> None:
        message = f"{type(error).__name__}: {error}"
        if message != self._logged:
            self._logged = message
            import logging  # here, because most programs never need it

            logging.getLogger("lsmkv").warning(
                "%s: refreshing failed, and will be tried every %g s: %s",
                self._path,
                self._every_s,
                message,
            )
