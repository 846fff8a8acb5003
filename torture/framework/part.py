"""The interface of a part of the torture run: its settings, its outcome, its failures.

A part tries as much as its scale asks for, or as its time allows, and counts what it tried.  With the
same seed and scale it tries the same things in the same order, except for the scheduling of threads.
Each failure comes with a command that replays it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path


class UnsoundError(Exception):
    """A promise of the store is broken."""


def expect(holds: bool, otherwise: str) -> None:
    """Raise UnsoundError with the message ``otherwise`` unless ``holds``."""
    if not holds:
        raise UnsoundError(otherwise)


class Scale(Enum):
    """The amount of work: a few minutes for all parts, about ten minutes, or hours."""

    CI = "ci"
    SHORT = "short"
    LONG = "long"


@dataclass(frozen=True, slots=True)
class Settings:
    """How to run a part.

    Attributes:
        time_limit_s: after this long the part begins nothing more, and notes what it left out.
        seed: seed of all random choices.
        directory: an empty directory for the part's stores, removed afterwards.
        replay: the one thing to try, as a failure's command names it; None for everything.
        disturb: disturbances during the run (:mod:`torture.framework.disturbance`).
    """

    scale: Scale
    time_limit_s: float
    seed: int
    directory: Path
    replay: str | None = None
    disturb: tuple[str, ...] = ()

    @property
    def workers(self) -> int:
        """Trials that may run at the same time."""
        return 1 if self.scale is Scale.CI else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Failure:
    """A broken promise.

    Attributes:
        what: what was done, what was expected and what was found.
        replay: the argument of ``--replay`` that repeats it.
    """

    what: str
    replay: str


@dataclass(slots=True)
class Outcome:
    """The result of a part.

    Attributes:
        counts: how often each thing was tried or seen, by its name in the report.
        skipped: what this machine cannot try, with the reason.
        notes: remarks for readers of the counts.
    """

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the torture run.

    Attributes:
        name: its name on the command line.
        promise: what must hold, in a sentence or two, for the report.
        run: tries to break the promise.
        can_be_disturbed: whether ``run`` applies ``Settings.disturb``.
    """

    name: str
    promise: str
    run: Callable[[Settings], Outcome]
    can_be_disturbed: bool = False
