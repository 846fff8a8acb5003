"""Keys of a shape, made by a seed: digits, hex digits, paths of files, names of packages."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import accumulate
from typing import Final

_STEP: Final = 200  # from one number to the next
_AREAS: Final = 500
_TOPICS: Final = 5
_FILES: Final = 1_000_000
_WORDS: Final = 4000
_CONSONANTS: Final = "bcdfghklmnprstvz"
_VOWELS: Final = "aeiouy"


def keys_of(shape: str, count: int, seed: int) -> list[bytes]:
    """``count`` distinct keys in their order.

    >>> keys_of("digits", 2, seed=1)
    [b'0000000000000000', b'0000000000000200']
    >>> keys_of("hex", 1, seed=1)
    [b'fb9309b4fc7f6669dfb928881d4d60f1']
    >>> keys_of("paths", 1, seed=1)
    [b'/srv/data/0326/reports/2024-03/dupoz/summary-017665.json']
    """
    if shape == "digits":
        return [b"%016d" % (number * _STEP) for number in range(count)]
    make = _SHAPES[shape](random.Random(f"keys/{shape}/{seed}"))
    found: set[bytes] = set()
    while len(found) < count:
        found.add(make())
    return sorted(found)


def _hex(draw: random.Random) -> Callable[[], bytes]:
    return lambda: b"%032x" % draw.getrandbits(128)


def _paths(draw: random.Random) -> Callable[[], bytes]:
    topics = [_word(draw, 5) for _ in range(_TOPICS)]

    def path() -> bytes:
        area, month = draw.randrange(_AREAS), draw.randrange(1, 13)
        topic, number = draw.choice(topics), draw.randrange(_FILES)
        text = f"/srv/data/{area:04}/reports/2024-{month:02}/{topic}/summary-{number:06}.json"
        return text.encode()

    return path


def _names(draw: random.Random) -> Callable[[], bytes]:
    """One to three words, of which the n-th most frequent comes n times less often than the first."""
    words = [_word(draw, draw.randrange(3, 9)) for _ in range(_WORDS)]
    weights = list(accumulate(1 / rank for rank in range(1, _WORDS + 1)))

    def name() -> bytes:
        count = draw.choice((1, 2, 2, 2, 3, 3))
        parts = draw.choices(words, cum_weights=weights, k=count)
        text = draw.choice(("-", "-", "_", "")).join(parts)
        return (text + str(draw.randrange(100)) if draw.random() < 1 / 8 else text).encode()

    return name


def _word(draw: random.Random, length: int) -> str:
    letters = (draw.choice(_VOWELS if at % 2 else _CONSONANTS) for at in range(length))
    return "".join(letters)


_SHAPES: Final = {"hex": _hex, "paths": _paths, "names": _names}
SHAPES: Final = ("digits", *_SHAPES)
