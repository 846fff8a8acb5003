"""What programs written for diskcache do, on both caches."""

from __future__ import annotations

import importlib
import time
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from lsmkv.cache import Cache

KINDS = ["lsmkv", "diskcache"]


@pytest.fixture(params=KINDS)
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A cache of each kind, of at most a megabyte, without automatic culling."""
    if request.param == "lsmkv":
        opened: Any = Cache(tmp_path / "cache", size_limit_bytes=10**6, cull_limit=0)
    else:
        diskcache = pytest.importorskip("diskcache", reason="diskcache is not installed to compare")
        opened = diskcache.Cache(str(tmp_path / "cache"), size_limit=10**6, cull_limit=0)
    yield opened
    opened.close()


def test_operators(cache: Any) -> None:
    assert cache.set("key", "value") is True
    assert cache.get("key") == "value"
    cache["key"] = "value"
    assert cache["key"] == "value"
    assert "key" in cache
    del cache["key"]
    with pytest.raises(KeyError):
        del cache["key"]
    assert cache.delete("key") is False


def test_details(cache: Any) -> None:
    assert cache.set("key", BytesIO(b"value"), expire=5, read=True, tag="data") is True
    reader, timestamp, tag = cache.get("key", read=True, expire_time=True, tag=True)
    assert reader.read().decode() == "value"
    reader.close()
    assert type(timestamp) is float
    assert 0 < timestamp - time.time() <= 5
    assert tag == "data"


def test_adding(cache: Any) -> None:
    assert cache.add(b"test", 123) is True
    assert cache.add(b"test", 456) is False
    assert cache[b"test"] == 123


def test_counting(cache: Any) -> None:
    cache.add(b"test", 123)
    assert cache.incr(b"test") == 124
    assert cache.decr(b"test", 24) == 100
    assert cache.incr("alice") == 1
    assert cache.decr("bob", default=-9) == -10
    with pytest.raises(KeyError, match="carol"):
        cache.incr("carol", default=None)


def test_popping(cache: Any) -> None:
    cache.incr("alice")
    assert cache.pop("alice") == 1
    assert cache.pop("dave", default="does not exist") == "does not exist"
    assert cache.set("dave", 0, expire=None, tag="admin") is True
    assert cache.pop("dave", expire_time=True, tag=True) == (0, None, "admin")


def test_expiring(cache: Any) -> None:
    for number in range(10):
        cache.set(number, number, expire=1e-9)
    assert len(cache) == 10
    assert list(cache) == list(range(10))
    assert cache.expire(time.time() + 1) == 10
    assert len(cache) == 0


def test_evicting_by_tag(cache: Any) -> None:
    for number in range(100):
        cache.set(number, number, tag="odd" if number % 2 else "even")
    assert cache.evict("even") == 50
    assert cache.clear() == 50
    for number in range(100):
        cache.set(number, number, tag=number % 2)
    assert cache.evict(0) == 50


def test_every_method_takes_retry(cache: Any) -> None:
    with cache.transact(retry=True):
        assert cache.set("a", 1, retry=True) and cache.add("b", 2, tag="t", retry=True)
        assert cache.incr("a", retry=True) == 2 and cache.decr("a", retry=True) == 1
        assert cache.get("a", retry=True) == 1 and cache.touch("a", retry=True)
    assert cache.pop("a", retry=True) == 1 and not cache.delete("a", retry=True)
    assert cache.evict("t", retry=True) == 1
    assert cache.expire(retry=True) == cache.cull(retry=True) == cache.clear(retry=True) == 0


def test_culling(cache: Any) -> None:
    for number in range(1000):
        cache[number] = b"A" * 1000
    assert cache.volume() > 10**6
    assert cache.cull() > 0
    assert cache.volume() < 10**6
    assert cache.clear() > 0
    assert cache.volume() < 10**5


def test_statistics(cache: Any) -> None:
    assert cache.stats(enable=True) == (0, 0)
    for number in range(100):
        cache.set(number, number)
    for number in range(150):
        cache.get(number)
    assert cache.stats(enable=False, reset=True) == (100, 50)
    assert cache.check() == []


def test_memoizing(cache: Any) -> None:
    @cache.memoize(name="fib", typed=True, expire=60, tag="fib")  # type: ignore[untyped-decorator]
    def fibonacci(number: int) -> int:
        return number if number < 2 else fibonacci(number - 1) + fibonacci(number - 2)

    assert sum(fibonacci(number=value) for value in range(100)) == 573147844013817084100
    with pytest.raises(TypeError, match="name cannot be callable"):
        cache.memoize(len)


def test_transactions(cache: Any) -> None:
    with cache.transact():
        total = cache.incr("total", 123.4)
        count = cache.incr("count")
    assert (total, count) == (123.4, 1)
    assert cache.touch("total", expire=60) is True
    assert list(cache.iterkeys()) == ["count", "total"]
    assert type(cache.directory) is str


NOT_THERE = {
    "create_tag_index", "drop_tag_index",  # tags always have an index
    "push", "pull", "peek", "peekitem",  # a store is a queue by itself: DB.popitem
    "reset", "timeout", "disk",  # limits are attributes; nothing waits for SQLite; codecs
    "read",  # get(key, read=True)
}  # fmt: skip


def test_all_other_names_of_diskcache_are_there() -> None:
    diskcache: Any = pytest.importorskip(
        "diskcache", reason="diskcache is not installed to compare"
    )
    names = {name for name in dir(diskcache.Cache) if not name.startswith("_")}
    assert names - {name for name in dir(Cache) if not name.startswith("_")} == NOT_THERE
    assert importlib.import_module("lsmkv.cache").__doc__
