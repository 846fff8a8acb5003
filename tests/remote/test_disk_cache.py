"""The disk cache: what was put comes back or is missed, within the budget, whatever happens."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from gates import WAIT_S
from leaks import open_descriptors
from lsmkv.remote.cache_segment import PLACE_BYTES, TAG_BYTES, record_size
from lsmkv.remote.disk_cache import MIN_CAPACITY_BYTES, SEGMENTS, DiskCache
from other_processes import line_of, process
from threaded_stores import run_all

CAPACITY = MIN_CAPACITY_BYTES
BLOCK = 500
HEAD = record_size(b"table", 0)
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


def places(directory: str) -> list[Path]:
    return sorted(Path(directory).glob("*.places"))


def size(directory: str) -> int:
    return sum(path.stat().st_size for path in Path(directory).iterdir())


def test_other_ranges_are_misses(cache: DiskCache) -> None:
    cache.put("table", 4096, b"data")
    assert cache.get("table", 4097, 4) is None
    assert cache.get("table", 4096, 3) is None
    assert cache.get("other", 4096, 4) is None
    assert cache.get("table", 4096, 4) == b"data"
    assert (cache.hits, cache.misses, cache.damaged) == (1, 3, 0)


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


@pytest.mark.parametrize("at", [0, 10, HEAD - 5, HEAD, HEAD + 100])
def test_a_damaged_record_is_a_miss_and_can_be_put_again(
    cache: DiskCache, directory: str, at: int
) -> None:
    put(cache, range(3))
    (path,) = files(directory)
    data = bytearray(path.read_bytes())
    data[at] ^= 0x40
    path.write_bytes(data)
    assert found(cache, range(3)) == [1, 2]
    assert cache.damaged == 1
    put(cache, range(1))
    assert found(cache, range(3)) == [0, 1, 2]


@pytest.mark.parametrize("at", [0, 7])
def test_a_damaged_place_is_a_miss_and_can_be_put_again(directory: str, at: int) -> None:
    """Its key or its position is damaged, in the highest byte."""
    cache = DiskCache(directory, CAPACITY)
    put(cache, range(5))
    cache.close()
    (path,) = places(directory)
    data = bytearray(path.read_bytes())
    data[TAG_BYTES + 7 + at] ^= 0x40
    path.write_bytes(data)
    cache = DiskCache(directory, CAPACITY)
    assert found(cache, range(5)) == [1, 2, 3, 4]
    put(cache, range(1))
    assert found(cache, range(5)) == list(range(5))
    cache.close()


@pytest.mark.parametrize("kept", [0, 1, 30, BLOCK, BLOCK + 100])
def test_a_segment_that_was_cut_off_keeps_its_whole_records(directory: str, kept: int) -> None:
    cache = DiskCache(directory, CAPACITY)
    put(cache, range(5))
    cache.close()
    (path,) = files(directory)
    os.truncate(path, kept)
    cache = DiskCache(directory, CAPACITY)
    whole = kept // (HEAD + BLOCK)
    assert found(cache, range(5)) == list(range(whole))
    put(cache, range(5))
    assert found(cache, range(5)) == list(range(5))
    cache.close()


@pytest.mark.parametrize("kept", [None, 0, 3, TAG_BYTES, TAG_BYTES + 3 * PLACE_BYTES - 1])
def test_records_whose_places_are_lost_are_misses_and_can_be_put_again(
    directory: str, kept: int | None
) -> None:
    cache = DiskCache(directory, CAPACITY)
    put(cache, range(5))
    cache.close()
    (path,) = places(directory)
    if kept is None:
        path.unlink()
    else:
        os.truncate(path, kept)
    cache = DiskCache(directory, CAPACITY)
    whole = max(0, (kept or 0) - TAG_BYTES) // PLACE_BYTES
    assert found(cache, range(5)) == list(range(whole))
    put(cache, range(5))
    assert found(cache, range(5)) == list(range(5))
    cache.close()
    cache = DiskCache(directory, CAPACITY)
    assert found(cache, range(5)) == list(range(5))
    cache.close()


@pytest.mark.parametrize("size_bytes", [BLOCK, 1])  # of many ranges the places take much
def test_a_smaller_budget_holds_from_the_opening_on(directory: str, size_bytes: int) -> None:
    cache = DiskCache(directory, 4 * CAPACITY)
    for number in range(6000):
        cache.put("table", number, block(number, size_bytes))
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
import random
from lsmkv.remote.disk_cache import DiskCache
cache = DiskCache(sys.argv[1], int(sys.argv[2]))
for number in range(int(sys.argv[3]), 1 << 30):
    cache.put("table", number, random.Random(number).randbytes(500))
    if number % 100 == 0:
        print(number, flush=True)
"""


def test_killed_processes_leave_a_cache_that_works(directory: str) -> None:
    with (
        process(WRITER, directory, CAPACITY, 1 << 20) as first,
        process(WRITER, directory, CAPACITY, 1 << 21) as second,
    ):
        for running in (first, second):
            for _ in range(4):
                line_of(running)
            running.kill()
            running.wait(WAIT_S)
    assert size(directory) <= CAPACITY
    cache = DiskCache(directory, CAPACITY)
    assert cache.damaged <= 2  # the records that they were writing
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

    run_all(*[partial(work, seed) for seed in range(4)])
    assert wrong == []
    assert size(directory) <= CAPACITY
    assert cache.hits > 0
    assert cache.hits + cache.misses == 1600
    assert cache.damaged == cache.failures == 0


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
    put(cache, range(1000))
    assert (Path(directory) / "notes.txt").read_text() == "mine"
    assert found(cache, range(999, 1000)) == [999]
    cache.close()


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
        self.cache._let_go()
        self.cache = DiskCache(self.directory.name, CAPACITY)

    @rule(which=st.floats(0, 1), where=st.floats(0, 1), flip=st.integers(1, 255))
    def damage(self, which: float, where: float, flip: int) -> None:
        every = files(self.directory.name) + places(self.directory.name)
        there = [path for path in every if path.stat().st_size]
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
