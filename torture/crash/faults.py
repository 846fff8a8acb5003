"""``faults``: every operation on files fails in turn, once or from then on, and nothing is lost.

A small workload (:mod:`torture.crash.fault_session`) runs once to see what it asks of the disk.  Then it
runs again for each of these calls, with that call failing, for each way in which it may fail, and for
each remedy.  The disk is in memory, and forgets what a failed sync was to write, as kernels do.
Real disks that are really full are in :mod:`torture.crash.full_disk`.
"""

from __future__ import annotations

import errno
import gc
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import lsmkv
from torture.crash import full_disk
from torture.crash.disk import STORE, Image
from torture.crash.disk_storage import MemoryStorage
from torture.crash.examination import left_over
from torture.crash.fault_session import OPTIONS, Remedy, Session
from torture.crash.injection import Fault
from torture.crash.workloads import Contents
from torture.framework.part import Failure, Outcome, Part, Scale, Settings, UnsoundError
from torture.framework.timeout import HangsError, patiently

_MOST_FAILURES: Final = 20
_SHORT_BYTES: Final = 3
_PATIENCE_S: Final = 30.0  # a session takes some hundredths of a second
_ERROR_NUMBERS: Final = {name: number for number, name in errno.errorcode.items()}

SHORT: Final = "short"
"""A call that does a part of its work, and says so."""
FULL: Final = "short-then-ENOSPC"
"""A write of which a part still finds room."""
STUCK: Final = "short-then-ENOSPC-and-no-truncate"
"""The same, and what was written cannot be taken back."""
NO_FAULT: Final = "no-fault"
"""What ``--replay`` takes for the session without any."""
NEVER_MET: Final = "faults that no call met, because threads took another order"

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
"""How calls may fail; what is not listed fails with ``EIO``.  Lasting failures are tried, too, but for
those of :data:`_PASSING`."""

_PASSING: Final = ("EINTR", SHORT)

SHARES: Final = {Scale.CI: 0.06, Scale.SHORT: 1.0, Scale.LONG: 1.0}
"""Of how many faults a run tries."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One fault, and what is done about it: what ``--replay`` takes, as ``str``.

    Attributes:
        way: an error's name, or one of the ways above.
        lasts: it fails from then on, until the disk is mended.
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
        """The plan that ``str`` gave."""
        try:
            operation, way, lasting, remedy, after = text.split("/")
            plan = cls(operation, way, lasting == "on", Remedy(remedy), int(after))
            plan.faults()
        except (ValueError, KeyError):
            raise ValueError(
                f"{text!r} is no OPERATION/WAY/(once|on)/REMEDY/NUMBER of faults"
            ) from None
        return plan

    @property
    def is_harmless(self) -> bool:
        """Whether nobody should notice."""
        return self.way == SHORT or (self.operation == "append" and self.way == "EINTR")

    @property
    def errors(self) -> set[int]:
        """The error numbers that it may be told with (EIO is what later calls on a file say)."""
        name = "ENOSPC" if self.way in (FULL, STUCK) else self.way
        return {errno.EIO} if name == SHORT else {errno.EIO, _ERROR_NUMBERS[name]}

    def faults(self) -> list[Fault]:
        """What is to go wrong on the disk."""
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
        """Only what is synced now."""
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
    """Every way in which these calls may fail."""
    for operation in sorted(calls):
        for way in WAYS.get(operation, ("EIO",)):
            for lasts in (False,) if way in _PASSING else (False, True):
                for remedy in Remedy:
                    for after in range(calls[operation]):
                        yield Plan(operation, way, lasts, remedy, after)


def attempt(plan: Plan | None, storage_type: type[MemoryStorage]) -> bool:
    """Run the session with a fault, or without, and check everything; whether the disk failed."""
    threads = _our_threads()
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
    if _our_threads() - threads:
        raise UnsoundError(f"threads are left behind: {_our_threads() - threads}")
    for image, check in (
        (disk.storage.disk.everything(), session.check),
        (disk.storage.disk.the_least(), session.check_synced),
    ):
        again = MemoryStorage(image)
        with lsmkv.open(STORE, OPTIONS, storage=again, create_if_missing=False) as db:
            check(dict(db.items()))
            report = db.verify()
            if not report.ok:
                raise UnsoundError(f"verify: {report}")
            db.wait_until_settled()
            leftovers = left_over(again, STORE)
        if leftovers:
            raise UnsoundError(f"left over after the next opening: {', '.join(leftovers)}")
    del session
    for storage in (disk.storage, *disk.replaced):
        if storage.open_files:
            gc.collect()  # errors and the frames that they hold on to
        if storage.open_files:
            raise UnsoundError(f"left open: {', '.join(sorted(storage.open_files.values()))}")
    return fired


def _check_told(plan: Plan, session: Session, fired: bool) -> None:
    """What was raised is what the disk said, or a refusal because of it."""
    if plan.is_harmless and session.failures:
        raise UnsoundError(f"a call that is to be continued failed: {session.failures}")
    if not set(session.failures) <= plan.errors:
        raise UnsoundError(f"raised {session.failures}, not {plan.way}")
    if session.failures and not fired:
        raise UnsoundError(f"raised {session.failures} though nothing failed")


def _our_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("lsmkv")}


def run(settings: Settings, storage_type: type[MemoryStorage] = MemoryStorage) -> Outcome:
    """Fail every call in turn, and then fill real disks."""
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
            outcome.notes.append(f"given up after {number:,} faults: too many failures")
            break
        if time.monotonic() > deadline and number < len(wanted):
            outcome.notes.append(f"the time was up after {number:,} of {len(wanted):,} faults")
            break
    return outcome


def _chosen(settings: Settings, storage_type: type[MemoryStorage]) -> list[Plan]:
    """All faults of the calls that a session makes; or a sample of them, with every way in it."""
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
    "Whichever call to the operating system fails, and however: the writer is told the cause, readers "
    "go on, nothing acknowledged is lost (nor anything synced, if the power fails too), the store "
    "resumes or opens again once the cause is mended, and no thread, file or leftover stays behind.",
    run,
)
