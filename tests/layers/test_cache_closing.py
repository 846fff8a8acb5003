"""Closing a cache by several threads and callbacks at once."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest

import lsmkv
from gates import WAIT_S
from lsmkv.cache import Cache
from threaded_stores import run_all, wait_until
from time_limits import in_time


def write_until_closed(cache: Cache) -> None:
    with suppress(lsmkv.ClosedError):
        for number in range(5000):
            cache.set(number, b"value" * 20)
    cache.close()


def test_a_callback_may_close_a_cache_whose_close_waits_for_it(path: str) -> None:
    inside = threading.Event()

    def on_event(event: lsmkv.Event) -> None:
        inside.set()
        wait_until(lambda: cache.db._state.is_ending)
        cache.close()

    cache = Cache(path, on_event=on_event)
    cache.set("key", b"value")
    cache.db.flush()
    assert inside.wait(WAIT_S)
    in_time(cache.close)
    with Cache(path) as again:
        assert again.check() == []
        assert again["key"] == b"value"


def test_a_callback_may_close_a_cache_whose_writer_waits_for_it(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer holds the lock of the cache."""
    monkeypatch.setattr("lsmkv.cache.book._PATIENCE_S", 0.01)

    def on_event(event: lsmkv.Event) -> None:
        if isinstance(event, lsmkv.FlushEnded):
            urgency = cache.db._engine.background.urgency
            wait_until(lambda: bool(cache.closed or urgency.waiting))
            cache.close()

    options = lsmkv.Options(write_buffer_size_bytes=8192, max_immutable_memtables=1)
    cache = Cache(path, on_event=on_event, options=options)
    in_time(lambda: write_until_closed(cache))
    with Cache(path) as again:
        assert again.check() == []


def test_a_cache_is_closed_by_many_threads_beside_writers(path: str) -> None:
    cache = Cache(path)
    cache.set("key", b"value")

    def close() -> None:
        cache.close()
        assert not cache.db._engine._ending.locked()

    run_all(*[close] * 4, *[lambda: write_until_closed(cache)] * 3)
    with Cache(path) as again:
        assert again.check() == []
        assert again["key"] == b"value"
