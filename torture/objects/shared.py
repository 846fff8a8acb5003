"""Family ``shared`` of the part ``objects``: several threads use an object that is for one thread.

An entry of a shared iterator must go to only one thread, and every thread must get its entries in
order.  The iterator may refuse a thread; if it refuses none, no entry may be missing.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import lsmkv
from lsmkv.api.snapshot import StoreReader
from torture.framework.disturbance import collections_at_random, hasty_switches
from torture.framework.part import UnsoundError
from torture.objects.ground import KINDS, OPTIONS, Ground, Item, agree, differing, key_of
from torture.objects.trial import ObjectTrial, Variant, undisturbed

_MOST_THREADS: Final = 5
_MOVES: Final = 60
_BATCH_KEYS: Final = 200


@contextlib.contextmanager
def _restless(trial: ObjectTrial) -> Iterator[None]:
    """Switch threads all the time; in half of the trials collect garbage."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(hasty_switches(trial.chances))
        if trial.chances.random() < 0.5:
            stack.enter_context(collections_at_random(trial.dice("collections")))
        yield


def _in_a_reader(
    trial: ObjectTrial, use: Callable[[Ground, StoreReader, Callable[[], None] | None], None]
) -> None:
    """Call ``use`` with a reader, and sometimes with its closing function."""

    def step(ground: Ground) -> None:
        with contextlib.ExitStack() as stack:
            owner = ground.db
            if trial.chances.random() < 0.3:
                owner = stack.enter_context(ground.second_handle())
            reader: StoreReader = owner
            if trial.chances.random() < 0.4:
                reader = stack.enter_context(owner.snapshot())
            closing: list[Callable[[], None]] = []
            if isinstance(reader, lsmkv.Snapshot):
                closing.append(reader.close)
            if owner is not ground.db:
                closing.append(owner.close)
            close = (
                trial.chances.choice(closing) if closing and trial.chances.random() < 0.5 else None
            )
            use(ground, reader, close)

    with _restless(trial):
        undisturbed(trial, step)


# --- iterators -----------------------------------------------------------------------------------


class _Taking:
    """Threads that take from one iterator, and each one's items."""

    def __init__(self, trial: ObjectTrial, iterator: Iterator[Any]) -> None:
        self._trial = trial
        self._iterator = iterator
        self._start = threading.Barrier(trial.chances.randint(2, _MOST_THREADS))
        self.taken: list[list[Any]] = [[] for _ in range(self._start.parties)]
        self.refused = 0

    def run(self, close: Callable[[], None] | None) -> None:
        """Take all items, and call ``close`` meanwhile."""
        jobs: list[Callable[[], None]] = [
            lambda found=found: self._take(found)  # type: ignore[misc]
            for found in self.taken
        ]
        if close is not None:
            pause = self._trial.chances.random() * 0.01
            jobs.append(lambda: (threading.Event().wait(pause), close())[1])
        self._trial.in_threads(jobs)

    def _take(self, found: list[Any]) -> None:
        self._start.wait()
        try:
            for item in self._iterator:
                found.append(item)
        except Exception:
            self.refused += 1
            raise


def _check_taken(taking: _Taking, expected: list[Any], what: str) -> None:
    places = {item: at for at, item in enumerate(expected)}
    for found in taking.taken:
        if any(item not in places for item in found):
            strange = next(item for item in found if item not in places)
            raise UnsoundError(f"{what}: {strange!r} was never written")
        order = [places[item] for item in found]
        if order != sorted(order):
            raise UnsoundError(f"{what}: a thread got entries out of order, or twice")
    twice = [item for item, times in Counter(itertools.chain(*taking.taken)).items() if times > 1]
    if twice:
        raise UnsoundError(f"{what}: {len(twice)} entries went to two threads, first {twice[0]!r}")
    together = sorted(itertools.chain(*taking.taken), key=places.__getitem__)
    if not taking.refused and together != expected:
        raise UnsoundError(
            f"{what}: none was refused, but they got {differing(together, expected)}"
        )


