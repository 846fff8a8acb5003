"""Family ``abused`` of the part ``objects``: objects uninitialised, initialised twice, or taken apart.

Compiled classes keep their attributes in memory of their own, and must not read one that was never set.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import inspect
import operator
import os
import pkgutil
import random
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

import lsmkv
from torture.framework.part import UnsoundError
from torture.objects.ground import DATA, LIVE, WRITING, Ground, Specimen
from torture.objects.trial import ALLOWED, ObjectTrial, Variant, in_words, repeated, undisturbed

_ODD: Final[tuple[Any, ...]] = (
    None,
    0,
    -1,
    1 << 70,
    b"",
    b"key",
    "text",
    1.5,
    [],
    {},
    (),
    object(),
    len,
    True,
)
_MANY: Final = 12
_DEEPEST: Final = 6
_MOST_INTERNALS: Final = 400

# These end or replace the process, read standard input, or wait forever.
_LEFT_OUT: Final = frozenset({"serve", "run", "main", "loop", "_loop", "wait", "join", "acquire"})
# They multiply what they are given: a text times a large number is a MemoryError.
_MULTIPLYING: Final = frozenset(
    {"add_hash", "may_contain_hash", "remove_hash", "_place", "_other", "_slot_of", "_indexes"}
)
_LEFT_OUT_MODULES: Final = (
    "lsmkv.cli",
    "lsmkv.__main__",
    "lsmkv.salvage",
    "lsmkv.background.process.child",
    "lsmkv.background.process.parent",
)

_ORDINARY: Final = (
    *ALLOWED,
    NotImplementedError,
    LookupError,
    OSError,
    ArithmeticError,
    AssertionError,
    struct.error,  # internal functions raise it for short input
)
"""Errors that an object taken apart may raise: any but SystemError, MemoryError and the like."""


def _judge(trial: ObjectTrial, what: str, error: BaseException) -> None:
    if isinstance(error, _ORDINARY) and "deallocated" not in str(error):
        trial.counts[f"refused with {type(error).__name__}"] += 1
    else:
        trial.fail(f"{what}: {in_words(error)}")


def _try(trial: ObjectTrial, what: str, call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except Exception as error:
        _judge(trial, what, error)
        return None


def _probe(trial: ObjectTrial, name: str, made: Any, dice: random.Random, *, calls: bool) -> None:
    """Get all attributes of an object, and with ``calls`` call them."""
    for attribute in _try(trial, f"dir of {name}", dir, made) or dir(type(made)):
        what = f"{name}.{attribute}"
        found = _try(trial, what, getattr, made, attribute)
        if not callable(found) or attribute in _LEFT_OUT | _MULTIPLYING | _NEVER_CALLED:
            continue
        if attribute in _HARMLESS or calls:
            _try(trial, f"{what}()", found)
        if calls:
            odd = dice.choices(_ODD, k=dice.randint(1, 3))
            _try(trial, f"{what}(*{odd!r})", found, *odd)
    for call in (repr, str, len, bool, iter, hash, sys.getsizeof, format, gc.get_referents):
        _try(trial, f"{call.__name__} of {name}", call, made)
    trial.counts["objects probed"] += 1


_NEVER_CALLED: Final = frozenset(
    {
        "__class__",
        "__init_subclass__",
        "__subclasshook__",
        "__new__",
        "__del__",
        "__reduce_ex__",
        "__internal_mypyc_setup",  # it belongs to mypyc
    }
)
_HARMLESS: Final = frozenset(
    {
        "__repr__",
        "__str__",
        "__hash__",
        "__sizeof__",
        "__dir__",
        "__len__",
        "__bool__",
        "__length_hint__",
        "__getstate__",
        "__iter__",
        "__reversed__",
        "__reduce__",
    }
)


@repeated
def look_at_everything(trial: ObjectTrial, ground: Ground) -> None:
    """Get all attributes of objects."""
    for specimen in trial.chances.sample((*LIVE, *WRITING, *DATA), _MANY):
        made = specimen.make(ground.db)
        _probe(trial, specimen.name, made, trial.chances, calls=False)
    _probe(trial, "DB", ground.db, trial.chances, calls=False)


def _internals(roots: list[Any]) -> list[Any]:
    """The package's objects and iterators that ``roots`` refer to."""
    found: dict[int, Any] = {}
    level = list(roots)
    for _ in range(_DEEPEST):
        following = []
        for one in level:
            for other in gc.get_referents(one):
                mine = type(other).__module__.startswith("lsmkv") or hasattr(
                    type(other), "__next__"
                )
                if mine and id(other) not in found and not isinstance(other, type):
                    found[id(other)] = other
                    following.append(other)
        level = following
    return list(found.values())


