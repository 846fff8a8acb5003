"""A cache beside a model of it."""

from __future__ import annotations

import math
import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caches import Clock, check
from lsmkv.cache import Cache
from lsmkv.cache import cache as cache_module

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

    def apply(self, name: str, key: Any = None, *rest: Any) -> Any:
        present = self.live().get(key)
        until = math.inf if not rest or rest[-1] is None else self.clock.now + rest[-1]
        if name == "clear":
            self.entries = {}
        elif name == "set" or (name == "add" and present is None):
            self.entries[key] = rest[0], until
            return True
        elif name == "incr":
            expires = math.inf if present is None else self.entries[key][1]
            self.entries[key] = (present or 0) + 1, expires
            return self.entries[key][0]
        elif name == "touch" and present is not None:
            self.entries[key] = present, until
        elif name in ("pop", "delete"):
            self.entries.pop(key, None)
        if name == "pop" or key is None:
            return present
        return present is not None if name != "add" else False


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
            else:
                assert getattr(cache, name)(*arguments) == model.apply(name, *arguments)
            live = model.live()
            assert {key: cache[key] for key in cache if key in cache} == live
            assert len(cache) == len(live)
        check(cache)
        cache.close()


@pytest.mark.parametrize("seed", range(20))
def test_a_transaction_changes_all_or_nothing(cache: Cache, seed: int) -> None:
    rng, model = random.Random(seed), dict[int, int]()
    for _ in range(10):
        before = dict(model)
        with suppress(ZeroDivisionError), cache.transact():
            for _ in range(rng.randrange(8)):
                key, value, kind = rng.randrange(5), rng.randrange(100), rng.randrange(3)
                if kind == 0:
                    cache.set(key, value, tag=value % 3)
                    model[key] = value
                elif kind == 1:
                    assert cache.delete(key) == (model.pop(key, None) is not None)
                else:
                    model[key] = model.get(key, 0) + 1
                    assert cache.incr(key) == model[key]
                assert {key: cache[key] for key in cache} == model
            if rng.random() < 0.5:
                model = before
                raise ZeroDivisionError
        assert {key: cache[key] for key in cache} == model
        check(cache)


def test_every_method_of_diskcache_takes_retry(cache: Cache) -> None:
    with cache.transact(retry=True):
        assert cache.set("a", 1, retry=True) and cache.add("b", 2, tag="t", retry=True)
        assert cache.incr("a", retry=True) == 2 and cache.decr("a", retry=True) == 1
        assert cache.get("a", retry=True) == 1 and cache.touch("a", retry=True)
        assert cache.push("c", retry=True) == cache.peek(retry=True)[0] == cache.pull(retry=True)[0]
    assert cache.pop("a", retry=True) == 1 and not cache.delete("a", retry=True)
    assert cache.evict("t", retry=True) == 1
    assert cache.expire(retry=True) == cache.cull(retry=True) == cache.clear(retry=True) == 0
    assert cache.check(retry=True) == []
