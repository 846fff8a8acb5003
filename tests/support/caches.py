"""Caches whose time a test sets, and what holds for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from lsmkv.cache import Cache
from lsmkv.cache import cache as cache_module
from lsmkv.cache.entries import ENTRY, SIZE, SPAN_S, STORED, TAGGED, read_entry


class Clock:
    """The time that caches see."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time that the caches of a test see."""
    clock = Clock()
    monkeypatch.setattr(cache_module, "time", clock)
    return clock


@pytest.fixture
def cache(path: str) -> Iterator[Cache]:
    """An open cache, which is checked at the end."""
    with Cache(path) as opened:
        yield opened
        if not opened.db.closed:
            check(opened)


def check(cache: Cache) -> None:
    """Check that the files are whole, and that lists and sizes are those of the entries."""
    listed, sizes = dict[bytes, bytes](), Counter[int]()
    for place, data in cache.db.items(prefix=ENTRY):
        entry, _ = read_entry(place[1:], data)
        listed |= dict.fromkeys(entry.places()[1:], entry.head())
        sizes[entry.span_s()] += entry.size_bytes
    assert cache.check() == []
    assert listed == dict(cache.db.items(prefix=STORED)) | dict(cache.db.items(prefix=TAGGED))
    later = int(cache._clock()) + SPAN_S  # of what expires before, some may be gone
    stored = {int.from_bytes(p[1:]): int.from_bytes(d) for p, d in cache.db.items(prefix=SIZE)}
    known = stored if cache._sizes is None else cache._sizes.by_span
    for span_s in {span_s for span_s in {*sizes, *stored, *known} if span_s > later}:
        assert sizes[span_s] == stored.get(span_s, 0) == known.get(span_s, 0)


def clear_of_damage(cache: Cache) -> None:
    """Check that a cache that was cleared has nothing, and takes an entry."""
    assert (len(cache), cache.volume()) == (0, 0)
    cache.set("new", 1, tag="t")
    check(cache)
    assert (cache.evict("t"), cache.volume()) == (1, 0)
