"""Real keys of a store, and absent keys beside them."""

from __future__ import annotations

import contextlib
import random
import string
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import groupby, islice
from typing import Final

from lsmkv import DB, MAX_KEY_BYTES, CorruptionError, FilterKey

_TRIES: Final = 50
_MOST_FAILURES: Final = 100  # draws that met a damaged block
_SHARE_WITHIN: Final = 0.8  # of absent keys, so many lie where a block could hold them
_STEPS: Final = 64
GoOn = Callable[[], bool]  # asked before each draw; False ends the drawing
_CLASSES: Final = (string.digits, string.ascii_lowercase, string.ascii_uppercase)


def always() -> bool:
    return True


def within(seconds: float) -> GoOn:
    """Go on for so long from now."""
    ends_s = time.monotonic() + seconds
    return lambda: time.monotonic() < ends_s


class KeySampler:
    """Draws keys of an open store, whose counters count its reads.  One thread uses it."""

    def __init__(self, db: DB, seed: int) -> None:
        self._db = db
        self._draw = random.Random(seed)

    def present(self, count: int, go_on: GoOn = always) -> list[bytes]:
        """Up to ``count`` different keys that have a value."""
        found: dict[bytes, None] = {}
        repeats = 0
        for key in self._present(go_on):
            if len(found) >= count or repeats > _TRIES:
                break
            repeats = repeats + 1 if key in found else 0
            found[key] = None
        return list(found)

    def _present(self, go_on: GoOn) -> Iterator[bytes]:
        tables = self._db.tables()
        weights = [table.entry_count for table in tables]
        in_memory = sum(self._db.memtable_key_counts)
        missed = False
        failures = 0
        while go_on():  # asked for each draw: large values or many deletions make draws slow
            start = None
            if (
                not missed
                and tables
                and self._draw.randrange(sum(weights) + in_memory) >= in_memory
            ):
                (table,) = self._draw.choices(tables, weights)
                start = table.separator(self._draw.randrange(table.block_count))
            steps = self._draw.randrange(_STEPS)
            try:
                keys = list(islice(iter(self._db.keys(start=start)), steps + 1))
            except CorruptionError:
                failures += 1
                if failures >= _MOST_FAILURES:
                    return
                continue
            if keys:
                yield keys[-1]
            elif start is None:
                return  # the store is empty, or all is deleted
            missed = not keys  # all from there on is deleted: next time from the first key on

    def absent(self, count: int, go_on: GoOn = always) -> list[bytes]:
        """Up to ``count`` different absent keys, near present ones.

        Deleted ones are none: to find a deletion, a lookup must read it.
        """
        found: dict[bytes, None] = {}
        for key in islice(self._stored(go_on), 4 * count + _TRIES):
            if len(found) >= count:
                break
            near = self._absent_near(key, by_prefix=self._draw.random() < 0.5)
            with contextlib.suppress(CorruptionError):
                if near is not None and self._db.explain(near).outcome == "absent":
                    found[near] = None
        return list(found)

    def _stored(self, go_on: GoOn) -> Iterator[bytes]:
        """Present keys; where all keys are deleted, these."""
        known = self._present(go_on)
        first = next(known, None)
        if first is not None:
            yield first
            yield from known
            return
        for table in self._db.tables():
            for block in range(table.block_count):
                if not go_on():
                    return
                with contextlib.suppress(CorruptionError):
                    yield from table.keys(block)

    def _absent_near(self, key: bytes, *, by_prefix: bool) -> bytes | None:
        """An absent key beside ``key``, or None; ``by_prefix``: its filtered prefix is absent too."""
        tables = self._db.tables()
        may_lie_outside = not tables or self._draw.random() >= _SHARE_WITHIN
        prefixes = (table.filter_key for table in tables if not table.filter_key.is_whole)
        filter_key = next(prefixes, None) if by_prefix else None
        for _ in range(_TRIES):
            near = _beside(key, filter_key, self._draw)
            fits = may_lie_outside or any(it.smallest <= near <= it.largest for it in tables)
            if fits and self._is_absent(near, filter_key):
                return near
        if filter_key is not None:
            near = _longer_prefix(key, filter_key, self._draw)
            if self._is_absent(near, filter_key):
                return near
        for end in (self._draw.choice(string.digits).encode(), self._draw.randbytes(8)):
            near = key[: MAX_KEY_BYTES - len(end)] + end
            if self._is_absent(near, None):
                return near
        return None

    def _is_absent(self, key: bytes, filter_key: FilterKey | None) -> bool:
        """Whether no entry has ``key``, and none its prefix; False where damage hides it."""
        try:
            if self._db.get(key) is not None:
                return False
            if filter_key is None:
                return True
            return next(iter(self._db.keys(prefix=filter_key.part(key))), None) is None
        except CorruptionError:
            return False

    def false_positives(
        self, count: int, most_tried: int, go_on: GoOn = always
    ) -> tuple[list[bytes], int]:
        """Absent keys that a filter lets pass, and how many were tried."""
        found: list[bytes] = []
        tried = 0
        tables = self._db.tables()
        if not any(table.asks_filters for table in tables):
            return found, tried
        runs = [list(run) for _, run in groupby(tables, lambda table: (table.level, table.run))]
        for key in self._present(go_on):
            if len(found) >= count or tried >= most_tried:
                break
            near = self._absent_near(key, by_prefix=True)
            if near is None:
                continue
            tried += 1
            for run in runs:  # filters first, which are quick
                at = bisect_right(run, near, key=lambda table: table.smallest) - 1
                if at >= 0 and run[at].asks_filters and run[at].may_contain(near):
                    # A deletion may end the lookup before it asks them.
                    with contextlib.suppress(CorruptionError):
                        if self._db.explain(near).false_positives:
                            found.append(near)
                    break
        return found, tried

    def absent_within(self, keys: list[bytes], count: int, filter_key: FilterKey) -> list[bytes]:
        """Up to ``count`` absent keys between ``keys``, which ascend; filters hold other parts."""
        found: dict[bytes, None] = {}
        by_prefix = None if filter_key.is_whole else filter_key
        parts = set(map(filter_key.part, keys))
        for attempt in range(4 * count):
            if len(found) >= count:
                break
            key = self._draw.choice(keys)
            if attempt < 2 * count:
                near = _beside(key, by_prefix, self._draw)
            elif by_prefix:
                near = _longer_prefix(key, by_prefix, self._draw)
            else:  # keys that are close leave no room but behind them
                near = key[: MAX_KEY_BYTES - 8] + self._draw.randbytes(8)
            at = bisect_left(keys, near)
            # A block may hold a key that was deleted since: its filter is right to let it pass.
            if not 0 < at < len(keys) or filter_key.part(near) in parts:
                continue
            if self._is_absent(near, None):
                found[near] = None
        return list(found)


