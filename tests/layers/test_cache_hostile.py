"""A cache whose store has other bytes than it wrote: documented errors, and no call without an end."""

from __future__ import annotations

import math
import random
import re
import struct
from collections.abc import Callable
from contextlib import suppress

import pytest

import lsmkv
from caches import clear_of_damage
from lsmkv.cache import Cache
from lsmkv.typed import DecodeError, MsgPack, pack

ONE = b"e" + pack((1,))
VALUE = MsgPack().encode("x")
NUMBERS = (0, 1, 3, 1 << 40, (1 << 56) - 1, (1 << 64) - 1)
EXPIRIES = (0.0, -0.0, 1.0, 1e12, 1e13, -5.0, 5e-324, math.inf, -math.inf, math.nan)
TAGS = (b"", b"t", pack(("t",)), pack(("other",)), b"\xff")
KEYS = (b"", b"\xff", pack((1,)), pack((99,)), pack(("t",)))


def head(expires: float = math.inf, number: int = 1, tag: bytes = b"") -> bytes:
    return struct.pack(">dQQH", expires, number, 70, len(tag)) + tag


def fill(path: str) -> None:
    with Cache(path) as cache:
        for number in range(10):
            expire = None if number % 2 else 1000
            cache.set(number, number, expire=expire, tag="t" if number % 3 else None)


def fill_with(path: str, key: bytes, value: bytes) -> None:
    fill(path)
    with lsmkv.open(path) as db:
        db[key] = value


@pytest.mark.parametrize(
    "data", [b"q", head(math.nan), head(number=1 << 63), head()[:-1] + b"\xff"]
)
@pytest.mark.parametrize("use", [Cache.get, Cache.pop, lambda cache, key: cache.set(key, 1)])
def test_what_describes_no_entry_is_named_and_removed_by_clear(
    path: str, use: Callable[[Cache, object], object], data: bytes
) -> None:
    fill_with(path, ONE, data)
    with Cache(path) as cache:
        told = rf"{re.escape(repr(ONE))}.*clear\(\) removes all entries"
        with pytest.raises(lsmkv.CorruptionError, match=told):
            use(cache, 1)
        assert cache.clear() == 10
        clear_of_damage(cache)


@pytest.mark.parametrize("tag", [b"", b"\xff"])
def test_a_key_or_tag_that_does_not_decode_is_named(path: str, tag: bytes) -> None:
    fill_with(path, ONE if tag else b"e\xff", head(tag=tag) + VALUE)
    with Cache(path) as cache, pytest.raises(DecodeError, match=re.escape(repr(b"\xff"))):
        list(cache), cache.get(1, tag=True)


@pytest.mark.parametrize(
    ("place", "data", "use"),
    [
        (b"s" + bytes(8), b"short", Cache.push),
        (b"s", bytes(8), Cache.push),
        (b"sNUMBERS", b"\xff" * 8, Cache.push),
        (b"o\xffNUMBER", head(), Cache.push),
        (b"o" + bytes(8) + pack((1,)), head(number=1), Cache.expire),
    ],
)
def test_sizes_and_lists_that_cannot_be_are_named_and_cleared(
    path: str, place: bytes, data: bytes, use: Callable[[Cache, object], object]
) -> None:
    fill_with(path, place, data)
    with Cache(path) as cache:
        with pytest.raises(lsmkv.CorruptionError, match=re.escape(repr(place))):
            use(cache, 1e9)
        cache.clear()
        clear_of_damage(cache)


def attack(path: str, rng: random.Random) -> None:
    """Change some bytes of a cache."""
    with lsmkv.open(path) as db:
        found = dict(db)
        for _ in range(rng.randrange(1, 5)):
            place, data = rng.choice(sorted(found.items()))
            flipped = bytearray(data)
            flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            if rng.random() < 0.4:
                number = struct.pack(">Q", rng.choice(NUMBERS))
                kind = rng.choice([b"e", b"o" + number, b"o", b"s", b"t", b"t" + rng.choice(TAGS)])
                place = kind + rng.choice(KEYS)
            cut, other = data[: rng.randrange(len(data))], rng.choice(list(found.values()))
            made = head(rng.choice(EXPIRIES), rng.choice(NUMBERS), rng.choice(TAGS)) + VALUE
            db[place] = rng.choice(
                [rng.randbytes(rng.randrange(40)), cut, bytes(flipped), other, made]
            )
            if rng.random() < 0.2:
                db.delete(place)


def use_all(cache: Cache, key: object, rng: random.Random) -> None:
    """Call every method, in random order."""
    uses: list[tuple[Callable[[], object], tuple[type[Exception], ...]]] = [
        (lambda: cache.get(key, expire_time=True, tag=True), ()),
        (lambda: cache[key], (KeyError,)),
        (lambda: (key in cache, len(cache), cache.volume(), bool(cache)), ()),
        (lambda: (list(cache), list(reversed(cache))), ()),
        (lambda: cache.set(key, 1, expire=5, tag="t"), ()),
        (lambda: cache.add(key, 1), ()),
        (lambda: cache.incr(key), (TypeError,)),
        (lambda: cache.touch(key, 5), ()),
        (lambda: cache.pop(key, expire_time=True, tag=True), ()),
        (lambda: cache.delete(key), ()),
        (lambda: (cache.push(1), cache.peek(), cache.pull(side="back")), ()),
        (lambda: cache.expire(rng.choice([None, 0, 1e13])), ()),
        (lambda: cache.evict(rng.choice(["t", "other"])), ()),
        (lambda: (cache.check(), cache.cull()), ()),
    ]
    rng.shuffle(uses)
    for use, expected in uses:
        with suppress(lsmkv.CorruptionError, DecodeError, *expected):
            use()


@pytest.mark.parametrize(
    "seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 60))]
)
def test_any_bytes_end_in_a_documented_error_or_none(path: str, seed: int) -> None:
    rng = random.Random(seed)
    fill(path)
    attack(path, rng)
    try:
        cache = Cache(path, size_limit_bytes=rng.choice([200, 10**6]))
    except ValueError as error:
        assert "is a store, but no cache" in str(error)
        return
    use_all(cache, rng.choice([1, 2, 99, "t"]), rng)
    if rng.random() < 0.5:
        cache.clear()
        clear_of_damage(cache)
    cache.close()
