"""Who is asked: a store, and the sorted dict that it must be like; both do what a program says."""

from __future__ import annotations

import contextlib
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import lsmkv
from torture.framework.ordered_background import Background
from torture.metamorphic.option_sets import OptionSet
from torture.metamorphic.programs import Change, Operation

Contents = dict[bytes, bytes]
Entry = tuple[bytes, bytes]
Moves = list[tuple[str, bytes | None]]

NOTHING = "nothing is held there"
NO_KEY = "KeyError"


class Model:
    """A dict, sorted whenever somebody asks for order."""

    def __init__(self) -> None:
        self._contents: Contents = {}
        self._reader = _ModelReader(self._contents)
        self._snapshots: dict[int, _ModelReader] = {}
        self._cursors: dict[int, _ModelCursor] = {}
        self._iterators: dict[int, Iterator[Entry]] = {}

    def apply(self, operation: Operation) -> Any:
        """Do it; its answer."""
        subject = self if hasattr(self, operation.kind) else self._reader
        return getattr(subject, operation.kind)(*operation.arguments)

    def put(self, key: bytes, value: bytes, sync: bool) -> None:
        self._contents[key] = value

    def delete(self, key: bytes) -> None:
        self._contents.pop(key, None)

    def batch(self, changes: Sequence[Change], commits: bool) -> None:
        for key, value in changes if commits else ():
            if value is None:
                self._contents.pop(key, None)
            else:
                self._contents[key] = value

    def clear(self) -> None:
        self._contents.clear()

    def take_snapshot(self, slot: int) -> None:
        self._snapshots[slot] = _ModelReader(dict(self._contents))

    def read_snapshot(self, slot: int, kind: str, arguments: tuple[Any, ...]) -> Any:
        held = self._snapshots.get(slot)
        return NOTHING if held is None else getattr(held, kind)(*arguments)

    def hold_cursor(self, slot: int) -> None:
        self._cursors[slot] = _ModelCursor(sorted(self._contents.items()))

    def move_cursor(self, slot: int, moves: Moves) -> Any:
        held = self._cursors.get(slot)
        return NOTHING if held is None else held.walk(moves)

    def hold_iterator(
        self,
        slot: int,
        start: bytes | None,
        stop: bytes | None,
        prefix: bytes | None,
        reverse: bool,
    ) -> None:
        found = self._reader.entries("items", start, stop, prefix, reverse, None)
        self._iterators[slot] = iter(found)

    def step_iterator(self, slot: int, steps: int) -> Any:
        held = self._iterators.get(slot)
        return NOTHING if held is None else list(islice(held, steps))

    def release(self, slot: int) -> None:
        for held in (self._snapshots, self._cursors, self._iterators):
            held.pop(slot, None)

    def flush(self) -> None:
        pass

    settle = sync = flush

    def compact(self, start: bytes | None, stop: bytes | None, force: bool) -> None:
        pass

    def verify(self) -> list[str]:
        return []

    def beside(self) -> list[Entry]:
        return sorted(self._contents.items())

    def reopen(self, number: int) -> None:
        self._snapshots, self._cursors, self._iterators = {}, {}, {}


class _ModelReader:
    def __init__(self, contents: Contents) -> None:
        self._contents = contents

    def get(self, key: bytes) -> bytes | None:
        return self._contents.get(key)

    def item(self, key: bytes) -> bytes | str:
        return self._contents.get(key, NO_KEY)

    def contains(self, key: bytes) -> bool:
        return key in self._contents

    def multi_get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self._contents.get(key) for key in keys]

    def entries(
        self,
        what: str,
        start: bytes | None,
        stop: bytes | None,
        prefix: bytes | None,
        reverse: bool,
        most: int | None,
    ) -> list[Any]:
        keys = [
            key
            for key in sorted(self._contents, reverse=reverse)
            if (start is None or key >= start)
            and (stop is None or key < stop)
            and (prefix is None or key.startswith(prefix))
        ][:most]
        if what == "keys":
            return keys
        values = [self._contents[key] for key in keys]
        return values if what == "values" else list(zip(keys, values, strict=True))

    def count(self, start: bytes | None, stop: bytes | None, prefix: bytes | None) -> int:
        return len(self.entries("keys", start, stop, prefix, False, None))

    def has_any(self) -> bool:
        return bool(self._contents)

    def walk(self, moves: Moves) -> list[Entry | None]:
        return _ModelCursor(sorted(self._contents.items())).walk(moves)


class _ModelCursor:
    def __init__(self, entries: list[Entry]) -> None:
        self._entries = entries
        self._keys = [key for key, _ in entries]
        self._at = -1

    def walk(self, moves: Moves) -> list[Entry | None]:
        """Where each move ends; None: at no key."""
        return [self._move(kind, key) for kind, key in moves]

    def _move(self, kind: str, key: bytes | None) -> Entry | None:
        last = len(self._entries) - 1
        is_valid = 0 <= self._at <= last
        if kind == "first":
            self._at = 0
        elif kind == "last":
            self._at = last
        elif key is None:
            self._at = self._at + (1 if kind == "next" else -1) if is_valid else -1
        elif kind == "seek":
            self._at = bisect_left(self._keys, key)
        else:
            self._at = bisect_right(self._keys, key) - 1
        return self._entries[self._at] if 0 <= self._at <= last else None


