"""A cache beside a model of it, and beside diskcache."""

from __future__ import annotations

import importlib
import math
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caches import Clock, cache, clock
from lsmkv.cache import Cache
from lsmkv.cache import cache as cache_module

__all__ = ["cache", "clock"]  # fixtures


KEYS = st.sampled_from(["a", "b", b"a", 1, ("a", 1)])
STEPS = st.one_of(
    st.tuples(st.just("set"), KEYS, st.integers(0, 9), st.sampled_from([None, 1, 2, 5])),
    st.tuples(st.just("add"), KEYS, st.integers(0, 9), st.sampled_from([None, 1, 5])),
    st.tuples(st.just("incr"), KEYS),
    st.tuples(st.just("touch"), KEYS, st.sampled_from([None, 1, 5])),
    st.tuples(st.just("pop"), KEYS),
    st.tuples(st.just("delete"), KEYS),
    st.tuples(st.just("wait"), st.integers(0, 3)),
    st.tuples(st.sampled_from(["expire", "cull", "clear", "reopen"])),
)


class Model:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.entries: dict[Any, tuple[int, float]] = {}

    def live(self) -> dict[Any, int]:
        return {k: v for k, (v, expires) in self.entries.items() if expires > self.clock.now}

    def until(self, expire: float | None) -> float:
        return math.inf if expire is None else self.clock.now + expire

    def apply(self, name: str, key: Any = None, *rest: Any) -> Any:
        present = self.live().get(key)
        if name == "set" or (name == "add" and present is None):
            self.entries[key] = rest[0], self.until(rest[1])
            return True
        if name == "add":
            return False
        if name == "incr":
            expires = math.inf if present is None else self.entries[key][1]
            self.entries[key] = (present or 0) + 1, expires
            return self.entries[key][0]
        if name == "touch" and present is not None:
            self.entries[key] = present, self.until(rest[0])
        if name in ("pop", "delete"):
            if present is not None:
                del self.entries[key]
            return present if name == "pop" else present is not None
        if name == "clear":
            self.entries = {}
        return present is not None if name == "touch" else None


@settings(max_examples=60)
@given(st.lists(STEPS, max_size=25))
def test_it_is_a_dict_whose_entries_expire(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Any, ...]]
) -> None:
    clock = Clock()
    path = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache_module, "time", clock)
        cache, model = Cache(path), Model(clock)
        for name, *arguments in steps:
            if name == "wait":
                clock.now += arguments[0]
            elif name == "reopen":
                cache.close()
                cache = Cache(path)
            elif name in ("expire", "cull", "clear"):
                getattr(cache, name)()
                model.apply(name)
            elif name in ("set", "add"):
                key, value, expire = arguments
                done = getattr(cache, name)(key, value, expire=expire, tag="t")
                assert done == model.apply(name, *arguments)
            else:
                assert getattr(cache, name)(*arguments) == model.apply(name, *arguments)
            live = model.live()
            assert {key: cache[key] for key in cache if key in cache} == live
        assert cache.check() == []
        cache.close()


class UndoError(Exception):
    """What a transaction ends with that is to change nothing."""


def play(rng: random.Random, cache: Cache, model: dict[int, int], depth: int = 3) -> None:
    for _ in range(rng.randrange(8)):
        key, value = rng.randrange(5), rng.randrange(100)
        kind = rng.randrange(4 if depth else 3)
        if kind == 0:
            cache[key] = model[key] = value
        elif kind == 1:
            assert cache.delete(key) == (model.pop(key, None) is not None)
        elif kind == 2:
            model[key] = model.get(key, 0) + 1
            assert cache.incr(key) == model[key]
        else:
            before = dict(model)
            try:
                with cache.transact():
                    play(rng, cache, model, depth - 1)
                    if rng.random() < 0.5:
                        raise UndoError
            except UndoError:
                model.clear()
                model.update(before)
        assert [cache.get(key) for key in range(5)] == [model.get(key) for key in range(5)]
        assert len(cache) == len(model)


@pytest.mark.parametrize("seed", range(20))
def test_transactions_inside_others_change_all_or_nothing(cache: Cache, seed: int) -> None:
    play(random.Random(seed), cache, {})


KINDS = ["lsmkv", "diskcache"]


@pytest.fixture(params=KINDS)
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A cache of each kind, of at most a megabyte, without automatic culling."""
    if request.param == "lsmkv":
        opened: Any = Cache(tmp_path / "cache", size_limit_bytes=10**6, cull_limit=0)
    else:
        diskcache = pytest.importorskip("diskcache", reason="diskcache is not installed to compare")
        opened = diskcache.Cache(str(tmp_path / "cache"), size_limit=10**6, cull_limit=0)
    yield opened
    opened.close()


def test_every_method_takes_retry(either: Any) -> None:
    with either.transact(retry=True):
        assert either.set("a", 1, retry=True) and either.add("b", 2, tag="t", retry=True)
        assert either.incr("a", retry=True) == 2 and either.decr("a", retry=True) == 1
        assert either.get("a", retry=True) == 1 and either.touch("a", retry=True)
    assert either.pop("a", retry=True) == 1 and not either.delete("a", retry=True)
    assert either.evict("t", retry=True) == 1
    assert either.expire(retry=True) == either.cull(retry=True) == either.clear(retry=True) == 0


NOT_THERE = {
    "create_tag_index", "drop_tag_index",  # tags always have an index
    "reset", "timeout", "disk",  # limits are attributes; nothing waits for SQLite; codecs
}  # fmt: skip


def test_all_other_names_of_diskcache_are_there() -> None:
    diskcache: Any = pytest.importorskip(
        "diskcache", reason="diskcache is not installed to compare"
    )
    names = {name for name in dir(diskcache.Cache) if not name.startswith("_")}
    assert names - {name for name in dir(Cache) if not name.startswith("_")} == NOT_THERE
    assert importlib.import_module("lsmkv.cache").__doc__
