"""Every operation on files failing in turn, interrupts, and a disk that is really full."""

from __future__ import annotations

import contextlib
import errno
import gc
import math
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lsmkv
from conftest import fill, open_small
from damage import cut, files
from gates import GatedStorage
from lsmkv.log import MARK_BYTES
from lsmkv.storage import AppendFile, Storage
from storages import FaultyStorage
from torture import full_disk
from torture.fault_session import Remedy, Session, cause_of
from torture.part import Outcome, Scale, Settings


def contents(path: str, storage: Storage | None = None) -> dict[bytes, bytes]:
    with open_small(path, create_if_missing=False, storage=storage) as db:
        return dict(db.items())


def our_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("lsmkv")}


def open_descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd" if sys.platform == "linux" else "/dev/fd"))


# --- each operation in turn ----------------------------------------------------------------------


class UnsyncedStorage(FaultyStorage):
    """Fails as it is told to, and does not really sync, which takes most of the time."""

    def sync_directory(self, path: str) -> None:
        self.check("sync_directory", path)

    def _append_file(self, path: str, descriptor: int, offset: int) -> AppendFile:
        return _UnsyncedFile(self, path, descriptor, offset)


class _UnsyncedFile(AppendFile):
    def __init__(self, storage: UnsyncedStorage, path: str, descriptor: int, offset: int) -> None:
        super().__init__(path, descriptor, offset)
        self._storage = storage

    def _write(self, data: bytes | memoryview, offset: int) -> int:
        short = self._storage.check("append", self.path)
        return super()._write(data if short is None else data[:short], offset)

    def _truncate(self, length: int) -> None:
        self._storage.check("truncate", self.path)
        super()._truncate(length)

    def _sync(self) -> None:
        self._storage.check("sync", self.path)


class RealDisk:
    """Files of the operating system, for a session."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.storage = UnsyncedStorage()

    def heal(self) -> None:
        self.storage.heal()

    def crash(self) -> None:
        raise NotImplementedError("only a disk in memory knows what would be lost")

    def after_a_crash(self) -> None:
        """Nobody knows."""


def fail_each_in_turn(
    tmp_path: Path,
    operation: str,
    *,
    resume: bool,
    error: int = errno.EIO,
    times: int | None = 1,
    short_write: int | None = None,
) -> int:
    """Run the workload with the first call of ``operation`` failing, then the second, ...

    Returns how many were failed, which is all of them.
    """
    threads, descriptors = our_threads(), open_descriptors()
    for after in range(10_000):
        path = str(tmp_path / "store")
        disk = RealDisk(path)
        fault = disk.storage.fail(
            operation, error=error, after=after, times=times, short_write=short_write
        )
        session = Session(path, disk, Remedy.RESUME if resume else Remedy.REOPEN)
        session.run()
        assert set(session.failures) <= {error, errno.EIO}
        session.check(contents(path, UnsyncedStorage()))
        assert our_threads() <= threads
        fired = fault.fired
        del session, disk
        assert open_descriptors() <= descriptors
        shutil.rmtree(path)
        if not fired:
            return after
    raise AssertionError("the workload never ends")


WRITING = ["append", "sync", "create", "replace", "sync_directory", "truncate"]
READING = ["pread", "open_random", "read_whole", "open_append", "write_again"]
OTHER = ["list_directory", "exists", "lock", "make_directory", "remove", "write_atomically"]


@pytest.mark.parametrize("resume", [True, False], ids=["resume", "reopen"])
@pytest.mark.parametrize("operation", [*WRITING, *READING, *OTHER])
def test_one_failure_anywhere_loses_nothing_acknowledged(
    tmp_path: Path, operation: str, resume: bool
) -> None:
    failed = fail_each_in_turn(tmp_path, operation, resume=resume)
    # Nothing is cut off where nothing fails, nor written again where stores are closed.
    assert failed or operation in {"truncate", "write_again"}


@pytest.mark.parametrize("resume", [True, False], ids=["resume", "reopen"])
@pytest.mark.parametrize("operation", ["append", "sync", "create", "sync_directory"])
def test_a_disk_that_fails_until_mended_loses_nothing_acknowledged(
    tmp_path: Path, operation: str, resume: bool
) -> None:
    assert fail_each_in_turn(tmp_path, operation, resume=resume, times=None)


@pytest.mark.parametrize("resume", [True, False], ids=["resume", "reopen"])
def test_no_space_anywhere_loses_nothing_acknowledged(tmp_path: Path, resume: bool) -> None:
    assert fail_each_in_turn(tmp_path, "append", resume=resume, error=errno.ENOSPC, times=None)


def test_short_writes_anywhere_are_completed(tmp_path: Path) -> None:
    assert fail_each_in_turn(tmp_path, "append", resume=True, short_write=3)


# --- what the writer is told ---------------------------------------------------------------------


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


def test_the_write_that_fails_raises_the_cause(db: lsmkv.DB, storage: FaultyStorage) -> None:
    storage.fail("append", error=errno.ENOSPC)
    with pytest.raises(OSError) as caught:
        db[b"k"] = b"v"
    assert caught.value.errno == errno.ENOSPC
    db.resume()


def test_later_writes_raise_a_background_error_with_the_cause(
    db: lsmkv.DB, storage: FaultyStorage
) -> None:
    fault = storage.fail("append", error=errno.ENOSPC)
    with pytest.raises(OSError):
        db[b"k"] = b"v"
    with pytest.raises(lsmkv.BackgroundError, match="No space left") as caught:
        db[b"l"] = b"v"
    assert cause_of(caught.value).errno == errno.ENOSPC
    assert fault.fired == 1
    db.resume()


def test_a_write_that_failed_is_not_there(db: lsmkv.DB, storage: FaultyStorage) -> None:
    storage.fail("append")
    with pytest.raises(OSError):
        db[b"k"] = b"v"
    assert dict(db.items()) == {b"before": b"1"}
    db.resume()
    assert dict(db.items()) == {b"before": b"1"}


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
def test_a_rotation_that_failed_takes_back_the_new_log(
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


class HeldStorage(Storage):
    """Holds the first table back until ``release`` is set, and then fails it.

    With ``log_fails`` writes to logs fail too.
    """

    def __init__(self) -> None:
        super().__init__()
        self.held = threading.Event()
        self.release = threading.Event()
        self.log_fails = False

    def _append_file(self, path: str, descriptor: int, offset: int) -> AppendFile:
        return _HeldFile(self, path, descriptor, offset)


class _HeldFile(AppendFile):
    def __init__(self, storage: HeldStorage, path: str, descriptor: int, offset: int) -> None:
        super().__init__(path, descriptor, offset)
        self._storage = storage

    def _write(self, data: bytes | memoryview, offset: int) -> int:
        storage = self._storage
        if self.path.endswith(".log") and storage.log_fails:
            raise OSError(errno.ENOSPC, "no space for the log")
        if self.path.endswith(".sst") and not storage.held.is_set():
            storage.held.set()
            assert storage.release.wait(60)
            raise OSError(errno.ENOSPC, "no space for the table")
        return super()._write(data, offset)


def test_a_flush_that_began_before_the_disk_was_mended_does_not_fail_resuming(path: str) -> None:
    storage = HeldStorage()
    with open_small(path, storage=storage) as db:
        db[b"a"] = b"1"
        flush = threading.Thread(target=_ignoring_failures(db.flush), daemon=True)
        flush.start()
        assert storage.held.wait(60)
        storage.log_fails = True
        with pytest.raises(OSError, match="no space for the log"):
            db[b"b"] = b"2"
        storage.log_fails = False
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


# --- opening and closing -------------------------------------------------------------------------


def forget_the_closing(path: str) -> None:
    """Take off the mark that the manifest ends with: opening is to make sure of everything."""
    (manifest,) = Path(path).glob("MANIFEST-*")
    cut(manifest, manifest.stat().st_size - MARK_BYTES)


@pytest.mark.parametrize("operation", ["read_whole", "open_random", "sync", "create"])
def test_a_failed_opening_lets_go_of_lock_and_files(
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
    storage.fail("create", path_suffix="MANIFEST-000003")
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


# --- interrupts ----------------------------------------------------------------------------------


class InterruptedStorage(Storage):
    """Raises KeyboardInterrupt, once, from a log's append: ``before`` or ``after`` it is done."""

    armed = ""

    def _append_file(self, path: str, descriptor: int, offset: int) -> AppendFile:
        return _InterruptedFile(self, path, descriptor, offset)


