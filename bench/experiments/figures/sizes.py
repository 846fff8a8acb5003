"""Sizes that documents state: filters, sets of digests, HBase's filters."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from lsmkv import filters
from lsmkv.filters import BloomFilter, RollingBloomFilter, Window

from .figure import Figure, percent

GIB: Final = 1 << 30
CELL_BYTES: Final = 200
CELLS_OF_A_ROW: Final = 64
MANY: Final = 100_000_000


def sizes() -> Iterator[Figure]:
    """Filters by keys and rate, lists and sets, two copies, and a GiB of HBase's cells."""
    yield from _filters()
    yield from _lists()
    yield from _bits_or_integers()
    yield from _digests()
    yield from _two_copies()
    yield from _hbase()


def _filters() -> Iterator[Figure]:
    for rate, stated in ((1e-6, "3.59 MB"), (1e-3, "1.80 MB")):
        found = filters.bits_for(1_000_000, rate) / 8e6
        yield f"classic, 1,000,000 keys, p = {rate:.7g}", stated, f"{found:.2f} MB"
    yield "classic, 1,000 keys, p = 1 %", "9586 bits", f"{filters.bits_for(1000, 0.01)} bits"
    yield (
        "classic, 1,000,000 bits, 100,000 keys",
        "k = 7",
        f"k = {filters.probes_for(10**6, 10**5)}",
    )


def _lists() -> Iterator[Figure]:
    """What is stored without a filter: the keys themselves, and what leads to them."""
    million = 1_000_000
    yield "a list of 1,000,000 URLs of 20 bytes", "20 MB", f"{20 * million / 1e6:.0f} MB"
    forms = (
        ("sorted array", 0.0),
        ("tree, two pointers of 8 bytes a key", 16.0),
        ("hash table half full, pointers of 8 bytes", 16.0),
    )
    for name, more in forms:
        yield (
            f"1,000,000 URLs of 50 bytes, {name}",
            "50 MB" if not more else "O(N)",
            f"{(50 + more) * million / 1e6:.0f} MB",
        )
    found = filters.filter_bytes_for(million, 0.01) / 1e6
    yield "a Bloom filter of 1,000,000 keys instead, p = 1 %", "", f"{found:.1f} MB"
    yield "100,000,000 URLs of 50 bytes", "5 GB at least", f"{MANY * 50 / 1e9:.0f} GB"
    videos = 4_000_000_000 * 4 / 1e9
    yield (
        "4,000,000,000 identifiers of 32 bits, with counters",
        "16 GB, 32 GB",
        f"{videos:.0f} GB, {2 * videos:.0f} GB",
    )


def _bits_or_integers() -> Iterator[Figure]:
    numbers, span = {2, 35, 878, 999}, 1000
    array = bytearray(-(-span // 8))
    for number in numbers:
        array[number >> 3] |= 1 << (number & 7)
    held = {number for number in range(span) if array[number >> 3] >> (number & 7) & 1}
    assert held == numbers
    yield (
        "{2, 35, 878, 999} of 0 to 999: as bits, as 32-bit integers",
        "1000 bits, 32 S bits",
        f"{8 * len(array)} bits, {32 * len(numbers)} bits; bits are smaller from "
        f"{span // 32 + 1} numbers on",
    )


def _digests() -> Iterator[Figure]:
    import hashlib

    for name, stated in (("MD5", "1.6 GB"), ("SHA-1", "2.0 GB")):
        digest_bytes = hashlib.new(name.replace("-", ""), usedforsecurity=False).digest_size
        found = MANY * digest_bytes / 1e9
        yield f"a set of {MANY:,} {name} digests", stated, f"{found:.1f} GB"
    found = filters.filter_bytes_for(MANY, 0.01) / 1e9
    yield f"a Bloom filter of {MANY:,} keys instead, p = 1 %", "", f"{found:.2f} GB"


def _two_copies() -> Iterator[Figure]:
    keys = 10_000
    one = BloomFilter.for_keys(keys, 0.01).byte_count
    two = RollingBloomFilter(one, 7, Window(inserts=keys)).byte_count
    yield "rolling, bytes by those of one array", "two arrays", f"{two / one:.2f}"
    same_rate = RollingBloomFilter.for_window(Window(inserts=keys), keys, 0.01).byte_count
    yield "the same at one array's rate for both together", "", f"{same_rate / one:.2f}"
    yield from _asked_twice()


def _asked_twice() -> Iterator[Figure]:
    """Two filters of the same keys with probes of their own; a key must pass both."""
    keys, asked, rate = 1000, 200_000, 0.01
    draw = random.Random("two copies")
    first, second = (BloomFilter.for_keys(keys, rate) for _ in range(2))
    large = BloomFilter.for_bits(16 * first.byte_count, keys)
    for _ in range(keys):
        one, other = draw.getrandbits(63), draw.getrandbits(63)  # independent hashes of one key
        first.add_hash(one)
        large.add_hash(one)
        second.add_hash(other)
    passed = [0, 0, 0]
    for _ in range(asked):
        one, other = draw.getrandbits(63), draw.getrandbits(63)
        by_first = first.may_contain_hash(one)
        passed[0] += by_first
        passed[1] += by_first and second.may_contain_hash(other)
        passed[2] += large.may_contain_hash(one)
    alone, both, double = (percent(count / asked) for count in passed)
    expected = first.expected_rate(keys)
    yield (
        f"two copies of a filter of {keys:,} keys, asked both, {asked:,} absent keys",
        "2m for a better rate",
        f"one: {alone}; both: {both} (in theory {percent(expected**2)}); one filter of 2m: {double} "
        f"(in theory {percent(large.expected_rate(keys))})",
    )


def _hbase() -> Iterator[Figure]:
    cells = GIB // CELL_BYTES
    bits = filters.bits_for(cells, 0.01)
    yield (
        f"HBase, 1 GiB of {CELL_BYTES}-byte cells, a filter of every cell, p = 1 %",
        "51 MB",
        f"{bits / 1e6:.1f} Mbit, {bits / 8e6:.2f} MB",
    )
    rows = cells // CELLS_OF_A_ROW
    row_bytes = filters.filter_bytes_for(rows, 0.01)
    yield (
        f"the same of rows only, {CELLS_OF_A_ROW} cells a row",
        "100 kB",
        f"{row_bytes / 1e3:.0f} kB",
    )
    yield (
        "HBase's testSizing: keys that fit into 128 KiB at 2.5 %",
        "136570",
        f"{filters.keys_for(8 * 128 * 1024, 0.025)}",
    )
