"""The lock on a store's directory."""

from __future__ import annotations

import os
import time
from typing import Final

from lsmkv.errors import LockedError
from lsmkv.storage.file_names import CURRENT, LOCK
from lsmkv.storage.storage import FileLock, Storage

_PAUSE_S: Final = 0.001
_LONG_WAIT_S: Final = 1.0
_LONG_PAUSE_S: Final = 0.01  # after a long wait


def lock_store(storage: Storage, directory: str, wait_s: float = 0.0) -> FileLock:
    """Take the lock on a store; LockedError if another handle holds it for ``wait_s`` more.

    One of those who wait is the first, and the others look for its place, not for the lock: whoever
    closes the store and opens it again would otherwise have it back before they look.
    """
    path = os.path.join(directory, LOCK)
    began_s = time.monotonic()
    place: FileLock | None = None
    try:
        while True:
            waited_s = time.monotonic() - began_s
            if place is None and wait_s:
                place = storage.first_place(directory)
            # Others after a long wait too: the first may have been stopped.
            if place is not None or waited_s >= min(wait_s, _LONG_WAIT_S):
                try:
                    return storage.lock(path)
                except LockedError:
                    if waited_s >= wait_s:
                        raise
            # Asking again and again lets an interrupt end the wait, and does not outlast it.
            pause_s = _PAUSE_S if waited_s < _LONG_WAIT_S else _LONG_PAUSE_S
            time.sleep(min(pause_s * (0.5 + os.urandom(1)[0] / 256), wait_s - waited_s))
    finally:
        if place is not None:
            place.release()


def holds_store(storage: Storage, directory: str) -> bool:
    return storage.exists(os.path.join(directory, CURRENT))
