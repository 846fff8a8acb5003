"""The part ``corruption``: damage anywhere in a store must lead to right answers or errors.

Every trial damages one store in one way.  Its name, ``<sample>/<check>/<damage>``, replays it;
:mod:`torture.corruption.damage` explains the last part.

A store that was closed must give its contents or report the damage.  The log of a killed store may
end at its first damaged record, unless a whole sync mark behind it vouches for more.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final, get_args

from lsmkv.options import FilterResidency
from lsmkv.salvage.repair import repair
from torture.corruption.answers import ALLOWED, Answers, open_sample, read_store
from torture.corruption.damage import Damaged, apply, at_random, every_byte, whole_files
from torture.corruption.expected import allowed_states, may_be_silent
from torture.corruption.rescue import check_repaired
from torture.corruption.samples import Sample, fixed_randomness, make_samples
from torture.framework.child_trials import Limits, Verdict, try_all
from torture.framework.part import Failure, Outcome, Part, Scale, Settings

_RESIDENCIES: Final = get_args(FilterResidency)
_MOST_FAILURES: Final = 50
_OUTSIDE: Final = b"not of this store"


class Trials:
    """Damages samples in a folder, and checks their answers."""

    def __init__(self, samples: dict[str, Sample]) -> None:
        self._samples = samples
        self._standing: set[Path] = set()

    def __call__(self, name: str, directory: Path) -> Verdict:
        which, check, damage = name.split("/", 2)
        sample = self._samples[which]
        damaged = apply(damage, sample, self._samples["other"])
        kind = damage.partition(":")[0]
        if not damaged.placed and damaged.image == sample.image:
            return {"without effect": 1}, []
        with fixed_randomness(0):
            counts, failures = {
                "read": self._read,
                "write": self._write,
                "refresh": self._refresh,
                "repair": self._repair,
                "repair-in-place": self._repair,
            }[check](sample, damaged, directory, check)
        return {"trials": 1, f"{check}: {kind}": 1, **counts}, failures

    def _read(self, sample: Sample, damaged: Damaged, directory: Path, _: str) -> Verdict:
        store = self._standing_store(sample, directory)
        residency = _RESIDENCIES[sum(map(len, damaged.image.values())) % 3]
        damaged.write(store, self._outside(directory))
        try:
            answers = read_store(
                store, allowed_states(sample, damaged), sample.all_keys(), residency
            )
        finally:
            damaged.undo(store, sample)
        if answers.is_silent and not may_be_silent(sample, damaged):
            answers.failures.append("neither reading nor verify noticed the damage")
        return {**answers.counts, _verdict(answers): 1}, answers.failures

    def _write(self, sample: Sample, damaged: Damaged, directory: Path, _: str) -> Verdict:
        store = self._fresh_store(sample, damaged, directory)
        answers = Answers(store, allowed_states(sample, damaged))
        try:
            with open_sample(store, "resident", read_only=False) as db:
                answers.read(db, sample.all_keys())
                if not answers.errors:
                    db.put(b"new", b"1", sync=True)
                    db.flush()
                    answers.allowed = [state | {b"new": b"1"} for state in answers.allowed]
            if not answers.errors:
                with open_sample(store, "resident", read_only=True) as db:
                    answers.read(db, [*sample.all_keys(), b"new"])
        except Exception as error:
            answers.raised(error, "opening or writing")
            changed = [
                name
                for name, data in damaged.image.items()
                if name != "LOCK"
                and not ((store / name).is_file() and (store / name).read_bytes() == data)
            ]
            if changed:
                answers.failures.append(f"open failed ({error}), but changed {changed}")
        return {_verdict(answers): 1}, answers.failures

    def _refresh(self, sample: Sample, damaged: Damaged, directory: Path, _: str) -> Verdict:
        """Keep a reader open before, during and after the damage."""
        store = self._standing_store(sample, directory)
        answers = Answers(store, [sample.contents])
        with open_sample(store, "cached", read_only=True) as db:
            damaged.write(store, self._outside(directory))
            try:
                answers.read(db, sample.all_keys())
                try:
                    db.refresh()
                except Exception as error:
                    answers.raised(error, "refresh")
                else:
                    answers.allowed = allowed_states(
                        sample, damaged
                    )  # the log's torn end is gone now
                    answers.read(db, sample.all_keys())
            finally:
                damaged.undo(store, sample)
            after = Answers(store, [sample.contents])
            try:
                db.refresh()
                after.read(db, sample.all_keys())
            except Exception as error:
                after.raised(error, "refresh after the damage was undone")
        if after.errors:
            answers.failures.append(f"without the damage reading raised {after.errors[0]!r}")
        return {_verdict(answers): 1}, answers.failures + after.failures

    def _repair(self, sample: Sample, damaged: Damaged, directory: Path, check: str) -> Verdict:
        store = self._fresh_store(sample, damaged, directory)
        output = directory / "output"
        shutil.rmtree(output, ignore_errors=True)
        in_place = check == "repair-in-place"
        try:
            report = repair(store, None if in_place else output, in_place=in_place)
        except ALLOWED as error:
            # Repair in place does not remove a directory named CURRENT.
            is_in_the_way = in_place and damaged.placed.get("CURRENT") == "directory"
            if ("LOCK" in damaged.files or is_in_the_way) and str(store) in str(error):
                return {"refused to repair": 1}, []
            return {}, [f"repair raised {type(error).__name__}: {error}"]
        failures = check_repaired(sample, damaged, report, store if in_place else output)
        failures += _lost_originals(damaged, store, report.moved if in_place else ())
        return {"complete" if report.is_complete else "with losses": 1}, failures

    def _standing_store(self, sample: Sample, directory: Path) -> Path:
        """The undamaged sample, which stays there for the next trials."""
        path = directory / sample.name
        if path not in self._standing:
            sample.restore(path)
            self._standing.add(path)
        return path

    def _fresh_store(self, sample: Sample, damaged: Damaged, directory: Path) -> Path:
        path = directory / "damaged"
        sample.restore(path)
        damaged.write(path, self._outside(directory))
        return path

    def _outside(self, directory: Path) -> Path:
        path = directory / "outside"
        path.write_bytes(_OUTSIDE)
        return path


def _verdict(answers: Answers) -> str:
    if answers.errors:
        return "an error"
    return "noticed by verify" if answers.found_whole is False else "the right answer"


def _lost_originals(damaged: Damaged, store: Path, moved: tuple[str, ...]) -> list[str]:
    """Original files that a repair has lost or changed."""
    failures = []
    for name, data in damaged.image.items():
        path = store / "lost" / name if name in moved else store / name
        if name == "CURRENT" and (store / "lost" / name).exists():
            path = store / "lost" / name
        if name != "LOCK" and not (path.is_file() and path.read_bytes() == data):
            failures.append(f"repair did not keep the original {name}")
    return failures


def names(samples: dict[str, Sample], settings: Settings) -> Iterator[str]:
    """Every trial of the scale, the most productive ones first."""
    scale, seed = settings.scale, settings.seed
    chosen = [samples["closed"], samples["killed"]]
    rare = {Scale.CI: 5, Scale.SHORT: 2, Scale.LONG: 1}[scale]
    random_count = {Scale.CI: 150, Scale.SHORT: 1500, Scale.LONG: 60_000}[scale]
    for sample in chosen:
        whole = list(whole_files(sample))
        for check in ("read", "repair", "write", "refresh", "repair-in-place"):
            yield from _named(sample, check, whole[:: 1 if check == "read" else rare])
        some = list(at_random(sample, random_count, seed))
        yield from _named(sample, "read", some)
        yield from _named(sample, "repair", some[::rare])
    for sample in chosen:
        yield from _named(
            sample, "read", every_byte(sample, "flip", lambda count: _bits(scale, count + seed))
        )
    every = {Scale.CI: (40, 120, 250), Scale.SHORT: (1, 4, 16), Scale.LONG: (1, 1, 1)}[scale]
    for sample in chosen:
        for kind in ("cut", "zero", "ones"):
            yield from _named(sample, "read", _thinned(sample, kind, every[0], seed))
        for kind in ("flip", "cut", "zero"):
            yield from _named(sample, "repair", _thinned(sample, kind, every[1], seed))
        for check in ("write", "refresh", "repair-in-place"):
            yield from _named(sample, check, _thinned(sample, "flip", every[2], seed))


def _bits(scale: Scale, count: int) -> range:
    return range(8) if scale is Scale.LONG else range(count % 8, count % 8 + 1)


def _thinned(sample: Sample, kind: str, step: int, seed: int) -> Iterator[str]:
    every = every_byte(sample, kind, lambda count: range(count % 8, count % 8 + 1))
    return islice(every, seed % step, None, step)


def _named(sample: Sample, check: str, damages: Iterator[str] | list[str]) -> Iterator[str]:
    return (f"{sample.name}/{check}/{damage}" for damage in damages)


def run(settings: Settings) -> Outcome:
    """Try every kind of damage, one at a time."""
    outcome = Outcome()
    started = time.monotonic()
    samples = make_samples(settings.directory / "made", settings.seed)
    trials = Trials(samples)
    wanted = [settings.replay] if settings.replay else [*dict.fromkeys(names(samples, settings))]
    limits = Limits(time_s=20.0, memory_bytes=256 << 20, workers=settings.workers)
    deadline = started + settings.time_limit_s
    done = 0
    for name, (counts, failures) in try_all(trials, wanted, settings, limits, deadline):
        done += 1
        outcome.counts.update(counts)
        if failures and len(outcome.failures) < _MOST_FAILURES:
            outcome.failures.append(Failure(f"{name}: {'; '.join(failures)}", name))
        outcome.counts["trials that failed"] += bool(failures)
    size = sum(len(data) for name in ("closed", "killed") for data in samples[name].image.values())
    outcome.notes.append(
        f"{size} bytes in {sum(len(samples[name].image) for name in ('closed', 'killed'))} files; "
        f"{done} of {len(wanted)} trials done in {time.monotonic() - started:.0f} s"
    )
    return outcome


PART: Final = Part(
    "corruption",
    "Whatever happens to the bytes of a store, it gives the right answer or an error that names the "
    "file: no wrong value, hang, crash or runaway allocation. Repair saves everything whose checksum "
    "holds, and reports exactly the rest.",
    run,
)
