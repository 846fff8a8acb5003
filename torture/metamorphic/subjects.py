"""The store under test, and the sorted dict beside it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from sortedcontainers import SortedDict

import lsmkv
from torture.framework.changes import Change, change_batch, change_model
from torture.framework.ordered_background import Background
from torture.metamorphic.option_sets import OptionSet
from torture.metamorphic.programs import Operation

Contents = SortedDict[bytes, bytes]
Entry = tuple[bytes, bytes]
Moves = list[tuple[str, bytes | None]]

_LATER_S: Final = 5e9  # seconds since 1970: in the year 2128
NOTHING = "the slot is empty"
NO_KEY = "KeyError"


class _Subject:
    """What the model and the store do alike with the views that they hold, by slot."""

    def __init__(self) -> None:
        self._snapshots: dict[int, Any] = {}
        self._cursors: dict[int, Any] = {}
        self._iterators: dict[int, Iterator[Entry]] = {}

    def read_snapshot(self, slot: int, kind: str, arguments: tuple[Any, ...]) -> Any:
        held = self._snapshots.get(slot)
        return NOTHING if held is None else self._ask(held, kind, arguments)

    def move_cursor(self, slot: int, moves: Moves) -> Any:
        held = self._cursors.get(slot)
        return NOTHING if held is None else self._walk(held, moves)

    def step_iterator(self, slot: int, steps: int) -> Any:
        held = self._iterators.get(slot)
        return NOTHING if held is None else list(islice(held, steps))

    @staticmethod
    def _ask(reader: Any, kind: str, arguments: tuple[Any, ...]) -> Any:
        return getattr(reader, kind)(*arguments)

    @staticmethod
    def _walk(cursor: Any, moves: Moves) -> Any:
        return cursor.walk(moves)


class Model(_Subject):
    """A sorted dict."""

    def __init__(self) -> None:
        super().__init__()
        self._contents: Contents = SortedDict()
        self._reader = _ModelReader(self._contents)

    def apply(self, operation: Operation) -> Any:
        """Apply an operation and return its answer."""
        subject = self if hasattr(self, operation.kind) else self._reader
        return getattr(subject, operation.kind)(*operation.arguments)

    def put(self, key: bytes, value: bytes, sync: bool) -> None:
        self._contents[key] = value

    def delete(self, key: bytes) -> None:
        self._contents.pop(key, None)

    def delete_range(self, start: bytes | None, stop: bytes | None, prefix: bytes | None) -> None:
        for key in self._reader.entries("keys", start, stop, prefix, False, None):
            del self._contents[key]

    def batch(self, changes: Sequence[Change], commits: bool) -> None:
        change_model(self._contents, changes if commits else ())

    def ingest(self, changes: Sequence[Change], parts: int, move: bool) -> None:
        change_model(self._contents, changes)

    def bulk_load(self, pairs: Sequence[Entry], is_sorted: bool) -> None:
        change_model(self._contents, pairs)

    def clear(self) -> None:
        self._contents.clear()

    def take_snapshot(self, slot: int) -> None:
        self._snapshots[slot] = _ModelReader(self._contents.copy())

    def hold_cursor(self, slot: int) -> None:
        self._cursors[slot] = _ModelCursor(self._contents.copy())

    def hold_iterator(self, slot: int, *bounds: Any) -> None:
        self._iterators[slot] = iter(self._reader.entries("items", *bounds))

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
        return list(self._contents.items())

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
        most: int | None = None,
    ) -> list[Any]:
        within = self._contents.irange(start, stop, (True, False), reverse)
        keys = [key for key in within if key.startswith(prefix or b"")][:most]
        if what == "keys":
            return keys
        values = [self._contents[key] for key in keys]
        return values if what == "values" else list(zip(keys, values, strict=True))

    def count(self, start: bytes | None, stop: bytes | None, prefix: bytes | None) -> int:
        return len(self.entries("keys", start, stop, prefix, False))

    def has_any(self) -> bool:
        return bool(self._contents)

    def walk(self, moves: Moves) -> list[Entry | None]:
        return _ModelCursor(self._contents).walk(moves)


class _ModelCursor:
    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._at = -1

    def walk(self, moves: Moves) -> list[Entry | None]:
        """The entry after each move; None where the cursor is at no entry."""
        return [self._move(kind, key) for kind, key in moves]

    def _move(self, kind: str, key: bytes | None) -> Entry | None:
        last = len(self._contents) - 1
        is_valid = 0 <= self._at <= last
        if kind == "first":
            self._at = 0
        elif kind == "last":
            self._at = last
        elif key is None:
            self._at = self._at + (1 if kind == "next" else -1) if is_valid else -1
        elif kind == "seek":
            self._at = self._contents.bisect_left(key)
        else:
            self._at = self._contents.bisect_right(key) - 1
        return self._contents.peekitem(self._at) if 0 <= self._at <= last else None


class Store(_Subject):
    """A store under test; its n-th reopening takes ``sets[n % len(sets)]``.

    Without an ordered ``background`` its threads or processes run as the system schedules them.

    Attributes:
        work: flushes and compactions up to the last closing.
    """

    def __init__(self, path: str, sets: Sequence[OptionSet], background: Background | None) -> None:
        super().__init__()
        self._path = path
        self._sets = sets
        self._background = background
        self.work: Counter[str] = Counter()
        self._db = lsmkv.open(path, **sets[0])

    def apply(self, operation: Operation) -> Any:
        """Apply an operation and return its answer or the exception."""
        if self._background is not None:
            self._background.rest()  # or a write would wait forever for a flush
        try:
            if hasattr(self, operation.kind):
                return getattr(self, operation.kind)(*operation.arguments)
            return self._ask(self._db, operation.kind, operation.arguments)
        except Exception as error:  # a wrong answer, because the model never raises
            return _Raised(error)

    def close(self) -> None:
        for slot in {*self._snapshots, *self._cursors, *self._iterators}:
            self.release(slot)
        stats = self._db.stats()
        self.work.update(flushes=stats.flushes, compactions=stats.compactions)
        self._db.close()

    def _waiting(self) -> contextlib.AbstractContextManager[None]:
        """Runs flushes during calls that wait for them."""
        return contextlib.nullcontext() if self._background is None else self._background.beside()

    def put(self, key: bytes, value: bytes, sync: bool) -> None:
        self._db.put(key, value, expires_at=_LATER_S if len(value) % 3 else None, sync=sync)

    def delete(self, key: bytes) -> None:
        if len(key) % 2:
            self._db.delete(key)
        else:  # what is due already counts as a deletion
            self._db.put(key, b"due", expires_at=1)

    def delete_range(self, start: bytes | None, stop: bytes | None, prefix: bytes | None) -> None:
        self._db._engine.writer.most_deletions = 3
        with self._waiting():
            if start is None and stop is None and not prefix:
                self._db.clear()
            else:
                self._db.delete_range(start, stop, prefix=prefix)

    def batch(self, changes: Sequence[Change], commits: bool) -> None:
        batch = self._db.write_batch()
        change_batch(batch, changes)
        if commits:
            batch.commit()
        else:
            batch.close()

    def ingest(self, changes: Sequence[Change], parts: int, move: bool) -> None:
        """Write the changes to ``parts`` tables, and ingest these."""
        last = dict(changes)
        keys = sorted(last)
        size = -(-len(keys) // parts)
        with tempfile.TemporaryDirectory(dir=os.path.dirname(self._path)) as folder:
            paths = []
            for start in range(0, len(keys), size):
                paths.append(os.path.join(folder, f"{start}.sst"))
                with lsmkv.TableWriter(paths[-1], block_size_bytes=512) as table:
                    for key in keys[start : start + size]:
                        value = last[key]
                        if value is None:
                            table.delete(key)
                        else:
                            table.add(key, value)
            with self._waiting():
                self._db.ingest(paths, move=move)

    def bulk_load(self, pairs: Sequence[Entry], is_sorted: bool) -> None:
        with self._waiting():
            self._db.bulk_load(
                sorted(dict(pairs).items()) if is_sorted else pairs, sorted=is_sorted
            )

    def clear(self) -> None:
        with self._waiting():
            self._db.clear()

    def take_snapshot(self, slot: int) -> None:
        if slot in self._snapshots:
            self._snapshots.pop(slot).close()
        self._snapshots[slot] = self._db.snapshot()

    def hold_cursor(self, slot: int) -> None:
        if slot in self._cursors:
            self._cursors.pop(slot).close()
        self._cursors[slot] = self._db.cursor()

    def hold_iterator(self, slot: int, *bounds: Any) -> None:
        start, stop, prefix, reverse = bounds
        found = self._db.items(start=start, stop=stop, prefix=prefix, reverse=reverse)
        self._iterators[slot] = iter(found)

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

    @staticmethod
    def _ask(reader: lsmkv.DB | lsmkv.Snapshot, kind: str, arguments: tuple[Any, ...]) -> Any:
        """Read from a store or a snapshot."""
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
                    return Store._walk(cursor, moves)
        raise ValueError(f"{kind!r} is no read operation")

    @staticmethod
    def _walk(cursor: lsmkv.Cursor, moves: Moves) -> list[Entry | None]:
        found: list[Entry | None] = []
        for kind, key in moves:
            move = getattr(cursor, kind)
            is_placed = move() if key is None else move(key)
            if is_placed != cursor.valid:
                raise AssertionError(f"{kind} returned {is_placed}, but valid is {cursor.valid}")
            found.append(cursor.item if is_placed else None)
        return found


class _Raised:
    """An exception in place of an answer; it equals no answer."""

    def __init__(self, error: Exception) -> None:
        self._text = f"{type(error).__name__}: {error}"

    def __repr__(self) -> str:
        return self._text