@repeated
def look_at_internals(trial: ObjectTrial, ground: Ground) -> None:
    """Use the internal objects and iterators that the garbage collector shows."""
    with ground.second_handle() as db:
        roots = [specimen.make(db) for specimen in LIVE]
        for one in _internals(roots)[:_MOST_INTERNALS]:
            name = f"an internal {type(one).__name__}"
            _probe(trial, name, one, trial.chances, calls=False)
            if hasattr(type(one), "__next__"):
                _try(trial, f"next of {name}", next, one, None)
            _try(trial, f"referrers of {name}", gc.get_referrers, one)
        for root in roots:
            if hasattr(root, "__next__"):
                _try(trial, "an iterator whose internals were used", list, root)


@repeated
def initialise_again(trial: ObjectTrial, ground: Ground) -> None:
    """Call ``__init__`` of live objects again, with equal or other arguments."""
    trial.tolerated = _ORDINARY  # finalizers of objects taken apart raise them
    with ground.second_handle() as db:
        made = [specimen.make(db) for specimen in (*LIVE, *DATA)]
        made += [specimen.make(ground.db) for specimen in WRITING]
        inner = [one for one in _internals(made) if _is_reading(one)]
        for one in [*made, *trial.chances.sample(inner, min(_MANY, len(inner)))]:
            name = type(one).__name__
            arguments = _arguments(one, db, trial.chances)
            for given in (arguments, [], trial.chances.choices(_ODD, k=len(arguments) or 1)):
                _try(trial, f"{name}.__init__ again", _initialise, one, given)
                if hasattr(type(one), "__next__"):
                    _try(trial, f"{name} goes on", next, one, None)
                _try(trial, f"{name} is used", _use, one)
            trial.counts["initialised again"] += 1


def _is_core(one: Any) -> bool:
    """Whether a handle or its background work depends on the object; misuse of it may break them."""
    named = type(one).__module__, type(one).__name__
    return named[0].startswith(
        ("lsmkv.background", "lsmkv.engine.engine", "lsmkv.log.log_set", "lsmkv.log.writer")
    )


def _arguments(one: Any, db: lsmkv.DB, dice: random.Random) -> list[Any]:
    """An argument for each parameter: the attribute of that name, if there is one."""
    try:
        names = list(inspect.signature(type(one).__init__).parameters)[1:]
    except (TypeError, ValueError):
        return []
    found = []
    for name in names:
        value = getattr(one, name, getattr(one, f"_{name}", None))
        found.append(db._engine if name == "engine" else value)
    return found


def _initialise(one: Any, arguments: list[Any]) -> None:
    one.__init__(*arguments)


def _set_state(one: Any, state: Any) -> None:
    one.__setstate__(state)


def _use(one: Any) -> None:
    """Make the usual uses of an object of any class."""
    for name in ("keys", "first", "next", "close", "__len__", "__iter__"):
        with contextlib.suppress(*_ORDINARY):
            getattr(one, name)()


# --- classes -------------------------------------------------------------------------------------


def _classes() -> list[type]:
    found: dict[type, None] = {}
    for info in pkgutil.walk_packages(lsmkv.__path__, "lsmkv."):
        if info.name.startswith(_LEFT_OUT_MODULES):
            continue
        module = importlib.import_module(info.name)
        for one in vars(module).values():
            if isinstance(one, type) and one.__module__.startswith("lsmkv"):
                found[one] = None
    return list(found)


def leave_uninitialised(trial: ObjectTrial) -> None:
    """Make objects with only ``__new__``, and call all their methods."""
    trial.tolerated = _ORDINARY  # finalizers of objects taken apart raise them
    os.chdir(trial.directory)
    classes = _classes()

    def step(ground: Ground) -> None:
        for one in trial.chances.sample(classes, _MANY):
            name = f"uninitialised {one.__name__}"
            made = _try(trial, name, one.__new__, one)
            if made is None or _is_core(made):
                continue
            for attribute in _slots(one):
                _try(trial, f"{name}.{attribute}", getattr, made, attribute)
            _probe(trial, name, made, trial.chances, calls=not _touches_files(one))
            if not _touches_files(one):
                _try(
                    trial,
                    f"{name}.__init__",
                    lambda made=made: made.__init__(*trial.chances.choices(_ODD, k=3)),
                )
            _try(trial, f"{name} is used", _use, made)
            trial.counts["uninitialised"] += 1

    undisturbed(trial, step)


def _touches_files(one: type) -> bool:
    return one.__module__.startswith(
        ("lsmkv.storage.", "lsmkv.tree.version_set", "lsmkv.background.handles", "lsmkv.runtime")
    )


