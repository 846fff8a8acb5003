"""Real keys of a store, and absent keys beside them."""

from __future__ import annotations

import random
import string
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from lsmkv.api.db import DB
from lsmkv.encoding.entries import MAX_KEY_BYTES
from lsmkv.filters.hashing import hash_key
from lsmkv.read.view import SuperVersion
from lsmkv.sstable.reader import TableReader

_TRIES: Final = 50
_STEPS: Final = 64
GoOn = Callable[[], bool]
"""Asked before each draw; False ends the drawing."""

_CLASSES: Final = (string.digits, string.ascii_lowercase, string.ascii_uppercase)


def always() -> bool:
    return True


def within(seconds: float) -> GoOn:
    """Go on for so long from now."""
    ends_s = time.monotonic() + seconds
    return lambda: time.monotonic() < ends_s


class KeySampler:
    """Draws keys of an open store; ``seed`` decides which.  One thread uses it.

    Its own reads count in its handle, so give it one of its own.
    """

    def __init__(self, db: DB, seed: int) -> None:
        self._db = db
        self._draw = random.Random(seed)

    def _current(self) -> SuperVersion:
        return self._db._engine.require_open()

    def present(self, count: int, go_on: GoOn = always) -> list[bytes]:
        """Up to ``count`` keys that have a value; a key may come twice."""
        return list(islice(self._present(go_on), count))

    def _present(self, go_on: GoOn) -> Iterator[bytes]:
        tables = list(self._current().version.tables())
        weights = [table.meta.entry_count for table in tables]
        in_memory = sum(map(len, self._current().memtables))
        missed = False
        while go_on():  # asked for each draw: large values or many deletions make draws slow
            start = None
            if (
                not missed
                and tables
                and self._draw.randrange(sum(weights) + in_memory) >= in_memory
            ):
                (table,) = self._draw.choices(tables, weights)
                start = table.index.first_key(self._draw.randrange(int(table.index.block_count)))
            steps = self._draw.randrange(_STEPS)
            keys = list(islice(iter(self._db.keys(start=start)), steps + 1))
            if keys:
                yield keys[-1]
            elif start is None:
                return  # the store is empty, or all is deleted
            missed = not keys  # all from there on is deleted: next time from the first key on

    def absent(self, count: int, go_on: GoOn = always) -> list[bytes]:
        """Up to ``count`` different absent keys, near present ones."""
        found: dict[bytes, None] = {}
        for key in islice(self._present(go_on), 4 * count + _TRIES):
            if len(found) >= count:
                break
            near = self._absent_near(key)
            if near is not None:
                found[near] = None
        return list(found)

    def _absent_near(self, key: bytes) -> bytes | None:
        """An absent key beside ``key``, of its length if there is one; None if none was found."""
        for _ in range(_TRIES):
            near = changed(key, self._draw)
            if self._db.get(near) is None:
                return near
        near = key[: MAX_KEY_BYTES - 8] + self._draw.randbytes(8)
        return near if self._db.get(near) is None else None

    def false_positives(
        self, count: int, most_tried: int, go_on: GoOn = always
    ) -> tuple[list[bytes], int]:
        """Absent keys that a filter lets pass, and how many were tried."""
        found: list[bytes] = []
        tried = 0
        version = self._current().version
        if not any(table.filters.exist for table in version.tables()):
            return found, tried
        for key in self._present(go_on):
            if len(found) >= count or tried >= most_tried:
                break
            near = self._absent_near(key)
            if near is None:
                continue
            tried += 1
            # Filters first, which are quick.  A deletion may end the lookup before it asks them.
            if any(_passes(run.table_for(near), near) for run in version.runs) and (
                self._db.explain(near).false_positives
            ):
                found.append(near)
        return found, tried

    def absent_within(self, keys: list[bytes], count: int) -> list[bytes]:
        """Up to ``count`` different absent keys within the range of ``keys``.

        ``keys`` ascend; none of them is among the result.
        """
        found: dict[bytes, None] = {}
        for attempt in range(4 * count):
            if len(found) >= count:
                break
            key = self._draw.choice(keys)
            if attempt < 2 * count:
                near = changed(key, self._draw)
            else:  # keys that are close leave no room but behind them
                near = key[: MAX_KEY_BYTES - 8] + self._draw.randbytes(8)
            at = bisect_left(keys, near)
            # A block may hold a key that was deleted since: its filter is right to let it pass.
            if 0 < at < len(keys) and keys[at] != near and self._db.get(near) is None:
                found[near] = None
        return list(found)


def changed(key: bytes, draw: random.Random) -> bytes:
    """``key`` with one byte replaced by another of its kind: a digit by a digit, and so on."""
    if not key:
        return draw.randbytes(1)
    at = len(key) - 1 - min(draw.randrange(4), len(key) - 1)
    letter = chr(key[at])
    kind = next((letters for letters in _CLASSES if letter in letters), None)
    other = ord(draw.choice(kind)) if kind else draw.randrange(256)
    if kind is None and letter in string.printable:
        other = ord(draw.choice(string.ascii_lowercase))
    return key[:at] + bytes([other]) + key[at + 1 :]


def _passes(table: TableReader | None, key: bytes) -> bool:
    """Whether a block spans an absent key and its filter allows it."""
    if table is None or not table.filters.exist:
        return False
    number = int(table.index.find(key))
    return number >= 0 and table.filters.may_hold(number, table.filters.hash_of(key, hash_key(key)))
