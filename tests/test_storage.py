from __future__ import annotations

import errno
import fcntl
import gc
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lsmkv.errors import CorruptionError, LockedError
from lsmkv.stats import Stats
from lsmkv.storage import (
    DIRECT_ALIGNMENT_BYTES,
    AppendFile,
    RandomFile,
    ReadKind,
    Storage,
)
from storages import OPERATIONS, CountingStorage, FaultyStorage, SlowStorage

CONTENT = bytes(range(256)) * 50  # 12,800 bytes: not a multiple of the alignment of direct reads


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "file.sst")


@pytest.fixture
def full(path: str) -> str:
    """A file that holds CONTENT."""
    Path(path).write_bytes(CONTENT)
    return path


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    before = os.umask(0o022)
    os.umask(before)
    yield os.umask
    os.umask(before)


def open_descriptors() -> set[str]:
    directory = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
    links = set()
    for name in os.listdir(directory):
        try:
            links.add(f"{name} {os.readlink(os.path.join(directory, name))}")
        except OSError:  # the descriptor of the listing itself
            continue
    return links


# --- appending -----------------------------------------------------------------------------------


def test_appends_follow_each_other(path: str) -> None:
    with Storage().create(path) as file:
        file.append(b"one")
        assert file.offset == 3
        file.append(b"two")
        assert file.offset == 6
    assert Path(path).read_bytes() == b"onetwo"


def test_empty_append_writes_nothing(path: str) -> None:
    with Storage().create(path) as file:
        file.append(b"")
        assert file.offset == 0


def test_short_writes_are_completed(path: str) -> None:
    storage = FaultyStorage()
    storage.fail("append", short_write=3, times=4)
    with storage.create(path) as file:
        file.append(b"a record of some length")
        assert file.offset == 23
    assert Path(path).read_bytes() == b"a record of some length"
    assert storage.calls["append"] == 5


def test_interrupted_write_is_tried_again(path: str) -> None:
    storage = FaultyStorage()
    storage.fail("append", short_write=2)
    storage.fail("append", error=errno.EINTR, after=1, times=3)
    with storage.create(path) as file:
        file.append(b"record")
    assert Path(path).read_bytes() == b"record"


def test_write_of_nothing_is_an_error_not_a_loop(path: str) -> None:
    storage = FaultyStorage()
    storage.fail("append", short_write=0, times=None)
    with storage.create(path) as file, pytest.raises(OSError, match="wrote nothing"):
        file.append(b"record")


def test_failed_append_is_truncated_back(path: str) -> None:
    storage = FaultyStorage()
    with storage.create(path) as file:
        file.append(b"kept")
        storage.fail("append", short_write=2)
        storage.fail("append", error=errno.ENOSPC, after=1)
        with pytest.raises(OSError) as caught:
            file.append(b"lost")
        assert caught.value.errno == errno.ENOSPC
        assert Path(path).read_bytes() == b"kept"
        assert (file.offset, file.broken) == (4, False)


def test_append_goes_on_after_one_that_was_undone(path: str) -> None:
    storage = FaultyStorage()
    storage.fail("append", short_write=2)
    storage.fail("append", error=errno.ENOSPC, after=1)
    with storage.create(path) as file:
        with pytest.raises(OSError):
            file.append(b"lost")
        file.append(b"next")
        file.sync()
    assert Path(path).read_bytes() == b"next"


def test_append_that_cannot_be_undone_breaks_the_file(path: str) -> None:
    storage = FaultyStorage()
    storage.fail("append", error=errno.ENOSPC)
    storage.fail("truncate", error=errno.EACCES)
    with storage.create(path) as file:
        with pytest.raises(OSError) as first:
            file.append(b"lost")
        assert first.value.errno == errno.ENOSPC
        assert file.broken
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)) as later:
            file.append(b"more")
        assert later.value.errno == errno.EIO


def test_a_file_that_its_writer_cuts_down_meanwhile_is_read_again(path: str) -> None:
    class Cut(RandomFile):
        def _pread(self, length: int, offset: int) -> bytes:
            os.truncate(path, 3)
            return super()._pread(length, offset)

    class CutStorage(Storage):
        def _random_file(self, path: str, descriptor: int, size: int, direct: bool) -> RandomFile:
            return Cut(path, descriptor, size, self.stats, direct)

    Path(path).write_bytes(b"kept" + bytes(100))
    assert CutStorage().read_whole(path, ReadKind.LOG, 1000) == b"kep"


