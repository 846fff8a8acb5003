"""Failures during opening or closing: nothing stays open, and no write is lost."""

from __future__ import annotations

import gc
import os
import sys
import threading
import traceback
from pathlib import Path

import pytest
from conftest import contents, fill, open_small

import lsmkv
from damage import cut
from leaks import open_descriptors, our_threads
from lsmkv.log.reader import MARK_BYTES
from lsmkv.storage.file_names import UNFINISHED
from storages import FaultyStorage


@pytest.fixture
def storage() -> FaultyStorage:
    return FaultyStorage()


def forget_the_closing(path: str) -> None:
    """Cut off the manifest's closing mark: opening must sync everything again."""
    (manifest,) = Path(path).glob("MANIFEST-*")
    cut(manifest, manifest.stat().st_size - MARK_BYTES)


@pytest.mark.parametrize("operation", ["read_whole", "open_random", "sync", "create"])
def test_a_failed_opening_releases_lock_and_files(
    path: str, storage: FaultyStorage, operation: str
) -> None:
    with open_small(path) as db:
        fill(db, range(100))
        db.flush()
    forget_the_closing(path)
    descriptors = open_descriptors()
    storage.fail(operation)
    with pytest.raises(OSError, match="injected"):
        open_small(path, storage=storage)
    assert open_descriptors() <= descriptors
    open_small(path).close()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which files are open")
def test_an_error_of_opening_that_is_kept_keeps_no_log_open(
    path: str, storage: FaultyStorage
) -> None:
    open_small(path).close()
    forget_the_closing(path)
    storage.fail("create", path_suffix=f"MANIFEST-000003{UNFINISHED}")
    with pytest.raises(OSError, match="injected") as caught:
        open_small(path, storage=storage)
    links = [os.readlink(entry) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    assert not [link for link in links if link.startswith(path)]
    assert caught.value.filename.startswith(path)


def test_a_close_that_fails_closes_all_the_same(path: str, storage: FaultyStorage) -> None:
    threads, descriptors = our_threads(), open_descriptors()
    db = open_small(path, storage=storage)
    db[b"k"] = b"v"
    db.flush()
    db[b"k"] = b"v2"
    storage.fail("append", times=None)
    storage.fail("sync", times=None)
    with pytest.raises(OSError, match="injected"):
        db.close()
    assert db.closed
    assert our_threads() <= threads
    del db
    assert open_descriptors() <= descriptors
    assert contents(path) == {b"k": b"v2"}


def test_writes_that_race_with_closing_are_kept_or_refused(path: str) -> None:
    db = open_small(path)
    acknowledged: list[list[bytes]] = [[] for _ in range(4)]
    refused: list[BaseException] = []
    started = threading.Barrier(5)

    def write(name: int, mine: list[bytes]) -> None:
        started.wait(60)
        try:
            for number in range(100_000):
                key = b"%d-%d" % (name, number)
                db.put(key, b"v" * 50, sync=number % 50 == 0)
                mine.append(key)
        except BaseException as error:
            refused.append(error)

    threads = [
        threading.Thread(target=write, args=(name, mine), daemon=True)
        for name, mine in enumerate(acknowledged)
    ]
    for thread in threads:
        thread.start()
    started.wait(60)
    while not all(acknowledged):
        threading.Event().wait(0.001)
    db.close()
    for thread in threads:
        thread.join(60)
    assert [type(error) for error in refused] == [lsmkv.ClosedError] * 4
    assert contents(path).keys() == {key for mine in acknowledged for key in mine}


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which files are open")
def test_after_a_failed_flush_a_closed_store_keeps_no_table_open(
    path: str, storage: FaultyStorage
) -> None:
    db = open_small(path, storage=storage)
    db[b"k"] = b"v"
    db.flush()
    db[b"k"] = b"v2"
    storage.fail("create", path_suffix=".sst")
    with pytest.raises(lsmkv.BackgroundError) as caught:
        db.flush()
    cause = caught.value.__cause__
    del caught  # its own frames hold what they used, as those of any error do
    gc.disable()
    try:
        db.close()
        links = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        assert [link for link in links if link.startswith(path)] == []
    finally:
        gc.enable()
    assert cause is not None
    assert "run_once" in [frame.name for frame in traceback.extract_tb(cause.__traceback__)]
