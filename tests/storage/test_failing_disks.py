"""Disks that are full or fail: a writer gets an OSError, and its process lives.

Each test makes a file system in a file, and is skipped where that cannot be done.  The writer is a
process of its own, for a signal would end it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import lsmkv
from gates import WAIT_S
from other_processes import line_of, process
from torture.framework.loop_disk import LoopDisk, loop_disk

pytestmark = pytest.mark.slow  # each makes a file system

WRITER: Final = """
db = lsmkv.open(sys.argv[1])
number = 0
def write():
    global number
    if number % 50:
        db.put(b"%06d" % number, os.urandom(100))
    else:
        with db.write_batch() as batch:
            batch.put(b"%06d" % number, os.urandom(20_000))
    number += 1

for _ in range(20):
    write()
db.sync()
write()  # which makes room in the log
while True:
    print(number, flush=True)
    command = sys.stdin.readline().strip()
    try:
        if command == "fill":
            while number < 50_000:
                write()
        elif command == "write":
            for _ in range(2000):
                write()
            db.sync()
        elif command == "resume":
            db.resume()
            write()
            db.sync()
        else:
            db.close()
            break
    except OSError as error:
        print(error.errno, flush=True)
    except lsmkv.Error as error:
        print(error.__cause__.errno, flush=True)
    else:
        print(0, flush=True)
print("closed", flush=True)
"""


@pytest.fixture
def disk(kind: str, tmp_path: Path) -> Iterator[LoopDisk]:
    try:
        with loop_disk(kind, tmp_path) as disk:
            disk.mount()
            yield disk
    except PermissionError as error:
        pytest.skip(str(error))


def on(*kinds: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("kind", kinds)


def store_on(disk: LoopDisk) -> Path:
    return disk.mount_point / "store"


@contextlib.contextmanager
def writer(disk: LoopDisk) -> Iterator[subprocess.Popen[str]]:
    """A process that has written and synced a few entries, in a log with room."""
    with process(WRITER, store_on(disk)) as running:
        assert int(line_of(running)) == 21
        assert log_of(disk).read_bytes().endswith(bytes(4096))
        yield running


def told(running: subprocess.Popen[str], command: str) -> tuple[int, int]:
    """The error number that the command ended with, and how many writes there are then."""
    assert running.stdin is not None
    running.stdin.write(command + "\n")
    running.stdin.flush()
    return int(line_of(running)), int(line_of(running))


def closed(running: subprocess.Popen[str]) -> bool:
    output, errors = running.communicate("close\n", timeout=WAIT_S)
    assert running.returncode == 0, errors
    return output.endswith("closed\n")


def use_up(disk: LoopDisk) -> None:
    filler = disk.mount_point / "filler"
    with filler.open("wb", buffering=0) as file:
        end = 0
        for size_bytes in (1 << 24, 1 << 20, 1 << 16):
            with contextlib.suppress(OSError):
                while True:
                    os.posix_fallocate(file.fileno(), end, size_bytes)
                    end += size_bytes
        file.seek(end)
        with contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
    sync(disk)


def sync(disk: LoopDisk) -> None:
    subprocess.run(["sync", "-f", disk.mount_point], check=True, timeout=WAIT_S)


def log_of(disk: LoopDisk) -> Path:
    (log,) = store_on(disk).glob("*.log")
    return log


def check_full(disk: LoopDisk, running: subprocess.Popen[str]) -> None:
    """The writer is refused, then goes on when there is room, and no entry is lost."""
    error, count = told(running, "fill")
    assert error == errno.ENOSPC
    (disk.mount_point / "filler").unlink()
    sync(disk)
    error, after = told(running, "resume")
    assert (error, after) == (0, count + 1)
    assert closed(running)
    with lsmkv.open(store_on(disk)) as db:
        assert list(db) == [b"%06d" % number for number in range(after)]
        db.verify()


@on("ext4", "ext4-journal", "xfs", "btrfs", "btrfs-nodatacow")
def test_a_full_disk_refuses_writes_until_there_is_room(disk: LoopDisk) -> None:
    with writer(disk) as running:
        use_up(disk)
        check_full(disk, running)


@on("xfs", "btrfs", "btrfs-nodatacow")
def test_a_log_whose_blocks_a_copy_shares_refuses_writes_on_a_full_disk(disk: LoopDisk) -> None:
    with writer(disk) as running:
        share_blocks(log_of(disk), disk.mount_point / "copy")
        use_up(disk)
        check_full(disk, running)


def share_blocks(source: Path, target: Path) -> None:
    clone = 0x40049409  # FICLONE: _IOW(0x94, 9, int)
    with source.open("rb") as given, target.open("wb") as taken:
        try:
            fcntl.ioctl(taken.fileno(), clone, given.fileno())
        except OSError as error:
            pytest.skip(f"the file system cannot share blocks between files: {error}")


@on("ext4", "ext4-journal", "xfs")
def test_a_file_system_that_has_shut_down_refuses_writes(disk: LoopDisk) -> None:
    with writer(disk) as running:
        disk.cut_the_power()
        error, _ = told(running, "write")
        assert error == errno.EIO


@on("ext4", "xfs", "btrfs")
def test_a_lost_device_ends_no_process(disk: LoopDisk) -> None:
    """Pages of the log that are not in memory cannot be read any more."""
    with writer(disk) as running:
        sync(disk)
        with log_of(disk).open("rb") as log:
            os.posix_fadvise(log.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        os.truncate(disk.image, 1 << 20)
        told(running, "write")


@on("ext4")
def test_a_log_that_another_program_cuts_ends_no_process(disk: LoopDisk) -> None:
    with writer(disk) as running:
        os.truncate(log_of(disk), 0)
        told(running, "write")