def test_interrupt_in_the_middle_of_an_append_leaves_no_half_record(path: str) -> None:
    class Interrupted(AppendFile):
        def _write(self, data: bytes | memoryview, offset: int) -> int:
            super()._write(data[:2], offset)
            raise KeyboardInterrupt

    file = Interrupted(path, os.open(path, os.O_CREAT | os.O_WRONLY), 0)
    with file, pytest.raises(KeyboardInterrupt):
        file.append(b"record")
    assert Path(path).read_bytes() == b""
    assert (file.offset, file.broken) == (0, False)


def test_failed_append_names_the_file(path: str) -> None:
    storage = Storage()
    with storage.create(path) as file:
        file.close()
        with pytest.raises(OSError) as caught:
            file.append(b"x")
    assert caught.value.filename == path


def test_full_device_is_reported_and_the_file_stays_whole(path: str) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with Storage().create(path) as file:
            file.append(b"k" * 100)
            resource.setrlimit(resource.RLIMIT_FSIZE, (150, before[1]))
            with pytest.raises(OSError) as caught:
                file.append(b"l" * 100)  # a real short write of 50 bytes, then EFBIG
            assert caught.value.errno == errno.EFBIG
            assert os.path.getsize(path) == 100
            assert not file.broken
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


# --- syncing -------------------------------------------------------------------------------------


def test_failed_sync_sticks(path: str) -> None:
    storage = FaultyStorage()
    storage.fail("sync", error=errno.ENOSPC)
    with storage.create(path) as file:
        file.append(b"x")
        with pytest.raises(OSError) as first:
            file.sync()
        assert first.value.errno == errno.ENOSPC
        storage.heal()
        for again in (file.sync, lambda: file.append(b"y"), lambda: file.truncate(0)):
            with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)) as later:
                again()
            assert later.value.errno == errno.EIO
        assert file.broken
    assert storage.calls["sync"] == 1


def test_a_broken_file_can_be_closed(path: str) -> None:
    storage = FaultyStorage()
    storage.fail("sync")
    file = storage.create(path)
    with pytest.raises(OSError):
        file.sync()
    file.close()
    assert not any(path in link for link in open_descriptors())


def test_sync_succeeds_on_a_real_file(path: str) -> None:
    with Storage().create(path) as file:
        file.append(b"x")
        file.sync()
        assert not file.broken


# --- truncating, reopening -----------------------------------------------------------------------


def test_truncate_moves_the_end(path: str) -> None:
    with Storage().create(path) as file:
        file.append(b"abcdef")
        file.truncate(2)
        file.append(b"X")
        assert file.offset == 3
    assert Path(path).read_bytes() == b"abX"


@pytest.mark.parametrize("length", [-1, 7])
def test_truncate_does_not_extend(path: str, length: int) -> None:
    with Storage().create(path) as file:
        file.append(b"abcdef")
        with pytest.raises(ValueError, match="cannot cut"):
            file.truncate(length)


def test_failed_truncate_keeps_the_offset(path: str) -> None:
    storage = FaultyStorage()
    storage.fail("truncate")
    with storage.create(path) as file:
        file.append(b"abcdef")
        with pytest.raises(OSError):
            file.truncate(2)
        assert (file.offset, file.broken) == (6, False)


def test_open_append_goes_on_at_the_end(path: str) -> None:
    Path(path).write_bytes(b"abc")
    with Storage().open_append(path, 3) as file:
        assert file.offset == 3
        file.append(b"d")
    assert Path(path).read_bytes() == b"abcd"


def test_open_append_cuts_a_longer_file(path: str) -> None:
    Path(path).write_bytes(b"abc-torn")
    with Storage().open_append(path, 3) as file:
        file.append(b"d")
    assert Path(path).read_bytes() == b"abcd"


@pytest.mark.parametrize("length", [4, -1])
def test_open_append_refuses_a_length_the_file_lacks(path: str, length: int) -> None:
    Path(path).write_bytes(b"abc")
    with pytest.raises(ValueError):
        Storage().open_append(path, length)
    assert Path(path).read_bytes() == b"abc"


def test_open_append_needs_the_file(path: str) -> None:
    with pytest.raises(FileNotFoundError):
        Storage().open_append(path, 0)


# --- what may be opened --------------------------------------------------------------------------


