"""Reading around: when parts of a table are fetched into the page cache ahead."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lsmkv
from lsmkv.sstable.read_around import PART_BYTES, Eviction, ReadAround
from lsmkv.stats import Stats
from lsmkv.storage import memory_limit
from lsmkv.storage.files import RandomFile
from lsmkv.storage.storage import Storage

KIB = 1024
MIB = 1024 * KIB


class Noting(RandomFile):
    """A stand-in for a file that notes the fetched ranges."""

    def __init__(self, size: int) -> None:
        super().__init__("none", os.open(os.devnull, os.O_RDONLY), size, Stats(), False)
        self.fetched: list[tuple[int, int]] = []
        self.is_kept = True  # by the page cache

    def fetch(self, offset: int, length: int) -> None:
        self.fetched.append((offset, length))

    def is_in_memory(self, offset: int) -> bool:
        assert offset < self.size
        return self.is_kept


def test_nothing_is_fetched_until_an_eighth_of_what_the_table_costs_is_spent() -> None:
    file = Noting(64 * MIB)  # as much as 1024 reads at random
    around = ReadAround(file, Stats(), True, Eviction())
    for _ in range(128):
        around.note(0)
    assert file.fetched == []
    around.note(3 * MIB + 17)
    assert file.fetched == [(3 * MIB, PART_BYTES)]


@settings(deadline=None)
@given(st.integers(1, 5 * MIB), st.data())
def test_no_byte_is_fetched_twice_nor_beyond_the_end(size: int, data: st.DataObject) -> None:
    file, stats = Noting(size), Stats()
    around = ReadAround(file, stats, True, Eviction())
    for offset in data.draw(st.lists(st.integers(0, size - 1), max_size=60)):
        around.note(offset)
    assert len({start for start, _ in file.fetched}) == len(file.fetched)
    assert all(start % PART_BYTES == 0 for start, _ in file.fetched)
    assert all(start + length <= size for start, length in file.fetched)
    assert stats.read_around_bytes == sum(length for _, length in file.fetched)


def test_nothing_more_is_fetched_once_memory_has_lost_what_was() -> None:
    eviction = Eviction()
    files = [Noting(MIB), Noting(64 * MIB)]
    other, around = (ReadAround(file, Stats(), True, eviction) for file in files)
    for part in [0] * 129 + [1]:  # before part 1 is fetched, part 0 is seen in memory
        around.note(part * PART_BYTES)
    assert len(files[1].fetched) == 2
    files[1].is_kept = False
    around.note(2 * PART_BYTES)
    assert len(files[1].fetched) == 2
    for _ in range(5):
        other.note(0)
    assert files[0].fetched == []  # nor of another table of the store


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="the system has no reads without waiting")
def test_looks_that_find_their_byte_are_counted(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    storage = Storage()
    with storage.create(path) as file:
        file.append(bytes(4 * MIB))
    with storage.open_random(path) as read:
        try:
            os.preadv(read.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT)
        except OSError as error:
            pytest.skip(f"the file system has no reads without waiting: {error}")
        around = ReadAround(read, storage.stats, True, Eviction())
        for part in [0] * 8 + [0, 1, 2, 3]:
            around.note(part * PART_BYTES)
        assert storage.stats.read_around_bytes == 4 * MIB
        assert storage.stats.read_around_looks == 0 + 1 + 2 + 3


def test_a_part_that_was_never_in_memory_may_be_on_its_way() -> None:
    file = Noting(64 * MIB)
    file.is_kept = False
    around = ReadAround(file, Stats(), True, Eviction())
    for part in [0] * 128 + [0, 1, 2]:
        around.note(part * PART_BYTES)
    assert len(file.fetched) == 3


@pytest.mark.parametrize("code, there", [(errno.EAGAIN, False), (errno.EOPNOTSUPP, True)])
def test_a_system_that_does_not_tell_counts_as_one_that_keeps_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, there: bool
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(code, "not here")

    path = tmp_path / "file"
    path.write_bytes(b"content")
    with Storage().open_random(str(path)) as file:
        monkeypatch.setattr(os, "preadv", refuse)
        assert file.is_in_memory(6) == there


def test_a_file_system_that_cannot_fetch_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.ENOSYS, "not here")

    path = tmp_path / "file"
    path.write_bytes(b"content")
    monkeypatch.setattr(os, "posix_fadvise", refuse, raising=False)
    with Storage().open_random(str(path)) as file:
        file.fetch(0, 7)


# In a store


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with one table of about 1.2 MiB: two parts, two reads before a fetch."""
    path = str(tmp_path_factory.mktemp("around") / "store")
    with lsmkv.open(path, compression="none") as db:
        with db.write_batch() as batch:
            for number in range(10_000):
                batch.put(b"%06d" % number, b"%0100d" % number)
        db.flush()
    return path


