"""The part ``faults``: every call on files fails in turn, once or from then on.

A small workload (:mod:`torture.crash.fault_session`) runs once to count its calls.  Then it runs again
for each call, each way in which that call may fail, and each remedy.  The disk is in memory; like a
kernel, it drops the data that a failed sync did not write.  :mod:`torture.crash.full_disk` fills real
disks.
"""

from __future__ import annotations

import errno
import gc
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import lsmkv
from torture.crash import full_disk
from torture.crash.disk import STORE, Image
from torture.crash.disk_storage import MemoryStorage
from torture.crash.fault_session import OPTIONS, Remedy, Session
from torture.crash.injection import Fault
from torture.framework.changes import Contents
from torture.framework.part import Failure, Outcome, Part, Scale, Settings, UnsoundError
from torture.framework.store_checks import check_files, check_no_leftovers, store_threads
from torture.framework.timeout import HangsError, patiently

_MOST_FAILURES: Final = 20
_SHORT_BYTES: Final = 3
_PATIENCE_S: Final = 30.0  # a session takes some hundredths of a second
_ERROR_NUMBERS: Final = {name: number for number, name in errno.errorcode.items()}

SHORT: Final = "short"  # a call that reads or writes only a part, and returns how much
FULL: Final = "short-then-ENOSPC"  # a write of which only a part has room on the disk
STUCK: Final = "short-then-ENOSPC-and-no-truncate"
"""The same, and the file cannot be cut to its old length."""
NO_FAULT: Final = "no-fault"  # argument of --replay for the session without a fault
NEVER_MET: Final = "faults that no call met, because threads ran in another order"

WAYS: Final[dict[str, tuple[str, ...]]] = {
    "append": ("EIO", "ENOSPC", "EDQUOT", "EINTR", SHORT, FULL, STUCK),
    "sync": ("EIO", "ENOSPC", "EINTR"),
    "create": ("EIO", "ENOSPC", "EMFILE", "EACCES"),
    "open_append": ("EIO", "EMFILE"),
    "open_random": ("EIO", "EMFILE"),
    "pread": ("EIO", "EINTR", SHORT),
    "replace": ("EIO", "ENOSPC"),
    "sync_directory": ("EIO", "EINTR"),
    "lock": ("EIO", "ENOLCK"),
}
"""Ways in which each call may fail; other calls fail with ``EIO``."""

_PASSING: Final = ("EINTR", SHORT)  # ways that are tried once, but not from then on

SHARES: Final = {Scale.CI: 0.06, Scale.SHORT: 1.0, Scale.LONG: 1.0}
"""Share of the faults that a run tries."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One fault and its remedy; ``str`` gives the argument of ``--replay``.

    Attributes:
        way: an error's name, or one of the ways above.
        lasts: all later calls fail too, until the disk works again.
        after: calls of the operation that succeed first.
    """

    operation: str
    way: str
    lasts: bool
    remedy: Remedy
    after: int

    def __str__(self) -> str:
        lasting = "on" if self.lasts else "once"
        return "/".join((self.operation, self.way, lasting, self.remedy.value, str(self.after)))

    @classmethod
    def parsed(cls, text: str) -> Plan:
        """The plan that ``text`` names; ValueError if there is no such plan."""
        try:
            operation, way, lasting, remedy, after = text.split("/")
            plan = cls(operation, way, lasting == "on", Remedy(remedy), int(after))
            plan.faults()
        except (ValueError, KeyError):
            raise ValueError(
                f"{text!r} is not an OPERATION/WAY/(once|on)/REMEDY/NUMBER of faults"
            ) from None
        return plan

    @property
    def is_harmless(self) -> bool:
        """Whether the store must hide the fault."""
        return self.way == SHORT or (self.operation == "append" and self.way == "EINTR")

    @property
    def errors(self) -> set[int]:
        """Error numbers that the store may raise; later calls on a failed file raise EIO."""
        name = "ENOSPC" if self.way in (FULL, STUCK) else self.way
        return {errno.EIO} if name == SHORT else {errno.EIO, _ERROR_NUMBERS[name]}

    def faults(self) -> list[Fault]:
        times = None if self.lasts else 1
        short = Fault(self.operation, after=self.after, short=_SHORT_BYTES)
        full = Fault(self.operation, errno.ENOSPC, self.after, times)
        if self.way == SHORT:
            return [short]
        if self.way == FULL:
            return [short, full]
        if self.way == STUCK:
            return [short, full, Fault("truncate", errno.EIO, 0, times)]
        return [Fault(self.operation, _ERROR_NUMBERS[self.way], self.after, times)]


class FailingDisk:
    """A disk in memory for a :class:`Session`."""

    def __init__(self, storage_type: type[MemoryStorage]) -> None:
        self._type = storage_type
        self.storage = storage_type()
        self.replaced: list[MemoryStorage] = []

    def heal(self) -> None:
        self.storage.faults.heal()

    def the_least(self) -> Image:
        """Files with only their synced data."""
        with self.storage.mutex:
            return self.storage.disk.the_least()

    def crash(self) -> None:
        image = self.the_least()
        self.replaced.append(self.storage)
        self.storage = self._type(image)

    def after_a_crash(self) -> Contents:
        image = self.the_least()
        with lsmkv.open(STORE, OPTIONS, storage=MemoryStorage(image)) as db:
            return dict(db.items())


