"""What one writer writes, by number, and what a reader may find of it.

The writes of a group of keys are numbered from 1 on, in the order in which they are made; every value
names its key and the write that set it.  Whoever looks may find the group as it was after any write
between the last that was acknowledged before the look began, or that the same reader had seen before
(the *floor*), and the last that was begun when the look had ended (the *ceiling*).  But what one
look shows must all be as of one and the same write.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from torture.framework.part import UnsoundError

_LONGEST_PADDING_BYTES: Final = 160
_NEVER: Final = 1 << 62


def value_of(key: bytes, number: int) -> bytes:
    """What write ``number`` sets ``key`` to."""
    return b"%s:%d:%s" % (key, number, b"." * (number * 7919 % _LONGEST_PADDING_BYTES))


def number_of(key: bytes, value: bytes) -> int:
    """The write that ``value`` is of."""
    try:
        number = int(value[len(key) + 1 :].split(b":", 1)[0])
    except ValueError:
        number = 0
    if number <= 0 or value != value_of(key, number):
        raise UnsoundError(f"{key!r} has a value that nobody gave it: {value[:80]!r}")
    return number


class Ledger:
    """The writes of one group of keys.  One thread writes; any number look at the same time.

    Attributes:
        keys: all keys of the group, in order.
        begun: the last write that was begun.
        done: the last write that was acknowledged.
    """

    def __init__(self, keys: Iterable[bytes]) -> None:
        self.keys = sorted(keys)
        self.begun = 0
        self.done = 0
        # Of each key the writes that changed it, in order; those that deleted it are negative.
        self._changes: dict[bytes, list[int]] = {key: [] for key in self.keys}

    def begin(self, puts: Iterable[bytes], deletions: Iterable[bytes] = ()) -> int:
        """Note a write before it is made; its number.  No key may be both put and deleted."""
        number = self.begun + 1
        for key in puts:
            self._changes[key].append(number)
        for key in deletions:
            self._changes[key].append(-number)
        self.begun = number  # last: whoever sees it finds what it changed
        return number

    def acknowledge(self) -> None:
        """Note that the write that was begun last has returned."""
        self.done = self.begun

    def state(self, number: int, keys: Sequence[bytes] | None = None) -> dict[bytes, bytes]:
        """The entries (of ``keys``, or all) as they are after write ``number``."""
        wanted = self.keys if keys is None else keys
        found = ((key, self._change(key, number)) for key in wanted)
        return {key: value_of(key, change) for key, change in found if change > 0}

    def check_value(self, key: bytes, value: bytes | None, floor: int, ceiling: int) -> int:
        """The first write, from ``floor`` on, after which ``key`` has this value (None: has none)."""
        return self.check_cut({} if value is None else {key: value}, floor, ceiling, [key])

    def check_cut(
        self,
        found: Mapping[bytes, bytes],
        floor: int,
        ceiling: int,
        keys: Sequence[bytes] | None = None,
    ) -> int:
        """The first write, from ``floor`` on, after which ``keys`` (or all) are as they were found."""
        numbers = {key: number_of(key, value) for key, value in found.items()}
        wanted = self.keys if keys is None else keys
        if len(numbers) > len(wanted) or not numbers.keys() <= set(wanted):
            strange = sorted(numbers.keys() - set(wanted))
            raise UnsoundError(f"keys that do not belong there: {strange[:3]}")
        number = max(floor, max(numbers.values(), default=0))
        absent = [key for key in wanted if key not in numbers]
        settled = False
        while not settled:
            if number > ceiling:
                raise UnsoundError(f"it shows more than the writes up to {ceiling}, begun by then")
            self._check_present(numbers, number, floor)
            settled = True
            for key in absent:
                while self._change(key, number) > 0:
                    later = self._next_change(key, number)
                    if later > ceiling:
                        raise UnsoundError(self._lost(key, number, floor))
                    number, settled = later, False
        return number

    def _check_present(self, numbers: Mapping[bytes, int], number: int, floor: int) -> None:
        for key, its in numbers.items():
            change = self._change(key, number)
            if change != its:
                seen = f"write {floor} had been acknowledged or seen before"
                what = f"deleted by write {-change}" if change < 0 else f"set by write {change}"
                raise UnsoundError(
                    f"{key!r} is of write {its}, but after write {number}, which must be seen too "
                    f"({seen}), it is {what if change else 'absent'}"
                )

    def _lost(self, key: bytes, number: int, floor: int) -> str:
        return (
            f"{key!r} is not there; write {self._change(key, number)} set it, write {number} is seen "
            f"or was acknowledged (floor {floor}), and nothing deleted it"
        )

    def _change(self, key: bytes, number: int) -> int:
        """What ``key`` is like after write ``number``: the write that set it, if positive."""
        changes = self._changes[key]
        at = bisect_right(changes, number, key=abs)
        return changes[at - 1] if at else 0

    def _next_change(self, key: bytes, number: int) -> int:
        """The first write after ``number`` that changed ``key``."""
        changes = self._changes[key]
        at = bisect_right(changes, number, key=abs)
        return abs(changes[at]) if at < len(changes) else _NEVER
