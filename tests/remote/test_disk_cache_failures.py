"""A disk cache whose directory or files cannot be used: it keeps less, counts that, and fails nothing."""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

import lsmkv
from leaks import open_descriptors
from lsmkv.remote.disk_cache import MIN_CAPACITY_BYTES, DiskCache
from lsmkv.storage.storage import Storage
from published_stores import contents, published, reader
from storages import OPERATIONS, FaultyStorage
from time_limits import in_time

BLOCK: Final = 500
MANY: Final = range(150)  # more than the cache has room for


def block(number: int) -> bytes:
    return b"%05d" % number * (BLOCK // 5)


def put(cache: DiskCache, numbers: range) -> None:
    for number in numbers:
        cache.put("table", number, block(number))


def found(cache: DiskCache, numbers: range) -> list[int]:
    """The numbers that the cache has; every one must have its bytes."""
    answers = {number: cache.get("table", number, BLOCK) for number in numbers}
    there = [number for number, data in answers.items() if data is not None]
    assert all(answers[number] == block(number) for number in there)
    return there


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def full(directory: Path) -> Path:
    cache = DiskCache(directory, MIN_CAPACITY_BYTES)
    put(cache, MANY)
    cache.close()
    return directory


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.segment"))


# What may be in the place of a file


def link(path: Path) -> None:
    target = path.parents[1] / "elsewhere"
    target.write_bytes(b"precious")
    path.symlink_to(target)


def dangle(path: Path) -> None:
    path.symlink_to(path.parents[1] / "nowhere")


def bind(path: Path) -> None:
    os.mknod(path, stat.S_IFSOCK | 0o600)  # `bind` takes only short paths


def forbid(path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("no permission stops root")
    path.touch(mode=0)


ODD: Final[dict[str, Callable[[Path], None]]] = {
    "link": link,
    "dangling link": dangle,
    "directory": Path.mkdir,
    "pipe": os.mkfifo,
    "socket": bind,
    "unreadable": forbid,
}


@pytest.mark.parametrize("capacity_bytes", [MIN_CAPACITY_BYTES, 2 * MIN_CAPACITY_BYTES])
@pytest.mark.parametrize("file", ["segment", "places"])
@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_segment_is_left_alone_and_the_others_are_used(
    full: Path, kind: str, file: str, capacity_bytes: int
) -> None:
    path = segments(full)[0].with_suffix(f".{file}")
    path.unlink()
    ODD[kind](path)
    before = open_descriptors()
    mode = path.lstat().st_mode
    cache = in_time(lambda: DiskCache(full, capacity_bytes))
    assert len(found(cache, MANY)) > 50
    put(cache, range(1000, 1300))
    assert len(found(cache, range(1000, 1300))) > 50
    assert cache.failures > 0
    cache.close()
    assert open_descriptors() <= before
    assert path.lstat().st_mode == mode
    assert sorted(entry.name for entry in full.parent.iterdir()) in (
        ["cache"],
        ["cache", "elsewhere"],
    )
    if kind == "link":
        assert path.read_bytes() == b"precious"


@pytest.mark.parametrize("kind", ODD)
def test_a_segment_that_becomes_something_else_is_a_miss(directory: Path, kind: str) -> None:
    cache = DiskCache(directory, MIN_CAPACITY_BYTES)
    put(cache, range(3))
    (path,) = segments(directory)
    path.unlink()
    ODD[kind](path)
    assert in_time(lambda: found(cache, range(3))) == []
    assert (cache.failures, cache.damaged) == (3, 0)
    cache.close()


@pytest.mark.parametrize("kind", ODD)
def test_without_its_lock_a_cache_is_read_and_not_added_to(full: Path, kind: str) -> None:
    (full / "LOCK").unlink()
    ODD[kind](full / "LOCK")
    cache = in_time(lambda: DiskCache(full, MIN_CAPACITY_BYTES))
    there = found(cache, MANY)
    assert len(there) > 50
    put(cache, range(1000, 1300))
    assert found(cache, range(1000, 1300)) == []
    assert found(cache, MANY) == there
    assert cache.failures > 0
    cache.close()


def test_a_lock_that_another_holds_is_no_failure(full: Path) -> None:
    with Storage().lock(str(full / "LOCK")):
        cache = DiskCache(full, MIN_CAPACITY_BYTES)
        put(cache, range(1000, 1010))
        assert len(found(cache, MANY)) > 50
        assert found(cache, range(1000, 1010)) == []
    put(cache, range(1000, 1010))
    assert found(cache, range(1000, 1010)) == list(range(1000, 1010))
    assert cache.failures == 0
    cache.close()


# Failing calls


class Failing(FaultyStorage):
    def __init__(self, error: int, *operations: str) -> None:
        super().__init__()
        for operation in operations:
            self.fail(operation, error=error, times=None)


def session(directory: Path, storage: Storage) -> DiskCache:
    """A handle that reads, fills and drops segments, and is closed."""
    cache = DiskCache(directory, MIN_CAPACITY_BYTES, storage=storage)
    found(cache, MANY)
    put(cache, range(1000, 1050))
    found(cache, range(1000, 1050))
    cache.close()
    return cache


USED: Final = (
    "append",
    "claim",
    "create",
    "file_size",
    "list_directory",
    "lock",
    "make_directory",
    "open_append",
    "open_random",
    "pread",
    "remove",
    "truncate",
)


def test_the_operations_that_fail_below_are_all_that_a_cache_uses(full: Path) -> None:
    storage = FaultyStorage()
    session(full, storage)
    assert OPERATIONS & storage.calls.keys() == {*USED}


@pytest.mark.parametrize("operation", USED)
@pytest.mark.parametrize("times", [1, None])
def test_no_call_that_fails_fails_a_read(full: Path, operation: str, times: int | None) -> None:
    counting = FaultyStorage()
    session(full, counting)
    calls = counting.calls[operation]
    before = open_descriptors()
    for after in {0, 1, calls // 2, calls - 1}:
        storage = FaultyStorage()
        fault = storage.fail(operation, after=after, times=times)
        cache = session(full, storage)
        assert cache.failures >= bool(fault.fired)
    assert open_descriptors() <= before
    cache = DiskCache(full, MIN_CAPACITY_BYTES)  # what is left works
    put(cache, MANY)
    assert len(found(cache, MANY)) > 50
    cache.close()


def test_a_disk_without_room_for_data_keeps_what_is_cached(directory: Path) -> None:
    """Each attempt must not leave a file, for which an older segment would have to go."""
    cache = DiskCache(directory, MIN_CAPACITY_BYTES)
    put(cache, range(20))
    cache.close()
    cache = DiskCache(
        directory, MIN_CAPACITY_BYTES, storage=Failing(errno.ENOSPC, "append", "truncate")
    )
    put(cache, MANY)
    assert found(cache, range(20)) == list(range(20))
    assert len(segments(directory)) <= 5
    cache.close()


def test_failures_are_counted_and_the_first_is_logged(
    full: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stats = lsmkv.Stats()
    storage = Failing(errno.ENOSPC, "lock")
    cache = DiskCache(full, MIN_CAPACITY_BYTES, stats, storage=storage)
    put(cache, range(1000, 1010))
    cache.close()
    assert stats.disk_cache_failures == cache.failures == 11
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("lsmkv", logging.WARNING)
    assert str(full) in record.getMessage()
    assert "No space left on device" in record.getMessage()


def test_a_logging_handler_may_use_the_cache(directory: Path) -> None:
    storage = FaultyStorage()
    cache = DiskCache(directory, MIN_CAPACITY_BYTES, storage=storage)
    answers = []

    class Using(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            cache.put("table", 1, block(1))
            answers.append(cache.get("table", 1, BLOCK))

    handler = Using()
    logging.getLogger("lsmkv").addHandler(handler)
    try:
        storage.fail("lock", times=1)
        in_time(lambda: put(cache, range(1)))
    finally:
        logging.getLogger("lsmkv").removeHandler(handler)
    assert answers == [block(1)]
    cache.close()


# The directory, as ``lsmkv.open`` meets it


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A published store that no test changes."""
    directory = tmp_path_factory.mktemp("store")
    found = f"file://{directory}/published"
    published(directory / "store", found)
    return found


def file_in_the_place(place: Path) -> None:
    place.write_bytes(b"mine")


def below_a_file(place: Path) -> None:
    place.parent.rmdir()
    place.parent.write_bytes(b"mine")


def forbidden(place: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("no permission stops root")
    place.parent.chmod(0o555)


UNUSABLE: Final[dict[str, Callable[[Path], None]]] = {
    "a file": file_in_the_place,
    "below a file": below_a_file,
    "a dangling link": dangle,
    "a pipe": os.mkfifo,
    "not to be made": forbidden,
}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_without_a_directory_for_its_cache_a_store_is_read(
    tmp_path: Path, url: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "parent" / "cache"
    place.parent.mkdir()
    UNUSABLE[kind](place)
    mode = stat.S_IFMT(place.lstat().st_mode) if os.path.lexists(place) else None
    with in_time(lambda: reader(url, disk_cache_path=str(place))) as db:
        assert dict(db.items()) == contents()
        assert db[b"key000002"] == contents()[b"key000002"]
        stats = db.stats()
    assert (stats.disk_cache_hits, stats.disk_cache_failures > 0) == (0, True)
    assert len([record for record in caplog.records if record.name == "lsmkv"]) == 1
    if mode is not None:
        assert stat.S_IFMT(place.lstat().st_mode) == mode


@pytest.mark.parametrize("kind", ["missing parents", "a link to a directory"])
def test_a_directory_that_can_be_made_or_led_to_is_used(
    tmp_path: Path, url: str, kind: str
) -> None:
    place = tmp_path / "a" / "b" / "cache"
    if kind == "a link to a directory":
        place = tmp_path / "link"
        (tmp_path / "real").mkdir()
        place.symlink_to(tmp_path / "real")
    for _ in range(2):
        with reader(url, disk_cache_path=str(place)) as db:
            assert db[b"key000002"] == contents()[b"key000002"]
            stats = db.stats()
    assert (stats.disk_cache_misses, stats.disk_cache_failures) == (0, 0)
    assert stats.disk_cache_hits > 0
