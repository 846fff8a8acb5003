"""Published figures of filters, trees and caches, and our counts beside them."""

from __future__ import annotations

import math
import random
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, get_args

import lsmkv
from lsmkv import filters
from lsmkv.filters import CuckooFilter, strategy_named
from lsmkv.filters.maths.allocation import monkey_error_rates
from lsmkv.filters.policy import policy_named
from lsmkv.options import KIB, CompactionStyle
from lsmkv.sstable.block_cache import BlockCache, CacheItem
from lsmkv.stats import Stats

from ...engines.base import Settings, engine_named
from ...harness.run_stores import write_tree
from ...harness.write_cost import write_amplification
from ...workloads.distributions import exact_ranks, generator
from ...workloads.keys import absent_key, present_key
from .figure import percent

Outsider = tuple[str, str, str, str, str]  # what, source, stated, here, the command with more of it
KEYS: Final = 100_000
RANGE: Final = 8
LEVELS: Final = 5
STYLES: Final[tuple[CompactionStyle, ...]] = get_args(CompactionStyle)
_ENTRIES: Final = 132  # of a write buffer of 16 KiB
_GAP: Final = 16
_SEED: Final = 1970


def outsiders() -> Iterator[Outsider]:
    """Ten figures; all are counts, and come out again."""
    yield from _stores()
    yield from _filters()
    yield from _ranges()
    yield from _trees()
    yield _cache()


def _stores() -> Iterator[Outsider]:
    probes, passed = strategy_named("leveldb").probes, 0
    for first in range(0, KEYS, 1000):
        numbers = range(first, first + 1000)
        bits = set().union(*(probes(present_key(number), 10_000, 6) for number in numbers))
        passed += sum(bits.issuperset(probes(absent_key(n), 10_000, 6)) for n in numbers)
    yield (
        "LevelDB, 10 bits a key: unnecessary reads",
        "LevelDB, doc/index.md",
        "about 100 times fewer",
        f"{KEYS / passed:.0f} times fewer (its probes, 1,000 keys)",
        "filters",
    )
    here = "not installed"
    if engine_named("rocksdb").is_installed():
        with tempfile.TemporaryDirectory() as path:
            store = engine_named("rocksdb").open(path, Settings(bits_per_key=9.9, count=True))
            for number in range(KEYS):
                store.put(present_key(number), b"")
            store.settle()
            before = store.counters()["filter_negatives"]
            for number in range(KEYS - 1):
                store.get(absent_key(number))
            here = percent(1 - (store.counters()["filter_negatives"] - before) / (KEYS - 1))
            store.close()
    source = "RocksDB, include/rocksdb/filter_policy.h"
    yield "RocksDB, Bloom filters of 9.9 bits a key", source, "about 1 %", here, "wasted-reads"


