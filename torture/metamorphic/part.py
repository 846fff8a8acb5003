"""The part ``metamorphic``: neither options nor the build change a store's answers.

In each round one random program (:mod:`torture.metamorphic.programs`) runs under the default options
and under random ones, which may change at each reopening (:mod:`torture.metamorphic.rounds`).  Every
answer must equal that of a sorted dict (:mod:`torture.metamorphic.subjects`).  A session that differs
is shrunk (:mod:`torture.metamorphic.sessions`).

``<round>/<chain>`` replays a session.  ``compiled/<round>`` runs a round on the compiled build, if there
is one (:mod:`torture.metamorphic.other_build`), and compares digests of all answers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from torture.framework.child_trials import Limits, Verdict, try_all
from torture.framework.compiled_build import compiled_tree
from torture.framework.disturbance import in_disturbance
from torture.framework.part import Failure, Outcome, Part, Settings
from torture.metamorphic.option_sets import OptionSet
from torture.metamorphic.other_build import Request, differences
from torture.metamorphic.programs import reopenings
from torture.metamorphic.rounds import CHAINS, SIZES, Size, names, reads_directly, session
from torture.metamorphic.sessions import Session, Tally, compare, explained

_COMPILED: Final = "compiled"
_MOST_FAILURES: Final = 10  # one defect fails many rounds
_TRIAL_S: Final = 120.0


class Trials:
    """Runs a session, or a round on the compiled build in ``tree``."""

    def __init__(self, seed: int, size: Size, directs: bool, tree: Path | None) -> None:
        self._seed = seed
        self._size = size
        self._directs = directs
        self._tree = tree

    def __call__(self, name: str, directory: Path) -> Verdict:
        kind, _, number = name.partition("/")
        if kind == _COMPILED and number.isdecimal():
            return self._compiled(int(number), directory)
        wanted = session(name, self._seed, self._size.operations, self._directs)
        tally, path = Tally(), directory / "store"
        found = compare(wanted, path, tally)
        counts = {"sessions": 1, **_seen(wanted)}
        counts["operations"] = tally.operations
        counts["answers compared"] = tally.answers
        counts |= tally.work
        if name.endswith("/0"):
            counts["rounds"] = 1
        if found is None:
            return counts, []
        return counts, [explained(wanted, found, path, self._size.shrinking_s)]

    def _compiled(self, round_number: int, directory: Path) -> Verdict:
        if self._tree is None:
            return {}, ["there is no compiled build to run the round"]
        directory.mkdir(parents=True, exist_ok=True)
        request = Request(
            round_number=round_number,
            seed=self._seed,
            operations=self._size.operations,
            directs=self._directs,
            shrinking_s=self._size.shrinking_s,
            directory=str(directory),
        )
        found = differences(self._tree, request)
        return {"compiled build: sessions": CHAINS}, found


def _seen(wanted: Session) -> dict[str, int]:
    """Counts of what a session covers."""
    reopened = reopenings(wanted.operations)
    counts = {"stores reopened": reopened, "option sets": len(wanted.sets)}
    for option, default in (("compaction", "leveled"), ("filter_policy", "bloom")):
        for choice in sorted({str(one.get(option, default)) for one in wanted.sets}):
            counts[f"sessions with {option} {choice}"] = 1
    for what, has in _RARE.items():
        counts[f"sessions with {what}"] = int(any(has(one) for one in wanted.sets))
    return counts


def _has_dictionary(options: OptionSet) -> bool:
    is_compressed = options.get("compression", "zstd") == "zstd"
    return is_compressed and bool(options.get("compression_dictionary_size_bytes", 0))


_RARE: Final[dict[str, Callable[[OptionSet], bool]]] = {
    "a compression dictionary": _has_dictionary,
    "direct reads": lambda options: options.get("direct_reads") is True,
    "helper processes": lambda options: options.get("background") == "process",
}


def run(settings: Settings) -> Outcome:
    """Run the rounds of the scale while time is left."""
    outcome = Outcome()
    started = time.monotonic()
    size = SIZES[settings.scale]
    directs = reads_directly(settings.directory)
    if not directs:
        outcome.skipped.append("direct reads: not on this file system (choose another by --work)")
    tree, reason = compiled_tree()
    if tree is None:
        outcome.skipped.append(reason)
    trials = in_disturbance(
        Trials(settings.seed, size, directs, tree), settings.disturb, settings.seed
    )
    wanted = [settings.replay] if settings.replay else _wanted(size, tree is not None)
    time_s = _TRIAL_S + 2 * size.shrinking_s
    # Threads reserve address space that they never use.
    limits = Limits(time_s=time_s, memory_bytes=4 << 30, workers=settings.workers)
    deadline = started + settings.time_limit_s
    done = 0
    for name, (counts, failures) in try_all(trials, wanted, settings, limits, deadline):
        done += 1
        outcome.counts.update(counts)
        outcome.counts["sessions that differed"] += bool(failures)
        if len(outcome.failures) < _MOST_FAILURES:
            outcome.failures += [Failure(f"{name}: {what}", name) for what in failures]
    took = time.monotonic() - started
    outcome.notes.append(f"{done:,} of {len(wanted):,} trials done in {took:.0f} s")
    return outcome


def _wanted(size: Size, has_tree: bool) -> list[str]:
    """Names of all trials, round after round."""
    wanted: list[str] = []
    for number in range(size.rounds):
        wanted += names(number)
        if has_tree and number % size.compiled_every == 0:
            wanted.append(f"{_COMPILED}/{number}")
    return wanted


PART: Final = Part(
    "metamorphic",
    "The same operations give the same answers, those of a sorted dict, whatever the options, even if "
    "they change at each reopening, and whatever the build.",
    run,
    can_be_disturbed=True,
)
