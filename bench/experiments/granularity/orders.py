"""Orders of absent keys for lookups with cached filters."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from ...workloads.keys import absent_key

HOT_SHARE: Final = 0.01
HOT_LOOKUPS: Final = 0.9
NEAR_KEYS: Final = 64


def _random_order(entries: int, count: int, draw: random.Random) -> list[bytes]:
    return [absent_key(draw.randrange(entries)) for _ in range(count)]


def _hot_order(entries: int, count: int, draw: random.Random) -> list[bytes]:
    # Both passes use the same hundredth: caches know it from the first one.
    hot = random.Random(f"hot/{entries}").sample(range(entries), max(1, round(entries * HOT_SHARE)))
    return [
        absent_key(draw.choice(hot) if draw.random() < HOT_LOOKUPS else draw.randrange(entries))
        for _ in range(count)
    ]


def _near_order(entries: int, count: int, draw: random.Random) -> list[bytes]:
    keys: list[bytes] = []
    while len(keys) < count:
        start = draw.randrange(max(1, entries - NEAR_KEYS))
        keys += [absent_key(number) for number in range(start, start + NEAR_KEYS)]
    return keys[:count]


ORDERS: Final[dict[str, Callable[[int, int, random.Random], list[bytes]]]] = {
    "uniform": _random_order,
    "hot": _hot_order,
    "near": _near_order,
}
"""Orders of absent keys, by their part of column names."""


def passes(name: str, entries: int, count: int, seed: int) -> tuple[list[bytes], list[bytes]]:
    """The keys that warm a cache, and those that are counted."""
    draw = random.Random(f"cached/{seed}/{name}")
    order = ORDERS[name]
    return order(entries, count, draw), order(entries, count, draw)
