"""Sizes that documents state: filters, sets of digests, HBase's filters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bench.experiments.figures.figure import Figure
from lsmkv import filters
from lsmkv.filters import BloomFilter, RollingBloomFilter, Window

GIB: Final = 1 << 30
CELL_BYTES: Final = 200
CELLS_OF_A_ROW: Final = 64
MANY: Final = 100_000_000


def sizes() -> Iterator[Figure]:
    """Filters by keys and rate, sets of digests, two copies, and a GiB of HBase's cells."""
    yield from _filters()
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
    yield "rolling, bytes by those of one array", "two copies, 2m", f"{two / one:.2f}"
    same_rate = RollingBloomFilter.for_window(Window(inserts=keys), keys, 0.01).byte_count
    yield "the same at one array's rate for both together", "2m", f"{same_rate / one:.2f}"


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
