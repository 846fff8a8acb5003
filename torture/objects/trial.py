"""A trial of the part ``objects``: what it is given, what it may find, and the process that runs it.

``python -m torture.objects.child NAME SEED SECONDS DIRECTORY`` runs one trial, and prints a line of JSON:
where ``lsmkv`` was loaded from, what was counted, and what failed.  A crash, a hang, or an error at
the end of the process is for whoever started it to see.
"""

from __future__ import annotations

import random
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import lsmkv
from torture.framework.part import UnsoundError
from torture.objects.ground import Bystander, Ground

NATURAL: Final = (
    lsmkv.Error,
    TypeError,
    ValueError,
    RuntimeError,
    AttributeError,
    KeyError,
    StopIteration,
    BufferError,
    OverflowError,
)
"""What may be raised to one who misuses an object."""

UNNATURAL: Final = (lsmkv.CorruptionError, lsmkv.BackgroundError, NotImplementedError)
"""What may not, though its base may: nothing is damaged, and nothing failed."""

_INTERNAL: Final = ("deallocated", "bad internal call", "returned NULL", "'NoneType'")
_MOST_FAILURES: Final = 5
"""That one trial tells; one defect shows in many ways."""


@dataclass
class ObjectTrial:
    """One run of a variant.

    Attributes:
        variant: its name.
        seed: of everything random.
        directory: an empty directory of its own.
        seconds: how long it may go on.
        counts: what was tried, to be filled.
        failures: what must not happen and did.
        tolerated: errors of the trial's own making, which finalizers may be hit by.
    """

    variant: str
    seed: int
    directory: Path
    seconds: float
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    tolerated: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        self._deadline: float | None = None
        self._stores = 0
        self.chances = self.dice("itself")

    def dice(self, name: object) -> random.Random:
        """Chances of their own for whoever has that name."""
        return random.Random(f"objects {self.seed} {name}")

    def goes_on(self) -> bool:
        """Whether there is time left, which begins with the first question, and little failed."""
        if self._deadline is None:
            self._deadline = time.monotonic() + self.seconds
        return time.monotonic() < self._deadline and len(self.failures) < _MOST_FAILURES

    def ground(self, keys: int = 600) -> Ground:
        """A new store with known contents."""
        self._stores += 1
        return Ground(self.directory / f"store-{self._stores}", self.chances, keys)

    def fail(self, what: str) -> None:
        """Something is not as it must be."""
        if what not in self.failures and len(self.failures) < _MOST_FAILURES:
            self.failures.append(what)

    def attempt(
        self, what: str, call: Callable[..., Any], *arguments: Any, strict: bool = False
    ) -> Any:
        """What ``call`` returns; None if it raises, which must be something natural."""
        try:
            return call(*arguments)
        except Exception as error:
            self.judge(what, error, strict=strict)
            return None

    def judge(self, what: str, error: BaseException, *, strict: bool = False) -> None:
        """Count an error, or fail if it is not natural."""
        reason = unnatural(error, strict=strict)
        if reason:
            self.fail(f"{what}: {reason}: {told(error)}")
        else:
            self.counts[f"refused with {type(error).__name__}"] += 1

    def in_threads(self, jobs: Iterable[Callable[[], None]]) -> None:
        """Run each job in a thread of its own; what one raises must be natural."""
        threads = [
            threading.Thread(
                target=self.attempt, args=("a thread", job), kwargs={"strict": True}, daemon=True
            )
            for job in jobs
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


Variant = Callable[[ObjectTrial], None]
"""What a family does in one of its ways."""


def unnatural(error: BaseException, *, strict: bool = False) -> str:
    """Why nobody should get this error; empty if one may."""
    if isinstance(error, UnsoundError):
        return "wrong"
    if isinstance(error, UNNATURAL) or not isinstance(error, NATURAL):
        return "an error that is not natural here"
    if strict and any(word in str(error) for word in _INTERNAL):
        return "an error that tells of internals"
    if "deallocated" in str(error):
        return "an object was used after it had gone"
    return ""


def told(error: BaseException) -> str:
    """The error and the last places it came through."""
    places = traceback.extract_tb(error.__traceback__)[-4:]
    where = ", ".join(f"{Path(place.filename).name}:{place.lineno}" for place in places)
    return f"{type(error).__name__}: {str(error)[:300]} (at {where})"


def undisturbed(trial: ObjectTrial, step: Callable[[Ground, Bystander], None]) -> None:
    """Call ``step`` over and over, with objects beside it that must go on telling the truth."""
    ground = trial.ground()
    bystander = Bystander(ground)
    while trial.goes_on():
        step(ground, bystander)
        bystander.step()
        trial.counts["rounds"] += 1
    bystander.end()
    ground.check()
    ground.close()


# --- the process ---------------------------------------------------------------------------------

_PATIENCE_S: Final = 20.0


def patience_s(seconds: float) -> float:
    """After this long a trial hangs."""
    return 3 * seconds + _PATIENCE_S


def watch_hooks(trial: ObjectTrial) -> None:
    """Errors that nobody is there to get are failures."""

    def unraisable(args: sys.UnraisableHookArgs) -> None:
        if args.exc_value is not None and not isinstance(args.exc_value, trial.tolerated):
            trial.fail(f"nobody got {told(args.exc_value)} in {args.object!r}")

    def in_thread(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None and not isinstance(args.exc_value, trial.tolerated):
            trial.fail(f"a thread ended with {told(args.exc_value)}")

    sys.unraisablehook = unraisable
    threading.excepthook = in_thread
