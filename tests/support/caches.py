"""Caches whose time a test sets, and threads that use them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from lsmkv.cache import Cache
from lsmkv.cache import cache as cache_module
from time_limits import join


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
        if not opened.closed:
            assert opened.check() == []


def run_in_threads(work: Callable[[int], object], count: int = 8) -> None:
    """Run ``work`` in several threads at once, with the number of each."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    join(*threads)


def clear_of_damage(cache: Cache) -> None:
    """Check that a cache that was cleared has nothing, and takes an entry."""
    assert (len(cache), cache.volume(), list(cache), cache.check()) == (0, 0, [], [])
    cache.set("new", 1, tag="t")
    assert (cache.evict("t"), cache.check()) == (1, [])
