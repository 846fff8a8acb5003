"""The part ``fuzz``: every decoder gets mutated inputs.

Each input is tried as it is and with correct checksums, so that mutations get past them.  A decoder
must return a value that encodes to the input, or raise a documented error, in time and memory in
proportion to the input.

Hostile stores (:mod:`torture.fuzz.hostile_stores`) are tried on the compiled build too, if there is one.

A search follows coverage with trace functions; at the larger scales libFuzzer searches too, if
``atheris`` is installed.  Both see only interpreted modules: on a compiled build mutations are blind,
but the checks are the same.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from torture.framework import compiled_build
from torture.framework.child_trials import Limits, Verdict, try_all
from torture.framework.part import Failure, Outcome, Part, Scale, Settings
from torture.framework.shrinking import shortest
from torture.fuzz import hostile_stores, other_targets, table_targets
from torture.fuzz.mutation import Coverage, extremes, mutated
from torture.fuzz.target import Target, execute, execute_measured

TARGETS: Final = {
    target.name: target for target in (*table_targets.TARGETS, *other_targets.TARGETS)
}
CORPUS: Final = Path(__file__).parents[2] / "tests" / "corpus"
"""Inputs that failed once, in a folder for each decoder."""

_EXECUTIONS: Final = {Scale.CI: 2000, Scale.SHORT: 20_000, Scale.LONG: 2_000_000}
_ROUND: Final = {Scale.CI: 500, Scale.SHORT: 2000, Scale.LONG: 20_000}
_MEASURE_EVERY: Final = 16
_MOST_FAILURES: Final = 5  # of a round: one defect fails many inputs
_LONGEST_SHRUNK: Final = 4096  # bytes
_SHRINKING_S: Final = 20.0
_STORES: Final = {Scale.CI: 4, Scale.SHORT: 1000, Scale.LONG: 50_000}
_STORES_ROUND: Final = {Scale.CI: 4, Scale.SHORT: 50, Scale.LONG: 50}
_ATHERIS_RUNS: Final = {Scale.CI: 0, Scale.SHORT: 10_000, Scale.LONG: 2_000_000}


def corpus(name: str) -> list[bytes]:
    """The inputs that once failed in a decoder."""
    return [path.read_bytes() for path in sorted((CORPUS / name).glob("*"))]


def trial(name: str, directory: Path) -> Verdict:
    """Run one trial by its name: of a decoder (kept, extremes, executions, hex), or of hostile stores."""
    decoder, _, rest = name.partition("/")
    if decoder == hostile_stores.NAME:
        return _try_stores(rest, directory)
    target = TARGETS[decoder]
    if rest.startswith("hex:"):
        return _try_all(target, [bytes.fromhex(rest[4:])])
    if rest == "kept":
        return _try_all(target, [*target.seeds(), *corpus(decoder)])
    if rest.startswith("extremes:"):
        return _try_all(target, extremes(target.seeds()[int(rest[9:])]))
    seed, executions = rest.split("/")
    return _search(target, int(seed), int(executions))


def _try_stores(rest: str, directory: Path) -> Verdict:
    if rest.startswith("one:"):
        counts: Counter[str] = Counter()
        failures: list[str] = []
        hostile_stores.try_one(rest[4:], directory, counts, failures)
        return dict(counts), failures
    seed, executions = rest.split("/")
    return hostile_stores.search(seed, int(executions), directory)


def _try_all(target: Target, inputs: list[bytes]) -> Verdict:
    counts = {f"{target.name}: tried": 0, f"{target.name}: decoded": 0}
    failures: list[str] = []
    for data in inputs:
        for version in dict.fromkeys((data, target.seal(data))):
            decodes, problem = execute_measured(target, version)
            counts[f"{target.name}: tried"] += 1
            counts[f"{target.name}: decoded"] += decodes
            _note(failures, target, version, problem)
    return counts, failures


def _search(target: Target, seed: int, executions: int) -> Verdict:
    dice = random.Random(f"{target.name}:{seed}")
    parents = [*target.seeds(), *corpus(target.name)]
    coverage = Coverage()
    seen: set[object] = set()
    counts = {f"{target.name}: tried": 0, f"{target.name}: decoded": 0}
    failures: list[str] = []
    for number in range(executions):
        data = mutated(parents, target.words, dice)
        if number % 4:
            data = target.seal(data)
        if number % _MEASURE_EVERY == 0:
            decodes, problem = execute_measured(target, data)
        else:
            decodes, problem = coverage.of(partial(execute, target, data))
            if not coverage.edges <= seen:
                seen |= coverage.edges
                parents.append(data)
        counts[f"{target.name}: tried"] += 1
        counts[f"{target.name}: decoded"] += decodes
        _note(failures, target, data, problem)
    counts["pairs of lines reached"] = len(seen)
    return counts, failures


def _note(failures: list[str], target: Target, data: bytes, problem: str | None) -> None:
    if problem is not None and len(failures) < _MOST_FAILURES:
        failures.append(f"{problem} [{target.name}/hex:{_shortest(target, data).hex()}]")


def _shortest(target: Target, data: bytes) -> bytes:
    """``data`` without the bytes that the failure does not need."""

    def fails(some: list[int]) -> bool:
        shorter = bytes(some)
        return any(execute(target, version)[1] for version in (shorter, target.seal(shorter)))

    if len(data) >= _LONGEST_SHRUNK:
        return data
    shorter = shortest(list(data), fails, time.monotonic() + _SHRINKING_S)
    return bytes(shorter)


def run(settings: Settings) -> Outcome:
    """Fuzz every decoder in turn."""
    outcome = Outcome()
    deadline = time.monotonic() + settings.time_limit_s
    rounds = _rounds(settings)
    time_s = 120.0 if settings.scale is Scale.LONG else 60.0
    limits = Limits(time_s=time_s, memory_bytes=1 << 30, workers=settings.workers)
    done = 0
    for name, (counts, failures) in try_all(trial, rounds, settings, limits, deadline):
        done += 1
        outcome.counts.update(counts)
        for failure in failures:
            what, _, place = (
                failure.rpartition(" [") if failure.endswith("]") else (failure, "", "")
            )
            replay = place.rstrip("]") or name
            outcome.failures.append(Failure(f"{name}: {what}", replay))
    if settings.replay is None:
        outcome.notes.append(f"{done} of {len(rounds)} rounds done")
        _compiled_stores(settings, deadline, outcome)
        _atheris(settings, deadline, outcome)
    return outcome


def _rounds(settings: Settings) -> list[str]:
    executions, size = _EXECUTIONS[settings.scale], _ROUND[settings.scale]
    first = [f"{name}/kept" for name in TARGETS]
    if settings.scale is not Scale.CI:
        first += [
            f"{name}/extremes:{number}"
            for name, target in TARGETS.items()
            for number in range(min(len(target.seeds()), 12))
        ]
    searches = [
        f"{name}/{settings.seed + number}/{size}"
        for number in range(executions // size)
        for name in TARGETS
    ]
    size = _STORES_ROUND[settings.scale]
    stores = [
        f"{hostile_stores.NAME}/{settings.seed}-{number}/{size}"
        for number in range(_STORES[settings.scale] // size)
    ]
    return first + searches + stores


def _compiled_stores(settings: Settings, deadline: float, outcome: Outcome) -> None:
    """Try hostile stores on the compiled build, if there is one."""
    tree, why_not = compiled_build.compiled_tree()
    if tree is None:
        outcome.skipped.append(why_not)
        return
    imports = compiled_build.mixed_tree(tree, settings.directory / "imports")
    size = _STORES_ROUND[settings.scale]
    for number in range(_STORES[settings.scale] // size):
        limit = deadline - time.monotonic()
        if limit <= 0:
            outcome.notes.append("compiled build: no time for all stores")
            return
        folder = settings.directory / "compiled"
        seed = f"{settings.seed}-compiled-{number}"
        counts, failures = hostile_stores.search_elsewhere(imports, seed, size, folder, limit + 60)
        outcome.counts.update({f"{name}, compiled": count for name, count in counts.items()})
        for failure in failures:
            what, _, place = failure.rpartition(" [")
            outcome.failures.append(Failure(f"compiled build: {what}", place.rstrip("]")))


def _atheris(settings: Settings, deadline: float, outcome: Outcome) -> None:
    """Run libFuzzer, in one process for each decoder."""
    runs = _ATHERIS_RUNS[settings.scale]
    if not runs:
        return
    if find_spec("atheris") is None:
        outcome.skipped.append("libFuzzer: atheris is not installed (pip install 'lsmkv[fuzz]')")
        return
    for name in TARGETS:
        if time.monotonic() > deadline:
            outcome.notes.append(f"libFuzzer: no time for {name} and the decoders after it")
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
    outcome.failures.append(Failure(f"libFuzzer, {name}, failed: {said[-600:]}", f"{name}/kept"))


PART: Final = Part(
    "fuzz",
    "From any bytes every decoder makes a value that encodes to them, or it raises a documented error, "
    "in time and memory in proportion to their number. Every call on a store with any bytes ends in an "
    "answer or such an error.",
    run,
)
