"""Part ``repeats``: absent keys that are asked for again, with and without a list of what passed."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

import lsmkv
from lsmkv.storage.storage import Storage

from ...harness.intervals import FEWEST_EVENTS, effective_trials
from ...harness.run_stores import entries_of, put_all
from ...harness.shapes import run_count
from ...workloads.distributions import Zipfian, exact_ranks, generator
from ...workloads.keys import absent_key, present_key, shuffled
from . import rivals
from .rows import Row, of

CACHE_SHARES: Final = (0.0, 0.05, 0.1, 0.2, 0.4, 0.7, 1.2)
"""Block caches, by the bytes of all blocks; the last holds every block, with what that takes besides."""

CACHES: Final = "caches"
DRIFT: Final = "drift"
HOT_BLOCK: Final = "hot block"
LOADS: Final = (*(f"Zipf {exponent}" for exponent in (0.6, 0.8, 1.0, 1.2, 1.4)), DRIFT, HOT_BLOCK)
"""Exact Zipf laws; one of exponent 1 whose keys all change after each tenth; keys of one block alone."""

LEAST_RATIO: Final = 5.0
MOST_LISTED_BITS: Final = 0.25  # the list, for each present key, where there is no block cache
_DRIFT_PARTS: Final = 10
_LOOKUPS_PER_KEY: Final = 10
_ERROR_RATE: Final = 0.01
_LEAST_KEYS_JUDGED: Final = 10_000  # of fewer, chance decides how many are listed


@dataclass(frozen=True, slots=True)
class Task:
    """As many absent as present keys asked with one block cache; if ``is_shared`` present ones, too."""

    keys: int
    seed: int
    load: str = CACHES
    cache_share: float = 0.0
    is_shared: bool = False

    def __str__(self) -> str:
        if self.load != CACHES:
            return f"{self.load}"
        whose = "a shared cache" if self.is_shared else "a cache"
        return f"{whose} of {self.cache_share:.0%} of the blocks"

    def measure(self, directory: str) -> list[Row]:
        """The same lookups in the same store without learning, with it, and by its rivals."""
        path = os.path.join(directory, "store")
        options = lsmkv.Options(
            filter_policy="ribbon",
            error_rate=_ERROR_RATE,
            filter_allocation="uniform",
            fit_pages=False,  # the same blocks with any filters
            compression="none",
            read_compaction_rate_bytes=0,
        )
        with lsmkv.open(path, options) as db:
            order = shuffled(self.keys, random.Random(self.seed).getrandbits(32))
            put_all(db, entries_of(order, self.seed))
            db.compact_range()
        absent, present = self.lookups() if self.load == CACHES else (list(self._drawn()), [])
        ordinary = self._count(path, options, absent, present)
        learning = self._count(path, options.replace(adaptive_filters=True), absent, present)
        if self.load == CACHES:
            return [ordinary, learning]
        with lsmkv.open(path, read_only=True) as db:
            passing = {key for key in dict.fromkeys(absent) if db.explain(key).false_positives}
        again = [key for key in absent if key in passing]
        keys = [present_key(number) for number in range(self.keys)]
        found = [
            rivals.lru(again, round(learning.learnt_bits_per_key * self.keys / 8)),
            rivals.stacked(absent, passing, keys),
            rivals.adaptive_quotient(absent, keys),
        ]
        return [
            replace(ordinary, recounted=len(again), counted=ordinary.wasted_reads),
            replace(learning, recounted=len(passing), counted=learning.wasted_reads),
            *(
                replace(
                    ordinary,
                    filters=rival.name,
                    wasted_reads=rival.reads,
                    passed=rival.reads,
                    learnt_bits_per_key=rival.bits / self.keys,
                    filter_bytes=0,
                )
                for rival in found
            ),
        ]

    def _drawn(self) -> Iterator[bytes]:
        """The absent keys of a load, one for each lookup."""
        draw = generator(self.seed, "learning", self.load)
        if self.load == HOT_BLOCK:
            middle = present_key(self.keys // 2)
            keys = [middle + b"-%d" % number for number in range(self.keys)]
        else:
            keys = [absent_key(number) for number in range(self.keys)]
        is_zipf = self.load not in (DRIFT, HOT_BLOCK)
        exponent = float(self.load.removeprefix("Zipf ")) if is_zipf else 1.0
        parts = _DRIFT_PARTS if self.load == DRIFT else 1
        for _ in range(parts):
            order = draw.permutation(self.keys)
            ranks = exact_ranks(self.keys, exponent, _LOOKUPS_PER_KEY * self.keys // parts, draw)
            yield from [keys[number] for number in order[ranks]]

    def lookups(self) -> tuple[list[bytes], list[bytes]]:
        """The absent keys to look up, and, if the cache is shared, a present one after each."""
        law = Zipfian.over(self.keys)
        absent = self._by_law(law, absent_key, "absent")
        return absent, self._by_law(law, present_key, "present") if self.is_shared else []

    def _by_law(self, law: Zipfian, key_of: Callable[[int], bytes], what: str) -> list[bytes]:
        draw = generator(self.seed, "learning", what)
        seed = int(draw.integers(1 << 32))
        by_rank = [key_of(number) for number in shuffled(self.keys, seed)]
        return [by_rank[rank] for rank in law.ranks(_LOOKUPS_PER_KEY * self.keys, draw).tolist()]

    def _count(
        self, path: str, options: lsmkv.Options, absent: list[bytes], present: list[bytes]
    ) -> Row:
        with lsmkv.open(path, read_only=True) as db:
            block_bytes = sum(table.stored_bytes for table in db.inspect().tables())
        cache_bytes = round(self.cache_share * block_bytes)
        storage = Storage()
        form = options.replace(block_cache_size_bytes=cache_bytes)
        with lsmkv.open(path, form, storage=storage) as db:
            before, first, get, stats = db.inspect(), db.stats(), db.get, storage.stats
            needed = 0  # reads of present keys
            for at, key in enumerate(absent):
                if get(key) is not None:
                    raise AssertionError(f"{key!r} is not in the store")
                if present:
                    at_first = stats.block_reads
                    if get(present[at]) is None:
                        raise AssertionError(f"{present[at]!r} is in the store")
                    needed += stats.block_reads - at_first
            done, after = db.stats() - first, db.inspect()
        learnt_bytes = after.filter_memory_bytes - before.filter_memory_bytes
        return Row(
            part="repeats",
            load=self.load,
            filters="learning" if options.adaptive_filters else "uniform",
            bits_per_key=8 * before.filter_memory_bytes / self.keys,
            key_count=self.keys,
            lookup_count=len(absent),
            cache_share=self.cache_share,
            is_shared=self.is_shared,
            # A list lets each key pass once, however popular it is.
            independent_lookups=len(absent)
            if options.adaptive_filters
            else effective_trials(Counter(absent).values()),
            run_count=run_count(before),
            entry_count=before.entry_count,
            filter_bytes=after.filter_memory_bytes,
            learnt_bits_per_key=8 * learnt_bytes / self.keys,
            wasted_reads=done.block_reads - needed,
            passed=done.filter_false_positives,
            filters_asked=done.filter_negatives + done.filter_false_positives,
            asked_keys=len(set(absent)),
        )


def tasks(keys: int, seed: int, quick: bool) -> list[Task]:
    """Every load and cache; no cache is the same for both kinds of lookups."""
    return [Task(keys, seed, load) for load in LOADS] + [
        Task(keys, seed, CACHES, share, is_shared)
        for share in CACHE_SHARES
        for is_shared in (False, True)
        if share or not is_shared
    ]


def pairs(rows: Sequence[Row]) -> list[tuple[list[Row], list[Row]]]:
    """The rows without and with learning of each cache, those of absent keys alone first."""
    here = of(rows, load=CACHES)
    caches = sorted({(row.is_shared, row.cache_share) for row in here})
    return [
        (of(here, **cache, filters="uniform"), of(here, **cache, filters="learning"))
        for cache in ({"is_shared": shared, "cache_share": share} for shared, share in caches)
    ]


def reads(rows: Sequence[Row]) -> float:
    """The median of the wasted reads of the repetitions."""
    return median(row.wasted_reads for row in rows)


def ratio(ordinary: Sequence[Row], learning: Sequence[Row]) -> float | None:
    """How many times fewer reads are wasted with learning; None where too few were counted."""
    if min(row.wasted_reads for row in (*ordinary, *learning)) < FEWEST_EVENTS:
        return None
    both = zip(ordinary, learning, strict=True)
    return median(one.wasted_reads / other.wasted_reads for one, other in both)


def failures(rows: Sequence[Row]) -> list[str]:
    """Too little is saved, the list takes too much, or a second count differs."""
    ordinary, learning = pairs(rows)[0]
    times = ratio(ordinary, learning)
    listed = max(row.learnt_bits_per_key for row in learning)
    found = []
    if times is not None and times < LEAST_RATIO:
        found.append(f"learning leaves 1 of {times:.1f} wasted reads")
    if listed > MOST_LISTED_BITS and learning[0].key_count >= _LEAST_KEYS_JUDGED:
        found.append(f"the list takes {listed:.2f} bits per key")
    for row in rows:
        # An entry of the list may deny another absent key of its block too.
        is_fewer = row.filters == "learning" and row.wasted_reads < (row.recounted or 0)
        if row.recounted != row.counted and not is_fewer:
            found.append(
                f"{row.load}, repetition {row.repetition}: {row.filters} wastes {row.wasted_reads:,} "
                f"reads, by the second count {row.recounted:,}"
            )
    return found
