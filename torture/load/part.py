"""The part ``load``: many threads and processes use a store at once, for long.

Each scenario is a module of its own.  Readers check what they see against :mod:`torture.load.ledger`
(threads) or against the stream of operations of ``torture/crash/kill_loop.py`` (processes).  Every run
of a scenario has a process of its own: a hang or a crash is a failure, reported with the stacks of all
threads.
"""

from __future__ import annotations

import faulthandler
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Final

from torture.framework.child_trials import Limits, TrialName, Verdict, run_trials
from torture.framework.disturbance import in_disturbance
from torture.framework.part import Failure, Outcome, Part, Scale, Settings, UnsoundError
from torture.load import (
    cancelled,
    held_views,
    interrupts,
    killed_writer,
    limits,
    refresh,
    slow_disk,
    starved,
    threads,
    torn_logs,
    transactions,
)
from torture.load.scenario import Job

Scenario = Callable[[Job], None]

SCENARIOS: Final[dict[str, Scenario]] = {
    "threads": threads.run,
    "processes": killed_writer.run,
    "refresh": refresh.run,
    "held": held_views.run,
    "limits": limits.run,
    "slow-disk": slow_disk.run,
    "torn-reads": torn_logs.run,
    "starved": starved.run,
    "interrupts": interrupts.run,
    "cancelled": cancelled.run,
    "transactions": transactions.run,
}

SECONDS: Final[dict[str, tuple[float, float, float]]] = {
    "threads/thread": (2.5, 14, 120),
    "threads/process": (2.5, 13, 120),
    "processes/thread": (2.5, 15, 120),
    "processes/process": (2.5, 13, 120),
    "refresh/thread": (2, 8, 60),
    "refresh/process": (0, 6, 60),
    "held/thread": (1.5, 8, 60),
    "held/process": (1.5, 8, 60),
    "limits/longest": (1, 2, 30),
    "limits/descriptors": (1, 2, 5),
    "limits/memory": (1, 3, 5),
    "slow-disk/flushes": (1.5, 5, 30),
    "slow-disk/compactions": (1.5, 5, 30),
    "torn-reads/copied": (1, 4, 60),
    "torn-reads/any": (1, 4, 60),
    "starved/refreshes": (1.5, 8, 60),
    "interrupts/thread": (1.5, 8, 120),
    "interrupts/thread-writers": (1.5, 8, 120),
    "interrupts/process": (0, 8, 120),
    "cancelled/tasks": (1.5, 8, 60),
    "transactions/thread": (1.5, 6, 60),
    f"threads/thread-{threads.MILLION}": (0, 0, 300),
}
"""Working time of each variant by scale, without the final checks; 0 leaves the variant out."""

_PATIENCE_S: Final = 90.0
_NO_LIMIT_BYTES: Final = 1 << 44
_MOST_FAILURES: Final = 10
_MOST_LINES: Final = 24  # of a thread's stack
_NOTE: Final = (
    "the system schedules threads and processes, and the clock kills writers: a replay does the same "
    "work with the same seed, but may need several tries to fail again"
)


def parsed(text: str) -> TrialName:
    """The run that ``text`` names."""
    return TrialName.parsed(text, SECONDS, "SCENARIO/VARIANT/NUMBER of load")


class Trials:
    """Makes one run of a variant, within its own process; ``urgency`` scales its working time."""

    def __init__(self, settings: Settings, urgency: float) -> None:
        self._settings = settings
        self._urgency = urgency

    @property
    def seed(self) -> int:
        return self._settings.seed

    def seconds(self, run: TrialName) -> float:
        """Working time of a run."""
        by_scale = SECONDS[run.kind]
        return by_scale[list(Scale).index(self._settings.scale)] * self._urgency

    def __call__(self, name: str, directory: Path) -> Verdict:
        chosen = parsed(name)
        seconds = self.seconds(chosen)
        seed = self._settings.seed * 10_000 + chosen.number
        job = Job(chosen.variant, seed, directory, seconds, self._settings.scale)
        failures = []
        with stacks_file(directory).open("w") as file:
            faulthandler.enable(file, all_threads=True)
            faulthandler.dump_traceback_later(_patience_s(seconds), exit=True, file=file)
            try:
                SCENARIOS[chosen.group](job)
            except UnsoundError as error:
                failures.append(f"{type(error).__name__}: {error}")
            finally:
                faulthandler.cancel_dump_traceback_later()
                faulthandler.disable()
        counts = {f"{chosen.group}: {what}": number for what, number in job.counts.items()}
        return {f"{chosen.group}: runs": 1, **counts}, failures


