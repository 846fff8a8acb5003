"""The part ``lost-manifests``: repair without a manifest must not call stale data complete.

The workloads of ``crash-states`` are recorded, and the power fails after operations on the disk.
CURRENT and all manifests are removed from the files that are left, and the rest is repaired.  These
files may include tables that compaction had replaced, unfinished tables, and logs that were flushed.
If the report says that the repair is complete, the result must equal the contents after some operation
of the workload, not before the last synced one.
"""

from __future__ import annotations

import random
import shutil
import time
from typing import Final

import lsmkv
from lsmkv.salvage.report import RepairReport
from torture.crash.disk import Disk, Image
from torture.crash.disk_states import State, states
from torture.crash.disk_storage import MemoryStorage
from torture.crash.workloads import VARIANTS, Bounds, Recording, Size, names, record
from torture.framework.changes import Contents
from torture.framework.part import Failure, Outcome, Part, Scale, Settings

_MOST_FAILURES: Final = 10


SIZES: Final = {
    Scale.CI: Size(operations=24, rounds=1, share=0.02, samples=1),
    Scale.SHORT: Size(operations=60, rounds=1, share=0.1, samples=3),
    Scale.LONG: Size(operations=200, rounds=50, share=0.3, samples=8),
}
"""The share is that of the crash points to try."""


class Losses:
    """Repairs without a manifest after crashes of one workload."""

    def __init__(self, name: str, settings: Settings, size: Size, deadline: float) -> None:
        self.outcome = Outcome()
        self._name = name
        self._settings = settings
        self._size = size
        self._deadline = deadline
        self._recording: Recording = record(name, settings.seed, size.operations, MemoryStorage())
        self._seen: set[int] = set()
        self._done = 0

    def run(self, only: tuple[int, int] | None = None) -> Outcome:
        """Try a sample of the crash points, or only the given one."""
        disk, bounds = Disk(), Bounds()
        dice = random.Random(f"lost manifests {self._settings.seed} {self._name}")
        for number, operation in enumerate(self._recording.operations):
            disk.apply(operation)
            bounds = bounds.after(operation)
            if dice.random() > self._size.share and only is None:
                continue
            if only is not None and number != only[0]:
                continue
            seed = f"{self._settings.seed} {self._name} {number}"
            for at, state in enumerate(states(disk, seed, self._size.samples)):
                if only is None or at == only[1]:
                    self._try(f"{self._name}/{number}/{at}", state, bounds)
            if time.monotonic() > self._deadline:
                self.outcome.notes.append(f"time was up after operation {number} of {self._name}")
                break
            if len(self.outcome.failures) >= _MOST_FAILURES:
                break
        return self.outcome

    def _try(self, place: str, state: State, bounds: Bounds) -> None:
        image = {
            name: data
            for name, data in state.image.items()
            if not name.startswith(("CURRENT", "MANIFEST"))
        }
        kind = hash(frozenset(image.items()))
        if kind in self._seen or not any(name.endswith((".sst", ".log")) for name in image):
            return
        self._seen.add(kind)
        counts = self.outcome.counts
        counts["stores repaired"] += 1
        try:
            report, found = self._repaired(image)
        except (lsmkv.Error, OSError) as error:
            self._fail(place, state, f"{type(error).__name__}: {error}")
            return
        counts["tables ignored because others replaced them"] += report.tables_ignored
        if not report.is_complete:
            counts["with losses"] += 1
            return
        counts["complete"] += 1
        first = bounds.done if state.is_whole else bounds.synced
        if found not in self._recording.models[first : bounds.begun + 1]:
            self._fail(place, state, "the report says nothing of missing data")

    def _fail(self, place: str, state: State, problem: str) -> None:
        self.outcome.failures.append(Failure(f"{place}: {state.what}: {problem}", place))

    def _repaired(self, image: Image) -> tuple[RepairReport, Contents]:
        self._done += 1
        store = self._settings.directory / f"store-{self._done}"
        output = self._settings.directory / f"output-{self._done}"
        store.mkdir()
        try:
            for name, data in image.items():
                (store / name).write_bytes(data)
            report = lsmkv.repair(store, output)
            with lsmkv.open(output, read_only=True) as db:
                return report, dict(db.items())
        finally:
            shutil.rmtree(store)
            shutil.rmtree(output, ignore_errors=True)


def run(settings: Settings, size: Size | None = None) -> Outcome:
    """Try every workload, or the state that ``settings.replay`` names."""
    size = size or SIZES[settings.scale]
    deadline = time.monotonic() + settings.time_limit_s
    total = Outcome()
    only: tuple[int, int] | None = None
    wanted = names(size.rounds)
    if settings.replay is not None:
        name, *numbers = settings.replay.split("/")
        if name.partition("-x")[0] not in VARIANTS or len(numbers) != 2:
            raise ValueError(
                f"{settings.replay!r} is not a WORKLOAD/OPERATION/STATE of lost-manifests"
            )
        wanted, only = [name], (int(numbers[0]), int(numbers[1]))
    for at, name in enumerate(wanted):
        if time.monotonic() > deadline:
            total.notes.append(f"the time was up: {len(wanted) - at} workloads were not run")
            break
        share = (deadline - time.monotonic()) / (len(wanted) - at)
        outcome = Losses(name, settings, size, time.monotonic() + share).run(only)
        total.counts.update(outcome.counts)
        total.failures += outcome.failures
        total.notes += outcome.notes
    return total


PART: Final = Part(
    "lost-manifests",
    "After a power failure that also loses the manifest, repair makes a store, and what it calls "
    "complete is what was written, with everything that was synced.",
    run,
)
