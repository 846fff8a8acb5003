"""A child process that runs out of memory: part of the scenario ``limits``.

It writes until memory is short, gets an error, and ends in one of several ways.  The next process must
find every acknowledged write.

``python -m torture.load.out_of_memory STORE NUMBER`` is such a child, with the shortage of that
number.  It prints the number of each acknowledged write, and 0 for each refused one.
"""

from __future__ import annotations

import errno
import os
import resource
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import lsmkv
from torture.framework.part import Scale, UnsoundError
from torture.framework.python_child import ROOT, command
from torture.framework.store_checks import check_files
from torture.load.scenario import Job

MIB: Final = 1 << 20
_REPORT: Final = struct.Struct("<Q")
_CHILD_S: Final = 60.0
_ENTRY_BYTES: Final = 64 << 10
_MOST_ENTRIES: Final = 8000
_REFUSALS: Final = 3


def value_of(number: int) -> bytes:
    return (b"%09d." % number) * (_ENTRY_BYTES // 10)


def key_of(number: int) -> bytes:
    return b"key-%06d" % number


@dataclass(frozen=True, slots=True)
class Shortage:
    """How a child runs out of memory, and what it does then.

    Attributes:
        room_bytes: memory that the child may add to what it has after opening.
        hoards: the child fills the memory itself, so that flushes and compactions find none either.
        ending: ``resume``: free the memory and resume; ``close``: close the store; ``exit``: just end.
    """

    room_bytes: int
    options: lsmkv.Options
    hoards: bool
    ending: str


def shortages() -> Iterator[Shortage]:
    """All shortages that are tried."""
    large = lsmkv.Options(compression="none", write_buffer_size_bytes=1024 * MIB)
    small = large.replace(
        write_buffer_size_bytes=MIB, table_size_bytes=MIB, level0_compaction_trigger=2
    )
    for ending in ("resume", "close", "exit"):
        yield Shortage(24 * MIB, large, False, ending)
        yield Shortage(12 * MIB, small, True, ending)


def run(job: Job) -> None:
    """Try every shortage; at the smallest scale only some."""
    every = list(enumerate(shortages()))
    for number, shortage in every[1::3] if job.scale is Scale.CI else every:
        path = job.directory / f"memory-{number}"
        acknowledged, refusals = _in_child(path, number, shortage)
        with lsmkv.open(path, create_if_missing=False) as db:
            check_acknowledged(db, acknowledged)
            check_files(db)
        job.counts["memory used up"] += refusals
        job.counts["writes of children without memory"] += len(acknowledged)


def check_acknowledged(db: lsmkv.DB, acknowledged: list[int]) -> None:
    """UnsoundError if an acknowledged write is missing or a value is wrong."""
    for number in acknowledged:
        if db.get(key_of(number)) != value_of(number):
            raise UnsoundError(f"write {number} was acknowledged, but is lost or changed")
    for key, value in db.items():
        if value != value_of(int(key[4:])):
            raise UnsoundError(f"{key!r} has a value that nobody gave it")


def _in_child(path: Path, number: int, shortage: Shortage) -> tuple[list[int], int]:
    """Run a child without memory; return acknowledged writes and the refused number."""
    child = subprocess.run(
        command("torture.load.out_of_memory", path, number),
        capture_output=True,
        cwd=ROOT,
        timeout=_CHILD_S,
        check=False,
    )
    if child.returncode:
        said = child.stderr.decode(errors="replace")[-1500:]
        raise UnsoundError(f"a child ended with {child.returncode} ({shortage}):\n{said}")
    numbers: list[int] = [number for (number,) in _REPORT.iter_unpack(child.stdout)]
    return [number for number in numbers if number], numbers.count(0)


def _write_without_memory(path: str, shortage: Shortage) -> None:
    """Run in the child: write until memory is short, and end as the shortage says."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    hoard: list[bytes] = []
    db = lsmkv.open(path, shortage.options)
    _put(db, 1)
    db.compact_range()  # starts the background threads
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + shortage.room_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        number = _until_refused(db, hoard, hoards=shortage.hoards)
    finally:
        hoard.clear()
        if shortage.ending != "exit":
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    if shortage.ending == "exit":
        os._exit(0)
    if shortage.ending == "resume":
        db.resume()
        for later in range(number + 1, number + 20):
            _put(db, later)
    db.close()


def _put(db: lsmkv.DB, number: int) -> None:
    db.put(key_of(number), value_of(number))
    _report(number)


def _report(number: int) -> None:
    os.write(sys.stdout.fileno(), _REPORT.pack(number))


def _until_refused(db: lsmkv.DB, hoard: list[bytes], *, hoards: bool) -> int:
    """Write until memory is short for some writes; return the number of the last one."""
    refused = 0
    for number in range(2, _MOST_ENTRIES):
        try:
            if hoards:
                hoard.append(value_of(number))
        except MemoryError:
            del hoard[-2:]  # leave a little for the store
        try:
            _put(db, number)
        except (MemoryError, lsmkv.BackgroundError) as error:
            if not is_memory_error(error):
                raise
            _report(0)
            refused += 1
            if refused == _REFUSALS:
                return number
    raise UnsoundError("memory never ran out")


def is_memory_error(error: BaseException | None) -> bool:
    """Whether an error, or its cause, says that memory is short."""
    while isinstance(error, lsmkv.BackgroundError):
        error = error.__cause__
    return isinstance(error, MemoryError) or (
        isinstance(error, OSError) and error.errno == errno.ENOMEM
    )


if __name__ == "__main__":
    _write_without_memory(sys.argv[1], list(shortages())[int(sys.argv[2])])