def stacks_file(directory: Path) -> Path:
    """File with the threads' stacks of a run that hangs or crashes."""
    return directory / "stacks.txt"


def innermost(stacks: str) -> str:
    """The stacks of all threads without their outer frames, which faulthandler writes last."""
    threads = stacks.split("\n\n")
    return "\n\n".join("\n".join(thread.splitlines()[:_MOST_LINES]) for thread in threads)


def _patience_s(seconds: float) -> float:
    return 3 * seconds + _PATIENCE_S


def runs(settings: Settings) -> Iterator[TrialName]:
    """Every variant once; at the longest scale, over and over."""
    at = list(Scale).index(settings.scale)
    for number in count(1) if settings.scale is Scale.LONG else (1,):
        for name, seconds in SECONDS.items():
            if seconds[at]:
                scenario, variant = name.split("/")
                yield TrialName(scenario, variant, number)


def attempt(
    trials: Trials, run: TrialName, directory: Path, disturbances: Sequence[str] = ()
) -> Verdict:
    """Make a run in a process of its own; a crash of that process is a failure too."""
    limits = Limits(_patience_s(trials.seconds(run)) + _PATIENCE_S, _NO_LIMIT_BYTES)
    name = str(run)
    place = directory / name.replace("/", "-")
    counts: dict[str, int] = {}
    failures: list[str] = []
    trial = in_disturbance(trials, disturbances, trials.seed)
    for _, (found, failed) in run_trials(trial, [name], place, limits, time.monotonic() + 1.0):
        counts, failures = found, failed
    stacks = stacks_file(place / "worker-0")
    if failures and stacks.exists():
        shown = innermost(stacks.read_text())
        failures = [f"{failure}\n{shown}".strip() for failure in failures]
    shutil.rmtree(place, ignore_errors=True)
    return counts, failures


def run(settings: Settings) -> Outcome:
    """Run every scenario, or the run that ``settings.replay`` names."""
    outcome = Outcome(notes=[_NOTE])
    deadline = time.monotonic() + settings.time_limit_s
    at = list(Scale).index(settings.scale)
    usual = sum(seconds[at] for seconds in SECONDS.values())
    wanted = runs(settings)
    urgency = 1.0
    if settings.replay is not None:
        wanted = iter([parsed(settings.replay)])
    elif settings.scale is not Scale.LONG:
        urgency = min(1.0, 0.8 * settings.time_limit_s / usual)
    trials = Trials(settings, urgency)
    for chosen in wanted:
        if chosen.variant == "memory" and not sys.platform.startswith("linux"):
            outcome.skipped.append(f"{chosen}: {sys.platform} does not enforce RLIMIT_AS")
            continue
        if time.monotonic() > deadline:
            outcome.notes.append(f"the time was up before {chosen}")
            break
        counts, failures = attempt(trials, chosen, settings.directory, settings.disturb)
        outcome.counts.update(counts)
        outcome.failures += [Failure(f"{chosen}: {what}", str(chosen)) for what in failures]
        if len(outcome.failures) >= _MOST_FAILURES:
            outcome.notes.append(f"stopped after {chosen}: too many failures")
            break
    return outcome


PART: Final = Part(
    "load",
    "However many threads and processes write and read at once, for however long: no reader sees a value "
    "older than one acknowledged or seen before, a part of a batch, or a value that was never written. "
    "Transactions are strictly serialisable.  Open views do not change, killed writers lose nothing, and "
    "limits raise errors without harm.",
    run,
    can_be_disturbed=True,
)
