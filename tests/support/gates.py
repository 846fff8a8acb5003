"""A storage that holds writes up, for tests without timing."""

from __future__ import annotations

import math
import threading

from lsmkv.storage.file_names import UNFINISHED
from lsmkv.storage.storage import AppendFile, Storage

WAIT_S = 60.0  # only stops a test that would hang
LONG_WAIT_S = 600.0  # for compilers and type checkers


class GatedStorage(Storage):
    """Holds up appends to some files while the gate is shut.

    Args:
        suffix: the ending of those files' names, once they are whole.
        thread: name of the only thread that is held up; None for all.

    Attributes:
        held_up: set once an append waits.
    """

    def __init__(self, suffix: str = ".sst", thread: str | None = None) -> None:
        super().__init__()
        self._suffix = suffix
        self._thread = thread
        self.held_up = threading.Event()
        self._changed = threading.Condition()
        self._passes = math.inf  # appends that may go through

    def shut(self) -> None:
        """Hold up appends from now on."""
        with self._changed:
            self.held_up.clear()
            self._passes = 0

    def let_one_pass(self) -> None:
        """Let one append through, now or when it comes."""
        with self._changed:
            self._passes += 1
            self._changed.notify()

    def open_up(self) -> None:
        with self._changed:
            self._passes = math.inf
            self._changed.notify_all()

    def pass_gate(self) -> None:
        if self._thread not in (None, threading.current_thread().name):
            return
        with self._changed:
            if not self._passes:
                self.held_up.set()
            assert self._changed.wait_for(lambda: self._passes, WAIT_S), "nobody opened the gate"
            self._passes -= 1

    def _append_file(self, path: str, descriptor: int, offset: int) -> AppendFile:
        if path.removesuffix(UNFINISHED).endswith(self._suffix):
            return _GatedFile(self, path, descriptor, offset)
        return super()._append_file(path, descriptor, offset)


class _GatedFile(AppendFile):
    def __init__(self, storage: GatedStorage, path: str, descriptor: int, offset: int) -> None:
        super().__init__(path, descriptor, offset)
        self._storage = storage

    def _write(self, data: bytes | memoryview, offset: int) -> int:
        self._storage.pass_gate()
        return super()._write(data, offset)
