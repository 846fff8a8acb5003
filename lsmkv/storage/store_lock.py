"""The lock on a store's directory."""

from __future__ import annotations

import os
import time
from typing import Final

from lsmkv.errors import LockedError
from lsmkv.storage.file_names import CURRENT, LOCK
from lsmkv.storage.storage import FileLock, Storage

_FIRST_PAUSE_S: Final = 0.002
_LONGEST_PAUSE_S: Final = 0.05


def lock_store(storage: Storage, directory: str, wait_s: float = 0.0) -> FileLock:
    """Take the lock on a store; LockedError if another handle holds it for ``wait_s`` more."""
    path = os.path.join(directory, LOCK)
    began = time.monotonic()
    pause = _FIRST_PAUSE_S
    while True:
        try:
            return storage.lock(path)
        except LockedError:
            left = wait_s - (time.monotonic() - began)
            if left <= 0:
                raise
        # Asking again and again lets an interrupt end the wait, which a blocking flock would not.
        time.sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST_PAUSE_S)


def holds_store(storage: Storage, directory: str) -> bool:
    return storage.exists(os.path.join(directory, CURRENT))
