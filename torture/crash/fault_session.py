"""A small workload on a failing disk, and checks for any failure.

A write that returned is *acknowledged*.  A write that raised is *doubtful*: it must be there as a
whole or not at all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, Protocol

import lsmkv
from lsmkv.storage.storage import Storage
from torture.framework.changes import Contents, change_model, write_batch
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

_SYNCS_CHECKED: Final = 3  # syncs after a failure that are checked by losing the power


class Remedy(Enum):
    """The program's reaction to a failure, once the disk works again."""

    RESUME = "resume"
    REOPEN = "reopen"
    CRASH = "crash"  # the power fails too, and the program opens the store again
    CLOSE = "close"  # the program closes the store, and then the power fails


class Mendable(Protocol):
    """A disk that fails for a while."""

    @property
    def storage(self) -> Storage:
        """The disk as it is now."""

    def heal(self) -> None:
        """Let everything work again."""

    def crash(self) -> None:
        """Lose all unsynced data."""

    def after_a_crash(self) -> Contents | None:
        """Contents of the store if the power failed now; None if the disk cannot tell."""


def cause_of(error: BaseException) -> OSError:
    """The OSError behind an error of the store; UnsoundError if there is none."""
    cause = error
    while isinstance(cause, lsmkv.BackgroundError) and cause.__cause__ is not None:
        cause = cause.__cause__
    if not isinstance(cause, OSError):
        raise UnsoundError(f"{error!r} has no OSError as its cause") from error
    return cause


class Session:
    """One run of the workload.

    Attributes:
        db: the store while it is open.
        failures: error numbers of the errors raised (the errors themselves would keep files open).
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
        self._syncs_to_check = _SYNCS_CHECKED
        self.db: lsmkv.DB | None = None
        self.failures: list[int | None] = []

    def run(self) -> None:
        """Write, flush, compact, close and reopen."""
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
                if self.db is not None:  # _mend opened it
                    return self.db
        raise UnsoundError("the store does not open on a disk that works again")

    def _write(self, changes: Changes, *, sync: bool = False) -> None:
        db = self._opened()
        self._maybe_synced.append(changes)
        try:
            write_batch(db, changes.items(), sync=sync)
        except (OSError, lsmkv.BackgroundError) as error:
            self._doubtful.append(changes)
            self._mend(error)
            return
        self._doubtful = [old for old in self._doubtful if not old.keys() & changes.keys()]
        change_model(self._acknowledged, changes.items())
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
        """Every write is synced now; after a failure, check that by losing the power."""
        self._synced = dict(self._acknowledged)
        self._maybe_synced = list(self._doubtful)
        if self.failures and self._syncs_to_check:
            self._syncs_to_check -= 1
            found = self._disk.after_a_crash()
            if found is not None:
                self.check_synced(found)

    # Failures

    def _mend(self, error: BaseException) -> None:
        """After a failure: check all entries, repair the disk, apply the remedy."""
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
                self._note_sync()  # close returned without an error
            self._crash()
        elif self.db is not None:
            if self._remedy is Remedy.RESUME:
                self.db.resume()
                self._note_sync()
            else:
                self._give_up()
                self._open()

    def _give_up(self) -> bool:
        """Close the store; return whether that worked."""
        db, self.db = self.db, None
        if db is None:
            return False
        try:
            db.close()
        except OSError:
            return False
        return True

    def _crash(self) -> None:
        """Lose the power, and check that every synced write is there."""
        self._disk.crash()
        self._give_up()  # it writes to the old disk, which is gone
        self.db = lsmkv.open(self._path, OPTIONS, storage=self._disk.storage)
        found = dict(self.db.items())
        self.check_synced(found)
        self._acknowledged, self._doubtful = found, []
        self._note_sync()

    def _read_past_one_failure(self, db: lsmkv.DB) -> list[tuple[bytes, bytes]]:
        """All entries; if the read fails, the disk is repaired for a second read."""
        try:
            return list(db.items())
        except OSError:
            self._disk.heal()
        return list(db.items())  # outside the handler, whose error keeps files open

    # Checks

    def check(self, found: Contents) -> None:
        """All acknowledged writes are there, and besides them only doubtful ones."""
        _check(found, self._acknowledged, self._doubtful, "acknowledged")

    def check_synced(self, found: Contents) -> None:
        """All synced writes are there, and besides them only later ones."""
        _check(found, self._synced, self._maybe_synced, "synced")


def _check(found: Contents, certain: Contents, maybe: list[Changes], what: str) -> None:
    allowed: dict[bytes, list[bytes | None]] = {}
    for changes in maybe:
        made = [found.get(key) == value for key, value in changes.items()]
        if any(made) and not all(made):
            raise UnsoundError(f"only a part of a batch is there: {sorted(changes)}")
        for key, value in changes.items():
            allowed.setdefault(key, []).append(value)
    for key in sorted(found.keys() | certain.keys()):
        value, expected = found.get(key), certain.get(key)
        if value != expected and value not in allowed.get(key, []):
            raise UnsoundError(
                f"{key!r} has value {value and value[:20]!r}, "
                f"but {expected and expected[:20]!r} was {what}"
            )
