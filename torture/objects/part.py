"""The part ``objects``: misuses objects of the API.

Each trial has a process of its own, so that a crash, a hang or an error at exit is a failure.  Every
other trial runs with ``PYTHONMALLOC=debug``, with which Python notices writes to foreign memory.  Each
family of misuse is a module of this folder, listed in :mod:`torture.objects.families`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Final

import lsmkv
from bench.harness.environment import build
from torture.framework.child_trials import Limits, TrialName, Verdict, run_trials
from torture.framework.part import Failure, Outcome, Part, Scale, Settings
from torture.objects.families import FAMILIES
from torture.objects.trial import patience_s

SECONDS: Final = {Scale.CI: 0.4, Scale.SHORT: 2.5, Scale.LONG: 20.0}
"""Working time of a trial by scale."""

_ROUNDS: Final = {Scale.CI: 1, Scale.SHORT: 2}
_START_S: Final = 0.6  # about the start and end of a process
_LEAST_S: Final = 0.2
_MEMORY_BYTES: Final = 4 << 30
_MOST_TOLD_CHARACTERS: Final = 2500
_NOTE: Final = (
    "the system schedules threads: a replay does the same work with the same seed, but may need "
    "several tries to fail again"
)


def parsed(text: str) -> TrialName:
    """The trial that ``text`` names."""
    kinds = {f"{family}/{variant}" for family in FAMILIES for variant in FAMILIES[family]}
    return TrialName.parsed(text, kinds, "FAMILY/VARIANT/NUMBER of objects")


class Trials:
    """Runs a trial of ``seconds`` in a process of its own."""

    def __init__(self, seed: int, seconds: float) -> None:
        self._seed = seed
        self._seconds = seconds

    def __call__(self, name: str, directory: Path) -> Verdict:
        chosen = parsed(name)
        place = directory / name.replace("/", "-")
        seed = self._seed * 10_000 + chosen.number
        command = [sys.executable, "-PB", "-m", "torture.objects.child"]
        command += [name, str(seed), str(self._seconds), str(place / "stores")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        environment.pop("PYTHONMALLOC", None)
        if chosen.number % 2:
            environment["PYTHONMALLOC"] = "debug"
        place.mkdir(parents=True, exist_ok=True)
        try:
            counts, failures = examined(command, environment, place, 2 * patience_s(self._seconds))
        finally:
            shutil.rmtree(place, ignore_errors=True)
        return {f"{chosen.group}: trials": 1, **counts}, failures


def examined(
    command: Sequence[str], environment: dict[str, str], directory: Path, limit_s: float
) -> Verdict:
    """The verdict of a trial's process; its crash or hang is a failure."""
    output, errors = directory / "output.txt", directory / "errors.txt"
    with output.open("wb") as out, errors.open("wb") as err:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=err)
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            process.kill()
            process.wait()
    said = _shortened(errors.read_text(errors="replace").strip())
    counts: dict[str, int] = {}
    failures: list[str] = []
    if status is None:
        failures.append(f"the process did not end within {limit_s:g} s\n{said}")
    elif status:
        failures.append(f"{_end(status, said)}\n{said}")
    lines = output.read_text(errors="replace").splitlines()
    with contextlib.suppress(ValueError, IndexError):
        found = json.loads(lines[-1])
        counts = found["counts"]
        failures = found["failures"] + failures
        if found["loaded"] != str(Path(lsmkv.__file__).parent):
            failures.append(f"lsmkv was loaded from {found['loaded']}")
        return counts, failures
    return counts, failures or [f"the process printed no result\n{said}"]


def _shortened(said: str) -> str:
    """The beginning and the end of a long text."""
    part = _MOST_TOLD_CHARACTERS // 2
    return said if len(said) <= 2 * part else f"{said[:part]}\n[...]\n{said[-part:]}"


def _end(status: int, said: str) -> str:
    if status < 0:
        return f"the process died of {signal.Signals(-status).name}"
    if "Timeout (" in said:
        return "the process hung"
    return f"the process ended with status {status}"


def wanted(settings: Settings) -> Iterator[TrialName]:
    """Every variant a few times; at the longest scale, over and over."""
    rounds = _ROUNDS.get(settings.scale)
    for number in count(1) if rounds is None else range(1, rounds + 1):
        for family, variants in FAMILIES.items():
            for variant in variants:
                yield TrialName(family, variant, number)


def run(settings: Settings) -> Outcome:
    """Try every variant, or the trial that ``settings.replay`` names."""
    outcome = Outcome(notes=[_NOTE, f"the build is {build()}"])
    started = time.monotonic()
    deadline = started + settings.time_limit_s
    seconds = SECONDS[settings.scale]
    workers = settings.workers
    if settings.replay is not None:
        names = [str(parsed(settings.replay))]
        deadline = started + 1.0
    elif settings.scale is Scale.LONG:
        rounds = 1 + int(settings.time_limit_s / (seconds * _variants())) * workers
        names = [str(name) for name in islice(wanted(settings), rounds * _variants())]
    else:
        names = [str(name) for name in wanted(settings)]
        each = settings.time_limit_s * workers / len(names) - _START_S
        seconds = max(_LEAST_S, min(seconds, each))
    limits = Limits(3 * patience_s(seconds), _MEMORY_BYTES, workers)
    trials = Trials(settings.seed, seconds)
    done = 0
    for name, (counts, failures) in run_trials(trials, names, settings.directory, limits, deadline):
        done += 1
        outcome.counts.update(counts)
        outcome.counts["trials that failed"] += bool(failures)
        if failures:
            outcome.failures.append(Failure(f"{name}: " + "\nand ".join(failures), name))
    if done < len(names):
        took = time.monotonic() - started
        outcome.notes.append(f"{done:,} of {len(names):,} trials done in {took:.0f} s")
    return outcome


def _variants() -> int:
    return sum(map(len, FAMILIES.values()))


PART: Final = Part(
    "objects",
    "However objects of the API are misused (shared between threads, dropped deep in others, in cycles, "
    "copied, re-entered, interrupted, uninitialised), they give a right answer or an ordinary error, "
    "without a crash or a hang. Objects that nobody misuses stay right.",
    run,
)