def test_create_is_exclusive(full: str) -> None:
    with pytest.raises(FileExistsError):
        Storage().create(full)
    assert Path(full).read_bytes() == CONTENT


def test_create_does_not_follow_a_dangling_link(tmp_path: Path, path: str) -> None:
    os.symlink(tmp_path / "elsewhere", path)
    with pytest.raises(FileExistsError):
        Storage().create(path)
    assert not (tmp_path / "elsewhere").exists()


OPENERS: list[Callable[[Storage, str], object]] = [
    lambda storage, path: storage.open_append(path, 0),
    lambda storage, path: storage.open_random(path),
    lambda storage, path: storage.read_whole(path, ReadKind.LOG, 1 << 20),
    lambda storage, path: storage.lock(path),
]
OPENER_NAMES = ["open_append", "open_random", "read_whole", "lock"]


@pytest.mark.parametrize("opener", OPENERS, ids=OPENER_NAMES)
def test_symbolic_link_is_refused(
    full: str, tmp_path: Path, opener: Callable[[Storage, str], object]
) -> None:
    link = str(tmp_path / "link")
    os.symlink(full, link)
    with pytest.raises(OSError, match="symbolic link") as caught:
        opener(Storage(), link)
    assert caught.value.filename == link
    assert Path(full).read_bytes() == CONTENT


@pytest.mark.parametrize("opener", OPENERS, ids=OPENER_NAMES)
def test_directory_is_refused(tmp_path: Path, opener: Callable[[Storage, str], object]) -> None:
    with pytest.raises(IsADirectoryError):
        opener(Storage(), str(tmp_path))


@pytest.mark.parametrize("opener", OPENERS, ids=OPENER_NAMES)
def test_pipe_is_refused_and_not_waited_for(
    path: str, opener: Callable[[Storage, str], object]
) -> None:
    os.mkfifo(path)
    with pytest.raises(OSError):
        opener(Storage(), path)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o177])
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_permission_bits_are_exact_whatever_the_umask(
    path: str, umask: Callable[[int], int], mask: int, mode: int
) -> None:
    umask(mask)
    storage = Storage(file_mode=mode)
    storage.create(path).close()
    storage.lock(path + ".lock").release()
    storage.write_atomically(path + ".atomic", b"")
    for name in (path, path + ".lock", path + ".atomic"):
        assert stat.S_IMODE(os.stat(name).st_mode) == mode


