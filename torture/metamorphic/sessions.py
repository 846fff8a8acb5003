"""Sessions: a program runs on a store and on a model; a session whose answers differ is shrunk."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from torture.framework.ordered_background import in_order
from torture.framework.shrinking import shortest
from torture.metamorphic.option_sets import OptionSet, as_arguments, is_allowed
from torture.metamorphic.programs import Operation, shown
from torture.metamorphic.subjects import Model, Store

_TRIES: Final = 3  # runs of a session that differed, before its failure counts as not repeatable
_OPTIONS_SHARE: Final = 0.4  # of the time for shrinking
_MOST_TOLD: Final = 60


@dataclass(frozen=True, slots=True)
class Session:
    """A program and the options of its store.

    Attributes:
        sets: options of the first opening, and of each reopening.
        is_ordered: background work runs in a fixed, repeatable order; otherwise in threads or
            processes, as the system schedules them.
    """

    operations: Sequence[Operation]
    sets: Sequence[OptionSet]
    is_ordered: bool

    def described(self) -> str:
        """The session in one line; of a long program only the end."""
        steps = [f"open({as_arguments(self.sets[0])})"]
        left_out = max(0, len(self.operations) - _MOST_TOLD)
        if left_out:
            steps.append(f"... {left_out} operations ...")
        for operation in self.operations[left_out:]:
            if operation.kind == "reopen":
                options = self.sets[operation.arguments[0] % len(self.sets)]
                steps.append(f"reopen({as_arguments(options)})")
            else:
                steps.append(str(operation))
        return "; ".join(steps)


@dataclass(frozen=True, slots=True)
class Difference:
    """A wrong answer of a store.

    Attributes:
        done: the number of operations up to the one with the wrong answer.
        what: that operation, its answer, and the right answer.
    """

    done: int
    what: str


class Tally:
    """Counts operations and answers, and optionally digests the answers."""

    def __init__(self, digests: bool = False) -> None:
        self.operations = 0
        self.answers = 0
        self.work: Counter[str] = Counter()
        self._hash = hashlib.blake2b(digest_size=16) if digests else None

    def add(self, operation: Operation, answer: Any) -> None:
        """Note an operation and its answer."""
        self.operations += 1
        self.answers += len(answer) if isinstance(answer, list) else 1
        if self._hash is not None:
            self._hash.update(f"{operation.kind}{answer!r}\n".encode())

    @property
    def digest(self) -> str:
        return "" if self._hash is None else self._hash.hexdigest()


def model_digest(session: Session) -> str:
    model, tally = Model(), Tally(digests=True)
    for operation in session.operations:
        tally.add(operation, model.apply(operation))
    return tally.digest


def compare(session: Session, path: Path, tally: Tally) -> Difference | None:
    """Run a session on a new store at ``path``; return the first difference, if any."""
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.ExitStack() as stack:
        background = stack.enter_context(in_order()) if session.is_ordered else None
        stack.callback(shutil.rmtree, path, ignore_errors=True)
        try:
            store = Store(str(path), session.sets, background)
        except Exception as error:
            return Difference(0, f"open gave {type(error).__name__}: {error}")
        found = _compare(session.operations, store, tally)
        tally.work = store.work
        try:
            store.close()
        except Exception as error:
            raised = f"close gave {type(error).__name__}: {error}"
            found = found or Difference(len(session.operations), raised)
    return found


def _compare(operations: Sequence[Operation], store: Store, tally: Tally) -> Difference | None:
    model = Model()
    for done, operation in enumerate(operations, 1):
        expected, answer = model.apply(operation), store.apply(operation)
        tally.add(operation, answer)
        if answer != expected:
            return Difference(done, f"{operation} gave {_contrast(answer, expected)}")
    return None


def _contrast(answer: Any, expected: Any) -> str:
    """Both answers, or the first items that differ of two long lists."""
    if not isinstance(answer, list) or not isinstance(expected, list) or len(expected) < 6:
        return f"{shown(answer)} instead of {shown(expected)}"
    pairs = zip(answer, expected, strict=False)
    same = min(len(answer), len(expected))
    at = next((at for at, (one, other) in enumerate(pairs) if one != other), same)
    return (
        f"{len(answer)} items instead of {len(expected)}; from item {at} on: "
        f"{shown(answer[at : at + 2])} instead of {shown(expected[at : at + 2])}"
    )


def explained(session: Session, found: Difference, path: Path, limit_s: float) -> str:
    """A difference, and the smallest session with one found within ``limit_s``."""
    deadline = time.monotonic() + limit_s
    smallest = Shrinking(session, found, path)
    first = f"operation {found.done} of {len(session.operations)}, {found.what}"
    if not smallest.shrink(deadline):
        return f"{first}; it did not happen again in {_TRIES} more runs"
    best, end = smallest.session, smallest.found
    options = sum(map(len, best.sets))
    return (
        f"{first}; shrunk to {len(best.operations)} operations and {options} options after "
        f"{smallest.tries} tries: {best.described()}, where {end.what}"
    )


class Shrinking:
    """Shrinks a session that differs: fewer operations, shorter arguments, fewer options.

    Attributes:
        session, found: the smallest session so far, and its difference.
        tries: sessions run.
    """

    def __init__(self, session: Session, found: Difference, path: Path) -> None:
        self.session = session
        self.found = found
        self.tries = 0
        self._path = path

    def shrink(self, deadline: float) -> bool:
        """Shrink until ``deadline``; return False if the session does not differ again."""
        operations = list(self.session.operations[: self.found.done])
        if not any(self._differs(operations, self.session.sets) for _ in range(_TRIES)):
            return False
        kept = self.session.operations
        left_s = deadline - time.monotonic()
        first = deadline - _OPTIONS_SHARE * left_s
        shortest(kept, lambda some: self._differs(some, self.session.sets), first)
        for at, operation in enumerate(self.session.operations):
            for place, argument in enumerate(operation.arguments):
                if isinstance(argument, list):
                    shortest(argument, partial(self._differs_with, at, place), first)
        settings = [(at, name) for at, one in enumerate(self.session.sets) for name in one]
        original = self.session.sets
        shortest(
            settings,
            lambda some: self._differs(self.session.operations, _only(original, some)),
            deadline,
        )
        return True

    def _differs_with(self, at: int, place: int, some: list[Any]) -> bool:
        """Whether it differs with another argument of operation ``at``."""
        operations = list(self.session.operations)
        arguments = list(operations[at].arguments)
        arguments[place] = some
        operations[at] = Operation(operations[at].kind, tuple(arguments))
        return self._differs(operations, self.session.sets)

    def _differs(self, operations: Sequence[Operation], sets: Sequence[OptionSet]) -> bool:
        if not all(map(is_allowed, sets)):
            return False
        candidate = dataclasses.replace(self.session, operations=operations, sets=sets)
        self.tries += 1
        found = compare(candidate, self._path, Tally())
        if found is None:
            return False
        self.session, self.found = candidate, found
        return True


def _only(sets: Sequence[OptionSet], settings: Sequence[tuple[int, str]]) -> list[OptionSet]:
    """The sets with only these options."""
    wanted = set(settings)
    return [
        {name: choice for name, choice in one.items() if (at, name) in wanted}
        for at, one in enumerate(sets)
    ]
