"""Injected faults: which calls of a storage fail, how, and how often."""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from dataclasses import dataclass


@dataclass
class Fault:
    """A fault in calls of ``operation`` on paths that end in ``path_suffix``.

    Attributes:
        error: the error number that the calls raise.
        after: calls that succeed first.
        times: calls that fail then; None for all until the faults are healed.
        short: read or write only this many bytes instead of raising.
        seen: matching calls so far.
        fired: failed calls so far.
    """

    operation: str
    error: int = errno.EIO
    after: int = 0
    times: int | None = 1
    path_suffix: str = ""
    short: int | None = None
    seen: int = 0
    fired: int = 0

    def is_due(self, operation: str, paths: tuple[str, ...]) -> bool:
        """Whether this call must fail; counts it as seen."""
        if operation != self.operation or not any(p.endswith(self.path_suffix) for p in paths):
            return False
        self.seen += 1
        return self.seen > self.after and (self.times is None or self.fired < self.times)


class Faults:
    """Active faults, and the number of calls of each operation.  It is thread-safe."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.active: list[Fault] = []
        self._mutex = threading.Lock()

    def add(self, fault: Fault) -> Fault:
        with self._mutex:
            self.active.append(fault)
        return fault

    def heal(self) -> None:
        """Forget all faults."""
        with self._mutex:
            self.active.clear()

    def check(self, operation: str, *paths: str) -> int | None:
        """Raise if the call must fail; return its length in bytes if it must be short, else None."""
        with self._mutex:
            self.calls[operation] += 1
            due = [fault for fault in self.active if fault.is_due(operation, paths)]
            if not due:
                return None
            fault = due[0]
            fault.fired += 1
        if fault.short is not None:
            return fault.short
        raise OSError(fault.error, f"{os.strerror(fault.error)} (injected: {operation})", paths[0])