def test_files_are_private_by_default(path: str, umask: Callable[[int], int]) -> None:
    umask(0)
    Storage().create(path).close()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_descriptors_are_not_inherited_by_other_programs(full: str) -> None:
    storage = Storage()
    with storage.open_random(full), storage.create(full + "2"):
        lock = storage.lock(full + ".lock")
        shown = subprocess.run(
            [sys.executable, "-c", "import os; print([os.path.realpath(f'/dev/fd/{n}')"
             " for n in os.listdir('/dev/fd')])"],
            close_fds=False, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        lock.release()
    assert os.path.basename(full) not in shown


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


def test_size_is_that_of_the_file(full: str, storage: CountingStorage) -> None:
    with storage.open_random(full) as file:
        assert (file.path, file.size) == (full, len(CONTENT))


@pytest.mark.parametrize(
    ("offset", "length", "got"),
    [(0, 12801, 12800), (12700, 101, 100), (12800, 1, 0), (20000, 5, 0), (0, 1 << 60, 12800)],
)
def test_read_past_the_end_is_corruption(
    full: str, storage: CountingStorage, offset: int, length: int, got: int
) -> None:
    with storage.open_random(full) as file, pytest.raises(CorruptionError) as caught:
        file.pread(offset, length, ReadKind.DATA)
    error = caught.value
    assert (error.path, error.offset, error.reason) == (full, offset, "file ends early")
    assert (error.expected, error.got) == (length, got)
    assert storage.reads() == 0


@pytest.mark.parametrize(("offset", "length"), [(-1, 5), (5, -1), (-5, 5), (20000, -10000)])
def test_impossible_range_is_corruption(full: str, offset: int, length: int) -> None:
    with Storage().open_random(full) as file, pytest.raises(CorruptionError):
        file.pread(offset, length, ReadKind.DATA)


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
        threads = [threading.Thread(target=read, args=(file, first)) for first in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
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


@pytest.mark.parametrize("kind", list(ReadKind))
def test_read_counts_in_its_own_kind_only(full: str, kind: ReadKind) -> None:
    storage = Storage()
    with storage.open_random(full) as file:
        file.pread(7, 100, kind, count=3)
    reads, size = COUNTERS[kind]
    expected = Stats()
    setattr(expected, reads, 3)
    setattr(expected, size, 100)
    assert storage.stats == expected


def test_failed_read_counts(full: str) -> None:
    storage = FaultyStorage()
    storage.fail("pread")
    with storage.open_random(full) as file, pytest.raises(OSError):
        file.pread(0, 10, ReadKind.DATA)
    assert (storage.stats.block_reads, storage.stats.block_read_bytes) == (1, 10)


def test_the_stats_given_are_the_ones_counted_in(full: str) -> None:
    stats = Stats()
    storage = Storage(stats)
    assert storage.stats is stats
    storage.read_whole(full, ReadKind.LOG, 1 << 20)
    assert (stats.log_reads, stats.log_read_bytes) == (1, len(CONTENT))


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

            threads = [threading.Thread(target=read) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
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


def test_direct_reads_agree_with_the_operating_system(full: str) -> None:
    storage = direct_storage(full)
    with open(full, "rb") as written:
        os.fsync(written.fileno())  # so that no write of ours is still under way
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
    """Bytes that this process caused to be fetched from storage."""
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
        def _open(self, path: str, flags: int) -> int:
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


def test_read_whole_takes_a_file_of_exactly_the_limit(full: str) -> None:
    assert Storage().read_whole(full, ReadKind.LOG, len(CONTENT)) == CONTENT


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


def test_read_whole_of_an_empty_file(path: str) -> None:
    Path(path).write_bytes(b"")
    assert Storage().read_whole(path, ReadKind.LOG, 0) == b""


# --- names ---------------------------------------------------------------------------------------


def test_replace_takes_the_place_of_the_target(path: str) -> None:
    Path(path).write_bytes(b"old")
    Path(path + ".new").write_bytes(b"new")
    Storage().replace(path + ".new", path)
    assert Path(path).read_bytes() == b"new"
    assert not os.path.exists(path + ".new")


def test_write_atomically_creates_and_replaces(path: str) -> None:
    storage = Storage()
    for data in (b"first", b"second", b""):
        storage.write_atomically(path, data)
        assert Path(path).read_bytes() == data
    assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)]


def test_write_atomically_survives_leftovers(path: str) -> None:
    Path(path).write_bytes(b"old")
    Path(path + ".tmp").write_bytes(b"a longer leftover of a crash")
    Storage().write_atomically(path, b"new")
    assert Path(path).read_bytes() == b"new"
    assert not os.path.exists(path + ".tmp")


def test_write_atomically_does_not_write_through_a_link_left_in_its_way(
    tmp_path: Path, path: str
) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    os.symlink(victim, path + ".tmp")
    Storage().write_atomically(path, b"new")
    assert (victim.read_bytes(), Path(path).read_bytes()) == (b"precious", b"new")


@pytest.mark.parametrize("operation", ["create", "append", "sync", "replace"])
def test_write_atomically_that_fails_leaves_the_old_and_no_leftover(
    path: str, operation: str
) -> None:
    storage = FaultyStorage()
    storage.write_atomically(path, b"old")
    storage.fail(operation)
    with pytest.raises(OSError, match=f"injected: {operation}"):
        storage.write_atomically(path, b"new")
    assert Path(path).read_bytes() == b"old"
    assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)]


def test_write_atomically_reports_a_failed_sync_of_the_directory(path: str) -> None:
    storage = FaultyStorage()
    storage.fail("sync_directory")
    with pytest.raises(OSError, match="injected: sync_directory"):
        storage.write_atomically(path, b"new")


def test_write_atomically_syncs_the_file_before_the_rename_and_the_directory_after(
    path: str,
) -> None:
    class Recording(FaultyStorage):
        def check(self, operation: str, *paths: str) -> int | None:
            order.append(operation)
            return super().check(operation, *paths)

    order: list[str] = []
    Recording().write_atomically(path, b"x")
    assert [name for name in order if name not in ("write_atomically", "remove")] == [
        "create", "append", "sync", "replace", "sync_directory",
    ]  # fmt: skip


def test_remove_of_a_missing_file_is_no_error(full: str) -> None:
    storage = Storage()
    storage.remove(full)
    assert not os.path.exists(full)
    storage.remove(full)


