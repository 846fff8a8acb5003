"""Crashes and failing disks during checkpoints and backups: the previous copy or the new one."""

from __future__ import annotations

import errno
import gc
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

import pytest

import lsmkv
from lsmkv.storage.file_names import CURRENT, LOCK, UNFINISHED, UNFINISHED_COPY
from torture.crash.disk import STORE, Disk, Image, Operation
from torture.crash.disk_states import states
from torture.crash.disk_storage import MemoryStorage
from torture.crash.examination import Examiner
from torture.crash.fault_session import cause_of
from torture.crash.injection import Fault
from torture.crash.workloads import SMALL
from torture.framework.ordered_background import in_order
from torture.framework.store_checks import check_files, check_no_leftovers, store_threads

Contents = dict[bytes, bytes]
Job = Callable[[lsmkv.DB, Callable[[int, int], object]], object]

SOURCE: Final = "/source"
_KEYS: Final = 24


def open_source(storage: MemoryStorage, *, read_only: bool = False) -> lsmkv.DB:
    return lsmkv.open(SOURCE, SMALL, storage=storage, read_only=read_only)


def write(db: lsmkv.DB, first: int, count: int, text: bytes) -> None:
    for number in range(first, first + count):
        db.put(b"key-%03d" % (number % _KEYS), text + b" %d " % number * 20)


def fill(db: lsmkv.DB) -> None:
    """Entries in tables of two runs, and in the log."""
    write(db, 0, 20, b"first")
    db.flush()
    db.wait_until_settled()
    write(db, 10, 6, b"second")
    db.flush()
    db.wait_until_settled()
    write(db, 18, 5, b"third")


def change(db: lsmkv.DB, turn: int = 1) -> None:
    """Replace most tables, and write more to the log."""
    write(db, 3, 14, b"fourth %d" % turn)
    db.compact_range()
    write(db, 9, 7, b"fifth %d" % turn)


def checkpoint(db: lsmkv.DB, progress: Callable[[int, int], object]) -> object:
    return db.checkpoint(STORE, progress=progress)


def copied_checkpoint(db: lsmkv.DB, progress: Callable[[int, int], object]) -> object:
    """One on another device."""
    storage = db._engine.location.storage
    assert isinstance(storage, MemoryStorage)
    storage.faults.add(Fault("link", errno.EXDEV, times=None))
    return db.checkpoint(STORE, progress=progress)


def beside_writer(db: lsmkv.DB, progress: Callable[[int, int], object]) -> object:
    storage = db._engine.location.storage
    assert isinstance(storage, MemoryStorage)
    with open_source(storage, read_only=True) as reader:
        return reader.checkpoint(STORE, progress=progress)


def backup(db: lsmkv.DB, progress: Callable[[int, int], object]) -> object:
    return lsmkv.backup(db, STORE, progress=progress)


def nothing(_done: int, _total: int) -> None:
    """No progress is shown."""


class Meddler:
    """Writes, flushes and compacts the source while it is copied: as a callback for progress."""

    def __init__(self, db: lsmkv.DB) -> None:
        self._db = db
        self.calls = 0

    def __call__(self, _done: int, _total: int) -> None:
        self.calls += 1
        if self.calls < 3:
            write(self._db, 2 * self.calls, 6, b"meanwhile")
            self._db.flush()
        elif self.calls == 3:
            self._db.compact_range()


@dataclass
class Recorded:
    """A run on a disk: ``models`` are the contents that the copy may have, from ``before`` on."""

    storage: MemoryStorage
    before: int
    models: list[Contents]

    def crashes(self, samples: int) -> Iterator[tuple[str, bool, Image]]:
        """What it is, whether the copy is done, and the target's files, of each state."""
        disk, done = Disk(), False
        for number, operation in enumerate(self.storage.operations):
            disk.apply(operation)
            done = done or operation.kind == "note"
            if number >= self.before:
                for state in states(disk, f"{number}", samples):
                    yield f"after {number}, {operation}: {state.what}", done, state.image

    def source(self) -> Image:
        """The source's files at the end."""
        return {
            path.removeprefix(f"{SOURCE}/"): self.storage.disk.files[number].content
            for path, number in self.storage.disk.names.items()
            if path.startswith(f"{SOURCE}/")
        }