def share_iterators(trial: ObjectTrial) -> None:
    def use(ground: Ground, reader: StoreReader, close: Callable[[], None] | None) -> None:
        kind, reverse = trial.chances.choice(KINDS), trial.chances.random() < 0.5
        view = getattr(reader, kind)(reverse=reverse)
        backwards = trial.chances.random() < 0.2
        taking = _Taking(trial, reversed(view) if backwards else iter(view))
        taking.run(close)
        expected = ground.expected(kind, reverse != backwards)
        _check_taken(taking, expected, f"{kind}, shared by {len(taking.taken)} threads")
        trial.counts["iterators"] += 1

    _in_a_reader(trial, use)


def share_wrapped_iterators(trial: ObjectTrial) -> None:
    """Take from one iterator through tools of :mod:`itertools` in several threads."""

    def use(ground: Ground, reader: StoreReader, close: Callable[[], None] | None) -> None:
        kind, reverse = trial.chances.choice(KINDS), trial.chances.random() < 0.5
        shared = iter(getattr(reader, kind)(reverse=reverse))
        places = set(ground.expected(kind))
        found: list[Any] = []

        def slices() -> None:
            while part := list(itertools.islice(shared, 7)):
                found.extend(part)

        def pairs() -> None:
            for one, other in zip(shared, shared, strict=False):
                found.extend((one, other))

        def chained() -> None:
            found.extend(itertools.chain(itertools.islice(shared, 5), shared))

        def numbered() -> None:
            found.extend(item for _, item in enumerate(filter(None, shared)))

        jobs = trial.chances.choices([slices, pairs, chained, numbered], k=3)
        if close is not None:
            jobs.append(close)
        trial.in_threads(jobs)
        if not places.issuperset(found):
            raise UnsoundError(f"a shared iterator of {kind} gave an entry that was never written")
        if len(set(found)) != len(found):
            raise UnsoundError(f"a shared iterator of {kind} gave an entry to two threads")
        trial.counts["iterators"] += 1

    _in_a_reader(trial, use)


# --- other objects -------------------------------------------------------------------------------


def share_cursors(trial: ObjectTrial) -> None:
    """Move one cursor in several threads; later moves in one thread must be right again."""

    def use(ground: Ground, reader: StoreReader, close: Callable[[], None] | None) -> None:
        cursor = reader.cursor()
        cursor.first()
        close = trial.chances.choice((close, None, cursor.close))

        def move(number: int) -> None:
            dice = trial.dice(f"mover {number} {trial.counts['cursors']}")
            for _ in range(_MOVES):
                kind = dice.randrange(8)
                if kind < 2:
                    (cursor.first, cursor.last)[kind]()
                elif kind < 4:
                    (cursor.seek, cursor.seek_for_prev)[kind - 2](key_of(dice.randrange(100_000)))
                elif kind < 7:
                    (cursor.next, cursor.prev, cursor.next)[kind - 4]()
                try:
                    key, value = cursor.item
                except lsmkv.CursorError:
                    continue
                if ground.model.get(key) != value:
                    raise UnsoundError(f"a shared cursor shows {key!r} with {value!r}")

        jobs: list[Callable[[], None]] = [
            lambda number=number: move(number)  # type: ignore[misc]
            for number in range(3)
        ]
        trial.in_threads([*jobs, close] if close is not None else jobs)
        trial.counts["cursors"] += 1
        if close is None:
            _check_walk(ground, cursor)

    _in_a_reader(trial, use)


def _check_walk(ground: Ground, cursor: lsmkv.Cursor) -> None:
    expected = ground.expected("items")
    at = ground.dice.randrange(len(expected))
    going = cursor.seek(expected[at][0])
    found: list[Item] = []
    while going and len(found) < _MOVES:
        found.append(cursor.item)
        going = cursor.next()
    if found != expected[at : at + _MOVES]:
        problem = differing(found, expected[at : at + _MOVES])
        raise UnsoundError(f"a cursor that was shared before gives {problem}")


