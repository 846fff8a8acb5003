"""Programs: random operations on a store, as data that can be printed, shortened and run again.

No operation depends on those before it, so every part of a program is a program too: a read of a
snapshot that was never taken finds an empty slot.  Keys and values have various lengths, 0 included;
many keys are prefixes of others, and a few keys get most writes.

The programs are longer than Hypothesis can draw (its limit is about 500 of these operations), and
drawing an operation here is far cheaper than running it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from torture.framework.changes import Change

_SLOTS: Final = 3
_MOST_SHOWN: Final = 8
_SHORT_BYTES: Final = 40


@dataclass(frozen=True, slots=True)
class Operation:
    """The name and the arguments of a method of :class:`torture.metamorphic.subjects.Store`."""

    kind: str
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(map(shown, self.arguments))})"


def shown(value: Any) -> str:
    """``repr`` of an argument or an answer, shortened."""
    if isinstance(value, (list, tuple)):
        inner = ", ".join(map(shown, value[:_MOST_SHOWN]))
        more = f", ... {len(value)} in all" if len(value) > _MOST_SHOWN else ""
        comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
        opening, closing = "[]" if isinstance(value, list) else "()"
        return f"{opening}{inner}{more}{comma}{closing}"
    if not isinstance(value, bytes) or len(value) <= _SHORT_BYTES:
        return repr(value)
    head = value.rstrip(value[-1:])
    if len(value) - len(head) > len(value) // 2:
        repeated = f"{value[-1:]!r} * {len(value) - len(head)}"
        return f"{head!r} + {repeated}" if head else repeated
    return f"<{value[:16]!r} and {len(value) - 16} bytes more>"


def program(seed: str, length: int) -> list[Operation]:
    """At least ``length`` operations, and final checks."""
    author = _Author(random.Random(f"program {seed}"))
    operations: list[Operation] = []
    while len(operations) < length:
        operations += author.next()
    everything = Operation("entries", ("items", None, None, None, False, None))
    operations += [everything, Operation("verify"), author.reopening(), everything]
    return [*operations, Operation("verify")]


def reopenings(operations: Sequence[Operation]) -> int:
    return sum(operation.kind == "reopen" for operation in operations)


class _Author:
    """Writes a program, a few operations at a time."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._keys = _key_space(dice)
        self._ordered = sorted(self._keys)
        self._skew = dice.choice((1.0, 2.0, 5.0))
        self._written = 0
        self._reopened = 0
        self._taken: dict[str, list[int]] = {}
        kinds: dict[Callable[[], list[Operation]], int] = {
            self._put: 24,
            self._put_many: 3,
            self._delete: 8,
            self._delete_many: 2,
            self._delete_range: 2,
            self._batch: 5,
            self._ingest: 1,
            self._bulk_load: 1,
            self._read: 40,
            self._snapshot: 2,
            self._read_snapshot: 10,
            self._hold: 3,
            self._move_held: 8,
            self._release: 1,
            self._upkeep: 5,
            self._clear: 1 if dice.random() < 0.3 else 0,
            self._reopen: 1,
        }
        self._kinds, self._weights = list(kinds), list(kinds.values())

    def next(self) -> list[Operation]:
        return self._dice.choices(self._kinds, self._weights)[0]()

    def reopening(self) -> Operation:
        """A reopening; its number chooses its options, also in a shrunk program."""
        self._reopened += 1
        self._taken.clear()
        return Operation("reopen", (self._reopened,))

    # Keys, values and bounds

    def _key(self) -> bytes:
        """A key to write; some are far more frequent than others."""
        return self._keys[int(len(self._keys) * self._dice.random() ** self._skew)]

    def _wanted(self) -> bytes:
        """A key to read: often one of the keys, often a neighbour of one."""
        dice, key = self._dice, self._key()
        match dice.randrange(10):
            case 0:
                return key[:-1]
            case 1 if len(key) < 1000:
                return key + b"\0"
            case 2:
                return dice.randbytes(dice.randint(0, 3))
            case 3:
                return dice.choice(self._keys)
        return key

    def _value(self) -> bytes:
        """An empty value, or one that no other write has."""
        dice = self._dice
        self._written += 1
        tag, filler = b"%d:" % self._written, dice.choice((b"v", b"\0", b"\xff"))
        kinds = ("empty", "tag", "short", "random", "long", "huge")
        match dice.choices(kinds, (10, 25, 38, 15, 10, 2))[0]:
            case "empty":
                return b""
            case "tag":
                return tag
            case "short":
                return tag + filler * dice.randint(1, 200)
            case "random":
                return tag + dice.randbytes(dice.randint(1, 400))
            case "long":
                return tag + filler * dice.randint(200, 6000)
        return tag + filler * dice.randint(6000, 70_000)

    def _bound(self) -> bytes | None:
        return None if self._dice.random() < 0.4 else self._wanted()

    def _range(self) -> tuple[bytes | None, bytes | None, bytes | None]:
        """Start, stop and prefix of a range; start is mostly before stop."""
        dice = self._dice
        start, stop = self._bound(), self._bound()
        if start is not None and stop is not None and stop < start and dice.random() < 0.8:
            start, stop = stop, start
        prefix = None
        if dice.random() < 0.4:
            key = self._key()
            prefix = key[: dice.randint(0, min(len(key), 8))] if dice.random() < 0.8 else key
            if dice.random() < 0.7:
                start = stop = None
        return start, stop, prefix

    def _moves(self) -> list[tuple[str, bytes | None]]:
        dice = self._dice
        moves: list[tuple[str, bytes | None]] = []
        for _ in range(dice.randint(1, 12)):
            kind = dice.choice(("next", "next", "prev", "first", "last", "seek", "seek_for_prev"))
            times = dice.choice((1, 1, 5, 20)) if kind in ("next", "prev") else 1
            key = self._wanted() if kind.startswith("seek") else None
            moves += [(kind, key)] * times
        return moves

    # Writing

    def _put(self) -> list[Operation]:
        return [Operation("put", (self._key(), self._value(), self._dice.random() < 0.1))]

    def _put_many(self) -> list[Operation]:
        """More puts than the smallest memtable holds."""
        operations: list[Operation] = []
        for _ in range(self._dice.randint(5, 40)):
            operations += self._put()
        return operations

    def _delete(self) -> list[Operation]:
        return [Operation("delete", (self._wanted(),))]

    def _delete_many(self) -> list[Operation]:
        """Deletions of neighbours, which empty whole blocks."""
        at = self._dice.randrange(len(self._ordered))
        some = self._ordered[at : at + self._dice.randint(2, 30)]
        return [Operation("delete", (key,)) for key in some]

    def _delete_range(self) -> list[Operation]:
        return [Operation("delete_range", self._range())]

    def _batch(self) -> list[Operation]:
        changes: list[Change] = [
            (self._key(), None if self._dice.random() < 0.3 else self._value())
            for _ in range(self._dice.choice((0, 1, 3, 10, 30)))
        ]
        return [Operation("batch", (changes, self._dice.random() < 0.9))]

    def _ingest(self) -> list[Operation]:
        """Tables from outside, with entries as a batch has them."""
        changes: list[Change] = [
            (self._key(), None if self._dice.random() < 0.2 else self._value())
            for _ in range(self._dice.choice((1, 3, 10, 60)))
        ]
        return [Operation("ingest", (changes, self._dice.randint(1, 3), self._dice.random() < 0.5))]

    def _bulk_load(self) -> list[Operation]:
        count = self._dice.choice((0, 1, 10, 100))
        pairs = [(self._key(), self._value()) for _ in range(count)]
        return [Operation("bulk_load", (pairs, self._dice.random() < 0.5))]

    def _clear(self) -> list[Operation]:
        return [Operation("clear")]

    # Reading

    def _read(self) -> list[Operation]:
        """A read of a store or a snapshot."""
        dice = self._dice
        match dice.choices(("get", "item", "contains", "many", "entries", "count", "walk", "any"),
                           (30, 8, 8, 12, 30, 5, 12, 1))[0]:  # fmt: skip
            case "many":
                return [
                    Operation("multi_get", ([self._wanted() for _ in range(dice.randint(0, 30))],))
                ]
            case "entries":
                what = dice.choice(("items", "items", "keys", "values"))
                most = dice.choice((None, None, 1, 5, 40))
                return [Operation("entries", (what, *self._range(), dice.random() < 0.5, most))]
            case "count":
                return [Operation("count", self._range())]
            case "walk":
                return [Operation("walk", (self._moves(),))]
            case "any":
                return [Operation("has_any")]
            case kind:
                return [Operation(kind, (self._wanted(),))]

    def _free(self, kind: str) -> int:
        """A slot for a new snapshot, cursor or iterator; it may replace another."""
        slot = self._dice.randrange(_SLOTS)
        self._taken.setdefault(kind, []).append(slot)
        return slot

    def _held(self, kind: str) -> int:
        """A slot of that kind, mostly a full one."""
        slots = self._taken.get(kind)
        if not slots or self._dice.random() < 0.05:
            return self._dice.randrange(_SLOTS)
        return self._dice.choice(slots[-_SLOTS:])

    def _snapshot(self) -> list[Operation]:
        return [Operation("take_snapshot", (self._free("snapshot"),))]

    def _read_snapshot(self) -> list[Operation]:
        (read,) = self._read()
        held = self._held("snapshot")
        return [Operation("read_snapshot", (held, read.kind, read.arguments))]

    def _hold(self) -> list[Operation]:
        """A cursor or an iterator, to move after later writes."""
        if self._dice.random() < 0.5:
            return [Operation("hold_cursor", (self._free("cursor"),))]
        bounds, reverse = self._range(), self._dice.random() < 0.5
        return [Operation("hold_iterator", (self._free("iterator"), *bounds, reverse))]

    def _move_held(self) -> list[Operation]:
        if self._dice.random() < 0.5:
            return [Operation("move_cursor", (self._held("cursor"), self._moves()))]
        steps = self._dice.choice((1, 5, 50, 1000))
        return [Operation("step_iterator", (self._held("iterator"), steps))]

    def _release(self) -> list[Operation]:
        return [Operation("release", (self._dice.randrange(_SLOTS),))]

    # Upkeep

    def _upkeep(self) -> list[Operation]:
        kinds = ("flush", "settle", "sync", "verify", "beside", "compact")
        match self._dice.choices(kinds, (6, 3, 1, 1, 1, 4))[0]:
            case "compact":
                start, stop, _ = self._range()
                if self._dice.random() < 0.4:
                    start = stop = None
                return [Operation("compact", (start, stop, self._dice.random() < 0.4))]
            case kind:
                return [Operation(kind)]

    def _reopen(self) -> list[Operation]:
        return [self.reopening()]


def _key_space(dice: random.Random) -> list[bytes]:
    """The keys of a program, the most frequent ones first."""
    short = [bytes(key) for length in range(4) for key in product(b"\0a\xff", repeat=length)]
    nested = [b"a" * length for length in (*range(1, 20), 255, 256, 300)]
    nested += [key + b"\xff" for key in nested] + [b"\xff" * length for length in (4, 9, 40)]
    paths = [b"%c/%d/%s" % (user, at, name) for user in b"abc" for at in range(9)
             for name in (b"", b"x", b"x/y")]  # fmt: skip
    numbers = [b"key%05d" % number for number in range(dice.choice((60, 400)))]
    mixed = [dice.randbytes(dice.randint(1, 40)) for _ in range(60)]
    long = [b"l" * length + b"%d" % number for length in (250, 1000, 5000) for number in range(2)]
    long += [b"m" * 65_535] if dice.random() < 0.2 else []
    families = [short, nested, paths, numbers, mixed, long]
    chosen = dice.sample(families, dice.choices((1, 2, 3), (1, 3, 3))[0])
    keys = list(dict.fromkeys([b"", *(key for family in chosen for key in family)]))
    dice.shuffle(keys)
    return keys