def _slots(one: type) -> Iterator[str]:
    for base in one.__mro__:
        yield from getattr(base, "__slots__", ())
        yield from getattr(base, "__mypyc_attrs__", ())


@repeated
def set_and_delete(trial: ObjectTrial, ground: Ground) -> None:
    """Set attributes to odd values or delete them, and use the object."""
    trial.tolerated = _ORDINARY  # finalizers of objects taken apart raise them
    with ground.second_handle() as db:
        for specimen in trial.chances.sample(LIVE, _MANY):
            made = specimen.make(db)
            inner = [one for one in _internals([made]) if _is_reading(one)]
            for one in [made, *trial.chances.sample(inner, min(3, len(inner)))]:
                _take_apart(trial, specimen, one)
            for use in (_use, list):
                _try(trial, f"a {specimen.name} that was taken apart", use, made)


def _is_reading(one: Any) -> bool:
    """Whether only one reader uses the object."""
    return type(one).__module__ in (
        "lsmkv.read.scan",
        "lsmkv.read.sources",
        "lsmkv.api.ranges",
        "lsmkv.api.cursor",
    )


def _take_apart(trial: ObjectTrial, specimen: Specimen, one: Any) -> None:
    names = {*getattr(one, "__dict__", ()), *_slots(type(one))}
    dice = trial.chances
    for name in dice.sample(sorted(names), min(3, len(names))):
        what = f"{type(one).__name__}.{name} of a {specimen.name}"
        odd = dice.choice(_ODD)
        change, *given = dice.choice(
            ((setattr, odd), (object.__setattr__, odd), (delattr,), (object.__delattr__,))
        )
        _try(trial, what, change, one, name, *given)
        trial.counts["attributes changed"] += 1


@repeated
def exhaust(trial: ObjectTrial, ground: Ground) -> None:
    """Use iterators after their end, and call their special methods."""
    for specimen in LIVE:
        made = specimen.make(ground.db)
        if not hasattr(made, "__next__"):
            continue
        _try(trial, "length hint", operator.length_hint, made)
        list(made)
        for _ in range(_MANY):
            if next(made, None) is not None:
                raise UnsoundError(f"a {specimen.name} continues after its end")
        for odd in _ODD:
            _try(trial, "__setstate__", _set_state, made, odd)
            _try(trial, "after __setstate__", next, made, None)
        trial.counts["iterators"] += 1


@repeated
def subclass(trial: ObjectTrial, ground: Ground) -> None:
    """Make subclasses of the public classes, and use their objects."""
    trial.tolerated = _ORDINARY  # finalizers of objects taken apart raise them
    with ground.second_handle() as db:
        bases = {type(specimen.make(db)) for specimen in (*LIVE, *DATA)} | {
            lsmkv.DB,
            lsmkv.WriteBatch,
        }
        for base in sorted(bases, key=lambda base: base.__name__):
            for namespace in _namespaces(db):
                name = f"a subclass of {base.__name__}"
                made = _try(trial, name, type, "Sub", (base,), dict(namespace))
                if made is None:
                    continue
                one = _try(trial, name, made.__new__, made)
                if one is None:
                    continue
                _use(one)
                model = next(
                    s for s in (*LIVE, *WRITING, *DATA, _A_DB) if type(s.make(ground.db)) is base
                )
                given = _arguments(model.make(ground.db), db, trial.chances)
                _try(trial, name, _initialise, one, given)
                _probe(trial, name, one, trial.chances, calls=False)
                _use(one)
                trial.counts["subclasses"] += 1
            with contextlib.suppress(TypeError):
                type("Two", (base, lsmkv.DB, dict), {})


_A_DB: Final = Specimen("DB", lambda db: db)


def _namespaces(db: lsmkv.DB) -> Iterator[dict[str, Any]]:
    yield {}
    yield {"__slots__": ("more",)}
    yield {"__iter__": lambda self: iter([7]), "__len__": lambda self: -1}
    yield {"__next__": lambda self: 7, "__eq__": lambda self, other: db.get(b"key") is None}
    yield {"__getattribute__": lambda self, name: (_ for _ in ()).throw(LookupError(name))}
    yield {"_engine": None, "_moment": None, "entries": None}


VARIANTS: Final[dict[str, Variant]] = {
    "attributes": look_at_everything,
    "internals": look_at_internals,
    "initialised-again": initialise_again,
    "uninitialised": leave_uninitialised,
    "taken-apart": set_and_delete,
    "exhausted": exhaust,
    "subclassed": subclass,
}
