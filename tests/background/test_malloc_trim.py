"""Background work returns freed memory to the operating system."""

from __future__ import annotations

import math
import platform
from pathlib import Path

import psutil
import pytest

import lsmkv
from lsmkv.background import background_thread, compactor, flusher, malloc_trim
from lsmkv.background.malloc_trim import find_malloc_trim, trim_heap


class Allocator:
    """Counts the calls of ``malloc_trim``, on a clock that only it moves."""

    def __init__(self, takes_s: float) -> None:
        self.takes_s = takes_s
        self.now_s = 100.0
        self.trims = 0

    def trim(self, _kept: int) -> None:
        self.trims += 1
        self.now_s += self.takes_s


@pytest.fixture(autouse=True)
def never_trimmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(malloc_trim, "_due_s", -math.inf)


def test_memory_is_returned_at_once_and_then_for_a_fiftieth_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    allocator = Allocator(takes_s=0.01)
    monkeypatch.setattr(malloc_trim, "find_malloc_trim", lambda: allocator.trim)
    monkeypatch.setattr(malloc_trim, "monotonic", lambda: allocator.now_s)
    trim_heap()
    assert allocator.trims == 1
    allocator.now_s += 0.49
    trim_heap()
    assert allocator.trims == 1
    allocator.now_s += 0.02
    trim_heap()
    assert allocator.trims == 2


def test_an_allocator_that_cannot_give_back_is_looked_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[int] = []
    monkeypatch.setattr(malloc_trim, "find_malloc_trim", lambda: looked.append(1))
    trim_heap()
    trim_heap()
    assert looked == [1]


def test_glibc_alone_can_give_back() -> None:
    assert (find_malloc_trim() is not None) == (platform.libc_ver()[0] == "glibc")


def test_freed_memory_is_returned_if_the_allocator_can() -> None:
    memory = psutil.Process().memory_info
    lumps = [b"%d" % number * 200 for number in range(64_000)]
    del lumps[:-1]  # the last one keeps the end of the heap, which free would return by itself
    before_bytes = memory().rss
    trim_heap()
    assert before_bytes - memory().rss > 32 << 20 or find_malloc_trim() is None


def test_flushes_and_compactions_give_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []
    with lsmkv.open(tmp_path / "store") as db:
        for user in (background_thread, compactor, flusher):
            monkeypatch.setattr(user, "trim_heap", lambda: given.append(""))
        db[b"key"] = b"value"
        db.flush()
        db.wait_until_settled()
        after_flush = len(given)
        assert after_flush > 0
        db.compact_range(force=True)
        assert len(given) > after_flush