def share_readers(trial: ObjectTrial) -> None:
    """Read a snapshot or handle in several threads while it is closed."""

    def use(ground: Ground, reader: StoreReader, close: Callable[[], None] | None) -> None:
        views = {kind: getattr(reader, kind)() for kind in KINDS}
        keys = trial.chances.sample(sorted(ground.model), 10)
        wanted = [ground.model[key] for key in keys]
        some = dict(itertools.islice(ground.model.items(), 50))

        def look_up() -> None:
            for key, value in zip(keys, wanted, strict=True):
                agree(f"get({key!r})", reader.get(key), value)
                agree(f"{key!r} in keys", key in views["keys"], True)
                agree("an item in items", (key, value) in views["items"], True)

        def look_up_many() -> None:
            agree("multi_get", reader.multi_get(keys), wanted)

        def scan() -> None:
            kind = trial.chances.choice(KINDS)
            agree(f"list of {kind}", list(iter(views[kind])), ground.expected(kind))

        def count() -> None:
            agree("len", len(views["values"]), len(ground.model))

        def combine() -> None:
            agree("keys & others", views["keys"] & set(some), set(some))
            agree("a value in values", wanted[0] in views["values"], True)

        jobs = [look_up, look_up_many, scan, count, combine]
        trial.in_threads([*jobs, close] if close is not None else jobs)
        trial.counts["readers"] += 1

    _in_a_reader(trial, use)


def share_batches(trial: ObjectTrial) -> None:
    """Fill one batch in several threads while another commits or drops it."""

    def step(ground: Ground) -> None:
        trial.counts["batches"] += 1
        path = trial.directory / f"batches-{trial.counts['batches']}"
        with lsmkv.open(path, OPTIONS) as db:
            batch = db.write_batch()
            end = trial.chances.choice((batch.commit, batch.commit, batch.close))
            certain = [b"certain/%d" % at for at in range(_BATCH_KEYS)]
            for key in certain:
                batch.put(key, key)
            pause_s = trial.chances.random() * 0.002

            def fill(number: int) -> None:
                for at in range(20 * _BATCH_KEYS):
                    key = b"%d/%d" % (number, at)
                    batch.put(key, key)
                    if at % 50 == 0:
                        len(batch)

            def finish() -> None:
                time.sleep(pause_s)
                end()

            fillers: list[Callable[[], None]] = [partial(fill, number) for number in range(2)]
            trial.in_threads([*fillers, finish])
            found = _check_batch(db, certain if end == batch.commit else [])
        with lsmkv.open(path, OPTIONS) as db:
            if dict(db.items()) != found:
                raise UnsoundError("the entries of a shared batch differ after reopening")
        shutil.rmtree(path)

    with _restless(trial):
        undisturbed(trial, step)


def _check_batch(db: lsmkv.DB, certain: list[bytes]) -> dict[bytes, bytes]:
    """Entries of a store after a shared batch and a later write; the log must hold the same."""
    found = dict(db.items())
    if any(key != value for key, value in found.items()):
        raise UnsoundError("a shared batch has written a value that was never put")
    if not certain and found:
        raise UnsoundError("a dropped batch has written something")
    if not found.keys() >= set(certain):
        raise UnsoundError("a shared batch lost a put that had returned")
    db.put(b"later", b"later")
    found[b"later"] = b"later"
    if dict(db.items()) != found:
        raise UnsoundError("entries of a shared batch appear with the next write")
    with lsmkv.open(db.path, OPTIONS, read_only=True) as other:  # it reads the log
        logged = dict(other.items())
    if logged != found:
        problem = f"{len(found)} entries in memory, {len(logged)} in the log"
        raise UnsoundError(f"a shared batch has {problem}")
    return found


VARIANTS: Final[dict[str, Variant]] = {
    "iterators": share_iterators,
    "wrapped": share_wrapped_iterators,
    "cursors": share_cursors,
    "readers": share_readers,
    "batches": share_batches,
}
