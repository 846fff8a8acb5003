"""Crashes and failing disks during ``ingest`` and ``bulk_load``: all or none, and no file stays."""

from __future__ import annotations

import errno
import gc
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

import pytest

import lsmkv
from lsmkv.encoding.entry_batch import batches_of
from lsmkv.engine import bulk_load
from lsmkv.inspection.table_check import check_table, open_uncached
from lsmkv.sstable.format import TABLE_MAGIC
from lsmkv.sstable.writer import NO_LIMIT, TableWriter
from lsmkv.storage.storage import Storage
from lsmkv.tree.version_set import table_format
from torture.crash.disk import STORE, Disk, Operation
from torture.crash.disk_states import states
from torture.crash.disk_storage import MemoryStorage
from torture.crash.examination import Examiner
from torture.crash.fault_session import cause_of
from torture.crash.injection import Fault
from torture.crash.workloads import SMALL
from torture.framework.store_checks import check_files, check_no_leftovers, store_threads

OUTSIDE: Final = ["/left.sst", "/right.sst"]
NEW: Final = {b"key-%03d" % number: b"new %d " % number * 20 for number in range(0, 60, 2)}
OLD: Final = {b"key-%03d" % number: b"old %d " % number * 20 for number in range(0, 40, 3)}


def write_outside(storage: MemoryStorage) -> None:
    """Two tables of the new entries, durable; the second overlaps nothing of the store."""
    ordered = sorted(NEW.items())
    for path, part in zip(OUTSIDE, (ordered[:22], ordered[22:]), strict=True):
        writer = TableWriter(storage, path, len(path), table_format(SMALL, 0.01))
        for batch in batches_of(iter([(key, value, 0) for key, value in part])):
            assert writer.add_from(batch, 0, NO_LIMIT) == batch.count
        writer.finish([], for_adoption=True)
    storage.sync_directory("/")


def copy(db: lsmkv.DB) -> None:
    db.ingest(OUTSIDE)


def move(db: lsmkv.DB) -> None:
    db.ingest(OUTSIDE, move=True)


def load_sorted(db: lsmkv.DB) -> None:
    db.bulk_load(sorted(NEW.items()), sorted=True)


def load_unsorted(db: lsmkv.DB) -> None:
    db.bulk_load(sorted(NEW.items(), reverse=True), memory_bytes=4000)


Job = Callable[[lsmkv.DB], None]
JOBS: Final[list[Job]] = [copy, move, load_sorted, load_unsorted]
EACH_JOB = pytest.mark.parametrize("job", JOBS, ids=[job.__name__ for job in JOBS])


@pytest.fixture(autouse=True)
def small_budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_load, "_LEAST_MEMORY_BYTES", 1)


def opened(storage: Storage) -> lsmkv.DB:
    return lsmkv.open(STORE, SMALL, storage=storage)


def fill(db: lsmkv.DB) -> None:
    """Old entries in tables and in the memtable, all synced."""
    ordered = sorted(OLD.items())
    for key, value in ordered[:10]:
        db.put(key, value)
    db.flush()
    db.wait_until_settled()
    for key, value in ordered[10:]:
        db.put(key, value, sync=True)


# --- crashes ---


@dataclass
class Recorded:
    """The operations of a job on the disk, and how many came before it."""

    operations: list[Operation]
    before: int


def record(job: Job) -> Recorded:
    storage = MemoryStorage()
    with opened(storage) as db:
        write_outside(storage)
        fill(db)
        before = len(storage.operations)
        job(db)
        storage.note("done", 1)
        assert dict(db) == {**OLD, **NEW}
    return Recorded(storage.operations, before)


@EACH_JOB
@pytest.mark.parametrize("samples", [-1, pytest.param(6, marks=pytest.mark.slow)])
def test_a_crash_anywhere_leaves_all_or_nothing_and_no_file(job: Job, samples: int) -> None:
    recorded = record(job)
    examiner = Examiner([OLD, {**OLD, **NEW}], Counter())
    disk, allowed, seen = Disk(), {0, 1}, set[int]()
    for number, operation in enumerate(recorded.operations):
        disk.apply(operation)
        if operation.kind == "note":
            allowed = {1}
        if number < recorded.before:
            continue
        for state in states(disk, f"{number}", samples):
            verdict, _ = examiner.examine(state.image)
            assert not verdict.problem, f"after {number}, {operation}: {state.what}"
            assert allowed & set(verdict.matches), f"after {number}, {operation}: {state.what}"
            seen.update(verdict.matches)
    assert seen == {0, 1}


