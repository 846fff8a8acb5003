"""Stores that flush and compact often, and calls that must not hang."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import lsmkv
from time_limits import in_time

SMALL: dict[str, Any] = {
    "write_buffer_size_bytes": 4096,
    "max_immutable_memtables": 1,
    "level1_size_bytes": 16 * 1024,
}


def fill(db: lsmkv.DB, count: int = 600) -> None:
    for number in range(count):
        db.put(b"%05d" % (number * 7919 % count), os.urandom(60))


within_a_minute = partial(in_time, thread_name="writer")
