"""The disk cache: what was put comes back or is missed, within the budget, whatever happens."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from gates import WAIT_S
from leaks import open_descriptors
from lsmkv.remote.cache_segment import HEADER, RECORD
from lsmkv.remote.disk_cache import MIN_CAPACITY_BYTES, SEGMENTS, DiskCache
from lsmkv.storage.storage import AppendFile, Storage
from time_limits import join, started

CAPACITY = MIN_CAPACITY_BYTES
BLOCK = 500
LONGEST = 3900
"""What is shorter is kept, what is 300 bytes longer is not."""


@pytest.fixture
def directory(tmp_path: Path) -> str:
    return str(tmp_path / "cache")


@pytest.fixture
def cache(directory: str) -> Iterator[DiskCache]:
    opened = DiskCache(directory, CAPACITY)
    yield opened
    opened.close()


def block(number: int, size_bytes: int = BLOCK) -> bytes:
    """The bytes that are cached under a number."""
    return random.Random(number).randbytes(size_bytes)


def put(cache: DiskCache, numbers: range) -> None:
    for number in numbers:
        cache.put("table", number, block(number))


def found(cache: DiskCache, numbers: range) -> list[int]:
    """The numbers that the cache has; every one must have its bytes."""
    there = []
    for number in numbers:
        data = cache.get("table", number, BLOCK)
        assert data in (None, block(number))
        if data is not None:
            there.append(number)
    return there


def files(directory: str) -> list[Path]:
    return sorted(Path(directory).glob("*.segment"))


def size(directory: str) -> int:
    return sum(path.stat().st_size for path in Path(directory).iterdir())


def test_a_range_comes_back_as_it_was_put(cache: DiskCache) -> None:
    cache.put("table", 4096, b"data")
    assert cache.get("table", 4096, 4) == b"data"
    assert (cache.hits, cache.misses, cache.damaged) == (1, 0, 0)


def test_other_ranges_are_misses(cache: DiskCache) -> None:
    cache.put("table", 4096, b"data")
    assert cache.get("table", 4097, 4) is None
    assert cache.get("table", 4096, 3) is None
    assert cache.get("other", 4096, 4) is None
    assert (cache.hits, cache.misses, cache.damaged) == (0, 3, 0)


def test_the_directory_stays_within_the_budget(cache: DiskCache, directory: str) -> None:
    for number in range(1000):
        put(cache, range(number, number + 1))
        assert size(directory) <= CAPACITY
    assert size(directory) > CAPACITY * 0.8


def test_the_oldest_leave_first(cache: DiskCache) -> None:
    put(cache, range(1000))
    there = found(cache, range(1000))
    assert there == list(range(there[0], 1000))
    assert len(there) > 80


def test_what_is_put_again_takes_no_room(cache: DiskCache, directory: str) -> None:
    put(cache, range(5))
    before = size(directory)
    put(cache, range(5))
    assert size(directory) == before


def test_a_range_longer_than_a_segment_is_not_kept(cache: DiskCache, directory: str) -> None:
    put(cache, range(5))
    cache.put("table", 5, bytes(CAPACITY // SEGMENTS))
    assert cache.get("table", 5, CAPACITY // SEGMENTS) is None
    assert found(cache, range(5)) == list(range(5))


def test_contents_survive_a_restart(directory: str) -> None:
    first = DiskCache(directory, CAPACITY)
    put(first, range(1000))
    there = found(first, range(1000))
    first.close()
    second = DiskCache(directory, CAPACITY)
    assert found(second, range(1000)) == there
    assert second.damaged == 0
    second.close()


def test_a_segment_that_was_not_full_is_filled_up(directory: str) -> None:
    for number in range(30):
        cache = DiskCache(directory, CAPACITY)
        put(cache, range(number, number + 1))
        cache.close()
    cache = DiskCache(directory, CAPACITY)
    assert found(cache, range(30)) == list(range(30))
    assert len(files(directory)) < 10
    cache.close()


def test_an_unfinished_segment_is_read_record_by_record(directory: str) -> None:
    left = DiskCache(directory, CAPACITY)
    put(left, range(5))  # and then its process is killed
    cache = DiskCache(directory, CAPACITY)
    assert found(cache, range(5)) == list(range(5))
    assert cache.damaged == 0
    cache.close()
    left.close()


@pytest.mark.parametrize("at", [0, 10, RECORD.size, RECORD.size + 5, RECORD.size + 100])
def test_a_damaged_record_is_a_miss_and_can_be_put_again(
    cache: DiskCache, directory: str, at: int
) -> None:
    put(cache, range(3))
    (path,) = files(directory)
    data = bytearray(path.read_bytes())
    data[HEADER.size + at] ^= 0x40
    path.write_bytes(data)
    assert found(cache, range(3)) == [1, 2]
    assert cache.damaged == 1
    put(cache, range(1))
    assert found(cache, range(3)) == [0, 1, 2]


def test_a_damaged_footer_is_done_without(directory: str) -> None:
    cache = DiskCache(directory, CAPACITY)
    put(cache, range(5))
    cache.close()
    (path,) = files(directory)
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(data)
    cache = DiskCache(directory, CAPACITY)
    assert found(cache, range(5)) == list(range(5))
    assert cache.damaged == 1  # bytes follow that are no record
    cache.close()


@pytest.mark.parametrize("kept", [0, 1, 30, BLOCK, BLOCK + 100])
def test_a_segment_that_was_cut_off_keeps_its_whole_records(directory: str, kept: int) -> None:
    cache = DiskCache(directory, CAPACITY)
    put(cache, range(5))
    cache.close()
    (path,) = files(directory)
    os.truncate(path, kept)
    cache = DiskCache(directory, CAPACITY)
    whole = max(0, kept - HEADER.size) // (RECORD.size + len("table") + BLOCK)
    assert found(cache, range(5)) == list(range(whole))
    put(cache, range(5))
    assert found(cache, range(5)) == list(range(5))
    cache.close()


@pytest.mark.parametrize("seed", range(20))
def test_no_damage_brings_wrong_bytes(directory: str, seed: int) -> None:
    chance = random.Random(seed)
    cache = DiskCache(directory, CAPACITY)
    put(cache, range(60))
    cache.close()
    for path in files(directory):
        data = bytearray(path.read_bytes())
        for _ in range(chance.randrange(4)):
            start = chance.randrange(len(data))
            data[start : start + chance.randrange(40)] = chance.randbytes(chance.randrange(40))
        path.write_bytes(data)
    cache = DiskCache(directory, CAPACITY)
    found(cache, range(60))  # which compares the bytes
    put(cache, range(60))
    assert found(cache, range(60)) == list(range(60))
    cache.close()


def test_a_removed_segment_is_a_miss(cache: DiskCache, directory: str) -> None:
    put(cache, range(40))
    files(directory)[0].unlink()
    there = found(cache, range(40))
    assert 0 < len(there) < 40
    assert cache.damaged == 0


def test_a_smaller_budget_holds_from_the_opening_on(directory: str) -> None:
    cache = DiskCache(directory, 4 * CAPACITY)
    put(cache, range(1000))
    cache.close()
    assert size(directory) > 2 * CAPACITY
    cache = DiskCache(directory, CAPACITY)
    assert size(directory) <= CAPACITY
    put(cache, range(1000, 1100))
    assert size(directory) <= CAPACITY
    cache.close()


def test_two_handles_share_directory_and_budget(directory: str) -> None:
    before = open_descriptors()
    one, two = DiskCache(directory, CAPACITY), DiskCache(directory, CAPACITY)
    for number in range(300):
        put((one, two)[number % 2], range(number, number + 1))
        assert size(directory) <= CAPACITY
    assert len(found(one, range(300))) > 40
    assert (one.damaged, two.damaged) == (0, 0)
    one.close()
    two.close()
    assert open_descriptors() == before


def test_a_handle_learns_what_another_has_finished(directory: str) -> None:
    one, two = DiskCache(directory, CAPACITY), DiskCache(directory, CAPACITY)
    put(one, range(5))
    one.close()
    assert found(two, range(5)) == []
    put(two, range(10, 11))  # for which it takes a segment
    assert found(two, range(5)) == list(range(5))
    two.close()


def test_no_segment_in_use_is_dropped(directory: str) -> None:
    handles = [DiskCache(directory, CAPACITY) for _ in range(SEGMENTS + 1)]
    for number, handle in enumerate(handles):
        put(handle, range(number, number + 1))
    for number, handle in enumerate(handles[:-1]):
        assert number in found(handle, range(20))
    assert SEGMENTS not in found(handles[-1], range(20))  # there was no room for it
    assert size(directory) <= CAPACITY
    for handle in handles:
        handle.close()


WRITER = """
import random, sys
from lsmkv.remote.disk_cache import DiskCache
cache = DiskCache(sys.argv[1], int(sys.argv[2]))
print("ready", flush=True)
for number in range(int(sys.argv[3]), 1 << 30):
    cache.put("table", number, random.Random(number).randbytes(500))
    if number % 100 == 0:
        print(number, flush=True)
