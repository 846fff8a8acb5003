"""Sizes that documents state: filters, two copies, HBase's filters."""

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


def sizes() -> Iterator[Figure]:
    """Filters by keys and rate, two copies, and a GiB of HBase's cells."""
    yield from _filters()
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
