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
EXPECTED: dict[str, tuple[type[Exception], ...]] = {
    "take": (KeyError,),
    "incr": (TypeError, ValueError),
}


def head(expires: float = math.inf, number: int = 1, tag: bytes = b"") -> bytes:
    return struct.pack(">dQQH", expires, number, 70, len(tag)) + tag


def fill(path: str) -> None:
    with Cache(path) as cache:
        for number in range(10):
            expire = None if number % 2 else 1000
            cache.set(number, number, expire=expire, tag="t" if number % 3 else None)


def put_raw(path: str, key: bytes, value: bytes) -> None:
    with lsmkv.open(path) as db:
        db[key] = value


@pytest.mark.parametrize(
    "data", [b"q", head(math.nan) + VALUE, head(number=1 << 63), head()[:-1] + b"\xff"]
)
@pytest.mark.parametrize("use", [Cache.get, Cache.pop, lambda cache, key: cache.set(key, 1)])
def test_what_describes_no_entry_is_named_and_removed_by_clear(
    path: str, use: Callable[[Cache, object], object], data: bytes
) -> None:
    fill(path)
    put_raw(path, ONE, data)
    with Cache(path) as cache:
        shown = re.escape(repr(ONE))
        with pytest.raises(lsmkv.CorruptionError, match=shown + r".*clear\(\) removes all entries"):
            use(cache, 1)
        assert cache.clear() == 10
        clear_of_damage(cache)


@pytest.mark.parametrize("place", [b"e\xff", b"e"])
def test_a_key_that_does_not_decode_is_named(path: str, place: bytes) -> None:
    fill(path)
    put_raw(path, place, head() + VALUE)
    with Cache(path) as cache, pytest.raises(DecodeError, match=re.escape(repr(place[1:]))):
        list(cache)


def test_a_tag_that_does_not_decode_is_named(path: str) -> None:
    fill(path)
    put_raw(path, ONE, head(tag=b"\xff") + VALUE)
    with Cache(path) as cache, pytest.raises(DecodeError, match=re.escape(repr(b"\xff"))):
        cache.get(1, tag=True)


@pytest.mark.parametrize(
    ("place", "data"),
    [
        (b"s" + bytes(8), b"short"),
        (b"s", bytes(8)),
        (b"s" + b"\xff" * 8, b"\xff" * 8),
        (b"o" + b"\xff" * 8, head()),
    ],
)
def test_sizes_that_cannot_be_are_named_and_cleared(path: str, place: bytes, data: bytes) -> None:
    fill(path)
    put_raw(path, place, data)
    with Cache(path) as cache:
        assert cache[1] == 1
        with pytest.raises(lsmkv.CorruptionError, match=re.escape(repr(place))):
            cache[1] = 2
        cache.clear()
        clear_of_damage(cache)


def hostile_value(rng: random.Random, data: bytes, others: list[bytes]) -> bytes:
    kind = rng.randrange(5)
    if kind == 0:
        return rng.randbytes(rng.randrange(40))
    if kind == 1:
        return data[: rng.randrange(len(data) + 1)]
    if kind == 2 and data:
        flipped = bytearray(data)
        flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return bytes(flipped)
    if kind == 3:
        return rng.choice(others)
    return head(rng.choice(EXPIRIES), rng.choice(NUMBERS), rng.choice(TAGS)) + VALUE


def attack(path: str, rng: random.Random) -> None:
    with lsmkv.open(path) as db:
        found = dict(db)
        for _ in range(rng.randrange(1, 5)):
            place, data = rng.choice(sorted(found.items()))
            if rng.random() < 0.4:
                number = struct.pack(">Q", rng.choice(NUMBERS))
                kind = rng.choice([b"e", b"o" + number, b"o", b"s", b"t", b"t" + rng.choice(TAGS)])
                place = kind + rng.choice(KEYS)
            if rng.random() < 0.2:
                db.delete(place)
            else:
                db[place] = hostile_value(rng, data, list(found.values()))


def uses(rng: random.Random) -> list[tuple[str, Callable[[Cache], object]]]:
    """Every method, in random order."""
    key = rng.choice([1, 2, 99, "t"])

    def transact(cache: Cache) -> None:
        with cache.transact():
            cache[key] = 1
            with suppress(ZeroDivisionError), cache.transact():
                cache.delete(2)
                raise ZeroDivisionError

    found: list[tuple[str, Callable[[Cache], object]]] = [
        ("get", lambda cache: cache.get(key, expire_time=True, tag=True)),
        ("take", lambda cache: cache[key]),
        ("sizes", lambda cache: (key in cache, len(cache), cache.volume(), bool(cache))),
        ("list", lambda cache: (list(cache), list(reversed(cache)))),
        ("set", lambda cache: cache.set(key, 1, expire=5, tag="t")),
        ("add", lambda cache: cache.add(key, 1)),
        ("incr", lambda cache: cache.incr(key)),
        ("touch", lambda cache: cache.touch(key, 5)),
        ("pop", lambda cache: cache.pop(key, expire_time=True, tag=True)),
        ("delete", lambda cache: cache.delete(key)),
        ("transact", transact),
        ("queue", lambda cache: (cache.push(1), cache.peek(), cache.pull(side="back"))),
        ("expire", lambda cache: cache.expire(rng.choice([None, 0, 1e13]))),
        ("cull", Cache.cull),
        ("evict", lambda cache: cache.evict(rng.choice(["t", "other"]))),
        ("check", Cache.check),
    ]
    rng.shuffle(found)
    return found


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
    for name, use in uses(rng):
        with suppress(lsmkv.CorruptionError, DecodeError, *EXPECTED.get(name, ())):
            use(cache)
    if rng.random() < 0.5:
        cache.clear()
        clear_of_damage(cache)
    cache.close()
    assert cache.db.closed