def test_remove_reports_other_errors(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        Storage().remove(str(tmp_path))


def test_exists_tells_files_directories_and_links_from_nothing(tmp_path: Path, full: str) -> None:
    os.symlink(tmp_path / "nowhere", tmp_path / "dangling")
    storage = Storage()
    assert storage.exists(full)
    assert storage.exists(str(tmp_path))
    assert storage.exists(str(tmp_path / "dangling"))
    assert not storage.exists(str(tmp_path / "missing"))
    assert not storage.exists(str(Path(full) / "below a file"))


def test_exists_does_not_take_an_error_for_absence(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    os.symlink(loop, loop)
    with pytest.raises(OSError):
        Storage().exists(str(loop / "file"))


def test_file_size(full: str) -> None:
    assert Storage().file_size(full) == len(CONTENT)


def test_file_size_of_a_missing_file(path: str) -> None:
    with pytest.raises(FileNotFoundError):
        Storage().file_size(path)


# --- directories ---------------------------------------------------------------------------------


def test_list_directory_is_sorted(tmp_path: Path) -> None:
    for name in ("b", "a", "c10", "c9"):
        (tmp_path / name).touch()
    assert Storage().list_directory(str(tmp_path)) == ["a", "b", "c10", "c9"]


def test_make_directory_makes_the_parents_private(
    tmp_path: Path, umask: Callable[[int], int]
) -> None:
    umask(0)
    Storage().make_directory(str(tmp_path / "a" / "b" / "c"))
    for directory in (tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "c"):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_make_directory_syncs_the_parent_of_each_it_made(tmp_path: Path) -> None:
    class Recording(Storage):
        def sync_directory(self, path: str) -> None:
            synced.append(path)
            super().sync_directory(path)

    synced: list[str] = []
    Recording().make_directory(str(tmp_path / "a" / "b"))
    assert synced == [str(tmp_path), str(tmp_path / "a")]


def test_make_directory_takes_one_that_exists(tmp_path: Path) -> None:
    Storage().make_directory(str(tmp_path))


def test_make_directory_takes_relative_and_odd_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for odd in ("plain", "slash/", "a/../b", "./c//d/"):
        Storage().make_directory(odd)
        assert os.path.isdir(odd)


def test_make_directory_over_a_file_fails(full: str) -> None:
    with pytest.raises(FileExistsError):
        Storage().make_directory(full)


def test_remove_directory_removes_only_an_empty_one(tmp_path: Path) -> None:
    storage = Storage()
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "file").touch()
    with pytest.raises(OSError):
        storage.remove_directory(str(tmp_path / "d"))
    (tmp_path / "d" / "file").unlink()
    storage.remove_directory(str(tmp_path / "d"))
    assert not (tmp_path / "d").exists()


def test_sync_directory_needs_a_directory(full: str) -> None:
    Storage().sync_directory(os.path.dirname(full))
    with pytest.raises(NotADirectoryError):
        Storage().sync_directory(full)


# --- the lock ------------------------------------------------------------------------------------

HOLDER = """
import os, sys
from lsmkv.storage import Storage
lock = Storage().lock(sys.argv[1])
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def holder(path: str) -> Iterator[subprocess.Popen[str]]:
    """Another process, which holds the lock until its standard input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(entry or "." for entry in sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    if process.poll() is None:
        process.communicate()
    process.stdout.close()


def test_lock_held_by_another_process_names_its_pid(
    path: str, holder: subprocess.Popen[str]
) -> None:
    with pytest.raises(LockedError) as caught:
        Storage().lock(path)
    assert (caught.value.path, caught.value.pid) == (os.path.dirname(path), holder.pid)


def test_lock_is_free_after_its_holder_was_killed(path: str, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait()
    Storage().lock(path).release()


def test_lock_excludes_other_calls_in_the_same_process(path: str) -> None:
    storage = Storage()
    lock = storage.lock(path)
    with pytest.raises(LockedError) as caught:
        storage.lock(path)
    assert caught.value.pid == os.getpid()
    lock.release()
    storage.lock(path).release()


def test_lock_with_an_unreadable_pid_names_none(path: str) -> None:
    lock = Storage().lock(path)
    Path(path).write_bytes(b"\xff not a number")
    with pytest.raises(LockedError) as caught:
        Storage().lock(path)
    assert caught.value.pid is None
    lock.release()


def test_lock_file_names_only_the_present_holder(path: str) -> None:
    Path(path).write_bytes(b"1234567890123 and more\n")
    lock = Storage().lock(path)
    assert Path(path).read_bytes() == b"%d\n" % os.getpid()
    lock.release()


def test_released_lock_file_stays(path: str) -> None:
    lock = Storage().lock(path)
    lock.release()
    lock.release()
    assert os.path.exists(path)


def test_lock_in_the_working_directory_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lock = Storage().lock("LOCK")
    with pytest.raises(LockedError) as caught:
        Storage().lock("LOCK")
    assert caught.value.path == "."
    lock.release()


def test_lock_goes_with_its_last_reference(path: str) -> None:
    lock = Storage().lock(path)
    del lock
    Storage().lock(path).release()


def in_forked_child(action: Callable[[], object]) -> None:
    """Run ``action`` in a child that then leaves at once; fail if it raises."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("action", ["release", "exit"])
def test_lock_is_not_lost_to_a_forked_child(path: str, action: str) -> None:
    lock = Storage().lock(path)
    in_forked_child(lock.release if action == "release" else lambda: None)
    with pytest.raises(LockedError):
        Storage().lock(path)
    lock.release()


def test_release_frees_the_lock_even_while_a_forked_child_lives(path: str) -> None:
    lock = Storage().lock(path)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)  # until the parent closes its end
        os._exit(0)
    try:
        lock.release()
        Storage().lock(path).release()
    finally:
        os.close(writing)
        os.close(reading)
        os.waitpid(child, 0)


def test_failure_to_lock_leaves_no_descriptor(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError) as caught:
        Storage().lock(path)
    assert caught.value.errno == errno.ENOLCK
    del caught
    gc.collect()
    assert not any(path in link for link in open_descriptors())


# --- descriptors ---------------------------------------------------------------------------------


def test_closing_twice_is_harmless(full: str) -> None:
    storage = Storage()
    reader, writer = storage.open_random(full), storage.create(full + "2")
    reader.close()
    writer.close()
    with open(full, "rb") as other:  # likely to get a descriptor number that was just freed
        reader.close()
        writer.close()
        assert other.read(3) == CONTENT[:3]


def test_descriptors_go_with_the_last_reference(full: str) -> None:
    storage = Storage()
    gc.disable()  # without the help of the cycle collector
    try:
        before = open_descriptors()
        reader, writer = storage.open_random(full), storage.create(full + "2")
        lock = storage.lock(full + ".lock")
        assert len(open_descriptors() - before) == 3
        del reader, writer, lock
        assert open_descriptors() == before
    finally:
        gc.enable()


def test_no_operation_leaks_a_descriptor(tmp_path: Path, full: str) -> None:
    storage = Storage()
    os.symlink(full, tmp_path / "link")
    lock = storage.lock(str(tmp_path / "LOCK"))
    failing: list[Callable[[], object]] = [
        lambda: storage.create(full),
        lambda: storage.open_append(full, len(CONTENT) + 1),
        lambda: storage.open_random(str(tmp_path / "link")),
        lambda: storage.open_random(str(tmp_path)),
        lambda: storage.read_whole(full, ReadKind.LOG, 1),
        lambda: storage.sync_directory(full),
        lambda: storage.lock(str(tmp_path / "LOCK")),
    ]
    before = open_descriptors()
    for _ in range(3):
        storage.write_atomically(str(tmp_path / "CURRENT"), b"x")
        storage.read_whole(full, ReadKind.LOG, 1 << 20)
        storage.make_directory(str(tmp_path / "d"))
        storage.remove_directory(str(tmp_path / "d"))
        for attempt in failing:
            with pytest.raises((OSError, ValueError, LockedError)):
                attempt()
    gc.collect()
    assert open_descriptors() == before
    lock.release()


# --- the storages of the tests themselves --------------------------------------------------------


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
    }
    assert public | {"append", "truncate", "sync", "pread"} == OPERATIONS
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


def test_what_is_written_again_is_as_it_was(path: str) -> None:
    with Storage().create(path) as file:
        file.append(b"abcdef")
    Storage().write_again(path, 2, b"cde")
    assert Path(path).read_bytes() == b"abcdef"


def test_a_missing_file_is_not_made_by_writing_it_again(path: str) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        Storage().write_again(path, 0, b"x")
    assert caught.value.filename == path
    assert not Path(path).exists()
