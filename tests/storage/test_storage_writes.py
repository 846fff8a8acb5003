"""Writing through a storage, whole or not at all; and its lock, against others and forked children."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import signal
from pathlib import Path

import pytest

from forked_children import in_child
from gates import WAIT_S
from leaks import open_descriptors
from lsmkv.errors import LockedError
from lsmkv.storage.storage import AppendFile, RandomFile, ReadKind, Storage
from other_processes import line_of, process
from storages import FaultyStorage
from time_limits import exit_code


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "file.sst")


# --- appending -----------------------------------------------------------------------------------


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
        file.append(b" and more")
        file.sync()
    assert Path(path).read_bytes() == b"kept and more"


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


# --- truncating, reopening, writing again --------------------------------------------------------


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


@pytest.mark.parametrize("stored", [b"abc", b"abc-torn"])
def test_open_append_goes_on_at_the_length_and_cuts_what_is_behind(
    path: str, stored: bytes
) -> None:
    Path(path).write_bytes(stored)
    with Storage().open_append(path, 3) as file:
        assert file.offset == 3
        file.append(b"d")
    assert Path(path).read_bytes() == b"abcd"


@pytest.mark.parametrize("length", [4, -1])
def test_open_append_refuses_a_length_the_file_lacks(path: str, length: int) -> None:
    Path(path).write_bytes(b"abc")
    with pytest.raises(ValueError):
        Storage().open_append(path, length)
    assert Path(path).read_bytes() == b"abc"


def test_a_missing_file_is_not_made_by_writing_it_again(path: str) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        Storage().write_again(path, 0, b"x")
    assert caught.value.filename == path
    assert not Path(path).exists()


# --- copies, and changes inside a file ---


@pytest.mark.parametrize("in_kernel", [True, False])
@pytest.mark.parametrize("size", [0, 1, 3_000_000])
def test_a_file_is_copied_behind_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, in_kernel: bool
) -> None:
    if not in_kernel:
        monkeypatch.delattr(os, "copy_file_range", raising=False)
    data = os.urandom(size)
    (tmp_path / "source").write_bytes(data + b"more")
    storage = Storage()
    with (
        storage.open_random(str(tmp_path / "source")) as source,
        storage.create(str(tmp_path / "copy")) as copy,
    ):
        copy.append(b"before ")
        copy.append_from(source, size)
        copy.append(b" after")
        copy.sync()
    assert (tmp_path / "copy").read_bytes() == b"before " + data + b" after"


def test_bytes_inside_a_file_are_changed_in_place(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    with Storage().open_append(str(path), 10) as file:
        file.overwrite(3, b"abc")
        file.append(b"!")
        for offset, data in ((9, b"abc"), (-1, b"a"), (12, b"")):
            with pytest.raises(ValueError, match="not inside"):
                file.overwrite(offset, data)
    assert path.read_bytes() == b"012abc6789!"


def test_names_of_one_file_have_one_identity(tmp_path: Path) -> None:
    storage, path, other = Storage(), str(tmp_path / "a"), str(tmp_path / "b")
    storage.create(path).close()
    alone = storage.identity(path)
    assert alone[2] == 1
    storage.link(path, other)
    assert storage.identity(path) == storage.identity(other) == (*alone[:2], 2)


HOLDER = """
from lsmkv.storage.storage import Storage
lock = Storage().lock(sys.argv[1])
print("held", flush=True)
sys.stdin.readline()
"""


def test_the_lock_of_another_process_names_it_and_is_free_after_it_was_killed(path: str) -> None:
    with process(HOLDER, path) as holder:
        assert line_of(holder) == "held"
        with pytest.raises(LockedError) as caught:
            Storage().lock(path)
        assert (caught.value.path, caught.value.pid) == (os.path.dirname(path), holder.pid)
        holder.kill()
        holder.wait(WAIT_S)
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
    Path(path).write_bytes(b"lsmkv process 1234567890123\n")
    lock = Storage().lock(path)
    assert Path(path).read_bytes() == b"lsmkv process %d\n" % os.getpid()
    lock.release()


@pytest.mark.parametrize(
    "content", [b"17\n", b"\x7fELF", b"lsmkv processes", bytes(100), b"x" * 5000]
)
def test_a_lock_file_of_another_program_is_not_written_to(path: str, content: bytes) -> None:
    Path(path).write_bytes(content)
    lock = Storage().lock(path)
    with pytest.raises(LockedError):
        Storage().lock(path)
    lock.release()
    assert Path(path).read_bytes() == content


def test_a_lock_file_that_a_crash_cut_short_is_written_again(path: str) -> None:
    record = b"lsmkv process 123456\n"
    for length in range(len(record) + 1):
        for content in (record[:length], record[:length].ljust(len(record), b"\0")):
            Path(path).write_bytes(content)
            Storage().lock(path).release()
            assert Path(path).read_bytes() == b"lsmkv process %d\n" % os.getpid()


def test_lock_in_the_working_directory_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lock = Storage().lock("LOCK")
    with pytest.raises(LockedError) as caught:
        Storage().lock("LOCK")
    assert caught.value.path == "."
    lock.release()


def test_the_last_reference_releases_the_lock(path: str) -> None:
    lock = Storage().lock(path)
    del lock
    Storage().lock(path).release()


@pytest.mark.parametrize("action", ["release", "exit"])
def test_lock_is_not_lost_to_a_forked_child(path: str, action: str) -> None:
    lock = Storage().lock(path)
    in_child(lock.release if action == "release" else lambda: None)
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
        exit_code(child)


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


def test_a_claimed_file_is_nobody_elses(path: str) -> None:
    storage = Storage()
    claimed = storage.claim(path, create=True)
    assert claimed is not None
    claimed.append(b"first")
    assert storage.claim(path) is None
    claimed.close()
    again = storage.claim(path)
    assert again is not None
    again.append(b", second")
    again.close()
    assert Path(path).read_bytes() == b"first, second"
