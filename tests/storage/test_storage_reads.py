"""Reading from a storage: exact ranges, true counts, direct reads, and whole files."""

from __future__ import annotations

import errno
import os
import sys
from functools import partial
from pathlib import Path

import pytest

from lsmkv.errors import CorruptionError
from lsmkv.runtime import Opened
from lsmkv.stats import Stats
from lsmkv.storage.storage import DIRECT_ALIGNMENT_BYTES, RandomFile, ReadKind, Storage
from storages import CONTENT, CountingStorage, FaultyStorage
from threaded_stores import run_all


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "file.sst")


@pytest.fixture
def full(path: str) -> str:
    Path(path).write_bytes(CONTENT)
    return path


# --- reading -------------------------------------------------------------------------------------


@pytest.fixture(params=[False, True], ids=["cached", "direct"])
def storage(request: pytest.FixtureRequest, full: str) -> CountingStorage:
    """A counting storage, with and without direct reads."""
    if not request.param:
        return CountingStorage()
    return direct_storage(full)


def direct_storage(path: str) -> CountingStorage:
    storage = CountingStorage(direct_reads=True)
    try:
        with storage.open_random(path) as file:
            file.pread(0, 1, ReadKind.INDEX)
    except OSError as error:
        pytest.skip(f"no direct reads here: {error}")
    return CountingStorage(direct_reads=True)


RANGES = [
    (0, 1),
    (0, 4096),
    (1, 4096),
    (4095, 2),
    (4096, 4096),
    (5000, 100),
    (8191, 4609),
    (12288, 512),
    (12799, 1),
    (0, len(CONTENT)),
]


@pytest.mark.parametrize(("offset", "length"), RANGES)
def test_pread_returns_exactly_the_range(
    full: str, storage: CountingStorage, offset: int, length: int
) -> None:
    with storage.open_random(full) as file:
        assert file.pread(offset, length, ReadKind.DATA) == CONTENT[offset : offset + length]


@pytest.mark.parametrize(
    ("offset", "length", "got"),
    [
        *((0, 12801, 12800), (12700, 101, 100), (12800, 1, 0), (20000, 5, 0)),
        *((0, 1 << 60, 12800), (-1, 5, None), (5, -1, None), (20000, -10000, None)),
    ],
)
def test_read_past_the_end_is_corruption(
    full: str, storage: CountingStorage, offset: int, length: int, got: int | None
) -> None:
    with storage.open_random(full) as file, pytest.raises(CorruptionError) as caught:
        file.pread(offset, length, ReadKind.DATA)
    error = caught.value
    if got is not None:
        assert (error.path, error.offset, error.reason) == (full, offset, "file ends early")
        assert (error.expected, error.got) == (length, got)
    assert storage.reads() == 0


@pytest.mark.parametrize("left", [0, 100, 4096, 5000, 8192])
def test_file_cut_after_it_was_opened_is_corruption(
    full: str, storage: CountingStorage, left: int
) -> None:
    with storage.open_random(full) as file:
        os.truncate(full, left)
        with pytest.raises(CorruptionError) as caught:
            file.pread(50, 9000, ReadKind.DATA)
    assert (caught.value.expected, caught.value.got) == (9000, max(0, left - 50))


def test_short_reads_are_completed(full: str, storage: CountingStorage) -> None:
    class Short(RandomFile):
        def _pread(self, length: int, offset: int) -> bytes:
            return super()._pread(length, offset)[:5000]

    direct = storage.direct_reads
    flags = os.O_RDONLY | (os.O_DIRECT if direct and sys.platform == "linux" else 0)
    with Short(full, os.open(full, flags), len(CONTENT), Stats(), direct) as file:
        assert file.pread(10, 12000, ReadKind.DATA) == CONTENT[10:12010]


def test_empty_range_is_no_read(full: str, storage: CountingStorage) -> None:
    with storage.open_random(full) as file:
        assert file.pread(100, 0, ReadKind.DATA) == b""
        assert file.pread(len(CONTENT), 0, ReadKind.DATA) == b""
    assert storage.reads() == 0
    assert storage.stats == Stats()


def test_failed_read_names_the_file(full: str) -> None:
    with Storage().open_random(full) as file:
        file.close()
        with pytest.raises(OSError) as caught:
            file.pread(0, 10, ReadKind.DATA)
    assert caught.value.filename == full


def test_reads_may_overlap_in_threads(full: str, storage: CountingStorage) -> None:
    wrong: list[int] = []

    def read(file: RandomFile, first: int) -> None:
        for offset in range(first, 9000, 97):
            data = file.pread(offset, 300, ReadKind.DATA)
            if data != CONTENT[offset : offset + 300]:
                wrong.append(offset)

    with storage.open_random(full) as file:
        run_all(*[partial(read, file, first) for first in range(8)])
    assert not wrong
    assert (
        storage.stats.block_reads
        == storage.reads()
        == sum(len(range(first, 9000, 97)) for first in range(8))
    )


# --- counters ------------------------------------------------------------------------------------


COUNTERS = {
    ReadKind.DATA: ("block_reads", "block_read_bytes"),
    ReadKind.FILTER: ("filter_reads", "filter_read_bytes"),
    ReadKind.INDEX: ("index_reads", "index_read_bytes"),
    ReadKind.LOG: ("log_reads", "log_read_bytes"),
    ReadKind.COMPACTION: ("compaction_block_reads", "compaction_read_bytes"),
}


