"""The tests' own storages: injected faults and waits."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from lsmkv.storage.storage import ReadKind, Storage
from storages import CONTENT, OPERATIONS, FaultyStorage, SlowStorage


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "file.sst")


@pytest.fixture
def full(path: str) -> str:
    Path(path).write_bytes(CONTENT)
    return path


def test_fault_fires_after_and_as_often_as_told(path: str) -> None:
    storage = FaultyStorage()
    fault = storage.fail("append", after=1, times=2, error=errno.ENOSPC, path_suffix=".sst")
    with storage.create(path) as file, storage.create(path + ".other") as other:
        other.append(b"x")
        file.append(b"a")
        for _ in range(2):
            with pytest.raises(OSError):
                file.append(b"b")
        file.append(b"c")
    assert Path(path).read_bytes() == b"ac"
    assert (fault.seen, fault.fired) == (4, 2)


def test_healed_storage_works(full: str) -> None:
    storage = FaultyStorage()
    storage.fail("open_random", times=None)
    with pytest.raises(OSError):
        storage.open_random(full)
    storage.heal()
    storage.open_random(full).close()


def test_every_public_operation_can_be_made_to_fail() -> None:
    public = {
        name
        for name, member in vars(Storage).items()
        if not name.startswith("_") and callable(member)
    } - {"check_place"}  # where its call fails, nothing is known
    assert public | {"append", "copy", "truncate", "sync", "pread"} == OPERATIONS
    with pytest.raises(ValueError, match="none of"):
        FaultyStorage().fail("fsync")


def test_slow_storage_sleeps_as_told(full: str) -> None:
    slept: list[float] = []
    storage = SlowStorage(slept.append, sync_s=1.0, append_s=2.0, pread_s=3.0)
    with storage.create(full + "2") as file:
        file.append(b"x")
        file.sync()
    with storage.open_random(full) as reader:
        assert reader.pread(0, 2, ReadKind.DATA) == CONTENT[:2]
    assert slept == [2.0, 1.0, 3.0]