def plans(calls: dict[str, int]) -> Iterator[Plan]:
    """Every way in which the counted calls may fail."""
    for operation in sorted(calls):
        for way in WAYS.get(operation, ("EIO",)):
            for lasts in (False,) if way in _PASSING else (False, True):
                for remedy in Remedy:
                    for after in range(calls[operation]):
                        yield Plan(operation, way, lasts, remedy, after)


def attempt(plan: Plan | None, storage_type: type[MemoryStorage]) -> bool:
    """Run the session with or without a fault and check it; return whether a call failed."""
    threads = store_threads()
    disk = FailingDisk(storage_type)
    faults = [disk.storage.faults.add(fault) for fault in (plan.faults() if plan else ())]
    session = Session(
        STORE,
        disk,
        plan.remedy if plan else Remedy.RESUME,
        tries_too_early=plan is not None and plan.lasts,
    )
    session.run()
    disk.heal()
    fired = any(fault.fired for fault in faults)
    if plan is not None:
        _check_told(plan, session, fired)
    if store_threads() - threads:
        raise UnsoundError(f"threads are still running: {store_threads() - threads}")
    for image, check in (
        (disk.storage.disk.everything(), session.check),
        (disk.storage.disk.the_least(), session.check_synced),
    ):
        again = MemoryStorage(image)
        with lsmkv.open(STORE, OPTIONS, storage=again, create_if_missing=False) as db:
            check(dict(db.items()))
            check_files(db)
            check_no_leftovers(db, again)
    del session
    for storage in (disk.storage, *disk.replaced):
        if storage.open_files:
            gc.collect()  # frees errors, whose frames hold files
        if storage.open_files:
            raise UnsoundError(f"files stay open: {', '.join(sorted(storage.open_files.values()))}")
    return fired


def _check_told(plan: Plan, session: Session, fired: bool) -> None:
    """The store must raise the disk's error exactly if a call failed."""
    if plan.is_harmless and session.failures:
        raise UnsoundError(f"the store did not hide {plan.way}, but raised {session.failures}")
    if not set(session.failures) <= plan.errors:
        raise UnsoundError(f"the store raised error numbers {session.failures} after {plan.way}")
    if session.failures and not fired:
        raise UnsoundError(f"the store raised {session.failures}, but no call failed")


def run(settings: Settings, storage_type: type[MemoryStorage] = MemoryStorage) -> Outcome:
    """Try every fault, and fill real disks."""
    outcome = Outcome()
    deadline = time.monotonic() + settings.time_limit_s
    if settings.replay is not None and settings.replay in full_disk.NAMES:
        full_disk.run(settings, outcome, deadline)
        return outcome
    if settings.replay in (None, NO_FAULT):
        _try(None, outcome, storage_type)
    if outcome.failures or settings.replay == NO_FAULT:
        return outcome
    if settings.replay is not None:
        wanted = [Plan.parsed(settings.replay)]
    else:
        full_disk.run(settings, outcome, deadline)
        wanted = _chosen(settings, storage_type)
    for number, plan in enumerate(wanted, 1):
        _try(plan, outcome, storage_type)
        if len(outcome.failures) >= _MOST_FAILURES:
            outcome.notes.append(f"stopped after {number:,} faults: too many failures")
            break
        if time.monotonic() > deadline and number < len(wanted):
            outcome.notes.append(f"the time was up after {number:,} of {len(wanted):,} faults")
            break
    return outcome


def _chosen(settings: Settings, storage_type: type[MemoryStorage]) -> list[Plan]:
    """All faults of a session's calls, or a sample with every way."""
    disk = FailingDisk(storage_type)
    Session(STORE, disk, Remedy.RESUME).run()
    every = list(plans(dict(disk.storage.faults.calls)))
    share = SHARES[settings.scale]
    dice = random.Random(f"faults {settings.seed}")
    return [plan for plan in every if plan.after == 0 or dice.random() < share]


def _try(plan: Plan | None, outcome: Outcome, storage_type: type[MemoryStorage]) -> None:
    counts = outcome.counts
    counts["sessions"] += 1
    try:
        fired = patiently(partial(attempt, plan, storage_type), _PATIENCE_S)
    except (UnsoundError, HangsError, AssertionError, lsmkv.Error, OSError) as error:
        name = str(plan or NO_FAULT)
        what = f"{name}: {type(error).__name__}: {error}"
        outcome.failures.append(Failure(what, name))
        return
    if plan is not None:
        counts[f"{plan.operation}: {plan.way}" if fired else NEVER_MET] += 1


PART: Final = Part(
    "faults",
    "Whichever call to the operating system fails, and however: the writer gets the cause, readers "
    "go on, no acknowledged write is lost (and no synced write, if the power fails too). Once the cause "
    "is gone, the store resumes or opens again. No thread, open file or unneeded file is left.",
    run,
)
