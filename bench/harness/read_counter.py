"""Counts the read calls of a process and its children, by file, from outside.

Two ways.  ``preload`` puts a small library of ours between the program and the C library
(``read_counter.c``, compiled by the system's C compiler).  ``strace`` asks the kernel, and is slower.

Both see read, pread, readv and preadv in all forms, sendfile, copy_file_range and splice, by all threads,
and by children after fork and exec, with O_DIRECT too.  Neither sees what a program reads through mmap or
io_uring; files that are mapped are named, and a ring is told (by ``preload`` if the C library made it, or
if it is open at the end).  ``preload`` also misses reads inside the C library (stdio's fopen and fread),
system calls made without it, and programs that are statically linked (Go's) or set-user-ID.  ``strace``
sees these.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import struct
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal

Way = Literal["preload", "strace"]
WAYS: Final[tuple[Way, ...]] = ("preload", "strace")

_SOURCE: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "read_counter.c")
_SLOT: Final = struct.Struct("<5Q472s")
_SLOTS: Final = 16384
_COMPILE_S: Final = 60
_RING: Final = "anon_inode:[io_uring]"
_SOURCES: Final = {
    **dict.fromkeys(
        ("read", "pread64", "readv", "preadv", "preadv2", "copy_file_range", "splice"), 0
    ),
    "sendfile": 1,
}
"""System calls that read, and which of their descriptors they read."""


@dataclass(frozen=True, slots=True)
class FileReads:
    """What was read of one file; pipes and sockets are one each.

    Attributes:
        calls, bytes: read calls that succeeded, those at the end of the file included.
        maps, mapped_bytes: reads through these are not seen.
    """

    path: str
    calls: int = 0
    bytes: int = 0
    maps: int = 0
    mapped_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Reads:
    """All files, most calls first, how many programs were seen, and whether one had an io_uring."""

    programs: int
    files: tuple[FileReads, ...]
    has_ring: bool = False

    @classmethod
    def of(cls, programs: int, found: Iterable[FileReads]) -> Reads:
        """The files in order, without the ring."""
        every = sorted(found, key=lambda file: (-file.calls, -file.maps, file.path))
        files = tuple(file for file in every if file.path != _RING)
        return cls(programs, files, len(files) < len(every))

    def under(self, folder: str) -> FileReads:
        """The sum over the files below a folder."""
        prefix = os.path.realpath(folder).rstrip("/") + "/"
        here = [file for file in self.files if file.path.startswith(prefix)]
        return FileReads(
            prefix,
            sum(file.calls for file in here),
            sum(file.bytes for file in here),
            sum(file.maps for file in here),
            sum(file.mapped_bytes for file in here),
        )


def best_way() -> Way | None:
    """``preload`` where there is a C compiler, else ``strace``; None without both."""
    if shutil.which(_compiler()[0]):
        return "preload"
    return "strace" if shutil.which("strace") else None


def _compiler() -> list[str]:
    return shlex.split(os.environ.get("CC", "")) or ["cc"]


class Preloaded:
    """A library that counts, and its counts; ``environment`` makes a program load it."""

    def __init__(self, directory: str) -> None:
        library = os.path.join(directory, "read_counter.so")
        command = [*_compiler(), "-O2", "-shared", "-fPIC", "-o", library, _SOURCE, "-ldl"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_S)
        if done.returncode:
            raise OSError(f"{shlex.join(command)}: {done.stderr.strip()}")
        self._counts = os.path.join(directory, "counts")
        with open(self._counts, "wb") as file:
            file.truncate(_SLOTS * _SLOT.size)
        before = os.environ.get("LD_PRELOAD")
        self.environment = {
            "LD_PRELOAD": f"{library}:{before}" if before else library,
            "LSMKV_READ_COUNTS": self._counts,
        }

    def reads(self) -> Reads:
        """The counts so far, also while programs run."""
        with open(self._counts, "rb") as file:
            slots = list(_SLOT.iter_unpack(file.read()))
        found = [
            FileReads(os.fsdecode(path.split(b"\0", 1)[0]) or "?", *counts)
            for hashed, *counts, path in slots[1:]
            if hashed
        ]
        if any(slots[0][1:5]):
            found.append(FileReads("(more files)", *slots[0][1:5]))
        return Reads.of(slots[0][0], found)


@contextmanager
def preloaded() -> Iterator[Preloaded]:
    """The library for a while.  OSError: there is no C compiler, or it fails."""
    with tempfile.TemporaryDirectory(prefix="lsmkv-reads-") as directory:
        yield Preloaded(directory)


def count_reads(command: list[str], way: Way) -> tuple[int, Reads]:
    """Run a command; its exit status, and what it read.  OSError: a tool cannot be run."""
    if way == "preload":
        with preloaded() as library:
            done = subprocess.run(command, env={**os.environ, **library.environment})
            return done.returncode, library.reads()
    with tempfile.TemporaryDirectory(prefix="lsmkv-reads-") as directory:
        trace = os.path.join(directory, "trace")
        calls = ",".join(("mmap", "execve", "io_uring_setup", *_SOURCES))
        options = ["-f", "-qq", "-y", "-s", "0", "-e", f"trace={calls}", "-e", "signal=none"]
        done = subprocess.run(["strace", *options, "-o", trace, "--", *command])
        with open(trace, encoding="utf-8", errors="surrogateescape") as file:
            return done.returncode, parse_strace(file)


_UNFINISHED: Final = re.compile(r"^(\d+) +(.*) <unfinished \.\.\.>$")
_RESUMED: Final = re.compile(r"^(\d+) +<\.\.\. \w+ resumed>(.*)$")
_CALL: Final = re.compile(r"^\d+ +(\w+)\((.*)\) += (0x[0-9a-f]+|\d+)")
_DESCRIPTOR: Final = re.compile(r"\d+<([^>]*)>")


def parse_strace(lines: Iterable[str]) -> Reads:
    """The counts of what ``strace -f -y`` wrote."""
    begun: dict[str, str] = {}
    programs = 0
    calls: Counter[str] = Counter()
    read_bytes: Counter[str] = Counter()
    maps: Counter[str] = Counter()
    mapped: Counter[str] = Counter()
    for line in lines:
        line = line.rstrip("\n")
        if cut := _UNFINISHED.match(line):
            begun[cut[1]] = cut[2]
            continue
        if rest := _RESUMED.match(line):
            line = f"{rest[1]} {begun.pop(rest[1], '')}{rest[2]}"
        call = _CALL.match(line)
        if call is None:
            continue
        name, arguments, result = call.groups()
        if name == "execve":
            programs += 1
            continue
        if name == "io_uring_setup":
            calls[_RING] += 1
            continue
        descriptors = _DESCRIPTOR.findall(arguments)
        descriptor = descriptors[_SOURCES.get(name, 0)] if descriptors else ""
        path = descriptor or "?"
        path = path if path.startswith("/") else path.partition(":")[0]
        if name != "mmap":
            calls[path] += 1
            read_bytes[path] += int(result, 0)
        elif descriptor and "PROT_READ" in arguments:
            maps[path] += 1
            mapped[path] += int(arguments.split(", ")[1])
    return Reads.of(
        programs,
        (
            FileReads(path, calls[path], read_bytes[path], maps[path], mapped[path])
            for path in calls | maps
        ),
    )
