"""Family ``copied`` of the part ``objects``: copies, and use after close or in a forked child.

Objects of an open store refuse to be copied or pickled, with a clear error; read-only handles give a
handle of their own.  Objects that only hold data, and errors, can be copied.  A closed object raises a
new error at each use.
"""

from __future__ import annotations

import copy
import itertools
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import lsmkv
from torture.framework.part import UnsoundError
from torture.objects.ground import DATA, LIVE, WRITING, Ground
from torture.objects.trial import ObjectTrial, Variant, in_words, repeated, why_wrong

_PROTOCOLS: Final = range(pickle.HIGHEST_PROTOCOL + 1)
_USES: Final = 20


def _pickled(held: Any, protocol: int) -> Any:
    return pickle.loads(pickle.dumps(held, protocol))


def _copies(held: Any) -> Iterable[tuple[str, Callable[[], Any]]]:
    yield "copy.copy", lambda: copy.copy(held)
    yield "copy.deepcopy", lambda: copy.deepcopy(held)
    for protocol in _PROTOCOLS:
        yield f"pickle {protocol}", partial(_pickled, held, protocol)


def _is_clear(error: TypeError, made: Any) -> bool:
    """Whether the error names the class and the remedy."""
    said = str(error)
    reason, _, remedy = said.partition(":")
    return type(made).__name__ in said and "copy" in said.lower() + reason and bool(remedy.strip())


@repeated
def copy_live(trial: ObjectTrial, ground: Ground) -> None:
    """Copy and pickle every object that reads or writes a store."""
    for specimen in (*LIVE, *WRITING):
        made = specimen.make(ground.db)
        is_iterator = hasattr(made, "__next__")
        for how, make in _copies(made):
            what = f"{how} of a {specimen.name}"
            try:
                copied = make()
            except Exception as error:
                trial.counts["refused"] += 1
                if why_wrong(error):
                    trial.fail(f"{what}: {in_words(error)}")
                elif not is_iterator and not (
                    isinstance(error, TypeError) and _is_clear(error, made)
                ):
                    trial.fail(f"{what}: no TypeError that names the remedy: {in_words(error)}")
                continue
            if is_iterator:  # itertools made it; its copies share the iterator below
                list(zip(made, copied, strict=False))
                trial.counts["copied iterators"] += 1
            else:
                trial.fail(f"{what} succeeded")
    with ground.second_handle() as db:
        for how, make in _copies(db):
            # A copy of a read-only handle opens the store anew.
            with make() as copied:
                if list(copied.items()) != list(db.items()):
                    trial.fail(f"{how} of a read-only DB reads something else")
            trial.counts["copied handles"] += 1


@repeated
def copy_snapshots(trial: ObjectTrial, ground: Ground) -> None:
    """Read copies of snapshots, if possible, after the originals are closed."""
    trial.counts["snapshots"] += 1
    for how, make in _copies(ground.db.snapshot()):
        try:
            copied = make()
        except (TypeError, pickle.PicklingError):  # the variant ``live`` checks this
            continue
        if not isinstance(copied, lsmkv.Snapshot):
            raise UnsoundError(f"{how} of a snapshot gives a {type(copied).__name__}")
    other = trial.ground(50)
    key = next(iter(other.model))
    for name, duplicate in (("copy", copy.copy), ("deepcopy", copy.deepcopy)):
        snapshot = other.db.snapshot()
        before = snapshot.get(key)
        try:
            copied = duplicate(snapshot)
        except TypeError:
            snapshot.close()
            continue
        snapshot.close()
        other.db.put(key, b"later")
        other.db.flush()
        other.db.compact_range()
        try:
            if copied.get(key) != before:
                trial.fail(f"{name} of a snapshot shows a later write")
        except lsmkv.ClosedError:
            pass
    other.db.close()


def _errors(ground: Ground) -> Iterable[BaseException]:
    """Errors of every public class, as the store raises them."""
    yield lsmkv.CorruptionError(ground.path, 7, "broken", expected=1, got=2)
    yield lsmkv.UnsupportedFormatError(ground.path, "too new")
    yield lsmkv.BackgroundError("no more writes")
    yield lsmkv.ForkedError("forked")
    calls: list[Callable[[], Any]] = [
        lambda: lsmkv.open(ground.path),
        lambda: lsmkv.open(ground.path, create_if_missing=False, error_if_exists=True),
        lambda: lsmkv.open(f"{ground.path}-none", create_if_missing=False),
        lambda: ground.db.cursor().item,
        lambda: _put_read_only(ground),
        lambda: _closed(ground.db.snapshot()).get(b"key"),
        lambda: ground.db.put("text", b""),  # type: ignore[arg-type]
        lambda: ground.db.put(b"k" * 70_000, b""),
    ]
    for call in calls:
        try:
            call()
        except Exception as error:
            yield error.with_traceback(None)


def _put_read_only(ground: Ground) -> None:
    with ground.second_handle() as db:
        db.put(b"key", b"value")


def _closed(held: Any) -> Any:
    held.close()
    return held


@repeated
def copy_data(trial: ObjectTrial, ground: Ground) -> None:
    """Copy and pickle objects that only hold data, and errors."""
    specimens = [(specimen.name, specimen.make(ground.db)) for specimen in DATA]
    for name, made in specimens:
        for how, make in _copies(made):
            copied = trial.attempt(f"{how} of {name}", make, strict=True)
            if copied is not None and copied != made:  # protocols 0 and 1 may be refused
                trial.fail(f"{how} of {name} gives something else")
    for error in _errors(ground):
        for how, make in _copies(error):
            what = f"{how} of {type(error).__name__}"
            try:
                copied = make()
            except Exception as raised:
                trial.fail(f"{what}: {in_words(raised)}")
                continue
            same = type(copied) is type(error) and str(copied) == str(error)
            if not same or vars(copied) != vars(error):
                trial.fail(f"{what} gives another error: {copied!r}")
            trial.counts["errors copied"] += 1


