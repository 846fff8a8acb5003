"""Finalizers, signal handlers and logging handlers that look keys up wait for nobody for ever."""

from __future__ import annotations

import logging
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

import lsmkv
from damage import files, flip, footer_of, unloaded
from gates import LONG_WAIT_S
from lsmkv.sstable.reader import TableReader
from time_limits import join

KEYS = [b"%05d" % number for number in range(4000)]
PATIENCE_S = 30  # a deadlock lasts; everything here takes fractions of a second


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Many tables, damaged in their filters, each with one filter."""
    options = {"filter_granularity": "table", "compression": "none"}
    with lsmkv.open(
        tmp_path / "db",
        block_size_bytes=256,
        table_size_bytes=4096,
        write_buffer_size_bytes=16384,
        level1_size_bytes=16384,
        **options,  # type: ignore[arg-type]
    ) as db:
        for key in KEYS:
            db[key] = b"value " + key
        db.compact_range()
    for table in files(tmp_path / "db", ".sst"):
        flip(table, footer_of(table).filters_offset)
    return tmp_path / "db"


def test_a_thread_does_not_wait_for_ever_for_another_that_loads_the_table(store: Path) -> None:
    """As if the other waited for a lock that this thread's caller holds."""
    reader: TableReader = unloaded(files(store, ".sst")[0])
    holds, done = threading.Event(), threading.Event()

    def hold() -> None:
        with reader._sections._loading:
            holds.set()
            assert done.wait(PATIENCE_S)

    other = threading.Thread(target=hold)
    other.start()
    try:
        assert holds.wait(PATIENCE_S)
        found: list[int] = []
        asking = threading.Thread(target=lambda: found.append(reader.filters.index.block_count))
        asking.start()
        asking.join(PATIENCE_S)
        assert found
    finally:
        done.set()
        join(other)


def test_a_handler_that_looks_keys_up_is_called_for_each_damaged_table_and_not_within_itself(
    store: Path,
) -> None:
    tables = len(files(store, ".sst"))
    assert tables > 20
    depths: list[int] = []
    remaining = reversed(KEYS[::50])

    class Asking(logging.Handler):
        depth = 0

        def emit(self, record: logging.LogRecord) -> None:
            self.depth += 1
            depths.append(self.depth)
            for key in remaining:
                assert db[key] == b"value " + key
                break
            self.depth -= 1

    logger, handler = logging.getLogger("lsmkv"), Asking()
    logger.addHandler(handler)
    try:
        with lsmkv.open(store, read_only=True) as db:
            while len(depths) < tables:
                db.multi_get(KEYS)
            assert db.stats().filter_losses == tables
    finally:
        logger.removeHandler(handler)
    assert depths == [1] * tables


FINALIZERS = """
    import faulthandler, gc, random, sys, threading
    import lsmkv

    faulthandler.dump_traceback_later({patience}, exit=True)
    gc.set_threshold(10)

    class Asking:
        def __init__(self):
            self.me = self  # garbage that only the collector frees

        def __del__(self):
            if not db.closed:
                db.get(b"%05d" % random.randrange(4000))

    def work():
        for _ in range(60):
            db.get(b"%05d" % random.randrange(4000))
            Asking()

    for _ in range({rounds}):
        with lsmkv.open({store!r}, read_only=True, block_cache_size_bytes=3000) as db:
            threads = [threading.Thread(target=work) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    gc.disable()
    print("done")
"""


@pytest.mark.slow
def test_finalizers_that_look_keys_up_in_many_threads_end(store: Path) -> None:
    script = textwrap.dedent(FINALIZERS.format(patience=240, rounds=40, store=str(store)))
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=LONG_WAIT_S,
    )
    assert done.stdout == "done\n", done.stderr[-4000:]
