"""Figures of the filters themselves: hash strategies, the kinds, and what can be done with them."""

from __future__ import annotations

import random
from collections.abc import Iterator

from lsmkv import filters
from lsmkv.filters import (
    BloomFilter,
    CountingBloomFilter,
    CuckooFilter,
    FoldableBloomFilter,
    KnownFalsePositives,
    RollingBloomFilter,
    Window,
)
from lsmkv.filters.policy import policy_named

from .figure import Figure, percent


def kinds() -> Iterator[Figure]:
    """Every kind of filter beside what is said of it."""
    yield from _others()
    yield from _operations()
    yield from _overfull()
    yield from _placement()


def _others() -> Iterator[Figure]:
    ratio = filters.partitioned_rate(280, 30, 7) / filters.exact_rate(280, 30, 7)
    yield "partitioned at equal bits, 30 keys: rate / classic", "slightly over 1", f"{ratio:.3f}"
    bits = filters.single_hash_bits_for(10_000, 0.01) / 10_000
    yield "one hash, p = 1 %, bits per key", "100", f"{bits:.1f}"
    crossover = filters.crossover_keys(0.01)
    yield (
        "keys from which one hash beats sorted fingerprints, p = 1 %",
        "1.28e28",
        f"{crossover:.3g}",
    )
    for width in (4, 8):
        counting = CountingBloomFilter(64, 3, width)
        for _ in range(300):
            counting.add(b"key")
        for _ in range(300):
            counting.remove(b"key")
        outcome = f"{counting.largest_count}; after 300 deletes {counting.count_of(b'key')}"
        yield (
            f"counting, {width} bits, a key added 300 times",
            "stays at the largest count",
            outcome,
        )
    lives = []
    for first in range(100):
        rolling = RollingBloomFilter.for_window(Window(inserts=100), 100, 1e-9)
        for other in range(first):
            rolling.add(b"before %d" % other)
        rolling.add(b"key")
        after = 0
        while rolling.may_contain(b"key"):
            rolling.add(b"after %d" % after)
            after += 1
        lives.append(after)
    spans = f"{min(lives)} to {max(lives)} inserts"
    yield "rolling, windows of 100 inserts: a key lives", "one to two windows", spans
    cuckoo, kept = CuckooFilter(64, 12), 0
    try:
        while True:
            cuckoo.add(b"%d" % kept)
            kept += 1
    except filters.FilterFullError:
        held = sum(cuckoo.may_contain(b"%d" % number) for number in range(kept))
    yield "cuckoo, filled until it refuses", "loses nothing", f"{held} of {kept} held"


def _operations() -> Iterator[Figure]:
    left, right, both = (BloomFilter.for_bits(3000, 300) for _ in range(3))
    for number in range(300):
        (left if number % 2 else right).add(b"%d" % number)
        both.add(b"%d" % number)
    same = left.union(right).to_bytes() == both.to_bytes()
    yield (
        "union of two filters",
        "as if built from both sets",
        "the same bytes" if same else "differs",
    )
    rng, passed, asked = random.Random(8), 0, 60_000
    for _ in range(asked // 60):
        folded = FoldableBloomFilter(144, 7, 4)
        for _ in range(30):
            folded.add_hash(rng.getrandbits(63))
        folded = folded.fold().fold()
        passed += sum(folded.may_contain_hash(rng.getrandbits(63)) for _ in range(60))
    ratio = passed / asked / filters.exact_rate(288, 30, 7)
    yield "folded twice: measured / exact of a filter of that size", "1", f"{ratio:.2f}"
    inner = BloomFilter.for_keys(1000, 0.05)
    for number in range(1000):
        inner.add(b"key %d" % number)
    known = KnownFalsePositives(inner)
    absent = [b"absent %d" % number for number in range(4000)]
    for key in absent:
        if known.may_contain(key):
            known.remember(key)
    repeats = sum(map(known.may_contain, absent))
    yield (
        "remembered false positives, asked again",
        "0 pass",
        f"{repeats} of {known.known_count} pass",
    )
    bound = filters.over_lower_bound(filters.bits_for(100_000, 0.01), 100_000, 0.01)
    yield "classic, bits by log2(1/p)", "1.44", f"{bound:.2f}"


def _placement() -> Iterator[Figure]:
    """Workers send filters of their functions; a scheduler asks all of them for one that none has."""
    workers, functions, asked, name_bytes = 10_000, 1000, 3, 20
    draw, policy = random.Random("placement"), policy_named("bloom")
    absent = [draw.getrandbits(63) for _ in range(asked)]
    sent_bytes = wrong = overlooked = 0
    for _ in range(workers):
        held = [draw.getrandbits(63) for _ in range(functions)]
        bits, parameter = policy.build(held, 0.01)
        sent_bytes += len(bits)
        asks = [policy.may_contain(bits, 0, len(bits), parameter, h) for h in [*absent, held[0]]]
        wrong += sum(asks[:-1])
        overlooked += not asks[-1]
    yield (
        f"placement: filters of {workers:,} workers with {functions:,} functions each",
        "about 1 kB each",
        f"{sent_bytes / workers:,.0f} bytes each, {sent_bytes / 1e6:.1f} MB; names of {name_bytes} bytes "
        f"are {workers * functions * name_bytes / 1e6:,.0f} MB",
    )
    yield (
        "the same: workers that seem to hold a function that none holds; held ones overlooked",
        "few; none",
        f"{wrong / asked:.0f} of {workers:,} ({percent(wrong / asked / workers)}); {overlooked}",
    )


def _overfull() -> Iterator[Figure]:
    for times, stated in ((1, "1 %"), (2, "rises"), (10, "rises")):
        built = BloomFilter.for_keys(1000, 0.01)
        built.update([b"key %d" % number for number in range(1000 * times)])
        asked = 20_000
        passed = sum(built.may_contain(b"absent %d" % number) for number in range(asked))
        yield (
            f"overfull: {1000 * times:,} keys in a filter for 1,000 at 1 %",
            stated,
            f"expected {percent(built.expected_rate(1000 * times))}, by its bits "
            f"{percent(built.current_rate())}, measured {percent(passed / asked)}",
        )
