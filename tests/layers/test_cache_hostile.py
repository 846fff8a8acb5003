"""A cache whose internal entries have other bytes than it wrote."""

from __future__ import annotations

import math
import random
import re
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import lsmkv
from lsmkv.cache import Cache
from lsmkv.cache.book import Book
from lsmkv.typed import DecodeError, pack

ABOUT = struct.Struct(">QdQH")
NUMBERS = (0, 1, 3, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
EXPIRIES = (0.0, -0.0, 1.0, 1e12, -5.0, 5e-324, math.inf, -math.inf, math.nan, -math.nan)
TAGS = (b"", b"t", pack(("t",)), pack(("other",)), pack(("t", 1)), b"\xff", pack((None,)))
KEYS = (b"", b"\xff", pack((1,)), pack((99,)), pack(("a", "b")), pack(("t",)), b"\x02a")
EXPECTED: dict[str, tuple[type[Exception], ...]] = {
    "take": (KeyError,),
    "remove": (KeyError,),
    "increment": (TypeError, ValueError),
}


def about(number: int = 1, expires: float = math.inf, size: int = 10, tag: bytes = b"") -> bytes:
    return ABOUT.pack(number, expires, size, len(tag)) + tag


def stored(number: int, key: object) -> bytes:
    return b"s" + struct.pack(">Q", number) + pack((key,))


def expiring(expires: float, key: object) -> bytes:
    return b"x" + struct.pack(">d", expires) + pack((key,))


def tagged(tag: object, key: object) -> bytes:
    return b"t" + pack((tag,)) + pack((key,))


def fill(path: str) -> None:
    with Cache(path) as cache:
        for number in range(10):
            expire = None if number % 2 else 1000
            cache.set(number, number, expire=expire, tag="t" if number % 3 else None)


def put_raw(path: str, key: bytes, value: bytes, *, keep_counts: bool = True) -> None:
    with lsmkv.open(path) as db:
        db[key] = value
        if not keep_counts:
            db.delete(b"m")


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """End a call that would go on for ever."""
    commit = Book._commit
    steps = {"most": 2000}

    def counted(self: Book, operations: Any) -> None:
        steps["most"] -= 1
        assert steps["most"] > 0, "it goes on for ever"
        commit(self, operations)

    monkeypatch.setattr(Book, "_commit", counted)


@pytest.mark.parametrize(
    ("use", "place", "data"),
    [
        (lambda cache: cache.evict("t"), tagged("t", 77), about(tag=pack(("u",)))),
        (lambda cache: cache.evict("t"), tagged("t", 77), about()),
        (lambda cache: cache.evict("t"), tagged("t", 77), b"zz"),
        (Cache.expire, expiring(5.0, 77), about(expires=1.0)),
        (Cache.expire, expiring(5.0, 77), about()),
        (Cache.expire, expiring(-0.0, 77), about(expires=-0.0)),
        (Cache.expire, expiring(5.0, 77), about(expires=5.0) + b"more"),
        (Cache.cull, stored(0, 77), about(number=5)),
        (Cache.cull, stored(0, 77), b"zz"),
        (lambda cache: cache.get(1), b"e" + pack((1,)), b"q"),
        (lambda cache: cache.set(1, 1), b"e" + pack((1,)), about(expires=math.nan) + b"bx"),
        (lambda cache: cache.pop(1), b"e" + pack((1,)), ABOUT.pack(1, math.inf, 1, 60000)),
    ],
)
def test_what_describes_no_entry_is_named(
    path: str, use: Callable[[Cache], object], place: bytes, data: bytes
) -> None:
    fill(path)
    put_raw(path, place, data)
    with Cache(path, size_limit_bytes=1) as cache:
        shown = re.escape(repr(place))
        with pytest.raises(lsmkv.CorruptionError, match=shown + r".*clear\(\) removes all entries"):
            use(cache)
        assert cache.check() != []


@pytest.mark.parametrize("place", [b"e\xff", b"e"])
def test_a_key_that_does_not_decode_is_named(path: str, place: bytes) -> None:
    fill(path)
    put_raw(path, place, about() + b"bx")
    with Cache(path) as cache, pytest.raises(DecodeError, match=re.escape(repr(place[1:]))):
        list(cache)


def test_a_tag_that_does_not_decode_is_named(path: str) -> None:
    fill(path)
    put_raw(path, b"e" + pack((1,)), about(tag=b"\xff") + b"bx")
    with Cache(path) as cache, pytest.raises(DecodeError, match=re.escape(repr(b"\xff"))):
        cache.get(1, tag=True)


@pytest.mark.parametrize(
    "counts",
    [
        b"",
        b"1",
        struct.pack(">QQQ", 1, 1 << 63, 1),
        struct.pack(">QQQ", 1 << 40, 100, 1 << 41),
        struct.pack(">QQQ", 1 << 40, 1 << 41, 10),
    ],
)
def test_a_note_of_counts_that_cannot_be_is_named(path: str, counts: bytes) -> None:
    fill(path)
    put_raw(path, b"m", counts)
    with pytest.raises(lsmkv.CorruptionError, match=r"b'm' is no note of its counts"):
        Cache(path)
    lsmkv.open(path).close()  # not locked any more


@pytest.mark.parametrize("number", [0, 3, (1 << 63) - 1])
def test_an_index_that_cannot_be_counted_is_named(path: str, number: int) -> None:
    fill(path)
    put_raw(path, stored(number, 77), about(number=1 << 63), keep_counts=False)
    with pytest.raises(lsmkv.CorruptionError, match=r"lsmkv\.destroy the whole cache"):
        Cache(path)


def test_a_cache_with_counts_that_are_too_low_says_so_and_closes(path: str) -> None:
    fill(path)
    put_raw(path, b"m", struct.pack(">QQQ", 0, 0, 20))
    cache = Cache(path)
    with pytest.raises(lsmkv.CorruptionError, match=r"would have -1 entries of -\d+ bytes"):
        cache.delete(1)
    assert cache[1] == 1
    assert "count and size are (0, 0)" in cache.check()[0]
    cache.close()
    assert cache.closed
    lsmkv.open(path).close()


def test_entries_whose_numbers_have_run_out_take_no_more(path: str) -> None:
    fill(path)
    put_raw(path, b"m", struct.pack(">QQQ", 10, 70, (1 << 63) - 1))
    with Cache(path) as cache:
        with pytest.raises(lsmkv.CorruptionError, match="the highest number"):
            cache["new"] = 1
        cache.clear()


def test_clear_removes_what_is_damaged(path: str) -> None:
    fill(path)
    put_raw(path, stored(0, 77), b"zz")
    put_raw(path, b"e" + pack((98,)), b"zz")
    with Cache(path) as cache:
        assert cache.clear() == 11
        assert (len(cache), list(cache), cache.check()) == (0, [], [])
        cache.set("new", 1, expire=10)
        assert (cache.expire(1e13), cache.check()) == (1, [])


# Any bytes


def hostile_about(rng: random.Random) -> bytes:
    size = rng.choice(NUMBERS)
    return about(rng.choice(NUMBERS), rng.choice(EXPIRIES), size, rng.choice(TAGS))


def hostile_value(rng: random.Random, data: bytes, others: list[bytes]) -> bytes | None:
    kind = rng.randrange(7)
    if kind == 0:
        return None
    if kind == 1:
        return rng.randbytes(rng.randrange(40))
    if kind == 2:
        return data[: rng.randrange(len(data) + 1)]
    if kind == 3 and data:
        flipped = bytearray(data)
        flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return bytes(flipped)
    if kind == 4:
        return rng.choice(others)
    return hostile_about(rng) + rng.choice([b"", b"", b"bx", b"\xff"])


def hostile_place(rng: random.Random) -> tuple[bytes, bytes]:
    """A place in an index and what it has; both may fit together."""
    number, expires = rng.choice(NUMBERS), rng.choice(EXPIRIES)
    tag, key = rng.choice(TAGS), rng.choice(KEYS)
    place = rng.choice([
        b"e" + key, b"s" + struct.pack(">Q", number) + key,
        b"x" + struct.pack(">d", expires) + key, b"t" + tag + key,
        rng.choice([b"e", b"s", b"x", b"t"]) + rng.randbytes(rng.randrange(12)),
    ])  # fmt: skip
    size = rng.choice(NUMBERS)
    fitting = about(number, expires, size, tag) + (b"bx" if place[:1] == b"e" else b"")
    return place, rng.choice([fitting, hostile_about(rng)])


def attack(path: str, rng: random.Random) -> None:
    with lsmkv.open(path) as db:
        found = dict(db)
        for _ in range(rng.randrange(1, 5)):
            place, data = rng.choice(sorted(found.items()))
            value = hostile_value(rng, data, list(found.values()))
            if rng.random() < 0.4:
                place, value = hostile_place(rng)
            if value is None:
                db.delete(place)
            else:
                db[place] = value
        if rng.random() < 0.5:
            db.delete(b"m")


def uses(rng: random.Random) -> list[tuple[str, Callable[[Cache], object]]]:
    """Every method, in random order."""
    key = rng.choice([1, 2, 99, "t"])

    def transact(cache: Cache) -> None:
        with cache.transact():
            cache[key] = 1
            cache.delete(2)

    found: list[tuple[str, Callable[[Cache], object]]] = [
        ("get", lambda cache: cache.get(key, expire_time=True, tag=True)),
        ("take", lambda cache: cache[key]),
        ("in", lambda cache: key in cache),
        ("sizes", lambda cache: (len(cache), bool(cache), cache.volume(), repr(cache))),
        ("list", list),
        ("reversed", lambda cache: list(reversed(cache))),
        ("set", lambda cache: cache.set(key, 1, expire=5, tag="t")),
        ("add", lambda cache: cache.add(key, 1)),
        ("increment", lambda cache: cache.incr(key)),
        ("increment", lambda cache: cache.decr(key, 2)),
        ("touch", lambda cache: cache.touch(key, 5)),
        ("pop", lambda cache: cache.pop(key, expire_time=True, tag=True)),
        ("delete", lambda cache: cache.delete(key)),
        ("remove", lambda cache: cache.__delitem__(key)),
        ("transact", transact),
        ("expire", lambda cache: cache.expire(rng.choice([None, 0, 1e13]))),
        ("cull", Cache.cull),
        ("evict", lambda cache: cache.evict(rng.choice(["t", "other"]))),
        ("memoize", lambda cache: cache.memoize(name="f")(abs)(-1)),
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
        cache = Cache(path, size_limit_bytes=rng.choice([40, 10**6]))
    except lsmkv.CorruptionError:
        return
    except ValueError as error:
        assert "is a store, but no cache" in str(error)
        return
    for name, use in uses(rng):
        with suppress(lsmkv.CorruptionError, DecodeError, *EXPECTED.get(name, ())):
            use(cache)
    if rng.random() < 0.5:
        cache.clear()
        assert (len(cache), cache.volume(), list(cache), cache.check()) == (0, 0, [], [])
        cache.set("new", 1, tag="t")
        assert (cache.evict("t"), cache.check()) == (1, [])
    cache.close()
    assert cache.closed