def _filters() -> Iterator[Outsider]:
    draw = random.Random("outsiders")
    hashes = [draw.getrandbits(63) for _ in range(KEYS)]
    ribbon, _ = policy_named("ribbon").build(hashes, 1 / 128)
    saved = 1 - 8 * len(ribbon) / filters.bits_for(KEYS, 1 / 128)
    yield (
        "Ribbon beside Bloom at one rate, 100,000 keys: bits saved",
        "P. Dillinger, RocksDB's blog, 29 December 2021",
        "30 %",
        f"{percent(saved)}; {8 * len(ribbon) / KEYS:.2f} bits a key at 1/128",
        "filters",
    )
    cuckoo = CuckooFilter(KEYS // 4, 12)
    with suppress(filters.FilterFullError):
        for h in hashes:
            cuckoo.add_hash(h)
    yield (
        "Cuckoo filter, buckets of four: full at",
        "B. Fan and others, Cuckoo Filter, CoNEXT 2014",
        "95 %",
        percent(cuckoo.load),
        "filters",
    )
    fuse = filters.BinaryFuseFilter(hashes, 8)
    passed = sum(fuse.may_contain_hash(draw.getrandbits(63)) for _ in range(KEYS))
    yield (
        "Binary fuse filter of 8 bits",
        "FastFilter, xor_singleheader, README",
        "9.04 bits a key, 0.392 %",
        f"{8 * fuse.byte_count / KEYS:.2f} bits a key, {percent(passed / KEYS)}",
        "filters",
    )


def _ranges() -> Iterator[Outsider]:
    """Empty ranges of 8 numbers in one run, with filters of ranges and of keys."""
    reads, bits = {}, 0.0
    for policy in ("bloom", "grafite"):
        with (
            tempfile.TemporaryDirectory() as path,
            lsmkv.open(
                path, filter_policy=policy, error_rate=0.0025, block_cache_size_bytes=0
            ) as db,
        ):
            db.bulk_load((_key(_GAP * number), bytes(100)) for number in range(KEYS))
            before = db.stats()
            for number in range(0, KEYS, 10):
                start = _GAP * number + 4
                if any(db.keys(start=_key(start), stop=_key(start + RANGE))):
                    raise AssertionError(f"{start}: the range is empty")
            reads[policy] = (db.stats() - before).block_reads / (KEYS / 10)
            bits = 8 * db.inspect().filter_bytes / KEYS
    yield (
        f"Grafite, an empty range of {RANGE}, {bits:.1f} bits a key: passes",
        "M. Costa and others, Grafite, SIGMOD 2024",
        f"at most {percent(RANGE / 2 ** (bits - 2))} (l / 2^(B - 2))",
        percent(reads["grafite"]),
        "saved-io --datasets ranges",
    )
    yield (
        "Filters of ranges beside Bloom's: empty closed ranges",
        "H. Zhang and others, SuRF, SIGMOD 2018",
        "up to 5 times as fast, in RocksDB",
        f"{reads['bloom'] / reads['grafite']:.0f} times fewer reads (Grafite; there is no SuRF here)",
        "saved-io --datasets ranges",
    )


def _key(number: int) -> bytes:
    return number.to_bytes(8, "big")


def _trees() -> Iterator[Outsider]:
    runs = [
        KEYS // 2 * 4**level // sum(4**below for below in range(LEVELS)) for level in range(LEVELS)
    ]
    rate = math.exp(-8 * math.log(2) ** 2)
    one, monkey = (
        _wasted(runs, rates) for rates in ([rate] * LEVELS, monkey_error_rates(runs, rate))
    )
    yield (
        "Monkey's rates beside one rate, in the same memory",
        "N. Dayan and others, Monkey, SIGMOD 2017",
        "lookup latency lower by 50 to 80 %",
        f"{percent(1 - monkey / one)} fewer reads ({LEVELS} full levels, T = 4, 8 bits a key)",
        "policies --parts trees",
    )
    found = [_amplification(style) for style in STYLES]
    yield (
        f"Write amplification, {', '.join(STYLES)} (T = 4)",
        "N. Dayan, S. Idreos, Dostoevsky, SIGMOD 2018",
        f"{', '.join(f'{theory:.1f}' for theory, _ in found)} (full levels, no overwrites)",
        f"{', '.join(f'{measured:.1f}' for _, measured in found)} (random overwrites)",
        "compaction",
    )


def _wasted(runs: list[int], rates: list[float]) -> int:
    """Blocks that absent keys read in a tree of such runs, one filter in each."""
    with tempfile.TemporaryDirectory() as path:
        write_tree(path, runs, rates, _SEED)
        with lsmkv.open(path, read_only=True, block_cache_size_bytes=0) as db:
            for number in range(sum(runs) - 1):
                db.get(absent_key(number))
            return db.stats().block_reads


def _amplification(style: CompactionStyle) -> tuple[float, float]:
    """In theory, and over the second half of random overwrites, settled after each write buffer."""
    draw, halves = random.Random("writes"), []
    form = lsmkv.Options(
        compaction=style, size_ratio=4, compression="none", write_buffer_size_bytes=16 * KIB,
        table_size_bytes=16 * KIB, level1_size_bytes=64 * KIB, read_compaction_rate_bytes=0,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as path, lsmkv.open(path, form) as db:
        for _ in range(2):
            before, written = db.stats(), 0
            for _ in range(60):
                with db.write_batch() as batch:
                    for _ in range(_ENTRIES):
                        key = present_key(draw.randrange(50 * _ENTRIES))
                        batch.put(key, draw.randbytes(100))
                        written += len(key) + 100
                db.flush()
                db.wait_until_settled()
            done = db.stats() - before
            halves.append((done.flush_bytes + done.compaction_write_bytes) / written)
        levels = sum(bool(level.runs) for level in db.inspect().levels[1:])
    return write_amplification(style, 4, levels), halves[1]


def _cache() -> Outsider:
    """A tenth of 10,000 objects of one size, a million requests by Zipf's law of exponent 1."""
    objects, room = 10_000, 1000
    cache, missed = BlockCache(room * CacheItem(0).charge_bytes, Stats()), 0
    slots = cache.slots(objects)
    lru: OrderedDict[int, None] = OrderedDict()
    missed_by_lru = 0
    for number in exact_ranks(objects, 1.0, 10 * KEYS, generator(_SEED, "outsiders")).tolist():
        if cache.get(slots, number) is None:
            missed += 1
            cache.put(slots, number, CacheItem(0))
        missed_by_lru += number not in lru
        lru[number] = None
        lru.move_to_end(number)
        if len(lru) > room:
            lru.popitem(last=False)
    return (
        "S3-FIFO, misses beside LRU's (Zipf 1.0, a tenth of 10,000 objects)",
        "J. Yang and others, FIFO Queues, SOSP 2023",
        "the fewest on average in 10 of 14 sets of traces",
        f"{percent(missed / (10 * KEYS))}; LRU {percent(missed_by_lru / (10 * KEYS))}",
        "memory",
    )
