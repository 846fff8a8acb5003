"""Ordered mappings of every kind, over one small store: ``test_mapping_laws`` holds them to one law."""

from __future__ import annotations

import asyncio
import inspect
import io
import random
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import pytest
from conftest import open_small

import lsmkv
import lsmkv.aio
from lsmkv.encoding.entries import to_bytes
from lsmkv.layers import TracedDB
from lsmkv.typed import KeyCodec, TypedDB

Contents = dict[bytes, bytes]

ALL_KEYS: Final = [bytes(key) for length in range(4) for key in product(b"\0ab\xff", repeat=length)]
"""Every key of up to three bytes out of four."""

CONTENTS: Final[Contents] = {
    key: b"value of " + key + bytes(number)
    for number, key in enumerate(sorted([*random.Random(7).sample(ALL_KEYS, 60), b"", b"k", b"l"]))
} | {b"a": b""}
"""What tests show that only read."""

OUTSIDE: Final = dict.fromkeys(
    [
        b"",
        b"o",
        b"p",
        b"p.",
        b"p0",
        b"t\xfe",
        b"t\xfe\xff",
        b"u",
        b"\xfe\xff",
        b"\xff",
        b"\xff\xfe",
    ],
    b"-",
)
"""What a store has around the prefixes of these mappings."""


class Hex(KeyCodec[bytes]):
    """Bytes as hexadecimal digits, which keep their order and their prefixes."""

    def __init__(self, what: str) -> None:
        self._what = what

    def encode(self, value: bytes, /) -> bytes:
        return to_bytes(value, self._what).hex().encode()

    def decode(self, data: bytes, /) -> bytes:
        return bytes.fromhex(data.decode())

    def prefix(self, head: Any, /) -> tuple[bytes, bytes | None]:
        return self.encode(head), None


BASES: Final[dict[str, Callable[[lsmkv.DB], Any]]] = {
    "store": lambda db: db,
    "prefix": lambda db: db.prefixed(b"p/"),
    "nested prefix": lambda db: db.prefixed(b"\xff").prefixed(b"\xff"),  # no key is above them
    "traced prefix": lambda db: TracedDB(db, io.BytesIO()).prefixed(b"t\xff"),
    "typed store": lambda db: TypedDB(db.prefixed(b"t\xff"), key=Hex("key"), value=Hex("value")),
}


@dataclass(frozen=True)
class Kind:
    """One kind of mapping: one of :data:`BASES`, and as what it is seen."""

    base: str
    seen_as: str

    def __str__(self) -> str:
        return f"{self.seen_as} of {self.base}" if self.seen_as != "itself" else self.base

    @property
    def is_async(self) -> bool:
        return "async" in self.seen_as

    @property
    def writes(self) -> bool:
        return self.seen_as in ("itself", "transaction", "async")

    @property
    def is_store(self) -> bool:
        """Whether it is written at once, by methods in one step."""
        return self.seen_as == "itself"


SYNC: Final = [
    *(Kind(base, seen) for base in BASES for seen in ("itself", "transaction", "snapshot")),
    *(Kind(base, "reader") for base in ("store", "prefix", "typed store")),
    Kind("store", "published reader"),
    *(Kind(base, "reader's transaction") for base in ("store", "typed store")),
]
KINDS: Final = [*SYNC, Kind("store", "async"), Kind("store", "async snapshot")]


