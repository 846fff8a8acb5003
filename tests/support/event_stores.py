"""Stores that flush and compact often, and calls that must not hang."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import lsmkv
from gates import WAIT_S

SMALL: dict[str, Any] = {
    "write_buffer_size_bytes": 4096,
    "max_immutable_memtables": 1,
    "level1_size_bytes": 16 * 1024,
}


def fill(db: lsmkv.DB, count: int = 600) -> None:
    for number in range(count):
        db.put(b"%05d" % (number * 7919 % count), os.urandom(60))


def within_a_minute(action: Callable[[], object]) -> None:
    """Run ``action``, and fail rather than hang."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="writer", daemon=True)
    thread.start()
    thread.join(WAIT_S)
    assert not thread.is_alive(), "a deadlock"
    if errors:
        raise errors[0]
