"""Family ``cycles`` of the part ``objects``: the garbage collector ends objects in cycles.

Finalizers and callbacks of weak references use the store then, during any call of it.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any, Final

from torture.framework.disturbance import collections_at_random
from torture.framework.part import UnsoundError
from torture.objects.ground import LIVE, WRITING, Ground, differing
from torture.objects.meddling import Meddler
from torture.objects.trial import ObjectTrial, Variant, repeated, undisturbed

_MANY: Final = 15


class _Node:
    """Holds an object, and another node."""

    held: Any = None
    other: Any = None


def _list_cycle(held: Any) -> Any:
    ring: list[Any] = [held]
    ring.append(ring)
    return ring


def _dict_cycle(held: Any) -> Any:
    ring: dict[str, Any] = {"held": held}
    ring["ring"] = ring
    return ring


def _object_cycle(held: Any) -> Any:
    one, other = _Node(), _Node()
    one.held, one.other, other.other = held, other, one
    return one


def _closure_cycle(held: Any) -> Any:
    def call() -> Any:
        return held, call

    return call


def _generator_cycle(held: Any) -> Any:
    box: list[Any] = []

    def generate() -> Any:
        for item in held if hasattr(held, "__next__") else [held]:
            yield item, box

    generator = generate()
    box.append(generator)
    next(generator, None)
    return generator


def _error_cycle(held: Any) -> Any:
    try:
        raise LookupError
    except LookupError as error:
        kept = error  # its traceback holds this frame
    return [kept, held]


_CYCLES: Final[tuple[Callable[[Any], Any], ...]] = (
    _list_cycle,
    _dict_cycle,
    _object_cycle,
    _closure_cycle,
    _generator_cycle,
    _error_cycle,
)


def collect_cycles(trial: ObjectTrial) -> None:
    """Leave objects in all kinds of cycles to the collector."""

    def step(ground: Ground) -> None:
        for _ in range(_MANY):
            held = trial.chances.choice(LIVE + WRITING).make(ground.db)
            for _ in range(trial.chances.randint(1, 3)):
                held = trial.chances.choice(_CYCLES)(held)
        gc.collect(trial.chances.randrange(3))
        trial.counts["objects"] += _MANY

    with collections_at_random(trial.dice("collections")):
        undisturbed(trial, step)


def finalize(trial: ObjectTrial) -> None:
    """Put objects in cycles, with finalizers that use them and the store."""

    def step(ground: Ground) -> None:
        meddler = Meddler(trial, ground)

        class Finalized(_Node):
            def __del__(self) -> None:
                meddler.meddle()
                if hasattr(self.held, "__next__"):
                    trial.attempt("next() in a finalizer", next, self.held, None, strict=True)
                elif hasattr(self.held, "close"):
                    trial.attempt("close() in a finalizer", self.held.close, strict=True)

        for _ in range(_MANY):
            one, other = Finalized(), _Node()
            one.held = trial.chances.choice(LIVE + WRITING).make(ground.db)
            one.other, other.other = other, one
            other.held = one.held
            del one, other
            meddler.meddle()  # collections happen during it
        gc.collect()
        trial.counts["uses of the store"] += meddler.times

    with collections_at_random(trial.dice("collections")):
        undisturbed(trial, step)


@repeated
def refer_weakly(trial: ObjectTrial, ground: Ground) -> None:
    """Let callbacks of weak references use the store."""
    meddler = Meddler(trial, ground)
    references: list[weakref.ref[Any]] = []
    proxies: list[Any] = []  # only held, because any use of a dead proxy raises
    for _ in range(_MANY):
        specimen = trial.chances.choice(LIVE + WRITING)
        made = specimen.make(ground.db)
        try:
            references.append(weakref.ref(made, meddler.meddle))
            proxies.append(weakref.proxy(made, meddler.meddle))
            weakref.finalize(made, meddler.meddle).atexit = False
            trial.counts["weak references"] += 1
        except TypeError:
            trial.counts["refused with TypeError"] += 1
        if trial.chances.random() < 0.5:
            made = trial.chances.choice(_CYCLES)(made)
        del made
    for reference in references:
        trial.attempt("a weak reference", reference)
    gc.collect()
    trial.counts["uses of the store"] += meddler.times


@repeated
def resurrect(trial: ObjectTrial, ground: Ground) -> None:
    """Resurrect iterators in finalizers; they must continue where they were."""
    saved: list[_Node] = []

    class Phoenix(_Node):
        def __del__(self) -> None:
            saved.append(self)

    expected = ground.expected("items")
    for _ in range(_MANY):
        node: _Node = Phoenix()
        iterator = iter(trial.chances.choice((ground.db, ground.db.snapshot())).items())
        node.held = [iterator, [next(iterator) for _ in range(trial.chances.randrange(50))]]
        node.other = trial.chances.choice(_CYCLES)(node)
        del node, iterator
    gc.collect()
    for node in saved:
        iterator, found = node.held
        found += iterator
        if found != expected:
            raise UnsoundError(f"a resurrected iterator gives {differing(found, expected)}")
    trial.counts["resurrected"] += len(saved)


VARIANTS: Final[dict[str, Variant]] = {
    "collected": collect_cycles,
    "finalized": finalize,
    "weak": refer_weakly,
    "resurrected": resurrect,
}
