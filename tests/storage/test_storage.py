"""The storage: opening files, names, directories, and closed descriptors."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gates import WAIT_S
from leaks import open_descriptors
from lsmkv.errors import LockedError
from lsmkv.storage.file_names import UNFINISHED
from lsmkv.storage.storage import ReadKind, Storage
from storages import CONTENT, OPERATIONS, FaultyStorage


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "file.sst")


@pytest.fixture
def full(path: str) -> str:
    Path(path).write_bytes(CONTENT)
    return path


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    before = os.umask(0o022)
    os.umask(before)
    yield os.umask
    os.umask(before)


# --- what may be opened --------------------------------------------------------------------------


def test_a_storage_may_follow_links_of_files_that_it_reads_and_of_no_others(
    full: str, tmp_path: Path
) -> None:
    link = str(tmp_path / "link")
    os.symlink(full, link)
    storage = Storage(follow_links=True)
    assert storage.read_whole(link, ReadKind.LOG, 1 << 20) == CONTENT
    assert storage.fingerprint(link) == storage.fingerprint(full)
    with storage.open_random(link) as file:
        assert storage.is_at(link, file)
    for opener in (lambda: storage.open_append(link, 0), lambda: storage.lock(link)):
        with pytest.raises(OSError, match="symbolic link"):
            opener()
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
def test_what_is_no_file_is_refused_and_not_waited_for(
    full: str, tmp_path: Path, opener: Callable[[Storage, str], object]
) -> None:
    link, pipe = str(tmp_path / "link"), str(tmp_path / "pipe")
    os.symlink(full, link)
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="symbolic link") as caught:
        opener(Storage(), link)
    assert caught.value.filename == link
    with pytest.raises(IsADirectoryError):
        opener(Storage(), str(tmp_path))
    with pytest.raises(OSError):
        opener(Storage(), pipe)
    assert Path(full).read_bytes() == CONTENT


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


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o177])
@pytest.mark.parametrize(
    ("mode", "of_directories"),
    [(0o600, 0o700), (0o644, 0o755), (0o640, 0o750), (0o664, 0o775), (0o400, 0o700)],
)
def test_whoever_may_read_new_files_may_enter_new_directories(
    tmp_path: Path, umask: Callable[[int], int], mask: int, mode: int, of_directories: int
) -> None:
    umask(mask)
    Storage(file_mode=mode).make_directory(str(tmp_path / "a" / "b"))
    for made in (tmp_path / "a", tmp_path / "a" / "b"):
        assert stat.S_IMODE(made.stat().st_mode) == of_directories


@pytest.mark.parametrize("code", [errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_may_refuse_permission_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refused(_descriptor: int, _mode: int) -> None:
        raise OSError(code, "refused")

    monkeypatch.setattr(os, "fchmod", refused)
    storage = Storage(file_mode=0o664)
    storage.make_directory(str(tmp_path / "a"))
    storage.create(str(tmp_path / "a" / "file")).close()
    assert (tmp_path / "a" / "file").exists()


def test_another_failure_of_permission_bits_names_the_file(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_descriptor: int, _mode: int) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "fchmod", fail)
    with pytest.raises(OSError) as caught:
        Storage().create(path)
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, path)


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EIO])
@pytest.mark.parametrize("opener", ["lock", "claim"])
def test_a_file_system_without_locks_is_named(
    full: str, monkeypatch: pytest.MonkeyPatch, opener: str, code: int
) -> None:
    def refused(_descriptor: int, _operation: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refused)
    with pytest.raises(OSError) as caught:
        getattr(Storage(), opener)(full)
    assert (caught.value.errno, caught.value.filename) == (code, full)
    assert ("local disk" in str(caught.value)) == (code != errno.EIO)


def test_descriptors_are_not_inherited_by_other_programs(full: str) -> None:
    storage = Storage()
    with storage.open_random(full), storage.create(full + "2"):
        lock = storage.lock(full + ".lock")
        shown = subprocess.run(
            [sys.executable, "-c", "import os; print([os.path.realpath(f'/dev/fd/{n}')"
             " for n in os.listdir('/dev/fd')])"],
            close_fds=False, capture_output=True, text=True, check=True, timeout=WAIT_S,
        ).stdout  # fmt: skip
        lock.release()
    assert os.path.basename(full) not in shown


# --- names ---------------------------------------------------------------------------------------


def test_write_atomically_creates_and_replaces(path: str) -> None:
    storage = Storage()
    for data in (b"first", b"second", b""):
        storage.write_atomically(path, data)
        assert Path(path).read_bytes() == data
    assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)]


def test_write_atomically_survives_leftovers(path: str) -> None:
    Path(path).write_bytes(b"old")
    Path(path + UNFINISHED).write_bytes(b"a longer leftover of a crash")
    Storage().write_atomically(path, b"new")
    assert Path(path).read_bytes() == b"new"
    assert not os.path.exists(path + UNFINISHED)


def test_write_atomically_does_not_write_through_a_link_left_in_its_way(
    tmp_path: Path, path: str
) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    os.symlink(victim, path + UNFINISHED)
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


# --- directories ---------------------------------------------------------------------------------


def test_make_directory_syncs_the_parent_of_each_it_made(tmp_path: Path) -> None:
    class Recording(Storage):
        def sync_directory(self, path: str) -> None:
            synced.append(path)
            super().sync_directory(path)

    synced: list[str] = []
    Recording().make_directory(str(tmp_path / "a" / "b"))
    assert synced == [str(tmp_path), str(tmp_path / "a")]


@pytest.mark.parametrize("below", ["", "/store", "/a/b"])
def test_make_directory_over_or_below_a_file_fails(full: str, below: str) -> None:
    with pytest.raises(NotADirectoryError) as caught:
        Storage().make_directory(full + below)
    assert caught.value.filename == full


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


# --- descriptors ---------------------------------------------------------------------------------


def test_the_last_reference_closes_the_descriptor(full: str) -> None:
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
    gc.collect()  # other tests may have left descriptors to the collector
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


def test_every_public_operation_can_be_made_to_fail() -> None:
    public = {
        name
        for name, member in vars(Storage).items()
        if not name.startswith("_") and callable(member)
    } - {"check_place"}  # where its call fails, nothing is known
    assert public | {"append", "copy", "truncate", "sync", "pread"} == OPERATIONS
