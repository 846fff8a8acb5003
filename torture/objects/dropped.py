"""Family ``dropped`` of the part ``objects``: the last reference goes deep within other objects.

Python delays deallocations that nest fifty deep, and compiled classes must allow for that.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any, Final

import lsmkv
from torture.objects.ground import LIVE, WRITING, Ground
from torture.objects.trial import ObjectTrial, Variant, repeated

_LEAST_DEPTH: Final = 40
_MOST_DEPTH: Final = 200
_NEIGHBOURS: Final = 20


class _Box:
    """Holds an object."""

    def __init__(self, held: object) -> None:
        self.held = held


def _generator(held: object) -> Any:
    yield held


def _begun_generator(held: object) -> Any:
    generator = _generator(held)
    next(generator)
    return generator


_CONTAINERS: Final[tuple[Callable[[Any], Any], ...]] = (
    lambda held: [held],
    lambda held: (held,),
    lambda held: {"held": held},
    _Box,
    lambda held: functools.partial(print, held),
    lambda held: types.MethodType(print, held),
    _begun_generator,
    lambda held: lambda: held,
    lambda held: iter([held]),
)


def nested(held: Any, depth: int, kinds: list[Callable[[Any], Any]]) -> Any:
    for at in range(depth):
        held = kinds[at % len(kinds)](held)
    return held


@repeated
def drop_nested(trial: ObjectTrial, ground: Ground) -> None:
    dice = trial.chances
    specimen = dice.choice(LIVE + WRITING)
    depth = dice.randint(_LEAST_DEPTH, _MOST_DEPTH if dice.random() < 0.3 else 60)
    kinds = [dice.choice(_CONTAINERS[:3])]
    if dice.random() < 0.5:
        kinds = dice.sample(_CONTAINERS, dice.randint(1, len(_CONTAINERS)))
    held = [nested(specimen.make(ground.db), depth, kinds) for _ in range(_NEIGHBOURS)]
    while held:
        del held[dice.randrange(len(held))]
    trial.counts["objects"] += _NEIGHBOURS


class _FoundError(Exception):
    """Ends a recursion."""


@repeated
def drop_in_recursion(trial: ObjectTrial, ground: Ground) -> None:
    """End a recursion with one iterator per level by an exception."""

    def walk(ground: Ground, depth: int, deepest: int) -> None:
        start = sorted(ground.model)[depth % len(ground.model)]
        view = trial.chances.choice((ground.db.items, ground.db.keys, ground.db.values))
        iterator = iter(view(start=start))  # a local variable: the traceback keeps its frame
        for _ in iterator:
            if depth == deepest:
                raise _FoundError
            walk(ground, depth + 1, deepest)

    deepest = trial.chances.randint(_LEAST_DEPTH, _MOST_DEPTH)
    try:
        walk(ground, 0, deepest)
    except _FoundError:
        trial.counts["iterators"] += deepest


@repeated
def drop_with_tracebacks(trial: ObjectTrial, ground: Ground) -> None:
    """Drop exceptions whose tracebacks and contexts hold objects."""

    def fall(ground: Ground, depth: int, kinds: list[Callable[[Any], Any]]) -> None:
        mine = trial.chances.choice(LIVE).make(ground.db)
        if depth == 0:
            closed = ground.db.snapshot()
            closed.close()
            closed.get(b"key")
        try:
            fall(ground, depth - 1, kinds)
        except lsmkv.ClosedError as error:
            if depth % 3 == 0:
                raise _FoundError(nested(mine, 3, kinds)) from error
            raise
        except _FoundError:
            if depth % 5 == 0:
                raise lsmkv.ClosedError("another")  # the other error is its context
            raise

    kept: list[BaseException] = []
    for _ in range(3):
        try:
            fall(ground, trial.chances.randint(_LEAST_DEPTH, 120), list(_CONTAINERS[:4]))
        except (lsmkv.ClosedError, _FoundError) as error:
            kept.append(error)
    trial.counts["tracebacks"] += len(kept)
    kept.clear()


VARIANTS: Final[dict[str, Variant]] = {
    "nested": drop_nested,
    "recursion": drop_in_recursion,
    "tracebacks": drop_with_tracebacks,
}
