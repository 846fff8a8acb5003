"""The part ``power-cuts``: the power fails under a store on a real file system, over and over.

It makes a file system in a file and mounts it (Linux and root).  A process writes to a store there, in
one session after the other, and prints the number of each synced write.  At a random moment the file
system is shut down: nothing more of it reaches the disk, not even its own journal.  The process is
killed, the file system is mounted again, and the store opened.  Every synced write must be there, and
the store must be as it was after some write.  The next round continues with the same store.

It does not cover drives that lose flushed data or write it in another order.

``python -m torture.load.power_cuts STORE FIRST`` is the writing process, from write FIRST on.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final

import lsmkv
from torture.framework.loop_disk import LoopDisk, loop_disk
from torture.framework.part import Failure, Outcome, Part, Scale, Settings, UnsoundError
from torture.framework.python_child import ROOT, command
from torture.framework.store_checks import check_files
from torture.load.scenario import SMALL
from torture.load.torn_logs import check_state, entry

KINDS: Final = ("ext4", "ext4-writeback", "xfs")  # file systems by name
ROUNDS: Final = {Scale.CI: 2, Scale.SHORT: 12, Scale.LONG: 2000}
_LONGEST_S: Final = 0.5
_PATIENCE_S: Final = 60.0
_SYNC_SHARE: Final = 0.3
_CLOSE_SHARE: Final = 0.02
_BUFFERS_BYTES: Final = (4096, 16_384, 65_536)


def cut(disk: LoopDisk, dice: random.Random, rounds: int, deadline: float) -> Counter[str]:
    """Write, cut the power and check the store, in each of ``rounds``."""
    counts: Counter[str] = Counter()
    store = disk.mount_point / "store"
    newest = 0
    for _ in range(rounds):
        disk.mount()
        synced = _write_and_cut(disk, store, newest + 1, dice.random() * _LONGEST_S)
        disk.unmount()
        disk.mount()
        before = newest
        if synced or newest or store.exists():
            newest = _newest(store, max(newest, synced))
        counts["power cuts"] += 1
        counts["writes that were synced"] += max(0, synced - before)
        counts["writes that were there"] += newest - before
        disk.unmount()
        if time.monotonic() > deadline:
            break
    return counts


def _write_and_cut(disk: LoopDisk, store: Path, first: int, seconds: float) -> int:
    """Let a process write, cut the power; return the last synced write."""
    with subprocess.Popen(
        command("torture.load.power_cuts", store, first),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        hung = threading.Timer(_PATIENCE_S, process.kill)
        hung.start()
        try:
            said = process.stdout.readline()
            time.sleep(seconds)
            # What is said later does not count: Linux may let a sync succeed that runs while the file
            # system is shut down, and no one would hear of it if the power really failed.
            os.set_blocking(process.stdout.fileno(), False)
            said += process.stdout.read() or b""
            disk.cut_the_power()
        finally:
            hung.cancel()
            process.kill()
    whole = [line for line in said.splitlines(keepends=True) if line.endswith(b"\n")]
    return max(map(int, whole), default=0)


def _newest(store: Path, at_least: int) -> int:
    """The last write in the store; every write before must be there."""
    with lsmkv.open(store, SMALL, create_if_missing=not at_least) as db:
        found = dict(db.items())
        newest = max((int(value.partition(b":")[0]) for value in found.values()), default=0)
        check_state(found, at_least, newest)
        check_files(db)
    return newest


def main(arguments: list[str]) -> int:
    """Write until writing fails or the process is killed; print the number of each synced write."""
    store, numbers = arguments[0], count(int(arguments[1]))
    dice = random.Random(arguments[1])
    with contextlib.suppress(OSError, lsmkv.Error):
        while True:
            _write_in_one_session(store, numbers, dice)
    return 1


def _write_in_one_session(store: str, numbers: Iterator[int], dice: random.Random) -> None:
    buffer_bytes = dice.choice(_BUFFERS_BYTES)
    with lsmkv.open(store, SMALL, write_buffer_size_bytes=buffer_bytes) as db:
        print(0, flush=True)
        for number in numbers:
            sync = dice.random() < _SYNC_SHARE
            db.put(*entry(number), sync=sync)
            if sync:
                print(number, flush=True)
            if dice.random() < _CLOSE_SHARE:
                break
    print(number, flush=True)  # closing has synced it


def run(settings: Settings) -> Outcome:
    """Try every kind of file system, or the one that ``settings.replay`` names."""
    outcome = Outcome()
    if settings.replay is not None and settings.replay not in KINDS:
        raise ValueError(f"{settings.replay!r} is none of {', '.join(KINDS)}")
    started = time.monotonic()
    for at, kind in enumerate(KINDS, 1):
        if settings.replay not in (None, kind):
            continue
        deadline = started + settings.time_limit_s * at / len(KINDS)
        dice = random.Random(f"power cuts {settings.seed} {kind}")
        try:
            with loop_disk(kind, settings.directory) as disk:
                counts = cut(disk, dice, ROUNDS[settings.scale], deadline)
        except PermissionError as error:
            outcome.skipped.append(f"{kind}: {error}")
            continue
        except (UnsoundError, lsmkv.Error, OSError) as error:
            what = f"{kind}: {type(error).__name__}: {error}"
            outcome.failures.append(Failure(what, kind))
            continue
        outcome.counts.update({f"{kind}: {what}": number for what, number in counts.items()})
    return outcome


PART: Final = Part(
    "power-cuts",
    "Whenever a real file system goes down and loses its unwritten data, the store opens, holds every "
    "synced write, and is as it was after some write.",
    run,
)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
