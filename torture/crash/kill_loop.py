"""Kills a writing process again and again, and checks its store.

``python -m torture.crash.kill_loop --rounds 100 --seed 1``: a child process applies a seeded stream of
operations to a store with small buffers, which flushes and compacts all the time, and reports each
acknowledged operation.  SIGKILL ends it at a random moment or at a chosen system call, in the middle
of a write or of recovery.  Then the store must open without repair.  It must hold the stream up to the
last acknowledged operation, or up to the one after it, and ``verify`` must find nothing.  The next
round continues with the same store.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from dataclasses import dataclass
from typing import Final, Literal, cast

import lsmkv
from lsmkv.options import Background
from lsmkv.storage.storage import AppendFile, Storage
from torture.framework.changes import Change, Contents, change_model, difference, write, write_batch
from torture.framework.part import UnsoundError
from torture.framework.python_child import ROOT, command
from torture.framework.store_checks import check_files

KEYS: Final = 400
LONGEST_RUN_S: Final = 0.5
_REPORT: Final = struct.Struct("<Q")
_LIMIT_S: Final = 60.0  # for a writer that never makes the system call that kills it

Kind = Literal["put", "delete", "batch", "sync", "flush", "compact"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the stream; a batch has several changes, a sync, flush or compact none."""

    kind: Kind
    changes: tuple[Change, ...]
    sync: bool


def operation(seed: int, number: int) -> Operation:
    """Operation ``number`` of the stream; it does not depend on the others."""
    dice = random.Random(f"{seed}/{number}")
    sync = dice.random() < 0.05
    drawn = dice.random()
    if drawn < 0.70:
        return Operation("put", (_put(dice, number),), sync)
    if drawn < 0.83:
        return Operation("delete", ((_key(dice), None),), sync)
    if drawn < 0.98:
        changes = tuple(
            _put(dice, number) if dice.random() < 0.8 else (_key(dice), None)
            for _ in range(dice.randint(1, 30))
        )
        return Operation("batch", changes, sync)
    kinds: tuple[Kind, ...] = ("sync", "flush", "compact")
    return Operation(dice.choices(kinds, (5, 4, 1))[0], (), False)


def _key(dice: random.Random) -> bytes:
    return b"key-%05d" % int(KEYS * dice.random() ** 2)


def _put(dice: random.Random, number: int) -> Change:
    return _key(dice), b"%d:" % number + dice.randbytes(dice.randint(0, 200))


def options(seed: int, turn: int, background: Background = "thread") -> lsmkv.Options:
    """Options of a round: small buffers, and random values for the others."""
    dice = random.Random(f"options {seed}/{turn}")
    return lsmkv.Options(
        write_buffer_size_bytes=dice.choice((4096, 16_384, 65_536)),
        max_immutable_memtables=dice.randint(1, 4),
        block_size_bytes=dice.choice((256, 1024, 4096)),
        block_cache_size_bytes=dice.choice((0, 65_536)),
        table_size_bytes=dice.choice((4096, 32_768)),
        level1_size_bytes=16_384,
        size_ratio=dice.randint(2, 4),
        compaction=dice.choice(("leveled", "tiered", "lazy-leveled")),
        compression=dice.choice(("none", "zstd")),
        filter_residency=dice.choice(("resident", "cached", "off")),
        filter_granularity=dice.choice(("block", "table")),
        background=background,
        process_job_size_bytes=dice.choice((0, 0, 20_000)),
    )


def apply_to_store(db: lsmkv.DB, todo: Operation) -> None:
    if todo.kind == "batch":
        write_batch(db, todo.changes, sync=todo.sync)
    elif todo.kind == "sync":
        db.sync()
    elif todo.kind == "flush":
        db.flush()
    elif todo.kind == "compact":
        db.compact_range()
    else:
        write(db, todo.changes, sync=todo.sync)


# --- the writer ----------------------------------------------------------------------------------


class DyingStorage(Storage):
    """Kills the process at its n-th change (0: never); an append writes its first half."""

    def __init__(self, die_at: int) -> None:
        super().__init__()
        self._left = die_at
        self._mutex = threading.Lock()

    def is_last(self) -> bool:
        """Count a change; return whether it must kill the process."""
        with self._mutex:
            self._left -= 1
            return self._left == 0

    def step(self) -> None:
        if self.is_last():
            die()

    def create(self, path: str) -> AppendFile:
        self.step()
        return super().create(path)

    def replace(self, source: str, target: str) -> None:
        self.step()
        super().replace(source, target)

    def remove(self, path: str) -> None:
        self.step()
        super().remove(path)

    def sync_directory(self, path: str) -> None:
        self.step()
        super().sync_directory(path)

    def _append_file(self, path: str, descriptor: int, offset: int) -> AppendFile:
        return _DyingFile(self, path, descriptor, offset)