class Shown:
    """A mapping that shows ``contents``.

    Attributes:
        mapping: what is tested.
        base: the store, or the part of it, that lies beneath and takes writes.
        end: ends the mapping, or the handle that it belongs to.
    """

    def __init__(self, kind: Kind, db: lsmkv.DB, held: ExitStack) -> None:
        self.kind = kind
        self.db = db
        self.base: Any = BASES[kind.base](db)
        self.mapping: Any = None
        self.end: Callable[[], object] = db.close
        self._held = held

    def show(self, contents: Contents) -> Any:
        """Lay ``contents`` over what is older, in several runs and in memory; the mapping."""
        if self.kind.base != "store":
            self.db.update(OUTSIDE)
        layers = lay(self.base, self.db, contents)
        last = next(layers)
        if self.kind.seen_as == "transaction":
            self._see()
            write(self.mapping, last)
        else:
            write(self.base, last)
            self._see()
        return self.mapping

    def change(self) -> None:
        """Change every entry beneath, and what a mapping that writes shows, and add others."""
        for mapping in [self.base, *[self.mapping] * (self.kind.seen_as == "transaction")]:
            for number, key in enumerate([*mapping, b"new", b"\xff" * 5]):
                if number % 3:
                    mapping.put(key, b"changed")
                else:
                    mapping.delete(key)
        self.db.flush()
        self.db.compact_range()

    def outside(self) -> Contents:
        """What the store has beside what the mapping shows."""
        if self.kind.base == "store":
            return OUTSIDE
        inside = {b"p/", b"\xff\xff", b"t\xff"}
        return {key: value for key, value in self.db.items() if key[:2] not in inside}

    def _see(self) -> None:
        match self.kind.seen_as:
            case "itself":
                self.mapping = self.base
            case "snapshot":
                self.mapping = self._held.enter_context(self.base.snapshot())
                self.end = self.mapping.close
            case "transaction":
                self._see_transaction(self.db, self.base)
            case "published reader":
                url = f"file://{self.db.path}-published"
                self.db.publish(url)
                self.mapping = self._held.enter_context(lsmkv.open(url, read_only=True))
                self.end = self.mapping.close
            case "reader" | "reader's transaction":
                reader = self._held.enter_context(lsmkv.open(self.db.path, read_only=True))
                self.mapping, self.end = BASES[self.kind.base](reader), reader.close
                if self.kind.seen_as != "reader":
                    self._see_transaction(reader, self.mapping)
            case "async" | "async snapshot":
                self._see_async()

    def _see_transaction(self, db: lsmkv.DB, base: Any) -> None:
        transaction = db.transaction()
        self._held.callback(transaction.close)
        self.mapping = transaction if base is db else base.on(transaction)
        self.end = transaction.close

    def _see_async(self) -> None:
        runner = self._held.enter_context(asyncio.Runner())
        store = run(runner, lambda: lsmkv.aio.AsyncDB(self.db))
        self._held.callback(run, runner, store.close)
        shown = store if self.kind.seen_as == "async" else run(runner, store.snapshot)
        self.mapping = Awaited(runner, shown)
        self.end = lambda: run(runner, shown.close)


@pytest.fixture
def fresh(request: pytest.FixtureRequest, path: str) -> Iterator[Shown]:
    """For tests that change or end it; nothing is shown yet."""
    with open_small(path) as db, ExitStack() as held:
        yield Shown(request.param, db, held)


def lay(base: Any, db: lsmkv.DB, contents: Contents) -> Iterator[dict[bytes, bytes | None]]:
    """Write older layers, few where there is little to show; what the last must write."""
    chance = random.Random(3)
    now: Contents = {}
    for layer in range(4)[0 if len(contents) > 10 else 3 :]:
        for key in chance.sample(ALL_KEYS, min(len(ALL_KEYS), len(contents))):
            if key in now and chance.random() < 0.3:
                base.delete(key)
                del now[key]
            elif layer == 3 and key in contents:  # so not all is in the last layer
                base[key] = now[key] = contents[key]
            else:
                base[key] = now[key] = b"%d:" % layer + bytes(chance.randrange(150))
        if layer == 1:
            db.compact_range()
        else:
            db.flush()
    last: dict[bytes, bytes | None] = {key: None for key in now if key not in contents}
    yield last | {key: value for key, value in contents.items() if now.get(key) != value}


def write(mapping: Any, written: dict[bytes, bytes | None]) -> None:
    for key, value in written.items():
        if value is None:
            mapping.delete(key)
        else:
            mapping.put(key, value)


