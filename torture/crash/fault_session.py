"""A small workload on a disk where something fails, and what must hold whatever fails.

What a write that returned has made of the contents is *acknowledged*; what a write that raised was
to make of them is *doubtful*: it is there as a whole or not at all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, Protocol

import lsmkv
from lsmkv.storage.storage import Storage
from torture.crash.workloads import Contents
from torture.framework.part import UnsoundError

Changes = dict[bytes, bytes | None]

OPTIONS: Final = lsmkv.Options(
    write_buffer_size_bytes=4096,
    level0_compaction_trigger=2,
    block_size_bytes=512,
    level1_size_bytes=32768,
    table_size_bytes=16384,
    compression="none",
)


_SUSPICIONS: Final = 3
"""So many syncs after a failure are checked by losing the power."""


class Remedy(Enum):
    """What the program does after a failure, once the disk works again."""

    RESUME = "resume"
    REOPEN = "reopen"
    CRASH = "crash"  # the power fails, too; then it opens what is left
    CLOSE = "close"  # it closes the store, and the power fails after that


class Mendable(Protocol):
    """A disk that fails for a while."""

    @property
    def storage(self) -> Storage:
        """The disk as it is now."""

    def heal(self) -> None:
        """Let everything work again."""

    def crash(self) -> None:
        """Lose what was not synced."""

    def after_a_crash(self) -> Contents | None:
        """What the store would hold if the power failed now; None where that cannot be told."""


def cause_of(error: BaseException) -> OSError:
    """The failure of the disk that an error tells of."""
    told = error
    while isinstance(told, lsmkv.BackgroundError) and told.__cause__ is not None:
        told = told.__cause__
    if not isinstance(told, OSError):
        raise UnsoundError(f"{error!r} does not tell of a failure of the disk") from error
    return told


class Session:
    """The workload, step by step.

    Attributes:
        db: the store, when it is open.
        failures: the error numbers of what was raised (errors themselves would hold on to files).
    """

    def __init__(
        self, path: str, disk: Mendable, remedy: Remedy, *, tries_too_early: bool = False
    ) -> None:
        self._path = path
        self._disk = disk
        self._remedy = remedy
        self._tries_too_early = tries_too_early
        self._acknowledged: Contents = {}
        self._doubtful: list[Changes] = []
        self._synced: Contents = {}
        self._maybe_synced: list[Changes] = []
        self._suspicions = _SUSPICIONS
        self.db: lsmkv.DB | None = None
        self.failures: list[int | None] = []

    def run(self) -> None:
        """The whole workload: writing, rotating, flushing, merging, closing, reopening."""
        self._open()
        self._write({b"first": b"1"})
        self._write({b"synced": b"2"}, sync=True)
        self._write({b"batch-%d" % number: b"3" * 20 for number in range(5)})
        self._write({b"synced-batch-%d" % number: b"4" * 20 for number in range(5)}, sync=True)
        self._write({b"first": None})
        for number in range(0, 30, 2):
            self._write({b"number-%02d" % number: b"x" * 700})
        self._upkeep(lambda db: db.wait_until_settled())
        for number in range(1, 30, 4):
            self._write({b"number-%02d" % number: b"y" * 700}, sync=number % 8 == 1)
        self._upkeep(lambda db: db.flush(), syncs=True)
        self._upkeep(lambda db: db.compact_range(), syncs=True)
        self._write({b"after": b"5"})
        self._upkeep(lambda db: db.sync(), syncs=True)
        self._close()
        self._open()
        self._write({b"reopened": b"6"})
        self._upkeep(lambda db: db.flush(), syncs=True)
        self._write({b"last": b"7"})
        self._close()

    # Steps

    def _opened(self) -> lsmkv.DB:
        return self._open() if self.db is None else self.db  # an empty store is false

    def _open(self) -> lsmkv.DB:
        for _ in range(2):
            try:
                self.db = lsmkv.open(self._path, OPTIONS, storage=self._disk.storage)
                self._note_sync()
                return self.db
            except OSError as error:
                self._mend(error)
                if self.db is not None:  # which opened it
                    return self.db
        raise UnsoundError("it does not open on a disk that works again")

    def _write(self, changes: Changes, *, sync: bool = False) -> None:
        db = self._opened()
        self._maybe_synced.append(changes)
        try:
            with db.write_batch(sync=sync) as batch:
                for key, value in changes.items():
                    if value is None:
                        batch.delete(key)
                    else:
                        batch.put(key, value)
        except (OSError, lsmkv.BackgroundError) as error:
            self._doubtful.append(changes)
            self._mend(error)
            return
        self._doubtful = [old for old in self._doubtful if not old.keys() & changes.keys()]
        for key, value in changes.items():
            if value is None:
                self._acknowledged.pop(key, None)
            else:
                self._acknowledged[key] = value
        if sync:
            self._note_sync()

    def _upkeep(self, job: Callable[[lsmkv.DB], Any], *, syncs: bool = False) -> None:
        try:
            job(self._opened())
            if syncs:
                self._note_sync()
        except (OSError, lsmkv.BackgroundError) as error:
            self._mend(error)

    def _close(self) -> None:
        db, self.db = self.db, None
        if db is not None:
            try:
                db.close()
                self._note_sync()
            except OSError as error:
                self.failures.append(error.errno)
                self._disk.heal()

    def _note_sync(self) -> None:
        """All that was written is synced now; after a failure, see whether that is true."""
        self._synced = dict(self._acknowledged)
        self._maybe_synced = list(self._doubtful)
        if self.failures and self._suspicions:
            self._suspicions -= 1
            found = self._disk.after_a_crash()
            if found is not None:
                self.check_synced(found)

    # Trouble

    def _mend(self, error: BaseException) -> None:
        """After a failure: read everything, have the disk work again, and go on."""
        self.failures.append(cause_of(error).errno)
        if self.db is not None:
            self.check(dict(self._read_past_one_failure(self.db)))
            if self._tries_too_early and self._remedy is Remedy.RESUME:
                with contextlib.suppress(OSError, lsmkv.BackgroundError):
                    self.db.resume()
                self.check(dict(self._read_past_one_failure(self.db)))
        self._disk.heal()
        if self._remedy is Remedy.CRASH:
            self._crash()
        elif self._remedy is Remedy.CLOSE:
            if self._give_up():
                self._note_sync()  # what closing without an error promises
            self._crash()
        elif self.db is not None:
            if self._remedy is Remedy.RESUME:
                self.db.resume()
                self._note_sync()
            else:
                self._give_up()
                self._open()

    def _give_up(self) -> bool:
        """Close, whether that works or not; whether it did."""
        db, self.db = self.db, None
        if db is None:
            return False
        try:
            db.close()
        except OSError:
            return False
        return True

    def _crash(self) -> None:
        """Lose the power, and see that everything synced is there."""
        self._disk.crash()
        self._give_up()  # what is left of the process writes to a disk that is no more
        self.db = lsmkv.open(self._path, OPTIONS, storage=self._disk.storage)
        found = dict(self.db.items())
        self.check_synced(found)
        self._acknowledged, self._doubtful = found, []
        self._note_sync()

    @staticmethod
    def _heal_and_read(disk: Mendable, db: lsmkv.DB) -> list[tuple[bytes, bytes]]:
        disk.heal()
        return list(db.items())

    def _read_past_one_failure(self, db: lsmkv.DB) -> list[tuple[bytes, bytes]]:
        """All entries; a read that is itself what fails is tried once more on a mended disk."""
        try:
            return list(db.items())
        except OSError:
            return self._heal_and_read(self._disk, db)

    # What must hold

    def check(self, found: Contents) -> None:
        """Everything acknowledged is there; what else is there was at least asked for."""
        _check(found, self._acknowledged, self._doubtful, "acknowledged")

    def check_synced(self, found: Contents) -> None:
        """Everything synced is there; what else is there was at least asked for."""
        _check(found, self._synced, self._maybe_synced, "synced")


def _check(found: Contents, certain: Contents, maybe: list[Changes], what: str) -> None:
    allowed: dict[bytes, list[bytes | None]] = {}
    for changes in maybe:
        made = [found.get(key) == value for key, value in changes.items()]
        if any(made) and not all(made):
            raise UnsoundError(f"half a batch is there: {sorted(changes)}")
        for key, value in changes.items():
            allowed.setdefault(key, []).append(value)
    for key in sorted(found.keys() | certain.keys()):
        value, expected = found.get(key), certain.get(key)
        if value != expected and value not in allowed.get(key, []):
            raise UnsoundError(
                f"{key!r} is {value and value[:20]!r}, {what} was {expected and expected[:20]!r}"
            )