def record(jobs: list[Job], *, meddle: bool) -> Recorded:
    """Run ``jobs`` with changes between them, and record the last one."""
    storage = MemoryStorage()
    models = []
    with open_source(storage) as db:
        fill(db)
        for number, job in enumerate(jobs):
            before = len(storage.operations)
            models.append(dict(db))
            meddler = Meddler(db) if meddle and number == len(jobs) - 1 else nothing
            job(db, meddler)
            if number < len(jobs) - 1:
                change(db, number)
        storage.note("done", 1)
        storage.faults.heal()
        expected = dict(db)
        check_files(db)
    with open_source(replayed(storage)) as db:
        assert dict(db) == expected
    return Recorded(storage, before, models[-2:])


def replayed(storage: MemoryStorage) -> MemoryStorage:
    """The disk of ``storage``, without its locks."""
    again = MemoryStorage()
    for operation in storage.operations:
        again.change(operation)
    return again


def with_source(image: Image, source: Image) -> MemoryStorage:
    """A disk with the target's files and the source's."""
    storage = MemoryStorage(image)
    storage.change(Operation("make_directory", SOURCE))
    for name, data in source.items():
        with storage.create(f"{SOURCE}/{name}") as file:
            file.append(data)
            file.sync()
    storage.sync_directory(SOURCE)
    storage.sync_directory("/")
    return storage


def check_no_store(image: Image) -> None:
    """What has no CURRENT must not open as a store; only an empty directory may become one."""
    with pytest.raises(lsmkv.NotAStoreError):
        lsmkv.open(STORE, SMALL, storage=MemoryStorage(image), read_only=True)
    if set(image) - {LOCK, UNFINISHED_COPY + UNFINISHED}:
        with pytest.raises(lsmkv.NotAStoreError, match="unfinished"):
            lsmkv.open(STORE, SMALL, storage=MemoryStorage(image))


def check_rerun(job: Job, image: Image, source: Image) -> None:
    """The same job again, after the crash, makes the whole copy."""
    storage = with_source(image, source)
    with in_order():
        with open_source(storage) as db:
            expected = dict(db)
            job(db, nothing)
        storage.faults.heal()
        with lsmkv.open(STORE, SMALL, storage=storage) as copy:
            assert dict(copy) == expected
            check_files(copy)
            check_no_leftovers(copy, storage)


SAMPLES = pytest.mark.parametrize(
    ("samples", "each"), [(-1, 12), pytest.param(4, 1, marks=pytest.mark.slow)]
)
"""Random states after each operation; and how many states are between those whose job runs again."""
CHECKPOINTS: Final[list[Job]] = [checkpoint, copied_checkpoint, beside_writer]
EACH_CHECKPOINT = pytest.mark.parametrize(
    "job", CHECKPOINTS, ids=[job.__name__ for job in CHECKPOINTS]
)
EACH_COUNT = pytest.mark.parametrize("count", [1, 2, pytest.param(3, marks=pytest.mark.slow)])


@SAMPLES
@EACH_CHECKPOINT
def test_a_crash_anywhere_leaves_no_checkpoint_or_the_whole_one(
    job: Job, samples: int, each: int
) -> None:
    recorded = record([job], meddle=True)
    examiner = Examiner(recorded.models, Counter())
    source = recorded.source()
    seen: set[int] = set()
    found = Counter[bool]()
    for what, done, image in recorded.crashes(samples):
        is_store = CURRENT in image
        assert is_store or not done, what
        is_new = hash(frozenset(image.items())) not in seen
        seen.add(hash(frozenset(image.items())))
        if is_new:
            found[is_store] += 1
        if is_store:
            verdict, _ = examiner.examine(image)
            assert not verdict.problem, f"{what}: {verdict.problem}"
            assert verdict.matches == (0,), what
        elif is_new:
            check_no_store(image)
            if len(seen) % each == 0:
                check_rerun(job, image, source)
    assert found[False] > 5
    assert found[True] > 2