class Store:
    """A store in a directory, opened with one set of options after the other.

    Attributes:
        work: flushes and compactions so far, at the last closing.
    """

    def __init__(self, path: str, sets: Sequence[OptionSet], background: Background | None) -> None:
        self._path = path
        self._sets = sets
        self._background = background
        self._snapshots: dict[int, lsmkv.Snapshot] = {}
        self._cursors: dict[int, lsmkv.Cursor] = {}
        self._iterators: dict[int, Iterator[Entry]] = {}
        self.work: Counter[str] = Counter()
        self._db = lsmkv.open(path, **sets[0])

    def apply(self, operation: Operation) -> Any:
        """Do it; its answer, or what was raised."""
        if self._background is not None:
            self._background.rest()  # or a write would wait for a flush that nobody makes
        try:
            if hasattr(self, operation.kind):
                return getattr(self, operation.kind)(*operation.arguments)
            return _ask(self._db, operation.kind, operation.arguments)
        except Exception as error:  # an answer too, which no model gives
            return _Raised(error)

    def close(self) -> None:
        """Let go of everything."""
        for slot in {*self._snapshots, *self._cursors, *self._iterators}:
            self.release(slot)
        stats = self._db.stats()
        self.work.update(flushes=stats.flushes, compactions=stats.compactions)
        self._db.close()

    def _waiting(self) -> contextlib.AbstractContextManager[None]:
        """For calls that wait for flushes."""
        return contextlib.nullcontext() if self._background is None else self._background.beside()

    def put(self, key: bytes, value: bytes, sync: bool) -> None:
        self._db.put(key, value, sync=sync)

    def delete(self, key: bytes) -> None:
        self._db.delete(key)

    def batch(self, changes: Sequence[Change], commits: bool) -> None:
        batch = self._db.write_batch()
        for key, value in changes:
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        if commits:
            batch.commit()
        else:
            batch.close()

    def clear(self) -> None:
        with self._waiting():
            self._db.clear()

    def take_snapshot(self, slot: int) -> None:
        if slot in self._snapshots:
            self._snapshots.pop(slot).close()
        self._snapshots[slot] = self._db.snapshot()

    def read_snapshot(self, slot: int, kind: str, arguments: tuple[Any, ...]) -> Any:
        held = self._snapshots.get(slot)
        return NOTHING if held is None else _ask(held, kind, arguments)

    def hold_cursor(self, slot: int) -> None:
        if slot in self._cursors:
            self._cursors.pop(slot).close()
        self._cursors[slot] = self._db.cursor()

    def move_cursor(self, slot: int, moves: Moves) -> Any:
        held = self._cursors.get(slot)
        return NOTHING if held is None else _walk(held, moves)

    def hold_iterator(
        self,
        slot: int,
        start: bytes | None,
        stop: bytes | None,
        prefix: bytes | None,
        reverse: bool,
    ) -> None:
        found = self._db.items(start=start, stop=stop, prefix=prefix, reverse=reverse)
        self._iterators[slot] = iter(found)

    def step_iterator(self, slot: int, steps: int) -> Any:
        held = self._iterators.get(slot)
        return NOTHING if held is None else list(islice(held, steps))

    def release(self, slot: int) -> None:
        for held in (self._snapshots.pop(slot, None), self._cursors.pop(slot, None)):
            if held is not None:
                held.close()
        self._iterators.pop(slot, None)

    def flush(self) -> None:
        with self._waiting():
            self._db.flush()

    def settle(self) -> None:
        self._db.wait_until_settled()

    def sync(self) -> None:
        self._db.sync()

    def compact(self, start: bytes | None, stop: bytes | None, force: bool) -> None:
        with self._waiting():
            self._db.compact_range(start, stop, force=force)

    def verify(self) -> list[str]:
        report = self._db.verify()
        return [] if report.ok else [str(problem) for problem in report.problems] or ["not ok"]

    def beside(self) -> list[Entry]:
        with lsmkv.open(self._path, read_only=True, **self._sets[0]) as reader:
            return list(iter(reader.items()))

    def reopen(self, number: int) -> None:
        self.close()
        self._db = lsmkv.open(self._path, **self._sets[number % len(self._sets)])


class _Raised:
    """An exception in place of an answer; unlike every answer."""

    def __init__(self, error: Exception) -> None:
        self._text = f"{type(error).__name__}: {error}"

    def __repr__(self) -> str:
        return self._text


def _ask(reader: lsmkv.DB | lsmkv.Snapshot, kind: str, arguments: tuple[Any, ...]) -> Any:
    """A question that a store and a snapshot answer alike."""
    match kind, arguments:
        case "get", (key,):
            return reader.get(key)
        case "item", (key,):
            try:
                return reader[key]
            except KeyError:
                return NO_KEY
        case "contains", (key,):
            return key in reader
        case "multi_get", (keys,):
            return reader.multi_get(keys)
        case "entries", (what, start, stop, prefix, reverse, most):
            bounds = {"start": start, "stop": stop, "prefix": prefix, "reverse": reverse}
            return list(islice(iter(getattr(reader, what)(**bounds)), most))
        case "count", (start, stop, prefix):
            return len(reader.keys(start=start, stop=stop, prefix=prefix))
        case "has_any", ():
            return bool(reader)
        case "walk", (moves,):
            with reader.cursor() as cursor:
                return _walk(cursor, moves)
    raise ValueError(f"{kind!r} is no question")


def _walk(cursor: lsmkv.Cursor, moves: Moves) -> list[Entry | None]:
    found: list[Entry | None] = []
    for kind, key in moves:
        move = getattr(cursor, kind)
        is_placed = move() if key is None else move(key)
        if is_placed != cursor.valid:
            raise AssertionError(f"{kind} said {is_placed}, valid is {cursor.valid}")
        found.append(cursor.item if is_placed else None)
    return found
