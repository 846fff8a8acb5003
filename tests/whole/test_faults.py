"""Failures of each file operation in turn, and a full disk."""

from __future__ import annotations

import errno
import gc
import math
import shutil
from itertools import chain
from pathlib import Path

import pytest
from conftest import contents

from leaks import open_descriptors, our_threads
from storages import FaultyStorage
from torture.crash import full_disk
from torture.crash.fault_session import Remedy, Session
from torture.framework.part import Outcome, Scale, Settings

# --- each operation in turn ----------------------------------------------------------------------


class UnsyncedStorage(FaultyStorage):
    syncs = False


class RealDisk:
    """Files of the operating system, as the disk of a session."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.storage = UnsyncedStorage()

    def heal(self) -> None:
        self.storage.heal()

    def crash(self) -> None:
        raise NotImplementedError("only a disk in memory knows what would be lost")

    def after_a_crash(self) -> None:
        """A real disk cannot tell."""


# After the first calls of an operation only some fail: the later calls are alike.
_REST = 200
HOW_MANY = pytest.mark.parametrize(
    "rest",
    [
        _REST,
        pytest.param(8, marks=pytest.mark.slow),
        pytest.param(1, marks=[pytest.mark.slow, pytest.mark.longest]),
    ],
)


def fail_each_in_turn(
    tmp_path: Path,
    operation: str,
    *,
    resume: bool,
    rest: int,
    error: int = errno.EIO,
    times: int | None = 1,
    short_write: int | None = None,
) -> int:
    """Run the workload once for each call of ``operation``, failing that call.

    Returns the number of calls.  Past the first ones, only each ``rest``-th fails.
    """
    each_of_first = 4 if rest == _REST else 30
    threads, descriptors = our_threads(), open_descriptors()
    for after in chain(range(each_of_first), range(each_of_first, 10_000, rest)):
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
        gc.collect()
        assert open_descriptors() <= descriptors
        shutil.rmtree(path)
        if not fired:
            return after
    raise AssertionError("the workload never ends")


WRITING = ["append", "sync", "create", "replace", "sync_directory", "truncate"]
READING = ["pread", "open_random", "read_whole", "open_append", "write_again"]
OTHER = ["list_directory", "exists", "lock", "make_directory", "remove", "write_atomically"]


@HOW_MANY
@pytest.mark.parametrize("resume", [True, False], ids=["resume", "reopen"])
@pytest.mark.parametrize("operation", [*WRITING, *READING, *OTHER])
def test_one_failure_anywhere_loses_nothing_acknowledged(
    tmp_path: Path, operation: str, resume: bool, rest: int
) -> None:
    failed = fail_each_in_turn(tmp_path, operation, resume=resume, rest=rest)
    # Without failures nothing is truncated, and closed stores write nothing again.
    assert failed or operation in {"truncate", "write_again"}


@HOW_MANY
@pytest.mark.parametrize("resume", [True, False], ids=["resume", "reopen"])
@pytest.mark.parametrize("operation", ["append", "sync", "create", "sync_directory"])
def test_a_disk_that_fails_until_mended_loses_nothing_acknowledged(
    tmp_path: Path, operation: str, resume: bool, rest: int
) -> None:
    assert fail_each_in_turn(tmp_path, operation, resume=resume, rest=rest, times=None)


@HOW_MANY
@pytest.mark.parametrize("resume", [True, False], ids=["resume", "reopen"])
def test_no_space_anywhere_loses_nothing_acknowledged(
    tmp_path: Path, resume: bool, rest: int
) -> None:
    assert fail_each_in_turn(
        tmp_path, "append", resume=resume, rest=rest, error=errno.ENOSPC, times=None
    )


@HOW_MANY
def test_short_writes_anywhere_are_completed(tmp_path: Path, rest: int) -> None:
    assert fail_each_in_turn(tmp_path, "append", resume=True, rest=rest, short_write=3)


# --- a full disk ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", full_disk.NAMES)
def test_a_store_whose_disk_is_really_full_reads_on_and_resumes(tmp_path: Path, name: str) -> None:
    outcome = Outcome()
    full_disk.run(Settings(Scale.CI, 60.0, 1, tmp_path, name), outcome, math.inf)
    if outcome.skipped:
        pytest.skip(outcome.skipped[0])
    assert outcome.failures == []
    assert outcome.counts.total() > 100
