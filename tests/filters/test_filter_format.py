"""Filters asked by a reader that was written from the layouts alone.

The part before the tests imports nothing of lsmkv: only the hash that the page names.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import mmh3
import pytest

MASK = (1 << 63) - 1
C = 0x1E3779B97F4A7C15
M = 0x3F58476D1CE4E5B9


def hash_of(key: bytes) -> int:
    return mmh3.hash64(key, 0, signed=False)[0] & MASK


def bit(filter_bytes: bytes, number: int) -> int:
    return filter_bytes[number // 8] >> number % 8 & 1


def bloom_may_hold(filter_bytes: bytes, k: int, key: bytes) -> bool:
    h = hash_of(key)
    for _ in range(k):
        h = h * C & MASK
        if not bit(filter_bytes, (h >> 31) * 8 * len(filter_bytes) >> 32):
            return False
    return True


def ribbon_may_hold(filter_bytes: bytes, r: int, key: bytes) -> bool:
    m = 8 * len(filter_bytes) // r
    w = min(m, 56)
    h = hash_of(key)
    begin = ((h * C & MASK) >> 31) * (m - w + 1) >> 32
    coefficients = (((h ^ h >> 32) * M & MASK) >> 7) % (1 << w) | 1
    for j in range(r):
        parity = 0
        for i in range(w):
            if coefficients >> i & 1:
                parity ^= bit(filter_bytes, j * m + begin + i)
        if parity != h >> j & 1:
            return False
    return True


def grafite_may_hold(filter_bytes: bytes, low_bits: int, key: bytes) -> bool:
    n, at = filter_bytes[0] & 127, 1
    while filter_bytes[at - 1] & 128:
        n |= (filter_bytes[at] & 127) << 7 * at
        at += 1
    body = filter_bytes[at + 1 :]  # after the length of the keys
    size = 8 * len(body)
    r = min((size - n * (low_bits + 1)) << low_bits, 2**31 - 1)
    if r < 256:
        return True
    code = (((hash_of(key[:-1]) >> 31) * r >> 32) + key[-1]) % r if key else 0
    unary = [number for number in range(size - n * low_bits) if bit(body, number)]
    for i, number in enumerate(unary):
        first = size - (n - i) * low_bits
        low = sum(bit(body, first + place) << place for place in range(low_bits))
        if (number - i << low_bits | low) == code:
            return True
    return False


def filters_of(table: bytes) -> list[tuple[bytes, int]]:
    """The filter and the parameter of each block, by the trailers from the last block upwards."""
    (end,) = struct.unpack_from("<Q", table, len(table) - 72)
    found: list[tuple[bytes, int]] = []
    while end:
        payload, _, length, _, _, _, kind = struct.unpack_from("<IIIIIBB", table, end - 32)
        found.insert(0, (table[end - 32 - length : end - 32], kind & 31))
        end -= 32 + length + payload
    return found


# --- the tests ---

READERS: dict[str, Callable[[bytes, int, bytes], bool]] = {
    "bloom": bloom_may_hold,
    "ribbon": ribbon_may_hold,
    "grafite": grafite_may_hold,
}


@pytest.mark.parametrize("block_size_bytes", [512, 8192])
@pytest.mark.parametrize("policy", READERS)
def test_a_reader_made_from_the_page_answers_as_the_store_does(
    tmp_path: Path, policy: str, block_size_bytes: int
) -> None:
    import lsmkv
    from filtered_stores import tables_of
    from lsmkv.filters.hashing import hash_key

    draw = random.Random(policy)
    present = sorted({draw.randbytes(draw.randint(2, 20)) for _ in range(1000)})
    absent = [draw.randbytes(12) for _ in range(1000)]
    options = lsmkv.Options(
        filter_policy=policy, block_size_bytes=block_size_bytes, error_rate=0.2, compression="none"
    )
    with lsmkv.open(tmp_path / "store", options, background="thread") as db:
        for key in present:
            db[key] = bytes(30)
        db.flush()
        (table,) = tables_of(db)
        filters = filters_of(Path(table.path).read_bytes())
        answers = [0, 0]
        for key in present + absent:
            number = int(table.index.find(key))
            wanted = table.filters.block_may_hold(number, table.filters.hash_of(key, hash_key(key)))
            assert READERS[policy](*filters[number], key) is wanted
            answers[wanted] += 1
        assert answers[False] > 500 and answers[True] > 990
