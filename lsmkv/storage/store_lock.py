"""The lock on a store's directory."""

from __future__ import annotations

import os
import time
from typing import Final

from lsmkv.errors import LockedError
from lsmkv.storage.file_names import CURRENT, LOCK
from lsmkv.storage.storage import FileLock, Storage

_ORPHANS_END_S: Final = 10.0  # helper processes whose parent was killed have ended by then
_ORPHANS_LOOK_S: Final = 0.002


def lock_store(storage: Storage, directory: str) -> FileLock:
    """Take the lock on a store; LockedError if another handle holds it.

    Waits for the helpers of a killed process, which hold its lock until they end, soon.
    """
    path = os.path.join(directory, LOCK)
    deadline = time.monotonic() + _ORPHANS_END_S
    while True:
        try:
            return storage.lock(path)
        except LockedError as error:
            if error.pid is None or _is_alive(error.pid) or time.monotonic() > deadline:
                raise
        time.sleep(_ORPHANS_LOOK_S)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def holds_store(storage: Storage, directory: str) -> bool:
    return storage.exists(os.path.join(directory, CURRENT))
