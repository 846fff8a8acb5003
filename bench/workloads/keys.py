"""Seeded keys and values, with an absent key after every present one.

An absent key lies between two present keys, so that the ranges of tables and blocks cannot answer for
the filters.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

KEY_BYTES: Final = 16
_POOL: Final = 1024


def present_key(number: int) -> bytes:
    """The key of that number: 16 digits, even, so that order by number is order by key.

    >>> present_key(7)
    b'0000000000000014'
    """
    return b"%016d" % (2 * number)


def absent_key(number: int) -> bytes:
    """The absent key just after that of ``number``.

    >>> absent_key(7)
    b'0000000000000015'
    """
    return b"%016d" % (2 * number + 1)


def key_number(key: bytes) -> int:
    """The number of a present key or the absent one after.

    >>> key_number(present_key(7)), key_number(absent_key(7))
    (7, 7)
    """
    return int(key) // 2


def shuffled(count: int, seed: int) -> list[int]:
    """The numbers below ``count`` in a seeded random order."""
    numbers = list(range(count))
    random.Random(f"order/{seed}").shuffle(numbers)
    return numbers


class Values:
    """Values of one length, half random and half one byte.

    So zstd halves them.  A pool of 1024 values makes each cheap.

    >>> values = Values(100, seed=1)
    >>> len(values.of(3)), values.of(3) == values.of(3), values.of(3) == values.of(4)
    (100, True, False)
    """

    def __init__(self, length_bytes: int, seed: int) -> None:
        draw = random.Random(f"values/{seed}")
        noise = (length_bytes + 1) // 2
        filler = b"v" * (length_bytes - noise)
        self._pool = [draw.randbytes(noise) + filler for _ in range(_POOL)]

    def of(self, number: int) -> bytes:
        """The value of that number."""
        return self._pool[number % _POOL]


def lookups(
    present: Sequence[bytes], absent: Sequence[bytes], hit_ratio: float, count: int, seed: int
) -> list[bytes]:
    """``count`` keys in random order, of which ``hit_ratio`` are present.

    No key comes twice while there are enough: a filter gives one answer to a key, however often it is
    asked.  More lookups than keys are whole passes over all of them, and a part of one.

    >>> sorted(lookups([b"p", b"q"], [b"a", b"b"], 0.25, 4, seed=1))
    [b'a', b'b', b'b', b'p']
    """
    draw = random.Random(f"lookups/{seed}/{hit_ratio}")
    hits = round(count * hit_ratio)
    keys = passes(present, hits, draw) + passes(absent, count - hits, draw)
    draw.shuffle(keys)
    return keys


def passes(items: Sequence[T], count: int, draw: random.Random) -> list[T]:
    """``count`` items: each as often as the others, and a sample of them once more.

    >>> sorted(passes("abc", 7, random.Random(1)))
    ['a', 'a', 'a', 'b', 'b', 'c', 'c']
    """
    if not count:
        return []
    whole, part = divmod(count, len(items))
    return [*items] * whole + draw.sample(items, part)


def chunks(items: Sequence[T], parts: int) -> Iterator[Sequence[T]]:
    """``items`` in ``parts`` parts of nearly equal length.

    >>> [list(part) for part in chunks(range(5), 2)]
    [[0, 1], [2, 3, 4]]
    """
    for part in range(parts):
        yield items[len(items) * part // parts : len(items) * (part + 1) // parts]