"""


def writer(directory: str, first: int) -> AbstractContextManager[subprocess.Popen[str]]:
    return started(
        [sys.executable, "-c", WRITER, directory, str(CAPACITY), str(first)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(entry or "." for entry in sys.path)},
    )


def test_killed_processes_leave_a_cache_that_works(directory: str) -> None:
    with writer(directory, 1 << 20) as first, writer(directory, 1 << 21) as second:
        processes = [first, second]
        for process in processes:
            assert process.stdout is not None
            for _ in range(5):
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=WAIT_S)
    assert size(directory) <= CAPACITY
    cache = DiskCache(directory, CAPACITY)
    assert cache.damaged <= len(processes)  # the records that they were writing
    assert found(cache, range(1 << 20, (1 << 20) + 10_000)) or found(
        cache, range(1 << 21, (1 << 21) + 10_000)
    )
    put(cache, range(1000))
    assert size(directory) <= CAPACITY
    assert len(found(cache, range(1000))) > 80
    cache.close()


def test_threads_share_a_handle(cache: DiskCache, directory: str) -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(400):
            number = chance.randrange(200)
            cache.put("table", number, block(number))
            asked = chance.randrange(200)
            if cache.get("table", asked, BLOCK) not in (None, block(asked)):
                wrong.append(asked)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    join(*threads)
    assert wrong == []
    assert size(directory) <= CAPACITY
    assert cache.hits > 0
    assert cache.hits + cache.misses == 1600
    assert cache.damaged == cache.failures == 0


class FullFile(AppendFile):
    def _write(self, data: bytes | memoryview, offset: int) -> int:
        if offset > 2000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super()._write(data, offset)


class FullDisk(Storage):
    def _append_file(self, path: str, descriptor: int, offset: int) -> AppendFile:
        return FullFile(path, descriptor, offset)


def test_a_full_disk_is_no_error(directory: str) -> None:
    cache = DiskCache(directory, CAPACITY, storage=FullDisk())
    put(cache, range(20))
    assert cache.failures > 0
    assert set(found(cache, range(20))) >= {0, 1, 2}
    cache.close()
    again = DiskCache(directory, CAPACITY)
    assert set(found(again, range(20))) >= {0, 1, 2}
    assert again.damaged == 0
    again.close()


def test_a_directory_that_is_gone_is_no_error(cache: DiskCache, directory: str) -> None:
    put(cache, range(3))
    for path in Path(directory).iterdir():
        path.unlink()
    Path(directory).rmdir()
    put(cache, range(30))
    assert found(cache, range(3)) == []
    assert cache.failures > 0


def test_files_that_are_no_segments_are_left_alone(directory: str) -> None:
    os.mkdir(directory)
    (Path(directory) / "notes.txt").write_text("mine")
    (Path(directory) / "000000000007.segment").write_bytes(b"no segment at all, but named so")
    cache = DiskCache(directory, CAPACITY)
    assert cache.damaged == 1
    put(cache, range(1000))
    assert (Path(directory) / "notes.txt").read_text() == "mine"
    assert found(cache, range(999, 1000)) == [999]
    cache.close()


def test_a_symbolic_link_is_not_followed(directory: str, tmp_path: Path) -> None:
    os.mkdir(directory)
    (tmp_path / "elsewhere").write_bytes(b"precious")
    os.symlink(tmp_path / "elsewhere", Path(directory) / "000000000007.segment")
    cache = DiskCache(directory, CAPACITY)
    put(cache, range(1000))
    assert (tmp_path / "elsewhere").read_bytes() == b"precious"
    assert len(found(cache, range(1000))) > 80
    cache.close()


def test_a_closed_cache_finds_and_keeps_nothing(cache: DiskCache, directory: str) -> None:
    put(cache, range(3))
    cache.close()
    before = size(directory)
    assert found(cache, range(3)) == []
    put(cache, range(5))
    cache.close()
    assert size(directory) == before


def test_a_budget_too_small_names_the_least(directory: str) -> None:
    with pytest.raises(ValueError, match=r"1000 bytes: give it at least 65536"):
        DiskCache(directory, 1000)
    assert not os.path.exists(directory)


class CacheModel(RuleBasedStateMachine):
    """What is found is what was put last, and the budget holds, across restarts and damage."""

    ranges = Bundle("ranges")

    @initialize()
    def open(self) -> None:
        import tempfile

        self.directory = tempfile.TemporaryDirectory()
        self.cache = DiskCache(self.directory.name, CAPACITY)
        self.put: dict[tuple[str, int, int], bytes] = {}

    def teardown(self) -> None:
        self.cache.close()
        self.directory.cleanup()

    @rule(
        target=ranges,
        table=st.sampled_from(["a", "b", "ü" * 20]),
        offset=st.integers(0, 1 << 62),
        length=st.one_of(st.integers(1, LONGEST), st.integers(LONGEST + 300, 5000)),
        seed=st.integers(0, 1 << 30),
    )
    def put_one(self, table: str, offset: int, length: int, seed: int) -> tuple[str, int, int]:
        asked = (table, offset, length)
        self.cache.put(table, offset, self.put.setdefault(asked, block(seed, length)))
        return asked

    @rule(count=st.integers(1, 30), seed=st.integers(0, 1 << 30))
    def put_many(self, count: int, seed: int) -> None:
        for number in range(count):
            data = self.put.setdefault(("many", seed + number, 900), block(number, 900))
            self.cache.put("many", seed + number, data)

    @rule(asked=ranges)
    def get(self, asked: tuple[str, int, int]) -> None:
        assert self.cache.get(*asked) in (None, self.put[asked])

    @rule()
    def get_the_last(self) -> None:
        if self.put:
            asked, data = list(self.put.items())[-1]
            self.cache.put(asked[0], asked[1], data)
            if self.cache.get(*asked) is None:  # it was there, but damaged
                self.cache.put(asked[0], asked[1], data)
            assert self.cache.get(*asked) == (data if len(data) <= LONGEST else None)

    @rule()
    def restart(self) -> None:
        self.cache.close()
        self.cache = DiskCache(self.directory.name, CAPACITY)

    @rule()
    def restart_after_a_kill(self) -> None:
        self.cache._abandon()
        self.cache = DiskCache(self.directory.name, CAPACITY)

    @rule(which=st.floats(0, 1), where=st.floats(0, 1), flip=st.integers(1, 255))
    def damage(self, which: float, where: float, flip: int) -> None:
        there = [path for path in files(self.directory.name) if path.stat().st_size]
        if there:
            path = there[int(which * (len(there) - 1))]
            data = bytearray(path.read_bytes())
            data[int(where * (len(data) - 1))] ^= flip
            path.write_bytes(data)

    @invariant()
    def is_within_the_budget(self) -> None:
        assert size(self.directory.name) <= CAPACITY


CacheModel.TestCase.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
TestCacheModel = CacheModel.TestCase
