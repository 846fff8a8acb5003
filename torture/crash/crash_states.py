"""The part ``crash-states``: the power fails after every operation on the disk.

A workload is recorded on a disk in memory (:mod:`torture.crash.workloads`).  After each operation
on that disk, every state that a crash may leave (:mod:`torture.crash.disk_states`) is opened and
examined (:mod:`torture.crash.examination`).  For some states the recovery is recorded too, and the
power fails again after each of its operations.  A state that occurs again is not opened again: only
its contents are compared with what must be there by now.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final
from unittest import mock

import lsmkv
from torture.crash.disk import STORE, Disk, replayed
from torture.crash.disk_states import State, states
from torture.crash.disk_storage import MemoryStorage
from torture.crash.examination import Examiner, Verdict
from torture.crash.workloads import SMALL, VARIANTS, Bounds, Recording, Size, names, record
from torture.framework.ordered_background import in_order
from torture.framework.part import Failure, Outcome, Part, Scale, Settings

_MOST_FAILURES: Final = 5  # of one workload, which then ends: one defect fails many states
_AFTER_RECOVERY: Final = (b"after-recovery", b"1")
_WHOLE_WEIGHT: Final = 10  # how much likelier a second crash is if only the process ended


SIZES: Final = {
    Scale.CI: Size(operations=24, rounds=1, samples=1, share=0.004),
    Scale.SHORT: Size(operations=40, rounds=1, samples=2, share=0.01),
    Scale.LONG: Size(operations=150, rounds=100, samples=12, share=0.03),
}
"""The share is that of the distinct states whose recovery crashes too."""


@dataclass(frozen=True, slots=True)
class Place:
    """One state after one crash; ``str`` gives the argument of ``--replay``."""

    workload: str
    operation: int
    state: int
    second_operation: int | None = None
    second_state: int | None = None

    def __str__(self) -> str:
        parts = [self.workload, self.operation, self.state, self.second_operation]
        return "/".join(str(p) for p in [*parts, self.second_state] if p is not None)

    @classmethod
    def parsed(cls, text: str) -> Place:
        """The place that ``text`` names; ValueError if there is no such place."""
        name, *numbers = text.split("/")
        if name.partition("-x")[0] not in VARIANTS or len(numbers) not in (2, 4):
            raise ValueError(
                f"{text!r} is not a WORKLOAD/OPERATION/STATE[/OPERATION/STATE] of crash-states"
            )
        return cls(name, *map(int, numbers))


class Crashes:
    """All crashes of one workload; tests pass a broken ``storage_type``."""

    def __init__(
        self,
        name: str,
        settings: Settings,
        size: Size,
        deadline: float,
        storage_type: type[MemoryStorage] = MemoryStorage,
    ) -> None:
        self.outcome = Outcome()
        self._counts: Counter[str] = self.outcome.counts
        self._seed = settings.seed
        self._size = size
        self._deadline = deadline
        self._name = name
        self._recording: Recording = record(name, settings.seed, size.operations, storage_type())
        models = self._recording.models
        later = [{**model, _AFTER_RECOVERY[0]: _AFTER_RECOVERY[1]} for model in models]
        self._examiner = Examiner([*models, *later], self._counts)
        self._dice = random.Random(f"second crashes {settings.seed} {name}")

    def run(self) -> Outcome:
        """Crash after every operation on the disk."""
        operations = self._recording.operations
        self._counts["workloads"] += 1
        self._counts["operations of stores recorded"] += len(self._recording.models) - 1
        disk, bounds = Disk(), Bounds()
        for number, operation in enumerate(operations):
            disk.apply(operation)
            bounds = bounds.after(operation)
            if operation.kind != "note":
                self._counts["operations on the disk"] += 1
            self._counts["crash points"] += 1
            for place, state in self._states(disk, number):
                self._counts["states"] += 1
                verdict, is_new = self._examiner.examine(state.image)
                self._judge(place, state.what, verdict, _allowed(bounds, state), is_new)
                share = self._size.share * (_WHOLE_WEIGHT if state.is_whole else 1)
                if is_new and verdict.matches and self._dice.random() < share:
                    self._crash_again(place, state, verdict)
            if time.monotonic() > self._deadline:
                done = f"{number + 1:,} of {len(operations):,} crash points of {self._name}"
                self.outcome.notes.append(f"the time was up after {done}")
                break
            if len(self.outcome.failures) >= _MOST_FAILURES:
                break
        return self.outcome

    def _states(self, disk: Disk, number: int) -> Iterator[tuple[Place, State]]:
        found = states(disk, f"{self._seed} {self._name} {number}", self._size.samples)
        for at, state in enumerate(found):
            yield Place(self._name, number, at), state

    def _recovery(self, place: Place, state: State) -> Iterator[tuple[int, Disk, bool]]:
        """The disk after each operation of a recovery and a write; is the write synced?"""

        def start() -> Disk:
            if state.is_whole:
                return replayed(self._recording.operations[: place.operation + 1])
            return Disk(state.image)

        storage = MemoryStorage()
        storage.disk = start()
        dice = random.Random(f"bytes {self._seed} {place}")
        with in_order(), mock.patch.object(os, "urandom", dice.randbytes):
            db = lsmkv.open(STORE, SMALL, storage=storage)
            db.put(*_AFTER_RECOVERY, sync=True)
            storage.note("synced", 0)
            db.wait_until_settled()
            db.close()
        disk, is_synced = start(), False
        for number, operation in enumerate(storage.operations):
            disk.apply(operation)
            is_synced |= operation.kind == "note"
            yield number, disk, is_synced

    def _second_states(
        self, place: Place, state: State, first: Verdict
    ) -> Iterator[tuple[Place, State, tuple[int, ...]]]:
        """States after a second crash, and their allowed models: a power failure changes no more."""
        bounds = replay_bounds(self._recording, place.operation)
        recovered = first.matches
        if state.is_whole:
            recovered = tuple(range(bounds.synced, max(first.matches) + 1))
        written = tuple(number + len(self._recording.models) for number in first.matches)
        for step, disk, is_synced in self._recovery(place, state):
            seed = f"{self._seed} {place} {step}"
            for at, again in enumerate(states(disk, seed, samples=-1)):
                second = Place(place.workload, place.operation, place.state, step, at)
                yield second, again, written if is_synced else recovered + written

    def _all_second_states(
        self, place: Place, state: State, first: Verdict
    ) -> list[tuple[Place, State, tuple[int, ...]]]:
        """All of :meth:`_second_states`; none, and a failure, if the recovery raises."""
        try:
            return list(self._second_states(place, state, first))
        except (lsmkv.Error, OSError, AssertionError) as error:
            problem = f"recovery, or the write after it, raised {type(error).__name__}: {error}"
            what = self._sentence(place, state.what, problem)
            self.outcome.failures.append(Failure(what, str(place)))
            return []

    def _crash_again(self, place: Place, state: State, first: Verdict) -> None:
        """Recover from ``state``, write, and crash after each operation on the disk."""
        self._counts["recoveries cut short"] += 1
        last: int | None = None
        for second, again, allowed in self._all_second_states(place, state, first):
            self._counts["crash points of recoveries"] += second.second_operation != last
            last = second.second_operation
            self._counts["states after recoveries cut short"] += 1
            verdict, is_new = self._examiner.examine(again.image)
            what = f"{state.what}; then operation {last} of the recovery: {again.what}"
            self._judge(second, what, verdict, allowed, is_new)

    def _judge(
        self, place: Place, what: str, verdict: Verdict, allowed: tuple[int, ...], is_new: bool
    ) -> None:
        problem = verdict.problem
        if problem and not is_new:
            return  # it is reported already
        if not problem and not set(allowed) & set(verdict.matches):
            count = len(self._recording.models)
            problem = (
                f"its contents are those {_after(verdict.matches, count)}, "
                f"expected those {_after(allowed, count)}"
            )
        if problem:
            self.outcome.failures.append(Failure(self._sentence(place, what, problem), str(place)))

    def _sentence(self, place: Place, what: str, problem: str) -> str:
        operation = self._recording.operations[place.operation]
        kinds = self._recording.kinds
        before = replay_bounds(self._recording, place.operation)
        return (
            f"seed {self._seed}, workload {self._name}, crash after disk operation "
            f"{place.operation} ({operation}; in operation {before.begun} of the workload, "
            f"{kinds[before.begun]}; {before.synced} is synced), {what}: {problem}"
        )

    def replay(self, place: Place) -> Outcome:
        """Try one state, and keep its files for inspection."""
        operations = self._recording.operations
        disk = replayed(operations[: place.operation + 1])
        bounds = replay_bounds(self._recording, place.operation)
        first_place, state = _nth(self._states(disk, place.operation), place.state)
        what, allowed = state.what, _allowed(bounds, state)
        verdict = self._examiner.examine(state.image)[0]
        is_second = place.second_operation is not None
        if is_second:
            found = self._second_states(first_place, state, verdict)
            again, allowed = next(item[1:] for item in found if item[0] == place)
            what = f"{what}; then operation {place.second_operation} of the recovery: {again.what}"
            state, verdict = again, self._examiner.examine(again.image)[0]
        kept = tempfile.mkdtemp(prefix="lsmkv-torture-")
        for name, data in state.image.items():
            with open(os.path.join(kept, name), "wb") as file:
                file.write(data)
        self._counts["states"] += 1
        self._judge(place, what, verdict, allowed, True)
        if verdict.matches and not is_second and not self.outcome.failures:
            self._all_second_states(place, state, verdict)  # the recovery may be what failed
        self.outcome.notes.append(f"the files of the state ({what}) are kept in {kept}")
        return self.outcome


def replay_bounds(recording: Recording, number: int) -> Bounds:
    """How far the workload was after disk operation ``number``."""
    bounds = Bounds()
    for operation in islice(recording.operations, number + 1):
        bounds = bounds.after(operation)
    return bounds


def _allowed(bounds: Bounds, state: State) -> tuple[int, ...]:
    """Numbers of the models that the state may equal."""
    return tuple(range(bounds.done if state.is_whole else bounds.synced, bounds.begun + 1))


def _after(numbers: tuple[int, ...], count: int) -> str:
    """Numbers of models in words; from ``count`` on they have the write after the recovery too."""
    words = [
        f"{number}" if number < count else f"{number - count} and the write after the recovery"
        for number in numbers
    ]
    if not words:
        return "after no operation"
    return f"after operation {' or '.join(words[:3])}{' ...' * (len(words) > 3)}"


def _nth(items: Iterator[tuple[Place, State]], number: int) -> tuple[Place, State]:
    for item in islice(items, number, None):
        return item
    raise ValueError(f"there is no state {number}: use the seed and the scale of the failure")


def run(
    settings: Settings, size: Size | None = None, storage_type: type[MemoryStorage] = MemoryStorage
) -> Outcome:
    """Try every crash of every workload, or the one that ``settings.replay`` names."""
    size = size or SIZES[settings.scale]
    deadline = time.monotonic() + settings.time_limit_s
    place = None if settings.replay is None else Place.parsed(settings.replay)
    wanted = names(size.rounds) if place is None else [place.workload]
    total = Outcome()
    for at, name in enumerate(wanted):
        if time.monotonic() > deadline:
            total.notes.append(f"the time was up: {len(wanted) - at} workloads were not run")
            break
        try:
            crashes = Crashes(name, settings, size, deadline, storage_type)
        except (lsmkv.Error, OSError, AssertionError) as error:
            what = f"seed {settings.seed}, workload {name}, without any crash: "
            what += f"{type(error).__name__}: {error}"
            total.failures.append(Failure(what, str(place or Place(name, 0, 0))))
            continue
        outcome = crashes.run() if place is None else crashes.replay(place)
        total.counts.update(outcome.counts)
        total.failures += outcome.failures
        total.notes += outcome.notes
    return total


PART: Final = Part(
    "crash-states",
    "Whenever the power fails, during recovery too, the store opens without repair. It holds a prefix "
    "of the writes, whole batches, and every synced write. No file is left over, and it takes writes.",
    run,
)