# --- after close, and in a forked child ----------------------------------------------------------


def _uses(made: Any) -> list[tuple[str, Callable[[], Any]]]:
    """All uses that an object of its class allows."""
    calls = {
        "get": lambda: made.get(b"key1"),
        "multi_get": lambda: made.multi_get([b"key1"]),
        "[]": lambda: made[b"key1"],
        "in": lambda: b"key1" in made,
        "next": lambda: next(made),
        "iter": lambda: next(iter(made)),
        "len": lambda: len(made),
        "keys": lambda: list(made.keys()),
        "reversed": lambda: next(reversed(made)),
        "put": lambda: made.put(b"key1", b""),
        "delete": lambda: made.delete(b"key1"),
        "commit": lambda: made.commit(),
        "seek": lambda: made.seek(b"key1"),
        "first": lambda: made.first(),
        "last": lambda: made.last(),
        "move": lambda: made.next(),
        "prev": lambda: made.prev(),
        "item": lambda: made.item,
        "cursor": lambda: made.cursor(),
        "snapshot": lambda: made.snapshot(),
        "write_batch": lambda: made.write_batch(),
        "verify": lambda: made.verify(),
        "flush": lambda: made.flush(),
        "sync": lambda: made.sync(),
        "stats": lambda: made.stats(),
        "inspect": lambda: made.inspect(),
        "with": lambda: made.__enter__(),
    }
    names = {
        "[]": "__getitem__",
        "in": "__contains__",
        "next": "__next__",
        "iter": "__iter__",
        "len": "__len__",
        "reversed": "__reversed__",
        "move": "next",
        "with": "__enter__",
        "item": "valid",
    }
    if isinstance(made, lsmkv.Cursor):
        del calls["iter"]  # never allowed, open or closed
    return [
        (name, call) for name, call in calls.items() if hasattr(type(made), names.get(name, name))
    ]


@repeated
def use_closed(trial: ObjectTrial, ground: Ground) -> None:
    """Use every object after close: each use must raise a new ClosedError."""
    db = ground.second_handle()
    made = [("DB", db), *((specimen.name, specimen.make(db)) for specimen in LIVE)]
    batch = ground.db.write_batch()
    batch.close()
    db.close()
    db.close()
    for name, one in [*made, ("batch", batch)]:
        for use, call in _uses(one):
            check_refused(trial, f"{use} of a {name} after close()", call, lsmkv.ClosedError)
            trial.counts["uses"] += 1


def check_refused(
    trial: ObjectTrial, what: str, call: Callable[[], Any], wanted: type[Exception]
) -> None:
    """Check that each use raises a new error; it may give items that it had read before."""
    lengths: list[int] = []
    seen: list[Exception] = []
    for _ in range(_USES):
        try:
            call()
        except (wanted, StopIteration) as error:
            seen.append(error)
            lengths.append(sum(1 for _ in traceback.walk_tb(error.__traceback__)))
        except Exception as error:
            trial.fail(f"{what}: no {wanted.__name__}: {in_words(error)}")
            return
    if len(set(map(id, seen))) < len(seen):
        trial.fail(f"{what}: the same exception object is raised again")
    if lengths and lengths[-1] > lengths[0] + 5:
        trial.fail(f"{what}: the traceback grows, from {lengths[0]} entries to {lengths[-1]}")


@repeated
def use_forked(trial: ObjectTrial, ground: Ground) -> None:
    """Use every object in a forked child: ForkedError; the parent works on."""
    made = [("DB", ground.db)]
    made += [(specimen.name, specimen.make(ground.db)) for specimen in (*LIVE, *WRITING)]
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(15)  # ends the child by default
        _in_child(trial, made, writing)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        said = pipe.read()
    _, status = os.waitpid(pid, 0)
    if status:
        raise UnsoundError(f"a forked child died with wait status {status}: {said[-600:]}")
    for line in filter(None, said.splitlines()):
        trial.fail(line)
    trial.counts["children"] += 1
    for name, one in made[1:3]:
        trial.attempt(f"{name} in the parent", _few, one)


def _few(one: Any) -> list[Any]:
    return list(itertools.islice(one, 3))


def _in_child(trial: ObjectTrial, made: list[tuple[str, Any]], pipe: int) -> None:
    code = 1
    try:
        trial.failures = []
        for name, one in made:
            for use, call in _uses(one):
                check_refused(trial, f"{use} of a {name} in a fork", call, lsmkv.ForkedError)
        for name, one in made:
            if hasattr(one, "close"):
                trial.attempt(f"close() of a {name} in a forked child", one.close, strict=True)
        os.write(pipe, "\n".join(line.replace("\n", " ") for line in trial.failures[:20]).encode())
        made.clear()
        code = 0
    except BaseException as error:
        os.write(pipe, in_words(error).encode())
    finally:
        sys.stdout.flush()
        os._exit(code)


VARIANTS: Final[dict[str, Variant]] = {
    "live": copy_live,
    "snapshots": copy_snapshots,
    "data": copy_data,
    "closed": use_closed,
    "forked": use_forked,
}