@SAMPLES
@EACH_COUNT
def test_a_crash_anywhere_leaves_the_previous_backup_or_the_new_one(
    samples: int, each: int, count: int
) -> None:
    recorded = record([backup] * count, meddle=True)
    models = recorded.models
    examiner = Examiner(models, Counter())
    source = recorded.source()
    reruns: set[int] = set()
    found: set[int] = set()
    for what, done, image in recorded.crashes(samples):
        if CURRENT in image:
            verdict, _ = examiner.examine(image)
            assert not verdict.problem, f"{what}: {verdict.problem}"
            assert verdict.matches, what
            assert not done or verdict.matches == (len(models) - 1,), what
            found.update(verdict.matches)
        else:
            assert count == 1 and not done, what
        if hash(frozenset(image.items())) not in reruns:
            reruns.add(hash(frozenset(image.items())))
            if CURRENT not in image:
                check_no_store(image)
            if len(reruns) % each == 0:
                check_rerun(backup, image, source)
    assert found == set(range(len(models)))


@pytest.mark.parametrize("job", [checkpoint, backup])
def test_a_copy_is_durable_in_a_directory_whose_name_was_not(job: Job) -> None:
    storage = MemoryStorage()
    with open_source(storage) as db:
        fill(db)
        storage.change(Operation("make_directory", STORE))
        job(db, nothing)
        expected = dict(db)
    with lsmkv.open(STORE, SMALL, storage=MemoryStorage(storage.disk.the_least())) as copy:
        assert dict(copy) == expected


# --- failures of the disk ---


def run_with_fault(jobs: list[Job], fault: Fault) -> bool:
    """Run ``jobs``, the last one with a failure; returns whether it came."""
    threads = store_threads()
    storage = MemoryStorage()
    db = open_source(storage)
    fill(db)
    for job in jobs[:-1]:
        job(db, nothing)
        change(db)
    previous, before = dict(db), len(jobs) > 1
    if before:
        previous = copy_contents(storage)
    expected = dict(db)
    storage.faults.add(fault)
    failed = False
    try:
        jobs[-1](db, nothing)
    except (OSError, lsmkv.BackgroundError) as error:
        failed = True
        assert cause_of(error).errno == fault.error
    storage.faults.heal()
    assert dict(db) == expected
    names = [name for name in storage.disk.names if name.startswith(f"{STORE}/")]
    if f"{STORE}/{CURRENT}" in names:
        found = copy_contents(storage)
        assert found == expected or (failed and before and found == previous)
    else:
        assert failed and not before
        if jobs[-1] is not backup:
            assert set(names) <= {f"{STORE}/{LOCK}"}
    db.resume()
    if jobs[-1] is backup or f"{STORE}/{CURRENT}" not in names:
        jobs[-1](db, nothing)
        storage.faults.heal()
        assert copy_contents(storage) == expected
    db.put(b"later", b"1", sync=True)
    db.close()
    del db
    gc.collect()
    assert storage.open_files == {}
    assert store_threads() <= threads
    return fault.fired > 0


def copy_contents(storage: MemoryStorage) -> Contents:
    with lsmkv.open(STORE, SMALL, storage=storage, read_only=True) as copy:
        check_files(copy)
        return dict(copy)


OPERATIONS: Final = [
    "append", "create", "exists", "file_size", "fingerprint", "link", "list_directory", "lock",
    "make_directory", "open_random", "pread", "remove", "replace", "sync", "sync_directory",
]  # fmt: skip
FEW: Final = 2
JOBS: Final[dict[str, list[Job]]] = {
    "checkpoint": [checkpoint],
    "copied checkpoint": [copied_checkpoint],
    "first backup": [backup],
    "second backup": [backup, backup],
}
EACH_JOB = pytest.mark.parametrize("jobs", JOBS.values(), ids=JOBS)


@EACH_JOB
@pytest.mark.parametrize(
    "rest",
    [
        80,
        pytest.param(8, marks=pytest.mark.slow),
        pytest.param(1, marks=[pytest.mark.slow, pytest.mark.longest]),
    ],
)
def test_a_failure_anywhere_leaves_the_source_and_the_copy_before(
    jobs: list[Job], rest: int
) -> None:
    tried = Counter[str]()
    for operation in OPERATIONS:
        for after in chain(range(FEW), range(FEW, 10_000, rest)):
            if not run_with_fault(jobs, Fault(operation, errno.EIO, after, 1)):
                break
            tried[operation] += 1
    assert min(tried[operation] for operation in ("append", "sync", "create", "replace")) >= 1


@EACH_JOB
def test_a_full_disk_leaves_the_source_and_the_copy_before(jobs: list[Job]) -> None:
    fired = [
        run_with_fault(jobs, Fault("append", errno.ENOSPC, after, None)) for after in range(12)
    ]
    assert any(fired)


# --- a process that is killed ---
