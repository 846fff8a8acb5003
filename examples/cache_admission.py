"""Cache admission: an object that clients request only once is not worth a place.

A rolling filter remembers recent requests; the cache takes an object at its second request.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Iterator

from lsmkv.filters import RollingBloomFilter, Window

REQUESTS = 60_000
CAPACITY = 500


def requests() -> Iterator[bytes]:
    """Requests: three in four are for objects that nobody requests again."""
    draw = random.Random(4)
    for n in range(REQUESTS):
        if draw.random() < 0.75:
            yield b"once %d" % n
        else:
            yield b"popular %d" % draw.randrange(600)


def hits_and_writes(seen: RollingBloomFilter | None) -> tuple[int, int]:
    """Hits of a least-recently-used cache, and writes to it."""
    cache: OrderedDict[bytes, None] = OrderedDict()
    hits = writes = 0
    for key in requests():
        if key in cache:
            hits += 1
            cache.move_to_end(key)
            continue
        if seen is not None and not seen.may_contain(key):
            seen.add(key)
            continue
        writes += 1
        cache[key] = None
        if len(cache) > CAPACITY:
            cache.popitem(last=False)
    return hits, writes


def main() -> None:
    window = Window(inserts=20_000)
    seen = RollingBloomFilter.for_window(window, 20_000, 0.01)
    for name, filter in (("every object", None), ("second request", seen)):
        hits, writes = hits_and_writes(filter)
        print(f"{name}: {hits / REQUESTS:.1%} hits, {writes:,} writes to the cache")
    print(f"filter: {seen.byte_count:,} bytes")


if __name__ == "__main__":
    main()
