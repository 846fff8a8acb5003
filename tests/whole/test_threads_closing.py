"""Closing a store that other threads use: they get an error, and no write is lost."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import lsmkv
from gates import WAIT_S, GatedStorage
from threaded_stores import Background, open_store, run_all, wait_until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.mark.parametrize(
    "round_number", [0, 1, *(pytest.param(number, marks=pytest.mark.slow) for number in (2, 3, 4))]
)
def test_close_gives_threads_that_read_and_write_a_closed_error(
    path: Path, round_number: int, background: Background
) -> None:
    db = open_store(path, **background)
    acknowledged = [0] * 4
    working = [threading.Event() for _ in range(7)]

    def write(number: int) -> None:
        with pytest.raises(lsmkv.ClosedError):
            while True:
                db.put(b"%d" % number, b"%d" % (acknowledged[number] + 1))
                acknowledged[number] += 1
                if acknowledged[number] > 50 * round_number:
                    working[number].set()

    def read() -> None:
        with pytest.raises(lsmkv.ClosedError):
            while True:
                db.get(b"1")
                working[4].set()

    def scan() -> None:
        with pytest.raises(lsmkv.ClosedError):
            while True:
                list(db.items())
                working[5].set()

    def flush() -> None:
        with pytest.raises(lsmkv.ClosedError):
            while True:
                db.flush()
                working[6].set()

    def close() -> None:
        for event in working:
            assert event.wait(WAIT_S)
        db.close()

    run_all(*[lambda number=number: write(number) for number in range(4)], read, scan, flush, close)
    with open_store(path) as reopened:
        found = [int(reopened[b"%d" % number]) for number in range(4)]
    # A write during the close may be there without an acknowledgement.
    for present, promised in zip(found, acknowledged, strict=True):
        assert promised <= present <= promised + 1


def test_close_wakes_writers_that_wait_for_room(path: Path) -> None:
    storage = GatedStorage(thread="lsmkv-flush")
    db = open_store(path, storage=storage, max_immutable_memtables=1)
    storage.shut()

    def write() -> None:
        with pytest.raises(lsmkv.ClosedError):
            while True:
                db.put(b"key", b"v" * 1000)

    def close() -> None:
        wait_until(lambda: db.stats().write_stops > 0)
        storage.open_up()
        db.close()

    run_all(write, write, close)
