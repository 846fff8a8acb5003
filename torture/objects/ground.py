"""A small store with known contents, and objects of the API.

The store has tiny blocks in several runs and no block cache, so nearly every read goes to a file and
lets other threads run.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import lsmkv
from lsmkv.api.snapshot import StoreReader
from torture.framework.part import UnsoundError
from torture.framework.store_checks import check_files

OPTIONS: Final = lsmkv.Options(
    block_size_bytes=256,
    block_cache_size_bytes=0,
    level0_compaction_trigger=1000,
    level0_slowdown_trigger=1000,
    level0_stop_trigger=1000,
    read_compaction_rate_bytes=0,
)
"""Options without compactions: the runs stay."""

KINDS: Final = ("keys", "values", "items")
_RUNS: Final = 4
_HIGHEST: Final = 100_000
_BYSTANDER_STEPS: Final = 40

Item = tuple[bytes, bytes]


def key_of(number: int) -> bytes:
    return b"key%06d" % number


def value_of(key: bytes, run: int) -> bytes:
    """A value that names its key."""
    return b"%s/%d/" % (key, run) + b"." * (run * 7 % 30)


class Ground:
    """A store and its contents.

    Attributes:
        db: a handle that may write.
        model: the expected entries, sorted.
    """

    def __init__(self, path: Path, dice: random.Random, keys: int = 600) -> None:
        self.path = str(path)
        self.db = lsmkv.open(self.path, OPTIONS)
        self.dice = dice
        found: dict[bytes, bytes] = {}
        for run in range(_RUNS + 1):  # the last run stays in the memtable
            for _ in range(keys // (_RUNS + 1)):
                key = key_of(dice.randrange(_HIGHEST))
                found[key] = value_of(key, run)
                self.db.put(key, found[key])
            for key in dice.sample(sorted(found), 5):
                del found[key]
                self.db.delete(key)
            if run < _RUNS:
                self.db.flush()
        self.model = dict(sorted(found.items()))

    def second_handle(self) -> lsmkv.DB:
        """A second, read-only handle for misuse that must not harm the first."""
        return lsmkv.open(self.path, OPTIONS, read_only=True)

    def expected(self, kind: str, reverse: bool = False) -> list[Any]:
        """The expected items of a view of that kind."""
        items = list(self.model.items())
        if reverse:
            items.reverse()
        part = {"keys": 0, "values": 1}.get(kind)
        return list(items) if part is None else [item[part] for item in items]

    def check(self, reader: StoreReader | None = None) -> None:
        """UnsoundError if a reader (default: the handle) does not show the expected entries."""
        asked = self.db if reader is None else reader
        for reverse in (False, True):
            found = list(iter(asked.items(reverse=reverse)))
            if found != self.expected("items", reverse):
                raise UnsoundError(
                    f"a new scan gives {differing(found, self.expected('items', reverse))}"
                )
        keys = [*self.dice.sample(sorted(self.model), 20), b"key", b"key1", b"zzz"]
        if asked.multi_get(keys) != [self.model.get(key) for key in keys]:
            raise UnsoundError("multi_get gives wrong values")
        for key in keys:
            if asked.get(key) != self.model.get(key):
                raise UnsoundError(f"get({key!r}) gives {asked.get(key)!r}")

    def close(self) -> None:
        """Verify every byte and close the store."""
        check_files(self.db)
        self.db.close()


def agree(what: str, found: object, expected: object) -> None:
    """UnsoundError if ``found`` is not what is expected."""
    if found != expected:
        raise UnsoundError(f"{what} gives {str(found)[:200]}")


def differing(found: list[Any], expected: list[Any]) -> str:
    """The first difference of two lists, in words."""
    pairs = itertools.zip_longest(found, expected)
    at, (one, other) = next((at, pair) for at, pair in enumerate(pairs) if pair[0] != pair[1])
    return f"{len(found)} entries, expected {len(expected)}; at {at} {one!r}, expected {other!r}"


class Bystander:
    """Iterators, a cursor and a snapshot that nobody misuses: they must stay right."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._snapshot = ground.db.snapshot()
        self._cursor = ground.db.cursor()
        self._cursor.first()
        self._expected = ground.expected("items")
        self._begin()

    def _begin(self) -> None:
        dice, db = self._ground.dice, self._ground.db
        self._under_way: list[tuple[Iterator[Any], list[Any], list[Any]]] = []
        for kind, reverse in itertools.product(KINDS, (False, True)):
            reader = dice.choice((db, self._snapshot))
            view = getattr(reader, kind)(reverse=reverse)
            self._under_way.append((iter(view), [], self._ground.expected(kind, reverse)))

    def step(self) -> None:
        """Move each of them a little."""
        for iterator, found, expected in self._under_way:
            found += itertools.islice(iterator, self._ground.dice.randrange(_BYSTANDER_STEPS))
            if found != expected[: len(found)]:
                raise UnsoundError(f"an iterator nobody touched gives {differing(found, expected)}")
        at = self._ground.dice.randrange(len(self._expected))
        if not self._cursor.seek(self._expected[at][0]) or self._cursor.item != self._expected[at]:
            raise UnsoundError("a cursor nobody touched is at the wrong key")
        if all(len(found) == len(expected) for _, found, expected in self._under_way):
            self._begin()

    def end(self) -> None:
        """Move each of them to its end, and close them."""
        for iterator, found, expected in self._under_way:
            found += iterator
            if found != expected:
                raise UnsoundError(f"an iterator nobody touched gives {differing(found, expected)}")
        self._ground.check(self._snapshot)
        self._snapshot.close()
        self._cursor.close()