class _DyingFile(AppendFile):
    def __init__(self, storage: DyingStorage, path: str, descriptor: int, offset: int) -> None:
        super().__init__(path, descriptor, offset)
        self._storage = storage

    def _write(self, data: bytes | memoryview, offset: int) -> int:
        if self._storage.is_last():
            super()._write(data[: len(data) // 2], offset)
            die()
        return super()._write(data, offset)

    def _sync(self) -> None:
        self._storage.step()
        super()._sync()

    def _extend(self, start: int, length: int) -> None:
        self._storage.step()
        super()._extend(start, length)

    def _truncate(self, length: int) -> None:
        self._storage.step()
        super()._truncate(length)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def write_until_killed(
    path: str, seed: int, turn: int, start: int, die_at: int, background: Background
) -> None:
    """Run in the child: report 0, open the store, report ``start`` and each acknowledged operation."""

    def report(number: int) -> None:
        os.write(sys.stdout.fileno(), _REPORT.pack(number))

    report(0)
    storage = DyingStorage(die_at) if background == "thread" else None
    db = lsmkv.open(path, options(seed, turn, background), storage=storage)
    number = start
    report(number)
    while True:
        number += 1
        apply_to_store(db, operation(seed, number))
        report(number)


# --- the checks ----------------------------------------------------------------------------------


class CrashLoop:
    """A store whose writer is killed in every round, and its model.

    Attributes:
        done: the number of the last operation that the store holds.
        model: the expected entries.
        counts: what was done in all rounds, by its name in the report.
    """

    def __init__(self, path: str, seed: int, background: Background = "thread") -> None:
        self.path = path
        self.seed = seed
        self.background = background
        self.turn = 0
        self.done = 0
        self.model: Contents = {}
        self.counts: Counter[str] = Counter()

    def run_round(self) -> None:
        """Write, kill and check; UnsoundError if a check fails."""
        self.turn += 1
        dice = random.Random(f"round {self.seed}/{self.turn}")
        die_at = 0
        run_s = LONGEST_RUN_S * dice.random()
        if self.background != "thread":  # the system calls of helper processes are not counted
            run_s *= 4
        elif dice.random() < 0.5:
            die_at = dice.randint(1, 20) if dice.random() < 0.5 else dice.randint(20, 3000)
            run_s = _LIMIT_S
        acknowledged = self._write_and_kill(die_at, run_s)
        self._check(acknowledged, read_only=dice.random() < 0.5)
        self.counts["writers killed"] += 1

    def _write_and_kill(self, die_at: int, run_s: float) -> int:
        """Let a child write; return the number of its last acknowledged operation."""
        writer = ("--writer", self.path, self.background)
        numbers = (self.seed, self.turn, self.done, die_at)
        with subprocess.Popen(
            command("torture.crash.kill_loop", *writer, *numbers),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
        ) as child:
            assert child.stdout is not None and child.stderr is not None
            # The faulthandler of a child that hangs while it opens the store tells where.
            killer = threading.Timer(_LIMIT_S, child.send_signal, (signal.SIGABRT,))
            killer.start()
            reports = child.stdout.read(_REPORT.size)
            killer.cancel()
            killer = threading.Timer(run_s, child.kill)
            killer.start()
            reports += child.stdout.read()
            killer.cancel()
            errors = child.stderr.read().decode(errors="replace")
        if child.returncode != -signal.SIGKILL:
            raise UnsoundError(f"the writer ended with {child.returncode}, not killed:\n{errors}")
        whole = len(reports) - len(reports) % _REPORT.size
        reported: list[int] = [number for (number,) in _REPORT.iter_unpack(reports[:whole])]
        if reported != [0, *range(self.done, self.done + len(reported) - 1)][: len(reported)]:
            raise UnsoundError("the writer's reports are out of order")
        if len(reported) < 2:
            self.counts["writers killed while opening"] += 1
            return self.done
        return reported[-1]

    def _check(self, acknowledged: int, *, read_only: bool) -> None:
        for number in range(self.done + 1, acknowledged + 1):
            done = operation(self.seed, number)
            change_model(self.model, done.changes)
            self.counts["operations synced"] += done.sync
        self.counts["operations acknowledged"] += acknowledged - self.done
        self.done = acknowledged
        try:
            db = lsmkv.open(self.path, options(self.seed, self.turn), read_only=read_only)
        except lsmkv.NotAStoreError:
            if read_only and not self.done:
                return  # the writer died while it made the store
            raise
        with db:
            self._compare(db)
            self.counts["tables verified"] += check_files(db).table_count

    def _compare(self, db: lsmkv.DB) -> None:
        found = dict(db.items())
        if found != self.model:
            following = dict(self.model)
            change_model(following, operation(self.seed, self.done + 1).changes)
            if found != following:
                raise UnsoundError(f"after {self.done} operations {difference(found, self.model)}")
            self.model = following
            self.done += 1
            self.counts["operations found unacknowledged"] += 1
        for number in range(KEYS):
            key = b"key-%05d" % number
            if db.get(key) != self.model.get(key):
                raise UnsoundError(f"get({key!r}) differs from the scan after {self.done}")


def run(path: str, seed: int, rounds: int, background: Background = "thread") -> Counter[str]:
    """Run rounds on a new store; UnsoundError names the seed and the round that failed."""
    loop = CrashLoop(path, seed, background)
    for _ in range(rounds):
        try:
            loop.run_round()
        except (UnsoundError, lsmkv.Error, OSError) as error:
            raise UnsoundError(
                f"seed {seed}, round {loop.turn}, after {loop.done} operations: "
                f"{type(error).__name__}: {error}"
            ) from error
    return loop.counts


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit status."""
    if arguments is None:
        arguments = sys.argv[1:]
    if arguments[:1] == ["--writer"]:
        path, background, *numbers = arguments[1:]
        seed, turn, start, die_at = map(int, numbers)
        write_until_killed(path, seed, turn, start, die_at, cast(Background, background))
    parser = argparse.ArgumentParser(prog="python -m torture.crash.kill_loop", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="kill the writer so often")
    parser.add_argument("--seed", type=int, help="seed of all random choices (default: random)")
    chosen = parser.parse_args(arguments)
    seed = random.randrange(1 << 32) if chosen.seed is None else chosen.seed
    path = tempfile.mkdtemp(prefix="lsmkv-crash-")
    print(f"seed {seed}, store in {path}", flush=True)
    try:
        counts = run(path, seed, chosen.rounds)
    except UnsoundError as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1
    print(", ".join(f"{number:,} {what}" for what, number in counts.items()))
    lsmkv.destroy(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