class _InterruptedFile(AppendFile):
    def __init__(
        self, storage: InterruptedStorage, path: str, descriptor: int, offset: int
    ) -> None:
        super().__init__(path, descriptor, offset)
        self._storage = storage

    def append(self, data: bytes) -> None:
        super().append(data)
        self._interrupt("after")

    def _write(self, data: bytes | memoryview, offset: int) -> int:
        self._interrupt("before")
        return super()._write(data, offset)

    def _interrupt(self, when: str) -> None:
        if self._storage.armed == when and self.path.endswith(".log"):
            self._storage.armed = ""
            raise KeyboardInterrupt


def test_an_interrupt_before_anything_was_written_changes_nothing(path: str) -> None:
    storage = InterruptedStorage()
    with open_small(path, storage=storage) as db:
        storage.armed = "before"
        with pytest.raises(KeyboardInterrupt):
            db[b"a"] = b"1"
        db[b"b"] = b"2"
    assert contents(path) == {b"b": b"2"}


@pytest.mark.parametrize("batch", [False, True])
def test_an_interrupt_between_log_and_memtable_stops_writes_until_resumed(
    path: str, batch: bool
) -> None:
    storage = InterruptedStorage()
    with open_small(path, storage=storage) as db:
        storage.armed = "after"
        with pytest.raises(KeyboardInterrupt):
            if batch:
                with db.write_batch() as pending:
                    pending.put(b"a", b"1")
            else:
                db[b"a"] = b"1"
        with pytest.raises(lsmkv.BackgroundError):
            db[b"b"] = b"2"
        db.resume()
        db[b"b"] = b"2"
    assert contents(path) == {b"b": b"2"}


def test_a_store_closed_after_an_interrupt_opens_again(path: str) -> None:
    storage = InterruptedStorage()
    with open_small(path, storage=storage) as db:
        storage.armed = "after"
        with pytest.raises(KeyboardInterrupt):
            db[b"a"] = b"1"
    assert contents(path) == {b"a": b"1"}


# --- a full disk ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", full_disk.NAMES)
def test_a_store_whose_disk_is_really_full_reads_on_and_resumes(tmp_path: Path, name: str) -> None:
    outcome = Outcome()
    full_disk.run(Settings(Scale.CI, 60.0, 1, tmp_path, name), outcome, math.inf)
    if outcome.skipped:
        pytest.skip(outcome.skipped[0])
    assert outcome.failures == []
    assert outcome.counts.total() > 100