@pytest.mark.parametrize("job", [copy, move])
def test_a_kill_anywhere_leaves_each_table_whole_outside_or_in_the_store(
    job: Job, tmp_path: Path
) -> None:
    recorded = record(job)
    disk = Disk()
    path = tmp_path / "outside"
    checked: set[bytes] = set()
    for number, operation in enumerate(recorded.operations):
        disk.apply(operation)
        if number < recorded.before:
            continue
        for name in OUTSIDE:
            if name in disk.names:
                content = disk.files[disk.names[name]].content
                if content not in checked:
                    path.write_bytes(content)
                    assert check_table(open_uncached(Storage(), str(path))).problems == ()
                checked.add(content)
            else:
                assert job is move
                verdict, _ = Examiner([{**OLD, **NEW}], Counter()).examine(disk.everything())
                assert verdict.matches == (0,)
    assert len(checked) == (4 if job is move else 2)  # as written, and as adopted


def test_a_table_that_a_kill_left_adopted_is_ingested_again(tmp_path: Path) -> None:
    recorded = record(move)
    disk = Disk()
    left: set[bytes] = set()
    for operation in recorded.operations:
        disk.apply(operation)
        left |= {disk.files[disk.names[name]].content for name in OUTSIDE if name in disk.names}
    whole = sorted(content for content in left if content.endswith(TABLE_MAGIC))
    assert len(whole) == 4  # as written, and as adopted
    for number, content in enumerate(whole):
        path = tmp_path / f"t{number}"
        path.write_bytes(content)
        with lsmkv.open(tmp_path / f"store{number}") as db:
            db.ingest([path], move=True)
            assert 0 < len(db) <= len(NEW)
            assert dict(db).items() <= NEW.items()
            assert db.verify().ok


# --- failures of the disk ---


def run_with_fault(job: Job, fault: Fault, remedy: str) -> bool:
    """Run ``job`` with one failure; returns whether it came."""
    threads = store_threads()
    storage = MemoryStorage()
    db = opened(storage)
    write_outside(storage)
    fill(db)
    storage.faults.add(fault)
    expected = {**OLD, **NEW}
    try:
        job(db)
    except (OSError, lsmkv.BackgroundError) as error:
        assert cause_of(error).errno == fault.error
        expected = OLD
    storage.faults.heal()
    assert dict(db) == expected
    possible = [expected]
    if remedy == "resume":
        db.resume()
        db.put(b"later", b"1", sync=True)
        possible = [{**expected, b"later": b"1"}]
        assert dict(db) == possible[0]
    elif expected is OLD:  # the edit may be on disk
        possible = [OLD, {**OLD, **NEW}]
    db.close()
    for image in (storage.disk.everything(), storage.disk.the_least()):
        again = MemoryStorage(image)
        with opened(again) as db:
            assert dict(db) in possible
            check_files(db)
            check_no_leftovers(db, again)
    gc.collect()
    assert storage.open_files == {}
    assert store_threads() <= threads
    return fault.fired > 0


OPERATIONS: Final = [
    "append", "create", "identity", "link", "list_directory", "open_append", "open_random",
    "pread", "remove", "replace", "sync", "sync_directory", "truncate",
]  # fmt: skip
FEW: Final = 3


@EACH_JOB
@pytest.mark.parametrize("remedy", ["resume", "reopen"])
@pytest.mark.parametrize(
    "rest",
    [
        80,
        pytest.param(8, marks=pytest.mark.slow),
        pytest.param(1, marks=[pytest.mark.slow, pytest.mark.longest]),
    ],
)
@pytest.mark.filterwarnings("ignore:the tables were ingested, but could not be removed")
def test_a_failure_anywhere_undoes_all(job: Job, remedy: str, rest: int) -> None:
    tried = Counter[str]()
    for operation in OPERATIONS:
        for after in chain(range(FEW), range(FEW, 10_000, rest)):
            if not run_with_fault(job, Fault(operation, errno.EIO, after, 1), remedy):
                break
            tried[operation] += 1
    assert tried["append"] >= 3
    assert tried["sync"] >= 3
    assert tried["replace"] >= 1


@EACH_JOB
def test_a_full_disk_undoes_all_and_the_store_goes_on(job: Job) -> None:
    for after in range(0, 40, 3):
        run_with_fault(job, Fault("append", errno.ENOSPC, after, None), "resume")
