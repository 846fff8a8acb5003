"""Block accesses in libCacheSim's form: what is noted, its bytes, and the hits of a cache on them."""

from __future__ import annotations

import random
import struct
from hashlib import sha256
from pathlib import Path

import pytest

import lsmkv
from bench.harness.block_trace import BlockTrace, read_oracle_general, write_oracle_general
from lsmkv.sstable.block_cache import PLACE_BYTES, BlockCache, CacheItem
from lsmkv.stats import Stats


def test_a_record_has_24_bytes_and_the_number_of_the_next_access(tmp_path: Path) -> None:
    path = str(tmp_path / "blocks")
    write_oracle_general(path, [(7, 400), (1 << 40, 90), (7, 400)])
    records = [(0, 7, 400, 2), (1, 1 << 40, 90, -1), (2, 7, 400, -1)]
    assert Path(path).read_bytes() == b"".join(struct.pack("<IQIq", *each) for each in records)
    assert read_oracle_general(path) == [(7, 400), (1 << 40, 90), (7, 400)]


def test_each_read_of_a_block_by_a_lookup_is_noted(tmp_path: Path) -> None:
    files = BlockTrace()
    with lsmkv.open(tmp_path / "db", storage=files, block_cache_size_bytes=0) as db:
        for number in range(3000):
            db.put(b"%06d" % number, b"value" * 20)
        db.compact_range()
        for number in range(0, 3000, 7):
            db.get(b"%06d" % number)
        assert len(files.accesses) == db.stats().block_reads > 400
        assert sum(size for _, size in files.accesses) == db.stats().block_read_bytes
        blocks = sum(table.block_count for table in db.inspect().tables())
    assert len({identity for identity, _ in files.accesses}) == blocks


@pytest.mark.parametrize(
    ("capacity_bytes", "hits", "digest"),
    [(20_000, 10_348, "b2d23f3b99a6eda4"), (60_000, 11_175, "b53264c0c945e3f8")],
)
def test_the_hits_on_a_file_are_those_of_libcachesim(
    capacity_bytes: int, hits: int, digest: str, tmp_path: Path
) -> None:
    # Counted with ``libcachesim.S3FIFO(capacity_bytes)`` of libcachesim 0.3.5, whose licence is another,
    # on the same file by its ``TraceReader(path, TraceType.ORACLE_GENERAL_TRACE)``.
    draw = random.Random(5)
    numbers = [min(299, int(draw.paretovariate(0.6))) + turn // 4000 * 30 for turn in range(12_000)]
    path = str(tmp_path / "blocks")
    write_oracle_general(path, [(n << 36 | n * 4096, 300 + n * 37 % 900) for n in numbers])
    cache = BlockCache(capacity_bytes, Stats())
    cache.entries.target_bytes = 0
    places: dict[int, int] = {}
    slots = cache.slots(len(numbers))
    found = bytearray()
    for identity, size_bytes in read_oracle_general(path):
        place = places.setdefault(identity, len(places))
        found.append(cache.get(slots, place) is not None)
        if not found[-1]:
            cache.put(slots, place, CacheItem(size_bytes - PLACE_BYTES))
    assert (sum(found), sha256(found).hexdigest()[:16]) == (hits, digest)