def _beside(key: bytes, filter_key: FilterKey | None, draw: random.Random) -> bytes:
    """``key`` with another byte, in its prefix if there is a ``filter_key``."""
    if filter_key is None:
        return changed(key, draw)
    part = filter_key.part(key)
    # Its last byte stays: it may be what ends a prefix.
    return changed(part[:-1], draw) + key[len(part) - 1 :] if len(part) > 1 else changed(key, draw)


def _longer_prefix(key: bytes, filter_key: FilterKey, draw: random.Random) -> bytes:
    """``key`` with a longer prefix, for prefixes that leave no gap."""
    part = filter_key.part(key)
    longer = part[:-1] + draw.choice(string.ascii_letters).encode() + part[-1:]
    return (longer + key[len(part) :])[:MAX_KEY_BYTES]


def changed(key: bytes, draw: random.Random) -> bytes:
    """``key`` with one byte replaced by another of its kind: a digit by a digit, and so on."""
    if not key:
        return draw.randbytes(1)
    text = key.decode("utf-8", "ignore")
    if not key.isascii() and text.encode() == key:  # by whole characters, or it is text no more
        at = draw.randrange(len(text))
        near = chr(max(0x20, ord(text[at]) + draw.choice((-1, 1))))
        return (text[:at] + near + text[at + 1 :]).encode("utf-8", "replace")
    at = len(key) - 1 - min(draw.randrange(4), len(key) - 1)
    letter = chr(key[at])
    kind = next((letters for letters in _CLASSES if letter in letters), None)
    other = ord(draw.choice(kind)) if kind else draw.randrange(256)
    if kind is None and letter in string.printable:
        other = ord(draw.choice(string.ascii_lowercase))
    return key[:at] + bytes([other]) + key[at + 1 :]