@pytest.mark.parametrize("kind", list(ReadKind))
def test_counters_equal_the_real_reads(full: str, storage: CountingStorage, kind: ReadKind) -> None:
    with storage.open_random(full) as file:
        for offset, length in RANGES:
            file.pread(offset, length, kind)
    reads, size = COUNTERS[kind]
    assert getattr(storage.stats, reads) == storage.reads(kind, ".sst") == len(RANGES)
    assert getattr(storage.stats, size) == storage.read_bytes(kind, ".sst")


def test_failed_read_counts(full: str) -> None:
    storage = FaultyStorage()
    storage.fail("pread")
    with storage.open_random(full) as file, pytest.raises(OSError):
        file.pread(0, 10, ReadKind.DATA)
    assert (storage.stats.block_reads, storage.stats.block_read_bytes) == (1, 10)


def test_no_count_is_lost_between_threads(full: str) -> None:
    storage = Storage()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with storage.open_random(full) as file:

            def read() -> None:
                for _ in range(2000):
                    file.pread(1, 2, ReadKind.DATA)
                    file.pread(1, 2, ReadKind.INDEX)

            run_all(*[read] * 4)
    finally:
        sys.setswitchinterval(before)
    stats = storage.stats
    assert (stats.block_reads, stats.block_read_bytes) == (8000, 16000)
    assert (stats.index_reads, stats.index_read_bytes) == (8000, 16000)


# --- direct reads --------------------------------------------------------------------------------


@pytest.mark.parametrize(("offset", "length"), RANGES)
def test_direct_read_counts_the_aligned_range(full: str, offset: int, length: int) -> None:
    storage = direct_storage(full)
    with storage.open_random(full) as file:
        file.pread(offset, length, ReadKind.DATA)
    first = offset // DIRECT_ALIGNMENT_BYTES
    last = (offset + length - 1) // DIRECT_ALIGNMENT_BYTES
    assert storage.stats.block_read_bytes == (last - first + 1) * DIRECT_ALIGNMENT_BYTES


@pytest.mark.slow  # `make test` has its files in memory, where nothing is read from a disk
def test_direct_reads_agree_with_the_operating_system(full: str) -> None:
    storage = direct_storage(full)
    with open(full, "rb") as written:
        os.fsync(written.fileno())  # so that no own write is still under way
    differences = []
    with storage.open_random(full) as file:
        for _ in range(5):  # a page of the program itself may have to be fetched at any time
            system, ours = process_read_bytes(), storage.stats.block_read_bytes
            for offset, length in RANGES:
                file.pread(offset, length, ReadKind.DATA)
            system, ours = process_read_bytes() - system, storage.stats.block_read_bytes - ours
            differences.append(system - ours)
    assert ours == 4096 * (1 + 1 + 2 + 2 + 1 + 1 + 3 + 1 + 1 + 4)
    assert min(differences) == 0


def process_read_bytes() -> int:
    """Bytes that this process made the system read from storage."""
    try:
        with open("/proc/self/io") as file:
            counts = dict(line.split(": ") for line in file)
    except OSError as error:
        pytest.skip(f"the operating system does not tell what a process read: {error}")
    return int(counts["read_bytes"])


def test_direct_reads_see_what_was_just_written(path: str, full: str) -> None:
    storage = direct_storage(full)
    new = path + "2"
    with storage.create(new) as file:
        file.append(CONTENT)
    with storage.open_random(new) as reader:
        assert reader.pread(3, 12000, ReadKind.DATA) == CONTENT[3:12003]


@pytest.mark.skipif(sys.platform != "linux", reason="O_DIRECT is what is tested")
def test_file_system_without_direct_reads_is_an_error_that_names_the_remedy(full: str) -> None:
    class Refusing(Storage):
        def _open(self, path: str, flags: int) -> Opened:
            if sys.platform == "linux" and flags & os.O_DIRECT:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
            return super()._open(path, flags)

    with pytest.raises(OSError, match="direct_reads=False") as caught:
        Refusing(direct_reads=True).open_random(full)
    assert (caught.value.errno, caught.value.filename) == (errno.EINVAL, full)
    assert Refusing(direct_reads=False).open_random(full).size == len(CONTENT)


def test_direct_read_refused_when_reading_names_the_remedy(full: str) -> None:
    class Refused(RandomFile):
        def _pread(self, length: int, offset: int) -> bytes:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    with (
        Refused(full, os.open(full, os.O_RDONLY), len(CONTENT), Stats(), True) as file,
        pytest.raises(OSError, match="direct_reads=False") as caught,
    ):
        file.pread(0, 10, ReadKind.DATA)
    assert caught.value.filename == full


def test_whole_files_are_never_read_directly(full: str) -> None:
    storage = Storage(direct_reads=True)
    assert storage.read_whole(full, ReadKind.LOG, 1 << 20, 1) == CONTENT[1:]
    assert storage.stats.log_read_bytes == len(CONTENT) - 1


# --- whole files ---------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [0, 1, 12799, 12800])
def test_read_whole_reads_from_the_start_given_to_the_end(full: str, start: int) -> None:
    assert Storage().read_whole(full, ReadKind.LOG, 12800, start) == CONTENT[start:]


def test_read_whole_refuses_what_is_over_the_limit(full: str) -> None:
    storage = CountingStorage()
    with pytest.raises(OSError, match="limit") as caught:
        storage.read_whole(full, ReadKind.LOG, len(CONTENT) - 1)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, full)
    assert storage.reads() == 0


def test_read_whole_limits_what_is_read_not_what_is_skipped(full: str) -> None:
    assert Storage().read_whole(full, ReadKind.LOG, 10, 12790) == CONTENT[12790:]


def test_read_whole_from_past_the_end_is_corruption(full: str) -> None:
    with pytest.raises(CorruptionError):
        Storage().read_whole(full, ReadKind.LOG, 1 << 20, 12801)
