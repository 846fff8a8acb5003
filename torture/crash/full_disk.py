"""Full disks: a small file system, and a limit on the size of files.

Writes fill a store, alone or with flushes or compactions, until the operating system refuses.  Then
every acknowledged write must be readable.  After room is made, the store must resume and take writes,
and it must be sound when it is opened again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import lsmkv
from lsmkv.storage.storage import Storage
from torture.crash.fault_session import cause_of
from torture.framework.part import Failure, Outcome, Settings, UnsoundError
from torture.framework.store_checks import Traces, check_files, check_no_leftovers
from torture.framework.timeout import HangsError, patiently

_DISK_BYTES: Final = 1 << 20
_BALLAST_BYTES: Final = 1 << 19
_FILE_LIMIT_BYTES: Final = 40_000
_MOST_WRITES: Final = 20_000
_PATIENCE_S: Final = 60.0  # filling the disk takes about a second

Upkeep = Callable[[lsmkv.DB, int], None]


def _nothing(db: lsmkv.DB, number: int) -> None:
    pass


def _flush(db: lsmkv.DB, number: int) -> None:
    if number % 50 == 49:
        db.flush()


def _compact(db: lsmkv.DB, number: int) -> None:
    if number % 100 == 99:
        db.compact_range()


UPKEEP: Final[dict[str, Upkeep]] = {"writes": _nothing, "flushes": _flush, "compactions": _compact}
PLACES: Final = ("full-disk", "file-size-limit")
NAMES: Final = tuple(f"{place}/{upkeep}" for place in PLACES for upkeep in UPKEEP)
"""Every combination; ``--replay`` takes one of them."""


@dataclass(frozen=True, slots=True)
class Place:
    """A directory without room: the error that writes raise there, and how to make room."""

    directory: Path
    error: int
    make_room: Callable[[], None]


@contextlib.contextmanager
def small_disk(directory: Path) -> Iterator[Place]:
    """A file system of 1 MiB, half full; PermissionError if it cannot be mounted here."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        raise PermissionError("mounting a small file system takes Linux and root")
    mount = directory / "disk"
    mount.mkdir()
    options = f"size={_DISK_BYTES}"
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(mount)]
    mounted = subprocess.run(
        command, capture_output=True, check=False, text=True, timeout=_PATIENCE_S
    )
    if mounted.returncode:
        raise PermissionError(f"no small file system can be mounted: {mounted.stderr.strip()}")
    try:
        ballast = mount / "ballast"
        ballast.write_bytes(bytes(_BALLAST_BYTES))
        yield Place(mount, errno.ENOSPC, ballast.unlink)
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True, timeout=_PATIENCE_S)
        mount.rmdir()


@contextlib.contextmanager
def limited_files(directory: Path) -> Iterator[Place]:
    """A directory where this process can write only files below 40,000 bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def lift() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_LIMIT_BYTES, hard))
    try:
        yield Place(directory / "limited", errno.EFBIG, lift)
    finally:
        lift()
        shutil.rmtree(directory / "limited", ignore_errors=True)


def fill(place: Place, upkeep: Upkeep, seed: int) -> int:
    """Fill a store, make room, check it; return the count of acknowledged writes."""
    dice = random.Random(f"full disk {seed}")
    traces = Traces()
    path = place.directory / "store"
    options = lsmkv.Options(
        write_buffer_size_bytes=65536 if upkeep is _nothing else 16384,
        level0_compaction_trigger=2,
        compression="none",
    )
    written: dict[bytes, bytes] = {}
    with lsmkv.open(path, options) as db:
        _write_until_refused(db, upkeep, dice, written, place.error)
        _compare_without_room(db, written, place.error)
        with contextlib.suppress(OSError, lsmkv.BackgroundError):
            db.resume()  # there may be no room yet
            db.wait_until_settled()  # a flush that resume began must not fail later
        _compare_without_room(db, written, place.error)
        place.make_room()
        db.resume()
        db.put(b"afterwards", b"1", sync=True)
        written[b"afterwards"] = b"1"
        db.wait_until_settled()
        _compare(db, written)
    with lsmkv.open(path, options, create_if_missing=False) as db:
        _compare(db, written)
        check_files(db)
        check_no_leftovers(db, Storage())
    traces.check()
    return len(written)


def _write_until_refused(
    db: lsmkv.DB, upkeep: Upkeep, dice: random.Random, written: dict[bytes, bytes], error: int
) -> None:
    try:
        for number in range(_MOST_WRITES):
            key, value = b"key-%05d" % dice.randrange(5000), dice.randbytes(200)
            db.put(key, value, sync=number % 20 == 0)
            written[key] = value
            upkeep(db, number)
    except (OSError, lsmkv.BackgroundError) as refusal:
        found = cause_of(refusal).errno
        if found != error:
            raise UnsoundError(
                f"a write failed with error {found}, expected {errno.errorcode[error]}"
            ) from refusal
        return
    raise UnsoundError("the disk was never full")


def _compare_without_room(db: lsmkv.DB, written: dict[bytes, bytes], error: int) -> None:
    """A full disk can be read; without a free descriptor a closed table cannot be opened."""
    try:
        _compare(db, written)
    except OSError as refusal:
        if refusal.errno != error or error != errno.EMFILE:
            raise


def _compare(db: lsmkv.DB, written: dict[bytes, bytes]) -> None:
    """All acknowledged writes are there; a refused write may be there too."""
    found = dict(db.items())
    wrong = [key for key, value in written.items() if found.get(key) != value]
    if wrong:
        raise UnsoundError(f"{len(wrong)} of {len(written)} entries are not right: {wrong[0]!r}")


def run(settings: Settings, outcome: Outcome, deadline: float) -> None:
    """Try every combination, or the one that ``settings.replay`` names."""
    makers = dict(zip(PLACES, (small_disk, limited_files), strict=True))
    for name in NAMES:
        if settings.replay not in (None, name) or time.monotonic() > deadline:
            continue
        place_name, _, upkeep = name.partition("/")
        try:
            with makers[place_name](settings.directory) as place:
                job = partial(fill, place, UPKEEP[upkeep], settings.seed)
                written = patiently(job, _PATIENCE_S)
        except PermissionError as error:
            outcome.skipped.append(f"{name}: {error}")
            continue
        except (UnsoundError, HangsError, AssertionError, lsmkv.Error, OSError) as error:
            outcome.failures.append(Failure(f"{name}: {type(error).__name__}: {error}", name))
            continue
        outcome.counts[f"{place_name}: filled"] += 1
        outcome.counts[f"{place_name}: writes before it was full"] += written
