"""A writer's errors when the disk fails, and how writing resumes."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import contents, fill, open_small

import lsmkv
from damage import files
from gates import GatedStorage
from storages import FaultyStorage
from torture.crash.fault_session import cause_of


@pytest.fixture
def storage() -> FaultyStorage:
    return FaultyStorage()


@pytest.fixture
def db(path: str, storage: FaultyStorage) -> Iterator[lsmkv.DB]:
    with open_small(path, storage=storage) as opened:
        opened[b"before"] = b"1"
        yield opened
        storage.heal()
        with contextlib.suppress(OSError):
            opened.close()


# --- what the writer is told ---------------------------------------------------------------------


def test_a_write_that_fails_raises_the_cause_is_not_there_and_stops_later_ones(
    db: lsmkv.DB, storage: FaultyStorage
) -> None:
    fault = storage.fail("append", error=errno.ENOSPC)
    with pytest.raises(OSError) as failed:
        db[b"k"] = b"v"
    assert failed.value.errno == errno.ENOSPC
    with pytest.raises(lsmkv.BackgroundError, match="No space left") as stopped:
        db[b"l"] = b"v"
    assert cause_of(stopped.value).errno == errno.ENOSPC
    assert fault.fired == 1
    assert dict(db.items()) == {b"before": b"1"}
    db.resume()
    assert dict(db.items()) == {b"before": b"1"}


@pytest.mark.parametrize("operation", ["append", "sync"])
def test_a_transaction_fails_as_a_batch_does(
    db: lsmkv.DB, storage: FaultyStorage, operation: str
) -> None:
    storage.fail(operation, path_suffix=".log")
    with pytest.raises(OSError), db.transaction(sync=True) as t:
        t[b"k"] = t[b"before"]
    assert t.closed
    assert (b"k" in db) == (operation == "sync")  # written, but maybe not durable
    with pytest.raises(lsmkv.BackgroundError), db.transaction() as t:
        t[b"l"] = b""
    with pytest.raises(lsmkv.BackgroundError):
        db.compare_and_set(b"l", None, b"")
    db.resume()
    assert db.compare_and_set(b"before", b"1", b"2")
    assert not db._engine.writer.recent_writes.size_bytes


def test_a_failed_flush_stops_writes_and_tells_why(db: lsmkv.DB, storage: FaultyStorage) -> None:
    storage.fail("create", path_suffix=".sst", error=errno.ENOSPC)
    with pytest.raises(lsmkv.BackgroundError) as caught:
        db.flush()
    assert cause_of(caught.value).errno == errno.ENOSPC
    assert db[b"before"] == b"1"
    db.resume()
    assert db.inspect().entry_count == 1


def test_a_failed_compaction_stops_writes_and_tells_why(
    db: lsmkv.DB, storage: FaultyStorage
) -> None:
    db.flush()
    db[b"before"] = b"2"
    db.flush()
    storage.fail("append", path_suffix=".sst")
    with pytest.raises(OSError, match="injected: append"):
        db.compact_range()
    with pytest.raises(lsmkv.BackgroundError):
        db[b"k"] = b"v"
    assert db[b"before"] == b"2"
    db.resume()
    db.compact_range()
    assert dict(db.items()) == {b"before": b"2"}


def test_tables_of_a_flush_that_failed_are_removed(
    db: lsmkv.DB, storage: FaultyStorage, path: str
) -> None:
    storage.fail("sync", path_suffix=".sst")
    with pytest.raises(lsmkv.BackgroundError):
        db.flush()
    assert files(Path(path), ".sst") == []
    db.resume()


@pytest.mark.parametrize("operation", ["append", "sync"])
def test_tables_whose_record_failed_stay_until_the_manifest_is_mended(
    path: str, operation: str
) -> None:
    storage = FaultyStorage()
    with open_small(path, storage=storage) as db:
        db[b"k"] = b"v"
        manifest = os.path.basename(files(Path(path), "MANIFEST-000002")[0])
        storage.fail(operation, path_suffix=manifest)
        with pytest.raises(lsmkv.BackgroundError):
            db.flush()
        (orphan,) = files(Path(path), ".sst")
        db.resume()
        (table,) = files(Path(path), ".sst")
        assert table != orphan
        assert db[b"k"] == b"v"


@pytest.mark.parametrize("operation", ["sync", "sync_directory"])
def test_a_failed_rotation_removes_the_new_log(
    path: str, storage: FaultyStorage, operation: str
) -> None:
    with open_small(path, storage=storage) as db:
        storage.fail(operation)
        with pytest.raises(OSError, match="injected"):
            fill(db, range(1000))
        assert len(files(Path(path), ".log")) == 1
        db.resume()


# --- failed syncs --------------------------------------------------------------------------------


def test_a_failed_sync_is_not_tried_again_into_a_success(path: str, storage: FaultyStorage) -> None:
    db = open_small(path, storage=storage)
    fault = storage.fail("sync", path_suffix=".log")
    with pytest.raises(OSError, match="injected: sync"):
        db.put(b"k", b"v", sync=True)
    with pytest.raises(lsmkv.BackgroundError):
        db.put(b"l", b"v", sync=True)
    with pytest.raises(lsmkv.BackgroundError):
        db.sync()
    with pytest.raises(OSError, match="earlier failure"):
        db.close()
    assert (fault.seen, fault.fired) == (1, 1)


def test_after_a_failed_sync_resuming_puts_the_writes_into_a_table(
    path: str, storage: FaultyStorage
) -> None:
    with open_small(path, storage=storage) as db:
        storage.fail("sync", path_suffix=".log")
        with pytest.raises(OSError):
            db.put(b"k", b"v", sync=True)
        db.resume()
        assert db.inspect().entry_count == 1
        db.put(b"l", b"v", sync=True)
    assert contents(path) == {b"k": b"v", b"l": b"v"}


def test_closing_syncs_the_log_even_after_a_failed_flush(path: str, storage: FaultyStorage) -> None:
    db = open_small(path, storage=storage)
    db[b"k"] = b"v"
    storage.fail("create", path_suffix=".sst")
    with pytest.raises(lsmkv.BackgroundError):
        db.flush()
    logs = [str(log) for log in files(Path(path), ".log")]
    faults = [storage.fail("sync", path_suffix=log, times=0) for log in logs]
    db.close()
    assert faults[0].seen == 1


def test_syncing_during_a_flush_syncs_the_log_that_is_being_flushed(path: str) -> None:
    storage = GatedStorage(".sst")
    with open_small(path, storage=storage) as db:
        db[b"k"] = b"v"
        storage.shut()
        flush = threading.Thread(target=db.flush, daemon=True)
        flush.start()
        assert storage.held_up.wait(60)
        db.sync()
        (old,) = db._engine._logs._waiting.values()
        assert old.synced == old.end
        storage.open_up()
        flush.join(60)


# --- resuming ------------------------------------------------------------------------------------


def test_resuming_without_a_failure_does_nothing(db: lsmkv.DB, storage: FaultyStorage) -> None:
    before = storage.calls.copy()
    db.resume()
    assert storage.calls == before


def test_resuming_while_the_cause_is_there_fails_and_changes_nothing(
    db: lsmkv.DB, storage: FaultyStorage
) -> None:
    storage.fail("append", error=errno.ENOSPC, times=None)
    with pytest.raises(OSError):
        db[b"k"] = b"v"
    for _ in range(3):
        with pytest.raises((OSError, lsmkv.BackgroundError)):
            db.resume()
    with pytest.raises(lsmkv.BackgroundError):
        db[b"k"] = b"v"
    assert db[b"before"] == b"1"
    storage.heal()
    db.resume()
    db[b"k"] = b"v"


def test_resuming_reports_a_flush_that_fails_anew(db: lsmkv.DB, storage: FaultyStorage) -> None:
    storage.fail("create", path_suffix=".sst", times=None)
    with pytest.raises(lsmkv.BackgroundError):
        db.flush()
    with pytest.raises(lsmkv.BackgroundError):
        db.resume()
    storage.heal()
    db.resume()
    assert db[b"before"] == b"1"


class HeldStorage(FaultyStorage):
    """Holds the first table back until ``release`` is set, then fails it."""

    def __init__(self) -> None:
        super().__init__()
        self.held = threading.Event()
        self.release = threading.Event()

    def check(self, operation: str, *paths: str) -> int | None:
        if operation == "append" and paths[0].endswith(".sst") and not self.held.is_set():
            self.held.set()
            assert self.release.wait(60)
            raise OSError(errno.ENOSPC, "no space for the table")
        return super().check(operation, *paths)


def test_a_flush_that_began_before_the_disk_was_mended_does_not_fail_resuming(path: str) -> None:
    storage = HeldStorage()
    with open_small(path, storage=storage) as db:
        db[b"a"] = b"1"
        flush = threading.Thread(target=_ignoring_failures(db.flush), daemon=True)
        flush.start()
        assert storage.held.wait(60)
        storage.fail("append", path_suffix=".log")
        with pytest.raises(OSError, match="injected"):
            db[b"b"] = b"2"
        release = threading.Timer(0.1, storage.release.set)  # once resuming has begun
        release.start()
        db.resume()
        db[b"c"] = b"3"
        flush.join(60)
    assert contents(path) == {b"a": b"1", b"c": b"3"}


def _ignoring_failures(job: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        with contextlib.suppress(OSError, lsmkv.BackgroundError):
            job()

    return run


def test_two_threads_may_resume_at_once(db: lsmkv.DB, storage: FaultyStorage) -> None:
    storage.fail("append", error=errno.ENOSPC)
    with pytest.raises(OSError):
        db[b"k"] = b"v"
    threads = [threading.Thread(target=db.resume, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    db[b"k"] = b"v"
