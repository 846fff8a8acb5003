"""The numbered writes of one writer, and contents that readers may find.

The writes to a group of keys are numbered from 1 on, in order; every value names its key and its write.
A read must show the group as it was after one write.  That write may be any from the *floor* to the
*ceiling*.  The floor is the last write acknowledged before the read, or seen by the same reader
before.  The ceiling is the last write begun when the read has ended.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from torture.framework.part import UnsoundError

_LONGEST_PADDING_BYTES: Final = 160
_NEVER: Final = 1 << 62


def value_of(key: bytes, number: int) -> bytes:
    """The value that write ``number`` gives ``key``."""
    return b"%s:%d:%s" % (key, number, b"." * (number * 7919 % _LONGEST_PADDING_BYTES))


def number_of(key: bytes, value: bytes) -> int:
    """The write that gave ``key`` this value; UnsoundError if none did."""
    try:
        number = int(value[len(key) + 1 :].split(b":", 1)[0])
    except ValueError:
        number = 0
    if number <= 0 or value != value_of(key, number):
        raise UnsoundError(f"{key!r} has a value that was never written: {value[:80]!r}")
    return number


class Ledger:
    """The writes of one group of keys, by one thread; any number of threads read.

    Attributes:
        keys: all keys of the group, in order.
        begun: the last write begun.
        done: the last write acknowledged.
    """

    def __init__(self, keys: Iterable[bytes]) -> None:
        self.keys = sorted(keys)
        self.begun = 0
        self.done = 0
        # The writes that changed each key, in order; deletions are negative.
        self._changes: dict[bytes, list[int]] = {key: [] for key in self.keys}

    def begin(self, puts: Iterable[bytes], deletions: Iterable[bytes] = ()) -> int:
        """Note a write before it is made, and return its number.  No key is both put and deleted."""
        number = self.begun + 1
        for key in puts:
            self._changes[key].append(number)
        for key in deletions:
            self._changes[key].append(-number)
        self.begun = number  # last: a reader that sees the number finds the changes
        return number

    def acknowledge(self) -> None:
        """Note that the last write has returned."""
        self.done = self.begun

    def state(self, number: int, keys: Sequence[bytes] | None = None) -> dict[bytes, bytes]:
        """The entries of ``keys``, or of all keys, after write ``number``."""
        wanted = self.keys if keys is None else keys
        found = ((key, self._change(key, number)) for key in wanted)
        return {key: value_of(key, change) for key, change in found if change > 0}

    def check_value(self, key: bytes, value: bytes | None, floor: int, ceiling: int) -> int:
        """:meth:`check_cut` for one key; the value None means that it is absent."""
        return self.check_cut({} if value is None else {key: value}, floor, ceiling, [key])

    def check_cut(
        self,
        found: Mapping[bytes, bytes],
        floor: int,
        ceiling: int,
        keys: Sequence[bytes] | None = None,
    ) -> int:
        """The first write from ``floor`` to ``ceiling`` that explains the values of ``keys``, or all."""
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
                raise UnsoundError(f"write {number} is visible, but the last begun was {ceiling}")
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
                what = f"deleted by write {-change}" if change < 0 else f"set by write {change}"
                raise UnsoundError(
                    f"{key!r} has the value of write {its}, but after write {number}, which must be "
                    f"visible too, it is {what if change else 'absent'}; write {floor} was "
                    "acknowledged or seen before"
                )

    def _lost(self, key: bytes, number: int, floor: int) -> str:
        return (
            f"{key!r} is missing: write {self._change(key, number)} set it, write {number} is visible "
            f"or was acknowledged (floor {floor}), and no write deleted it"
        )

    def _change(self, key: bytes, number: int) -> int:
        """The last write up to ``number`` that changed ``key``: negative if a deletion, or 0."""
        changes = self._changes[key]
        at = bisect_right(changes, number, key=abs)
        return changes[at - 1] if at else 0

    def _next_change(self, key: bytes, number: int) -> int:
        """The first write after ``number`` that changed ``key``."""
        changes = self._changes[key]
        at = bisect_right(changes, number, key=abs)
        return abs(changes[at]) if at < len(changes) else _NEVER
