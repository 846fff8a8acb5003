"""The part ``fuzz``: every decoder, fed with bytes that almost are what it expects.

Each input is tried as it is and once more with its checksums made to hold, so that mutations get
behind them.  A decoder gives something that encodes to what it came from, or raises what it is
documented to raise, in time and memory in proportion to the input.

Stores whose fields lie (:mod:`torture.fuzz.hostile_stores`) are put through every call of a reader,
with the compiled build as well where there is one.

The search with coverage by trace functions is always there; with ``atheris`` installed, the larger
scales let libFuzzer search as well.  Both see interpreted modules only: on a compiled build
mutations are blind, and the oracle is the same.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from torture.framework.child_trials import Limits, Verdict, attempt, run_trials
from torture.framework.part import Failure, Outcome, Part, Scale, Settings
from torture.fuzz import (
    hostile_stores,
    other_targets,
    table_targets,
)
from torture.fuzz.mutation import Coverage, extremes, mutated
from torture.fuzz.target import Harness, execute, execute_measured
from torture.metamorphic import other_build

HARNESSES: Final = {
    harness.name: harness for harness in (*table_targets.HARNESSES, *other_targets.HARNESSES)
}
CORPUS: Final = Path(__file__).parents[2] / "tests" / "corpus"
"""Inputs that once went wrong, in a folder for each decoder."""

_EXECUTIONS: Final = {Scale.CI: 2000, Scale.SHORT: 20_000, Scale.LONG: 2_000_000}
_ROUND: Final = {Scale.CI: 500, Scale.SHORT: 2000, Scale.LONG: 20_000}
_MEASURE_EVERY: Final = 16
_MOST_FAILURES: Final = 5  # of a round: one defect fails many inputs
_STORES: Final = {Scale.CI: 4, Scale.SHORT: 1000, Scale.LONG: 50_000}
_STORES_ROUND: Final = {Scale.CI: 4, Scale.SHORT: 50, Scale.LONG: 50}
_ATHERIS_RUNS: Final = {Scale.CI: 0, Scale.SHORT: 10_000, Scale.LONG: 2_000_000}


def corpus(name: str) -> list[bytes]:
    """The inputs kept for a decoder."""
    return [path.read_bytes() for path in sorted((CORPUS / name).glob("*"))]


def trial(name: str, directory: Path) -> Verdict:
    """One round: ``<decoder>/<seed>/<executions>``, ``<decoder>/extremes:<seed>``, or an input in hex.

    Of whole stores (:mod:`torture.fuzz.hostile_stores`): ``store/<seed>/<executions>``, or
    ``store/one:<seed>``.
    """
    decoder, _, rest = name.partition("/")
    if decoder == hostile_stores.NAME:
        return _try_stores(rest, directory)
    harness = HARNESSES[decoder]
    if rest.startswith("hex:"):
        return _try_all(harness, [bytes.fromhex(rest[4:])])
    if rest == "kept":
        return _try_all(harness, [*harness.seeds(), *corpus(decoder)])
    if rest.startswith("extremes:"):
        return _try_all(harness, extremes(harness.seeds()[int(rest[9:])]))
    seed, executions = rest.split("/")
    return _search(harness, int(seed), int(executions))


def _try_stores(rest: str, directory: Path) -> Verdict:
    if rest.startswith("one:"):
        counts: Counter[str] = Counter()
        failures: list[str] = []
        hostile_stores.try_one(rest[4:], directory, counts, failures)
        return dict(counts), failures
    seed, executions = rest.split("/")
    return hostile_stores.search(seed, int(executions), directory)


def _try_all(harness: Harness, inputs: list[bytes]) -> Verdict:
    counts = {f"{harness.name}: tried": 0, f"{harness.name}: decoded": 0}
    failures: list[str] = []
    for data in inputs:
        for version in dict.fromkeys((data, harness.seal(data))):
            decodes, problem = execute_measured(harness, version)
            counts[f"{harness.name}: tried"] += 1
            counts[f"{harness.name}: decoded"] += decodes
            _note(failures, harness, version, problem)
    return counts, failures


def _search(harness: Harness, seed: int, executions: int) -> Verdict:
    dice = random.Random(f"{harness.name}:{seed}")
    parents = [*harness.seeds(), *corpus(harness.name)]
    coverage = Coverage()
    seen: set[object] = set()
    counts = {f"{harness.name}: tried": 0, f"{harness.name}: decoded": 0}
    failures: list[str] = []
    for number in range(executions):
        data = mutated(parents, harness.words, dice)
        if number % 4:
            data = harness.seal(data)
        if number % _MEASURE_EVERY == 0:
            decodes, problem = execute_measured(harness, data)
        else:
            decodes, problem = coverage.of(partial(execute, harness, data))
            if not coverage.edges <= seen:
                seen |= coverage.edges
                parents.append(data)
        counts[f"{harness.name}: tried"] += 1
        counts[f"{harness.name}: decoded"] += decodes
        _note(failures, harness, data, problem)
    counts["pairs of lines reached"] = len(seen)
    return counts, failures


def _note(failures: list[str], harness: Harness, data: bytes, problem: str | None) -> None:
    if problem is not None and len(failures) < _MOST_FAILURES:
        failures.append(f"{problem} [{harness.name}/hex:{_shortest(harness, data).hex()}]")


def _shortest(harness: Harness, data: bytes) -> bytes:
    """``data`` with everything cut out of it without which it still fails."""
    step = max(1, len(data) // 4)
    while True:
        at = 0
        while at < len(data) and len(data) < 4096:
            shorter = data[:at] + data[at + step :]
            if any(execute(harness, version)[1] for version in (shorter, harness.seal(shorter))):
                data = shorter
            else:
                at += step
        if step == 1 or len(data) >= 4096:
            return data
        step //= 2


def run(settings: Settings) -> Outcome:
    """Fuzz every decoder in turn."""
    outcome = Outcome()
    deadline = time.monotonic() + settings.time_limit_s
    if settings.replay is not None:
        verdicts = iter([(settings.replay, attempt(trial, settings.replay, settings.directory))])
    else:
        limits = Limits(
            time_s=120.0 if settings.scale is Scale.LONG else 60.0,
            memory_bytes=1 << 30,
            workers=1 if settings.scale is Scale.CI else os.cpu_count() or 1,
        )
        verdicts = run_trials(trial, _rounds(settings), settings.directory, limits, deadline)
    done = 0
    for name, (counts, failures) in verdicts:
        done += 1
        outcome.counts.update(counts)
        for failure in failures:
            what, _, place = (
                failure.rpartition(" [") if failure.endswith("]") else (failure, "", "")
            )
            replay = place.rstrip("]") or name
            outcome.failures.append(Failure(f"{name}: {what}", replay))
    if settings.replay is None:
        outcome.notes.append(f"{done} of {len(_rounds(settings))} rounds done")
        _compiled_stores(settings, deadline, outcome)
        _atheris(settings, deadline, outcome)
    return outcome


def _rounds(settings: Settings) -> list[str]:
    executions, size = _EXECUTIONS[settings.scale], _ROUND[settings.scale]
    first = [f"{name}/kept" for name in HARNESSES]
    if settings.scale is not Scale.CI:
        first += [
            f"{name}/extremes:{number}"
            for name, harness in HARNESSES.items()
            for number in range(min(len(harness.seeds()), 12))
        ]
    searches = [
        f"{name}/{settings.seed + number}/{size}"
        for number in range(executions // size)
        for name in HARNESSES
    ]
    size = _STORES_ROUND[settings.scale]
    stores = [
        f"{hostile_stores.NAME}/{settings.seed}-{number}/{size}"
        for number in range(_STORES[settings.scale] // size)
    ]
    return first + searches + stores


def _compiled_stores(settings: Settings, deadline: float, outcome: Outcome) -> None:
    """Try hostile stores with the compiled build as well, if there is one."""
    tree, why_not = other_build.compiled_tree()
    if tree is None:
        outcome.skipped.append(why_not)
        return
    imports = other_build.mixed_tree(tree, settings.directory / "imports")
    size = _STORES_ROUND[settings.scale]
    for number in range(_STORES[settings.scale] // size):
        limit = deadline - time.monotonic()
        if limit <= 0:
            outcome.notes.append("compiled build: no time for all the stores")
            return
        folder = settings.directory / "compiled"
        seed = f"{settings.seed}-compiled-{number}"
        counts, failures = hostile_stores.search_elsewhere(imports, seed, size, folder, limit + 60)
        outcome.counts.update({f"{name}, compiled": count for name, count in counts.items()})
        for failure in failures:
            what, _, place = failure.rpartition(" [")
            outcome.failures.append(Failure(f"compiled build: {what}", place.rstrip("]")))


def _atheris(settings: Settings, deadline: float, outcome: Outcome) -> None:
    """Let libFuzzer search, a process for each decoder."""
    runs = _ATHERIS_RUNS[settings.scale]
    if not runs:
        return
    if find_spec("atheris") is None:
        outcome.skipped.append("libFuzzer: atheris is not installed (pip install 'lsmkv[fuzz]')")
        return
    for name in HARNESSES:
        if time.monotonic() > deadline:
            outcome.notes.append(f"libFuzzer: no time for {name} and what follows")
            return
        folder = settings.directory / "atheris" / name
        folder.mkdir(parents=True)
        command = [sys.executable, "-m", "torture.fuzz.libfuzzer", name, str(folder)]
        command += [f"-runs={runs}", f"-seed={settings.seed}", f"-artifact_prefix={folder}/found-"]
        command += ["-max_len=16384", "-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1"]
        limit = max(10.0, deadline - time.monotonic())
        command.append(f"-max_total_time={int(limit)}")
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit + 60)
        except subprocess.TimeoutExpired:
            outcome.failures.append(Failure(f"libFuzzer: {name} did not end", f"{name}/kept"))
            continue
        for line in done.stderr.splitlines():
            if line.startswith("stat::number_of_executed_units:"):
                outcome.counts[f"{name}: tried by libFuzzer"] += int(line.split()[-1])
        if done.returncode:
            _note_found(folder, name, done.stderr, outcome)


def _note_found(folder: Path, name: str, said: str, outcome: Outcome) -> None:
    for path in sorted(folder.glob("found-*")):
        place = f"{name}/hex:{path.read_bytes().hex()}"
        outcome.failures.append(Failure(f"libFuzzer, {name}: {said[-600:]}", place))
        return
    outcome.failures.append(Failure(f"libFuzzer, {name}, gave up: {said[-600:]}", f"{name}/kept"))


PART: Final = Part(
    name="fuzz",
    promise=(
        "Every decoder makes of any bytes either what encodes to them again or a documented error, "
        "in time and memory in proportion to their number; and every call on a store with any bytes "
        "ends in an answer or such an error."
    ),
    run=run,
)
