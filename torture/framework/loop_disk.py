"""File systems in files, mounted through loop devices (Linux and root)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from torture.framework.part import UnsoundError

_GO_DOWN: Final = 0x8004587D  # _IOR('X', 125, __u32): EXT4_IOC_SHUTDOWN, XFS_IOC_GOINGDOWN
_WITHOUT_FLUSHING_THE_LOG: Final = 2
_PATIENCE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class FileSystem:
    """The command that makes one, the size of its file, and the mount options."""

    make: tuple[str, ...]
    size_bytes: int
    options: tuple[str, ...] = ()


_EXT4: Final = ("mkfs.ext4", "-q", "-F")
_BTRFS: Final = ("mkfs.btrfs", "-q", "-f")

FILE_SYSTEMS: Final = {
    "ext4": FileSystem(_EXT4, 48 << 20),
    "ext4-writeback": FileSystem(_EXT4, 48 << 20, ("data=writeback",)),
    "ext4-journal": FileSystem(_EXT4, 48 << 20, ("data=journal",)),
    "xfs": FileSystem(("mkfs.xfs", "-q", "-f"), 320 << 20),
    "btrfs": FileSystem(_BTRFS, 128 << 20),
    "btrfs-nodatacow": FileSystem(_BTRFS, 128 << 20, ("nodatacow",)),
}


class LoopDisk:
    """A file system in a file; PermissionError if none can be made here."""

    def __init__(self, kind: str, directory: Path) -> None:
        if not sys.platform.startswith("linux") or os.geteuid() != 0:
            raise PermissionError("mounting a file system takes Linux and root")
        file_system = FILE_SYSTEMS[kind]
        for tool in (file_system.make[0], "mount", "umount", "losetup"):
            if shutil.which(tool) is None:
                raise PermissionError(f"the program {tool} is missing")
        self._options = file_system.options
        self.image = directory / f"{kind}.image"
        self.mount_point = directory / kind
        self.mount_point.mkdir()
        self._is_mounted = False
        with self.image.open("wb") as file:
            file.truncate(file_system.size_bytes)
        _require([*file_system.make, str(self.image)], "no file system can be made")

    def mount(self) -> None:
        """Mount it; the file system recovers from its journal."""
        options = ",".join(["loop", *self._options])
        command = ["mount", "-o", options, str(self.image), str(self.mount_point)]
        _require(command, "no file system can be mounted from a file")
        self._is_mounted = True

    def unmount(self) -> None:
        """Unmount it, if it is mounted."""
        deadline = time.monotonic() + _PATIENCE_S
        while self._is_mounted:
            done = _run(["umount", str(self.mount_point)])
            self._is_mounted = done.returncode != 0
            if self._is_mounted:
                if time.monotonic() > deadline:
                    raise UnsoundError(f"the disk cannot be unmounted: {done.stderr.strip()}")
                time.sleep(0.01)

    def cut_the_power(self) -> None:
        """Shut the file system down, so that nothing more reaches the disk."""
        descriptor = os.open(self.mount_point, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _GO_DOWN, struct.pack("I", _WITHOUT_FLUSHING_THE_LOG))
        except OSError as error:
            raise PermissionError(f"the file system cannot be shut down: {error}") from error
        finally:
            os.close(descriptor)

    def close(self) -> None:
        self.unmount()
        self.image.unlink()
        self.mount_point.rmdir()


@contextlib.contextmanager
def loop_disk(kind: str, directory: Path) -> Iterator[LoopDisk]:
    """A :class:`LoopDisk`, which is not mounted yet, and is removed at the end."""
    disk = LoopDisk(kind, directory)
    try:
        yield disk
    finally:
        disk.close()


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, check=False, text=True, timeout=_PATIENCE_S)


def _require(command: list[str], what: str) -> None:
    done = _run(command)
    if done.returncode:
        raise PermissionError(f"{what}: {done.stderr.strip()}")