@dataclass(frozen=True, slots=True)
class Specimen:
    """One kind of object of the API, and how to make it."""

    name: str
    make: Callable[[lsmkv.DB], Any]


def _begun(view: Any) -> Iterator[Any]:
    iterator: Iterator[Any] = iter(view)
    next(iterator, None)
    return iterator


def _placed(cursor: lsmkv.Cursor) -> lsmkv.Cursor:
    cursor.seek(key_of(_HIGHEST // 2))
    cursor.prev()
    return cursor


def _filled(batch: lsmkv.WriteBatch) -> lsmkv.WriteBatch:
    batch.put(b"zz", b"batched")
    return batch


def _view(kind: str, reverse: bool, reader: StoreReader) -> Any:
    return getattr(reader, kind)(reverse=reverse)


def _iterator(kind: str, reverse: bool, reader: StoreReader) -> Iterator[Any]:
    return _begun(_view(kind, reverse, reader))


def _past_iterator(kind: str, reverse: bool, db: lsmkv.DB) -> Iterator[Any]:
    return _iterator(kind, reverse, db.snapshot())


def _all_live() -> Iterator[Specimen]:
    yield Specimen("snapshot", lambda db: db.snapshot())
    yield Specimen("cursor", lambda db: _placed(db.cursor()))
    yield Specimen("cursor of a snapshot", lambda db: _placed(db.snapshot().cursor()))
    for kind, reverse in itertools.product(KINDS, (False, True)):
        way = "reversed " if reverse else ""
        yield Specimen(f"{way}{kind} view", partial(_view, kind, reverse))
        yield Specimen(f"{way}{kind} iterator", partial(_iterator, kind, reverse))
        yield Specimen(
            f"{way}{kind} iterator of a snapshot", partial(_past_iterator, kind, reverse)
        )
    yield Specimen("fresh iterator", lambda db: iter(db.items()))
    yield Specimen("iterator of a prefix", lambda db: _begun(db.items(prefix=b"key0")))
    yield Specimen("reversed() of a view", lambda db: reversed(db.items()))
    yield Specimen("keys of a snapshot", lambda db: db.snapshot().keys())


LIVE: Final = tuple(_all_live())  # objects that read from an open handle, which may be read-only
WRITING: Final = (Specimen("batch", lambda db: _filled(db.write_batch())),)
"""Objects that need a handle that may write."""


DATA: Final = (
    Specimen("options", lambda db: db.options),
    Specimen("stats", lambda db: db.stats()),
    Specimen("memory usage", lambda db: db.memory_usage()),
    Specimen("explanation", lambda db: db.explain(b"key1")),
    Specimen("store info", lambda db: db.inspect()),
    Specimen("verify report", lambda db: db.verify()),
)
"""Objects that only hold data, and outlive their handle."""
