"""Stores that flush and compact all the time, for several threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lsmkv
from gates import WAIT_S

Background = dict[str, Any]


def open_store(path: str | Path, **options: Any) -> lsmkv.DB:
    """A store that flushes and compacts all the time: its buffers are small."""
    chosen: dict[str, Any] = {
        "write_buffer_size_bytes": 8192,
        "block_size_bytes": 512,
        "block_cache_size_bytes": 65_536,
        "table_size_bytes": 16_384,
        "level1_size_bytes": 32_768,
        "size_ratio": 4,
        "level0_compaction_trigger": 2,
        **options,
    }
    return lsmkv.open(path, **chosen)


def run_all(*jobs: Callable[[], object]) -> None:
    """Run each job in a thread of its own; raise the first error of any."""
    errors: list[BaseException] = []

    def run(job: Callable[[], object]) -> None:
        try:
            job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(job,), daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until another thread has made ``condition`` true."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.001)


def filled(db: lsmkv.DB) -> dict[bytes, bytes]:
    model = {b"key%05d" % number: b"old %d" % number for number in range(3000)}
    for key, value in model.items():
        db.put(key, value)
    return model
