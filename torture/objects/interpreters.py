"""Family ``interpreters`` of the part ``objects``: subinterpreters import lsmkv and open stores.

Either that works, or an error that mentions interpreters refuses it.  The main interpreter works on.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from torture.framework.part import UnsoundError
from torture.objects.ground import Ground
from torture.objects.trial import ObjectTrial, Variant

_WORDS: Final = ("interpreter", "isolated")
_ROUNDS: Final = 3
_SCRIPT: Final = """
import json, sys
said = "works"
try:
    sys.path[:] = {paths!r}
    import lsmkv
    db = lsmkv.open({path!r}, block_size_bytes=256)
    for number in range(200):
        db[b"%04d" % number] = b"%d" % number
    db.flush()
    found = list(iter(db.items()))
    if found != [(b"%04d" % number, b"%d" % number) for number in range(200)]:
        said = "wrong: " + repr(found[:3])
    iterator = iter(db.items())
    next(iterator)
    if {closes!r}:
        db.close()
except BaseException as error:
    said = type(error).__name__ + ": " + str(error)
with open({answer!r}, "w") as file:
    json.dump(said, file)
"""


def _module() -> Any:
    """The module of this Python that makes subinterpreters, if there is one."""
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


def _made(module: Any) -> Iterator[Any]:
    """New interpreters: an isolated one, and one that shares as much as possible."""
    for isolated in (True, False):
        if module.__name__ == "_interpreters":
            yield module.create("isolated" if isolated else "legacy")
        else:
            yield module.create(isolated=isolated)


def _try(trial: ObjectTrial, *, closes: bool) -> None:
    """Use a store in one subinterpreter after another."""
    import sys

    module = _module()
    if module is None:
        trial.counts["no subinterpreters in this Python"] += 1
        return
    for number in range(_ROUNDS):
        for kind, interpreter in enumerate(_made(module)):
            answer = trial.directory / f"answer-{number}-{kind}"
            path = str(trial.directory / f"other-{number}-{kind}")
            script = _SCRIPT.format(
                paths=list(filter(None, sys.path)), path=path, answer=str(answer), closes=closes
            )
            try:
                module.run_string(interpreter, script)
            finally:
                trial.attempt("destroying it", module.destroy, interpreter)
            _judge(trial, answer, ("isolated", "sharing")[kind])


def _judge(trial: ObjectTrial, answer: Path, kind: str) -> None:
    said = json.loads(answer.read_text()) if answer.exists() else "nothing"
    if said == "works":
        trial.counts["works"] += 1
    elif any(word in said for word in _WORDS) and not said.startswith("SystemError"):
        trial.counts["refused"] += 1
    else:
        trial.fail(f"a subinterpreter ({kind}) gets no clear refusal: {said}")


def import_there_first(trial: ObjectTrial) -> None:
    """Use stores in subinterpreters, and then in the main interpreter."""
    _try(trial, closes=True)
    _check_here(trial)


def import_there_too(trial: ObjectTrial) -> None:
    """Use stores in subinterpreters while this one has an open store."""
    ground = trial.ground()
    iterator = iter(ground.db.items())
    begun = [next(iterator) for _ in range(5)]
    _try(trial, closes=True)
    if begun + list(iterator) != ground.expected("items"):
        raise UnsoundError("an iterator of the main interpreter gives wrong entries")
    ground.check()
    ground.close()


def leave_open_there(trial: ObjectTrial) -> None:
    """End subinterpreters with their stores open."""
    ground = trial.ground()
    _try(trial, closes=False)
    ground.check()
    ground.close()
    _check_here(trial)


def _check_here(trial: ObjectTrial) -> None:
    ground: Ground = trial.ground()
    ground.check()
    ground.close()


VARIANTS: Final[dict[str, Variant]] = {
    "first": import_there_first,
    "beside": import_there_too,
    "left-open": leave_open_there,
}
