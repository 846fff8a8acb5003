"""Scenario ``held`` of the part ``load``: many old views, held over flushes and compactions.

Hundreds to thousands of snapshots, iterators, views and cursors are opened between writes and partly
read.  At the end, in another order, each must show exactly what the store held when it was opened.
Then no unneeded table, no descriptor and no thread may be left.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

import lsmkv
from torture.framework.part import Scale, UnsoundError
from torture.framework.store_checks import Traces, check_files
from torture.load import scenario
from torture.load.clients import Item, Writer, key_of, new_ledger
from torture.load.ledger import Ledger

_HELD: Final = {Scale.CI: 250, Scale.SHORT: 1200, Scale.LONG: 4000}
_KEYS: Final = 150
_WRITES_BETWEEN: Final = 8
_ABANDONED: Final = 0.1

Rest = Callable[[], list[Item]]
"""Reads a view to its end, closes it, and returns all its entries from the first on."""


@dataclass(frozen=True, slots=True)
class Held:
    """An old view.

    Attributes:
        number: the last write before the view was opened.
    """

    kind: str
    number: int
    rest: Rest


def _iterator(db: lsmkv.DB, dice: random.Random) -> Rest:
    items = iter(db.items())
    return _finish(items, list(islice(items, dice.randrange(_KEYS))))


def _finish(items: Iterator[Item], begun: list[Item]) -> Rest:
    return lambda: begun + list(items)


def _reversed(db: lsmkv.DB, dice: random.Random) -> Rest:
    items = reversed(db.items())
    begun = list(islice(items, dice.randrange(_KEYS)))
    return lambda: (begun + list(items))[::-1]


def _view(db: lsmkv.DB, dice: random.Random) -> Rest:
    view = db.items()
    return lambda: list(iter(view))


def _snapshot(db: lsmkv.DB, dice: random.Random) -> Rest:
    snapshot = db.snapshot()

    def rest() -> list[Item]:
        with snapshot:
            items = list(iter(snapshot.items()))
            for key, value in dice.sample(items, min(5, len(items))):
                if snapshot.get(key) != value:
                    raise UnsoundError(f"get({key!r}) of a snapshot differs from its scan")
            return items

    return rest


def _iterator_of_a_closed_snapshot(db: lsmkv.DB, dice: random.Random) -> Rest:
    with db.snapshot() as snapshot:
        items = iter(snapshot.items())
    return _finish(items, list(islice(items, dice.randrange(_KEYS))))


def _cursor(db: lsmkv.DB, dice: random.Random) -> Rest:
    cursor = db.cursor()
    place = cursor.item if cursor.seek(key_of(0, dice.randrange(_KEYS))) else None

    def rest() -> list[Item]:
        with cursor:
            now = cursor.item if cursor.valid else None
            if now != place:
                raise UnsoundError(f"a cursor was at {place}, but is at {now} now")
            upwards, downwards = [], []
            while cursor.valid:
                upwards.append(cursor.item)
                cursor.next()
            going = cursor.seek(upwards[0][0]) and cursor.prev() if upwards else cursor.last()
            while going:
                downwards.append(cursor.item)
                going = cursor.prev()
            return downwards[::-1] + upwards

    return rest


KINDS: Final[dict[str, Callable[[lsmkv.DB, random.Random], Rest]]] = {
    "iterators": _iterator,
    "iterators downwards": _reversed,
    "views": _view,
    "snapshots": _snapshot,
    "iterators of closed snapshots": _iterator_of_a_closed_snapshot,
    "cursors": _cursor,
}


def check_held(held: Held, ledger: Ledger) -> None:
    """UnsoundError if the view does not show the contents at its opening."""
    found, expected = held.rest(), sorted(ledger.state(held.number).items())
    if found != expected:
        wrong = sorted(set(found) ^ set(expected))
        raise UnsoundError(
            f"one of the {held.kind}, opened after write {held.number}, read after "
            f"{ledger.done}: {len(wrong)} entries differ: {wrong[:2]}"
        )


def run(job: scenario.Job) -> None:
    """Open views between writes, compact, and read the views."""
    wanted = min(_HELD[job.scale], scenario.allow_many_descriptors() // 4)
    deadline = job.deadline()
    options = scenario.SMALL.replace(**scenario.BACKGROUNDS[job.variant])
    dice = job.dice("held")
    ledger = new_ledger(0, _KEYS)
    traces = Traces()
    with lsmkv.open(job.path, options) as db:
        writer = Writer(db, ledger, dice)
        writer.fill()
        held = _open(db, ledger, writer, dice, wanted, deadline)
        job.counts["held at once"] += len(held)
        job.counts.update(view.kind for view in held)
        db.compact_range()
        _read(held, ledger, writer, dice)
        held.clear()
        check_files(db)
        scenario.check_tidy(db)
        stats = db.stats()
        job.counts.update(
            {"flushes": stats.flushes, "compactions": stats.compactions, "writes": ledger.done}
        )
    traces.check()


def _open(
    db: lsmkv.DB, ledger: Ledger, writer: Writer, dice: random.Random, wanted: int, deadline: float
) -> list[Held]:
    """Open the wanted views, within three quarters of the time."""
    quarter = (deadline - time.monotonic()) / 4
    held: list[Held] = []
    while len(held) < wanted and time.monotonic() < deadline - quarter:
        for _ in range(_WRITES_BETWEEN):
            writer.step()
        kind = dice.choice(tuple(KINDS))
        held.append(Held(kind, ledger.done, KINDS[kind](db, dice)))
    return held


def _read(held: list[Held], ledger: Ledger, writer: Writer, dice: random.Random) -> None:
    """Read the views in random order between writes; drop some unread."""
    dice.shuffle(held)
    while held:
        view = held.pop()
        if dice.random() >= _ABANDONED:
            check_held(view, ledger)
        if len(held) % 10 == 0:
            writer.step()
