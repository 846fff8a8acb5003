"""Seeded loads, by write buffers, and a model of live entries."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Final

import numpy
from numpy.typing import NDArray

from ...workloads.keys import KEY_BYTES, Values, present_key, shuffled

VALUE_BYTES: Final = 100
ENTRY_BYTES: Final = KEY_BYTES + VALUE_BYTES
CHUNK_ENTRIES: Final = 132  # the puts that fill a log of 16 KiB
Operation = tuple[int, bool]  # the number of a key, and whether it is put or deleted
Chunks = Iterator[list[Operation]]

_ZIPF_EXPONENT: Final = 0.99  # YCSB's (Cooper et al., SoCC 2010)
_DELETE_EVERY: Final = 4


def _overwrite(key_count: int, chunk_count: int, draw: random.Random) -> Chunks:
    for _ in range(chunk_count):
        yield [(draw.randrange(key_count), True) for _ in range(CHUNK_ENTRIES)]


def _zipf(key_count: int, chunk_count: int, draw: random.Random) -> Chunks:
    # Hot keys do not depend on the order of keys.
    numbers = list(range(key_count))
    draw.shuffle(numbers)
    weights = list(accumulate((rank + 1) ** -_ZIPF_EXPONENT for rank in range(key_count)))
    for _ in range(chunk_count):
        drawn = draw.choices(numbers, cum_weights=weights, k=CHUNK_ENTRIES)
        yield [(number, True) for number in drawn]


def _insert(key_count: int, chunk_count: int, draw: random.Random) -> Chunks:
    numbers = shuffled(key_count, draw.getrandbits(32))
    for chunk in range(chunk_count):
        part = numbers[chunk * CHUNK_ENTRIES : (chunk + 1) * CHUNK_ENTRIES]
        yield [(number, True) for number in part]


def _sequential(_: int, chunk_count: int, draw: random.Random) -> Chunks:
    for chunk in range(chunk_count):
        first = chunk * CHUNK_ENTRIES
        yield [(number, True) for number in range(first, first + CHUNK_ENTRIES)]


def _deletes(key_count: int, chunk_count: int, draw: random.Random) -> Chunks:
    for _ in range(chunk_count):
        yield [
            (draw.randrange(key_count), draw.randrange(_DELETE_EVERY) > 0)
            for _ in range(CHUNK_ENTRIES)
        ]


LOADS: Final[dict[str, Callable[[int, int, random.Random], Chunks]]] = {
    "overwrite": _overwrite,
    "zipf": _zipf,
    "insert": _insert,
    "sequential": _sequential,
    "deletes": _deletes,
}
"""Name -> operations.  ``overwrite``: puts of keys drawn evenly from a key space; ``zipf``: the same,
skewed with exponent 0.99; ``insert``: every key once, in random order; ``sequential``: every key
once, ascending; ``deletes``: as ``overwrite``, with one operation in four a deletion."""

GROWING: Final = ("insert", "sequential")
"""Loads that put each key once: their key space is as long as the load."""


def chunks(load: str, key_count: int, chunk_count: int, seed: int) -> Chunks:
    """The operations of a load, :data:`CHUNK_ENTRIES` at a time.

    >>> [len(chunk) for chunk in chunks("sequential", 2 * 132, 2, seed=1)]
    [132, 132]
    """
    return LOADS[load](key_count, chunk_count, random.Random(f"load/{load}/{seed}"))


class Model:
    """The expected content of the store; successive values of a key (of 1024) differ."""

    def __init__(self, key_count: int, seed: int) -> None:
        self._values = Values(VALUE_BYTES, seed)
        self._writes = 0
        self._newest = [0] * key_count
        self._live = numpy.zeros(key_count, dtype=bool)

    def apply(self, operations: list[Operation]) -> list[tuple[bytes, bytes | None]]:
        """Apply operations, and return them as keys and values (None: a deletion)."""
        written: list[tuple[bytes, bytes | None]] = []
        for number, is_put in operations:
            self._writes += 1
            self._newest[number] = self._writes
            self._live[number] = is_put
            value = self._values.of(self._writes) if is_put else None
            written.append((present_key(number), value))
        return written

    def value(self, number: int) -> bytes:
        return self._values.of(self._newest[number])

    def live_numbers(self) -> NDArray[numpy.int64]:
        return numpy.flatnonzero(self._live)


def user_bytes(operations: list[Operation]) -> int:
    """Bytes of the keys and values of operations; a deletion counts its key."""
    return sum(ENTRY_BYTES if is_put else KEY_BYTES for _, is_put in operations)