def _fetched_by_lookups(path: str, **options: bool) -> int:
    chosen = lsmkv.Options(block_cache_size_bytes=0, **options)  # type: ignore[arg-type]
    with lsmkv.open(path, chosen, read_only=True) as db:
        for number in range(0, 10_000, 100):
            assert db.get(b"%06d" % number) == b"%0100d" % number
        assert db.stats().block_reads == 100
        return db.stats().read_around_bytes


def test_lookups_all_over_a_table_fetch_it_whole(path: str) -> None:
    with lsmkv.open(path, read_only=True) as db:
        (table,) = db.inspect().tables()
    assert PART_BYTES < table.size_bytes < 2 * PART_BYTES
    assert _fetched_by_lookups(path) == table.size_bytes


def test_lookups_denied_by_filters_do_not_count_towards_a_fetch(path: str) -> None:
    with lsmkv.open(path, read_only=True, block_cache_size_bytes=0) as db:
        misses = [b"%06dx" % number for number in range(50)]
        assert db.multi_get(misses) == [None] * 50
        assert db.stats().block_reads <= 2  # the filters' rate is one in a hundred
        assert db.stats().read_around_bytes == 0


def test_nothing_is_fetched_where_it_is_switched_off_or_the_system_cannot(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _fetched_by_lookups(path, read_around=False) == 0
    monkeypatch.delattr(os, "posix_fadvise", raising=False)
    assert _fetched_by_lookups(path) == 0


def test_direct_reads_fetch_nothing(path: str) -> None:
    try:
        os.close(os.open(os.path.join(path, "CURRENT"), os.O_RDONLY | os.O_DIRECT))
    except (OSError, AttributeError):
        pytest.skip("no direct reads here")
    assert _fetched_by_lookups(path, direct_reads=True) == 0


@pytest.mark.parametrize("pages", [-1, 0, 2 * 1024 * KIB // 4096])
def test_a_store_of_more_than_half_of_the_memory_is_not_fetched(
    path: str, pages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_limit, "MEMINFO", "/nowhere")
    real = os.sysconf
    fake = {"SC_PHYS_PAGES": pages, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", lambda name: fake.get(name) or real(name))
    if pages == 0:  # not known
        monkeypatch.setattr(os, "sysconf_names", {})
    assert _fetched_by_lookups(path) == 0


def test_a_store_of_more_than_half_of_its_control_group_s_limit_is_not_fetched(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_limit, "memory_limit_bytes", lambda: 1 << 20)
    assert _fetched_by_lookups(path) == 0


def test_tables_that_come_while_the_store_is_open_are_fetched_too(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "store", block_cache_size_bytes=0) as db:
        db[b"key"] = b"value"
        db.flush()
        assert db[b"key"] == b"value"
        (table,) = db.inspect().tables()
        assert db.stats().read_around_bytes == table.size_bytes


# What the operating system is told of tables


@pytest.fixture
def advice(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """Offset, length and kind of each piece of advice given from now on."""
    given_: list[tuple[int, int, int]] = []
    real = os.posix_fadvise

    def noted(descriptor: int, offset: int, length: int, kind: int) -> None:
        given_.append((offset, length, kind))
        real(descriptor, offset, length, kind)

    monkeypatch.setattr(os, "posix_fadvise", noted)
    return given_


def test_the_operating_system_shall_not_read_ahead_in_a_table(
    path: str, advice: list[tuple[int, int, int]]
) -> None:
    with lsmkv.open(path, read_only=True) as db:
        assert advice.count((0, 0, os.POSIX_FADV_RANDOM)) == len(db.tables())


@pytest.mark.parametrize("reverse", [False, True])
def test_a_long_scan_has_its_next_read_under_way(
    tmp_path: Path, reverse: bool, advice: list[tuple[int, int, int]]
) -> None:
    options = lsmkv.Options(compression="none", read_around=False)
    with lsmkv.open(tmp_path / "store", options) as db:
        for number in range(1500):
            db[b"%05d" % number] = bytes([number % 251]) * 1000
        db.compact_range()
        (table,) = db.tables()
        advice.clear()
        assert sum(1 for _ in db.items(reverse=reverse)) == 1500
        ahead = [start for start, _, kind in advice if kind == os.POSIX_FADV_WILLNEED]
    assert ahead == sorted(ahead, reverse=reverse)
    assert len(ahead) >= 3
    assert all(0 <= start <= table.size_bytes for start in ahead)


def test_a_merge_has_its_next_read_under_way(
    tmp_path: Path, advice: list[tuple[int, int, int]]
) -> None:
    options = lsmkv.Options(compression="none", background="thread")
    with lsmkv.open(tmp_path / "store", options) as db:
        for number in range(1500):
            db[b"%05d" % number] = bytes([number % 251]) * 1000
        db.compact_range()
        advice.clear()
        db.compact_range(force=True)
        ahead = [start for start, _, kind in advice if kind == os.POSIX_FADV_WILLNEED]
    assert len(ahead) >= 4
    assert ahead == sorted(set(ahead))
