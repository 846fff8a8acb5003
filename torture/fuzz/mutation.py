"""Mutations of inputs, and a search that follows code coverage.

The search is a simple form of that of AFL and libFuzzer: an input that executes a new pair of
successive lines becomes a parent of later inputs.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

import lsmkv

_PACKAGE: Final = str(Path(lsmkv.__file__).parent)
_LONGEST: Final = 16 * 1024
INTERESTING: Final = (0, 1, 2, 7, 16, 127, 128, 255, 256, 32767, 65535, 1 << 16, 1 << 20)
EXTREME: Final = ((1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 62, 1 << 63, (1 << 64) - 1)

Edges = set[tuple[str, int, int]]


class Coverage:
    """The pairs of successive lines that a call executes in interpreted modules."""

    def __init__(self) -> None:
        self.edges: Edges = set()

    def of(self, call: Callable[[], Any]) -> Any:
        """Make the call, note its pairs in ``edges``, and return its result."""
        self.edges = set()
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            return call()
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(_PACKAGE):
            return None
        edges = self.edges
        last = 0

        def step(frame: FrameType, event: str, _argument: Any) -> Any:
            nonlocal last
            if event == "line":
                edges.add((name, last, frame.f_lineno))
                last = frame.f_lineno
            return step

        return step


def mutated(parents: Sequence[bytes], words: Sequence[bytes], dice: random.Random) -> bytes:
    """One of ``parents``, changed in one to four places."""
    data = bytearray(dice.choice(parents))
    for _ in range(dice.choice((1, 1, 1, 2, 3, 4))):
        _change(data, parents, words, dice)
    return bytes(data[:_LONGEST])


def _change(
    data: bytearray, parents: Sequence[bytes], words: Sequence[bytes], dice: random.Random
) -> None:
    at = dice.randrange(len(data) + 1)
    length = min(len(data) - at, dice.choice((1, 2, 4, 8, 30, 200)))
    choice = dice.randrange(8 if words else 7)
    if choice == 0:
        data[at : at + 1] = bytes([(data[at] if at < len(data) else 0) ^ 1 << dice.randrange(8)])
    elif choice == 1:
        data[at : at + length] = dice.randbytes(length)
    elif choice == 2:
        del data[at : at + length]
    elif choice == 3:
        data[at:at] = bytes(data[at : at + length]) or dice.randbytes(4)
    elif choice == 4:
        width = dice.choice((1, 2, 4, 8))
        number = dice.choice(INTERESTING + EXTREME) & ((1 << 8 * width) - 1)
        data[at : at + width] = number.to_bytes(width, "little")
    elif choice == 5:
        width = dice.choice((1, 2, 4, 8))
        old = int.from_bytes(data[at : at + width], "little")
        new = (old + dice.randrange(-9, 10)) & ((1 << 8 * width) - 1)
        data[at : at + width] = new.to_bytes(width, "little")
    elif choice == 6:
        other = dice.choice(parents)
        start = dice.randrange(len(other) + 1)
        data[at : at + length] = other[start : start + dice.choice((4, 16, 100))]
    else:
        data[at:at] = dice.choice(words)


def extremes(data: bytes, most: int = 1000) -> list[bytes]:
    """``data`` with an integer of 2, 4 or 8 bytes set to an extreme; ``most`` inputs in all."""
    places = [(at, width) for width in (2, 4, 8) for at in range(0, len(data) - width + 1, 2)]
    made = []
    for at, width in places[:: 1 + 3 * len(places) // most]:
        for number in (0, (1 << 31) - 1, (1 << 8 * width) - 1):
            changed = (number & ((1 << 8 * width) - 1)).to_bytes(width, "little")
            if data[at : at + width] != changed:
                made.append(data[:at] + changed + data[at + width :])
    return made
