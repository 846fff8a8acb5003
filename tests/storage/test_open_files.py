"""Bounds of a process: how many files it has open, and the memory that it may use."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from lsmkv.encoding.words import COMPILED
from lsmkv.runtime import Finalizer, Opened
from lsmkv.storage import memory_limit
from lsmkv.storage.files import RandomFile, ReadKind
from lsmkv.storage.memory_limit import memory_limit_bytes, usable_memory_bytes
from lsmkv.storage.open_files import OpenFiles, SharedFile, shared_by_default
from lsmkv.storage.storage import Storage
from threaded_stores import run_all


class Files:
    """Numbered files that share ``limit`` descriptors; each holds its number, many times."""

    def __init__(self, directory: Path, limit: int, *, direct: bool = False) -> None:
        self.directory = directory
        self.storage = Storage(direct_reads=direct)
        self.shared = OpenFiles(limit)

    def path(self, number: int) -> str:
        return str(self.directory / str(number))

    def make(self, number: int, content: bytes = b"") -> None:
        Path(self.path(number)).write_bytes(content or b"%08d" % number * 1000)

    def opened(self, number: int) -> RandomFile:
        file = self.storage.open_random(self.path(number))
        file.share(self.shared)
        return file

    def made(self, count: int) -> list[RandomFile]:
        for number in range(count):
            self.make(number)
        return [self.opened(number) for number in range(count)]

    def open_count(self) -> int:
        found = 0
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(FileNotFoundError):  # the listing's own
                found += os.readlink(f"/proc/self/fd/{name}").startswith(str(self.directory))
        return found


def content(file: RandomFile) -> bytes:
    return file.pread(4000, 8, ReadKind.DATA)


needs_proc = pytest.mark.skipif(
    not os.path.isdir("/proc/self/fd"), reason="needs /proc, which lists open files"
)


@needs_proc
@pytest.mark.parametrize("limit", [1, 8, 30])
def test_no_more_files_than_the_limit_are_open(tmp_path: Path, limit: int) -> None:
    files = Files(tmp_path, limit)
    opened = files.made(40)
    assert files.open_count() <= limit
    for number in random.Random(1).choices(range(40), k=400):
        assert content(opened[number]) == b"%08d" % number
        assert files.open_count() <= limit


@needs_proc
def test_a_file_that_is_read_again_and_again_stays_open(tmp_path: Path) -> None:
    files = Files(tmp_path, 16)
    opened = files.made(100)
    popular = opened[50]
    content(popular)
    assert popular.shared is not None
    times_opened = 0
    for number in range(100):
        before = popular.shared.held
        content(popular)
        times_opened += popular.shared.held is not before
        content(opened[number])
    assert times_opened <= 20


@needs_proc
def test_a_file_is_closed_with_its_last_reference(tmp_path: Path) -> None:
    files = Files(tmp_path, 8)
    opened = files.made(4)
    assert files.open_count() == 4
    opened.clear()
    assert files.open_count() == 0
    file = files.opened(0)
    file.close()
    assert files.open_count() == 0


def test_threads_read_what_each_file_holds_while_all_are_closed_and_opened(tmp_path: Path) -> None:
    files = Files(tmp_path, 2)
    opened = files.made(20)
    wrong: list[int] = []

    def read(seed: int) -> None:
        for number in random.Random(seed).choices(range(20), k=2000):
            if content(opened[number]) != b"%08d" % number:
                wrong.append(number)

    run_all(*[partial(read, seed) for seed in range(6)])
    assert not wrong


@pytest.mark.parametrize("direct", [False, True])
def test_files_that_are_read_directly_are_opened_again_so(tmp_path: Path, direct: bool) -> None:
    files = Files(tmp_path, 1, direct=direct)
    opened = files.made(3)
    try:
        assert [content(file) for file in opened * 2] == [b"%08d" % n for n in range(3)] * 2
    except OSError as error:
        if not direct or error.errno != errno.EINVAL:
            raise
        pytest.skip("the file system of the temporary directory has no direct reads")


@pytest.mark.parametrize("change", ["removed", "replaced", "longer"])
def test_a_file_that_is_gone_when_it_is_read_again_is_told_with_a_remedy(
    tmp_path: Path, change: str
) -> None:
    files = Files(tmp_path, 1)
    first, _ = files.made(2)
    os.unlink(files.path(0))
    if change == "replaced":
        files.make(0, b"%08d" % 7 * 1000)
    elif change == "longer":
        files.make(0, b"%08d" % 0 * 1001)
    with pytest.raises(OSError, match=r"refresh\(\).*max_open_files") as caught:
        content(first)
    assert (caught.value.errno, caught.value.filename) == (errno.ESTALE, files.path(0))


def test_a_pinned_file_is_read_after_its_name_is_gone(tmp_path: Path) -> None:
    files = Files(tmp_path, 2)
    opened = files.made(10)
    assert opened[0].shared is not None
    assert opened[0].shared.pin()
    os.unlink(files.path(0))
    for number in (*range(10), 0):
        assert content(opened[number]) == b"%08d" % number


def test_a_file_that_is_pinned_while_another_thread_opens_it_is_read(tmp_path: Path) -> None:
    files = Files(tmp_path, 4)
    first, *_ = files.made(10)
    shared = first.shared
    assert shared is not None and shared.held is None
    really = shared._open_again

    def pinned_meanwhile() -> tuple[Opened, int]:
        shared._open_again = really
        assert shared.pin()
        os.unlink(files.path(0))
        return really()

    shared._open_again = pinned_meanwhile
    assert content(first) == b"%08d" % 0


def test_a_file_of_the_same_bytes_made_later_is_another(tmp_path: Path) -> None:
    files = Files(tmp_path, 1)
    first, _ = files.made(2)
    os.unlink(files.path(0))
    files.make(0)
    os.utime(files.path(0), ns=(0, 0))
    with pytest.raises(OSError, match=r"refresh"):
        content(first)


@pytest.mark.skipif(COMPILED, reason="compiled classes have no interpreted subclasses")
def test_a_file_whose_sharing_is_interrupted_is_forgotten(tmp_path: Path) -> None:
    class Interrupted(OpenFiles):
        def forgetting(self, file: SharedFile) -> Finalizer:
            raise KeyboardInterrupt

    files = Files(tmp_path, 4)
    files.shared = Interrupted(4)
    files.make(0)
    with pytest.raises(KeyboardInterrupt):
        files.opened(0)
    assert not files.shared._files


@needs_proc
def test_only_files_in_use_are_pinned_and_only_half_of_the_limit(tmp_path: Path) -> None:
    files = Files(tmp_path, 8)
    opened = files.made(10)
    parts = [file.shared for file in opened]
    opened[:2] = []
    assert [part.pin() for part in parts if part] == [True] * 6 + [False] * 4
    assert [files.shared.has(part.number) for part in parts if part] == [False] * 2 + [True] * 8
    opened.clear()
    parts.clear()
    assert files.open_count() == 0


@contextmanager
def descriptors(count: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    probe = os.open(os.devnull, os.O_RDONLY)
    os.close(probe)
    resource.setrlimit(resource.RLIMIT_NOFILE, (probe + count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@needs_proc
def test_for_want_of_descriptors_other_files_are_closed(tmp_path: Path) -> None:
    files = Files(tmp_path, 8)
    files.storage.shared_files = files.shared
    opened = files.made(8)
    with descriptors(0):
        assert content(files.storage.open_random(files.path(1))) == b"%08d" % 1
    assert files.open_count() <= 5
    assert content(opened[0]) == b"%08d" % 0


def test_a_want_of_descriptors_is_told_with_a_remedy(tmp_path: Path) -> None:
    files = Files(tmp_path, 8)
    files.make(0)
    files.storage.shared_files = files.shared
    for action in (
        lambda: files.storage.open_random(files.path(0)),
        lambda: files.storage.create(files.path(1)),
        lambda: files.storage.sync_directory(str(tmp_path)),
        lambda: files.storage.list_directory(str(tmp_path)),
    ):
        with descriptors(0), pytest.raises(OSError, match=r"ulimit -n.*max_open_files") as caught:
            action()
        assert caught.value.errno == errno.EMFILE
        assert str(tmp_path) in str(caught.value)


def test_by_default_stores_share_half_of_what_the_process_may_open() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        for limit, expected in ((64, 32), (1000, 500), (10, 8)):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            assert shared_by_default().limit == expected
        assert Storage().shared_files is Storage().shared_files
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    shared_by_default()


@pytest.mark.parametrize(
    ("groups", "limits", "expected"),
    [
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": "1048576"}, 1 << 20),
        ("0::/a/b\n", {"a/b/memory.max": "4096", "a/memory.max": "1048576"}, 4096),
        ("4:memory:/a\n0::/\n", {"memory/a/memory.limit_in_bytes": "8192"}, 8192),
        ("4:memory:/a\n", {"memory/a/memory.limit_in_bytes": "9223372036854771712"}, None),
        ("2:cpu,cpuacct:/a\n", {}, None),
    ],
)
def test_the_smallest_limit_of_the_control_groups_counts(
    groups: str,
    limits: dict[str, str],
    expected: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, text in limits.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    (tmp_path / "groups").write_text(groups)
    monkeypatch.setattr(memory_limit, "CGROUPS", str(tmp_path))
    assert memory_limit_bytes(str(tmp_path / "groups")) == expected


def test_files_that_cannot_be_read_are_no_limit(tmp_path: Path) -> None:
    assert memory_limit_bytes(str(tmp_path / "nothing")) is None


@pytest.mark.parametrize(("limit", "pages"), [(None, 100), (1 << 40, 100), (8192, 2), (0, 0)])
def test_the_machine_s_memory_is_usable_up_to_the_limit(
    limit: int | None, pages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_limit, "MEMINFO", "/nowhere")
    monkeypatch.setattr(memory_limit, "memory_limit_bytes", lambda: limit)
    fake = {"SC_PHYS_PAGES": 100, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", fake.__getitem__)
    assert usable_memory_bytes() == pages * 4096


@pytest.mark.parametrize(("limit", "expected"), [(None, 300 * 1024), (8192, 8192)])
def test_what_other_programs_use_is_not_usable(
    limit: int | None, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "MemTotal:  1000 kB\nMemFree:  20 kB\nMemAvailable:  300 kB\n"
    (tmp_path / "meminfo").write_text(lines)
    monkeypatch.setattr(memory_limit, "MEMINFO", str(tmp_path / "meminfo"))
    monkeypatch.setattr(memory_limit, "memory_limit_bytes", lambda: limit)
    assert usable_memory_bytes() == expected


def test_memory_that_is_not_known_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limit, "MEMINFO", "/nowhere")
    monkeypatch.setattr(os, "sysconf_names", {})
    assert usable_memory_bytes() == 0
