"""What a store tells the logger ``lsmkv``."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time

import pytest

import lsmkv
from event_stores import SMALL, fill, within_a_minute
from gates import WAIT_S
from lsmkv import (
    BackgroundFailed,
    Event,
    FlushEnded,
    HelperFailed,
    Ingested,
    Refreshed,
    Resumed,
    WriteStalled,
)
from lsmkv.background.events import EventTeller
from other_processes import run
from threaded_stores import wait_until


def test_the_logger_is_told_of_flushes_and_compactions(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "lsmkv")
    with lsmkv.open(path) as db:
        for value in (b"1", b"2"):
            db[b"a"] = value
            db.flush()
        db.compact_range()
        db.wait_until_settled()
    lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [level for level, _ in lines] == ["INFO"] * 3
    texts = sorted(line for _, line in lines)  # two threads told them
    assert texts[0].startswith(f"{path}: compacted 2 tables of level 0 (")
    assert texts[2].startswith(f"{path}: flushed a memtable into 1 table on level 0, 1 entry, ")


def test_records_that_a_handler_keeps_hold_no_event(caplog: pytest.LogCaptureFixture) -> None:
    teller = EventTeller(None)
    teller.note(BackgroundFailed("s", OSError(28, "No space left")))
    teller.tell()
    teller.close()
    (record,) = caplog.records
    assert record.args == (record.getMessage(),)


@pytest.mark.parametrize(
    ("event", "level"),
    [
        (WriteStalled("s", "flush", 0.9), logging.DEBUG),
        (WriteStalled("s", "flush", 1.0), logging.WARNING),
        (BackgroundFailed("s", OSError(28, "No space left")), logging.ERROR),
        (FlushEnded("s", 1, 1, 1, 1.0), logging.INFO),
        (HelperFailed("s", "was killed", 1.0), logging.WARNING),
        (Ingested("s", 1, 1, 1), logging.INFO),
        (Resumed("s"), logging.INFO),
        (Refreshed("s", 1), logging.DEBUG),
    ],
    ids=lambda found: type(found).__name__,
)
def test_each_event_has_its_level(
    event: Event, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "lsmkv")
    teller = EventTeller(None)
    teller.note(event)
    teller.tell()
    teller.close()
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (level, str(event))
    ]


def log_lines(logger: logging.Logger) -> None:
    for _ in range(20):
        logger.info("line")


def test_a_handler_that_holds_its_lock_and_writes_does_not_hold_up_the_store(path: str) -> None:
    """Every write of the handler waits for a flush, whose record waits for the handler's lock."""
    with lsmkv.open(path, **SMALL) as db:

        class Storing(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                db.put(b"log", record.getMessage().encode() + bytes(4000))

        handler, logger = Storing(), logging.getLogger("lsmkv")
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            with handler.lock or contextlib.nullcontext():
                within_a_minute(lambda: fill(db))
            within_a_minute(lambda: log_lines(logger))
            within_a_minute(db.close)
        finally:
            logger.removeHandler(handler)
            logger.setLevel(logging.NOTSET)


def test_an_interrupt_of_close_ends_the_thread_of_the_log(path: str) -> None:
    class Slow(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            begun.set()
            wait_until(lambda: db.closed)
            time.sleep(0.05)  # the last steps of close(), before it waits for this
            os.kill(os.getpid(), signal.SIGINT)
            may_end.wait(WAIT_S)

    begun, may_end = threading.Event(), threading.Event()
    handler, logger = Slow(), logging.getLogger("lsmkv")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    db = lsmkv.open(path)
    try:
        db.put(b"a", b"1")
        db.flush()
        assert begun.wait(WAIT_S)
        (thread,) = (each for each in threading.enumerate() if each.name == "lsmkv-log")
        with pytest.raises(KeyboardInterrupt):
            db.close()
        db.close()
        may_end.set()
        thread.join(WAIT_S)
        assert not thread.is_alive()
    finally:
        may_end.set()
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)


def test_a_store_that_works_well_does_not_import_logging(path: str) -> None:
    program = """
with lsmkv.open(sys.argv[1]) as db:
    db[b"a"] = b"1"
    db.flush()
    db.compact_range(force=True)
    db.wait_until_settled()
print("logging" in sys.modules)
"""
    assert run(program, path) == "False\n"
