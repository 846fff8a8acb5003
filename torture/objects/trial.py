"""A trial of the part ``objects``: its settings, its allowed errors and its results."""

from __future__ import annotations

import random
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import lsmkv
from torture.framework.part import UnsoundError
from torture.objects.ground import Bystander, Ground

ALLOWED: Final = (
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
"""Errors that misuse of an object may raise."""

FORBIDDEN: Final = (lsmkv.CorruptionError, lsmkv.BackgroundError, NotImplementedError)
"""Subclasses of these that it must not raise: no file is damaged, and no background work failed."""

_INTERNAL: Final = ("deallocated", "bad internal call", "returned NULL", "'NoneType'")
_MOST_FAILURES: Final = 5  # of one trial: one defect fails in many ways


@dataclass
class ObjectTrial:
    """One run of a variant.

    Attributes:
        directory: an empty directory of its own.
        seconds: how long it may work.
        tolerated: errors that the trial itself causes, also in finalizers.
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
        """A random generator of its own for each name."""
        return random.Random(f"objects {self.seed} {name}")

    def goes_on(self) -> bool:
        """Whether time is left (from the first call) and failures are few."""
        if self._deadline is None:
            self._deadline = time.monotonic() + self.seconds
        return time.monotonic() < self._deadline and len(self.failures) < _MOST_FAILURES

    def ground(self, keys: int = 600) -> Ground:
        """A new store with known contents."""
        self._stores += 1
        return Ground(self.directory / f"store-{self._stores}", self.chances, keys)

    def fail(self, what: str) -> None:
        if what not in self.failures and len(self.failures) < _MOST_FAILURES:
            self.failures.append(what)

    def attempt(
        self, what: str, call: Callable[..., Any], *arguments: Any, strict: bool = False
    ) -> Any:
        """The result of ``call``; None after an allowed error.  A ``strict`` one hides internals."""
        try:
            return call(*arguments)
        except Exception as error:
            self.judge(what, error, strict=strict)
            return None

    def judge(self, what: str, error: BaseException, *, strict: bool = False) -> None:
        """Count an error, or fail if it is not natural."""
        reason = why_wrong(error, strict=strict)
        if reason:
            self.fail(f"{what}: {reason}: {in_words(error)}")
        else:
            self.counts[f"refused with {type(error).__name__}"] += 1

    def in_threads(self, jobs: Iterable[Callable[[], None]]) -> None:
        """Run each job in a thread of its own; they may raise only allowed errors."""
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


Variant = Callable[[ObjectTrial], None]  # one kind of misuse


def why_wrong(error: BaseException, *, strict: bool = False) -> str:
    """Why the store must not raise this error; empty if it may."""
    if isinstance(error, UnsoundError):
        return "a wrong answer"
    if isinstance(error, FORBIDDEN) or not isinstance(error, ALLOWED):
        return "misuse must not raise this error"
    if strict and any(word in str(error) for word in _INTERNAL):
        return "the error mentions internals"
    if "deallocated" in str(error):
        return "an object was used after it was freed"
    return ""


def in_words(error: BaseException) -> str:
    """The error and the end of its traceback."""
    places = traceback.extract_tb(error.__traceback__)[-4:]
    where = ", ".join(f"{Path(place.filename).name}:{place.lineno}" for place in places)
    return f"{type(error).__name__}: {str(error)[:300]} (at {where})"


def undisturbed(trial: ObjectTrial, step: Callable[[Ground], None]) -> None:
    """Call ``step`` over and over, beside objects that nobody misuses."""
    ground = trial.ground()
    bystander = Bystander(ground)
    while trial.goes_on():
        step(ground)
        bystander.step()
        trial.counts["rounds"] += 1
    bystander.end()
    ground.check()
    ground.close()


def repeated(step: Callable[[ObjectTrial, Ground], None]) -> Variant:
    """The variant that does ``step`` over and over (:func:`undisturbed`)."""
    return lambda trial: undisturbed(trial, partial(step, trial))


# --- the process ---------------------------------------------------------------------------------

_PATIENCE_S: Final = 20.0


def patience_s(seconds: float) -> float:
    """Time after which a trial hangs."""
    return 3 * seconds + _PATIENCE_S


def watch_hooks(trial: ObjectTrial) -> None:
    """Make errors in finalizers and threads failures."""

    def unraisable(args: sys.UnraisableHookArgs) -> None:
        if args.exc_value is not None and not isinstance(args.exc_value, trial.tolerated):
            trial.fail(f"{in_words(args.exc_value)} could not be raised in {args.object!r}")

    def in_thread(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None and not isinstance(args.exc_value, trial.tolerated):
            trial.fail(f"a thread ended with {in_words(args.exc_value)}")

    sys.unraisablehook = unraisable
    threading.excepthook = in_thread
