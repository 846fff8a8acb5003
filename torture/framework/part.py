"""What a part of the torture run is: the question it asks, how it is run, what it gives back.

A part tries as much as its scale asks for, or as its time allows, and counts what it tried.  It is
deterministic: with the same seed and scale it tries the same things in the same order (as far as the
operating system lets threads be repeated), and each failure comes with a command that replays it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path


class UnsoundError(Exception):
    """What must not happen, and did."""


class Scale(Enum):
    """How much is tried: with the tests, in about ten minutes for all parts, or for hours."""

    CI = "ci"
    SHORT = "short"
    LONG = "long"


@dataclass(frozen=True, slots=True)
class Settings:
    """How a part is to be run.

    Attributes:
        scale: how much is tried.
        time_limit_s: after this long a part begins nothing more, and says in ``notes`` what it left.
        seed: of everything random.
        directory: an empty directory of the part's own, for its stores; removed afterwards.
        replay: what a failure's command names, to try that one thing alone; None for everything.
        disturb: disturbances (see :mod:`torture.framework.disturbance`) under which the part runs.
    """

    scale: Scale
    time_limit_s: float
    seed: int
    directory: Path
    replay: str | None = None
    disturb: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that must not happen, and did.

    Attributes:
        what: one sentence or a few: what was done, what was expected, what was found.
        replay: what ``--replay`` takes to do it again.
    """

    what: str
    replay: str


@dataclass(slots=True)
class Outcome:
    """What a part found.

    Attributes:
        counts: how often each thing was tried, or seen, by what the report calls it.
        failures: none, if all is well.
        skipped: what could not be tried here, with the reason.
        notes: what a reader of the counts should know.
    """

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the torture run.

    Attributes:
        name: as the command line takes it.
        promise: what must hold, in a sentence or two, as the report prints it.
        run: tries to break it.
        can_be_disturbed: whether it heeds ``Settings.disturb``.
    """

    name: str
    promise: str
    run: Callable[[Settings], Outcome]
    can_be_disturbed: bool = False