class Walk:
    """Where a cursor is in a sorted list of keys."""

    def __init__(self, contents: Contents) -> None:
        self.keys = sorted(contents)
        self.at: int | None = None

    def move(self, name: str, key: bytes) -> bool:
        match name:
            case "next" | "prev":
                at = -1 if self.at is None else self.at + (1 if name == "next" else -1)
            case "seek":
                at = bisect_left(self.keys, key)
            case "seek_for_prev":
                at = bisect_right(self.keys, key) - 1
            case _:
                at = 0 if name == "first" else len(self.keys) - 1
        self.at = at if 0 <= at < len(self.keys) else None
        return self.at is not None


# Under asyncio


def run(runner: asyncio.Runner, function: Callable[[], Any]) -> Any:
    """What ``function`` returns inside a loop, awaited where it has to be."""

    async def called() -> Any:
        found = function()
        return await found if inspect.isawaitable(found) else found

    return runner.run(called())


_END: Final = object()


class Awaited:
    """A reader under asyncio, as code without ``await`` sees it."""

    def __init__(self, runner: asyncio.Runner, reader: Any) -> None:
        self._runner = runner
        self._reader = reader

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._reader, name)

        def call(*given: Any, **named: Any) -> Any:
            found = run(self._runner, lambda: method(*given, **named))
            is_range = isinstance(found, lsmkv.aio.AsyncRange)
            return AwaitedRange(self._runner, found) if is_range else found

        return call

    def __contains__(self, key: object) -> bool:
        return bool(self.contains(key))

    def __iter__(self) -> Iterator[Any]:
        return iter(AwaitedRange(self._runner, self._reader))

    def __repr__(self) -> str:
        return repr(self._reader)


class AwaitedRange:
    """A range under asyncio, likewise."""

    def __init__(self, runner: asyncio.Runner, entries: Any) -> None:
        self._runner = runner
        self._entries = entries

    def __iter__(self) -> Iterator[Any]:
        entries = run(self._runner, lambda: aiter(self._entries))
        while (entry := run(self._runner, lambda: anext(entries, _END))) is not _END:
            yield entry

    def __len__(self) -> int:
        return int(run(self._runner, self._entries.count))

    def __repr__(self) -> str:
        return repr(self._entries)


# Calls by name

READS: Final[dict[str, Callable[[Any], object]]] = {
    "get": lambda m: m.get(b"k"),
    "contains": lambda m: b"k" in m,
    "multi_get": lambda m: m.multi_get([b"k"]),
    "keys": lambda m: list(m.keys()),
    "values": lambda m: list(m.values(reverse=True)),
    "items": lambda m: list(m.items(start=b"a")),
    "iter": lambda m: list(m),
}
"""Of everything that reads."""

MAPPING_READS: Final[dict[str, Callable[[Any], object]]] = {
    **READS,
    "getitem": lambda m: m[b"k"],
    "reversed": lambda m: list(reversed(m)),
    "len": len,
    "bool": bool,
    "equal": lambda m: m == {},
    "cursor": lambda m: m.cursor(),
}
WRITES: Final[dict[str, Callable[[Any], object]]] = {
    "put": lambda m: m.put(b"k", b"v"),
    "delete": lambda m: m.delete(b"k"),
    "popitem": lambda m: m.popitem(),
    "clear": lambda m: m.clear(),
}
"""Of everything that writes."""

MAPPING_WRITES: Final[dict[str, Callable[[Any], object]]] = {
    **WRITES,
    "setitem": lambda m: m.__setitem__(b"k", b"v"),
    "delitem": lambda m: m.__delitem__(b"k"),
    "update": lambda m: m.update({b"k": b"v"}),
    "pop": lambda m: m.pop(b"k"),
    "setdefault": lambda m: m.setdefault(b"new", b"v"),
}
STORE_WRITES: Final[dict[str, Callable[[Any], object]]] = {
    **MAPPING_WRITES,
    "put synced": lambda m: m.put(b"k", b"v", sync=True),
    "delete synced": lambda m: m.delete(b"k", sync=True),
    "write_batch": lambda m: m.write_batch(),
}
