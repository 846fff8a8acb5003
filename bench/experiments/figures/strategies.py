"""Figures of hash strategies: what documents and other systems' tests say that they give."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator
from typing import Final

from lsmkv import filters
from lsmkv.filters import StrategyBloomFilter, strategy_named

from .figure import Figure, yes_and_no

_ANIMALS: Final = b"""dog cat giraffe fly mosquito horse eagle bird bison boar butterfly ant anaconda
    bear chicken dolphin donkey crow crocodile""".split()
_OTHER_ANIMALS: Final = b"""badger cow pig sheep bee wolf fox whale shark fish turkey duck dove deer
    elephant frog falcon goat gorilla hawk""".split()

_ASKED_OF_EACH: Final = 60  # absent keys of each filter
_HBASE: Final = (("hbase-murmur2", "MURMUR"), ("hbase-jenkins", "JENKINS"), ("hbase", "murmur3"))


def strategies() -> Iterator[Figure]:
    """Filters of one strategy each, filled with the keys of its document."""
    blacklist = StrategyBloomFilter(1_000_000, 7, strategy_named("djb2"))
    blacklist.add(b"192.168.1.1")
    passed = sum(blacklist.may_contain(b"192.168.1.%d" % last) for last in range(1, 100_000))
    yield "DJB2 with a prefix, of 99,999 addresses", "1 passes", f"{passed} passes"
    animals = StrategyBloomFilter(10_000, 20, strategy_named("seeded-murmur3"))
    for animal in _ANIMALS:
        animals.add(animal)
    wrong = sum(map(animals.may_contain, _OTHER_ANIMALS))
    yield "20 seeded mmh3, 20 animals not added", "0 pass", f"{wrong} pass"
    yield from _derived_probes()
    yield from _hbase_tests()


def _derived_probes() -> Iterator[Figure]:
    for name, system, stated in (
        ("product", "one hash, k probes, 30 keys in 300 bits: measured / exact", "1.00"),
        ("double-hashing", "the same with h1 + i h2", ""),
        ("hbase-murmur2", "the same as HBase does, of MURMUR (MurmurHash2)", ""),
        ("hbase-jenkins", "the same as HBase does, of JENKINS (lookup3)", ""),
        ("guava-32", "the same as Guava's MURMUR128_MITZ_32", ""),
        ("guava-64", "the same as Guava's MURMUR128_MITZ_64", ""),
    ):
        ratio, reach = _over_exact(
            name, 240_000 if name in ("product", "double-hashing") else 90_000
        )
        yield system, stated, f"{ratio:.2f} (± {reach:.2f})"


def _over_exact(name: str, asked: int) -> tuple[float, float]:
    """The measured rate of 30 keys in 300 bits by the exact one, and half of its 95 % interval."""
    rng, probes = random.Random(7), strategy_named(name).probes
    passed = []
    for _ in range(asked // _ASKED_OF_EACH):
        bits: set[int] = set()
        for _ in range(30):
            bits.update(probes(rng.randbytes(16), 300, 7))
        passed.append(
            sum(bits.issuperset(probes(rng.randbytes(16), 300, 7)) for _ in range(_ASKED_OF_EACH))
        )
    expected = _ASKED_OF_EACH * filters.exact_rate(300, 30, 7)
    error = statistics.stdev(passed) / len(passed) ** 0.5
    return statistics.fmean(passed) / expected, 1.96 * error / expected


def _hbase_tests() -> Iterator[Figure]:
    for name, hash_type in _HBASE:
        answers = _basic_bloom(name)
        yield (
            f"HBase's testBasicBloom with {hash_type}: right answers",
            "all",
            yes_and_no(answers),
        )
    probes = strategy_named("hbase-murmur2").probes
    keys = [number.to_bytes(4, "big") for number in range(25)]
    byte_count = filters.FoldableBloomFilter.for_keys(1003, 0.01, 2).byte_count
    folded = {bit % (2 * byte_count) for key in keys[:12] for bit in probes(key, 8 * byte_count, 7)}
    passed = sum(folded.issuperset(probes(key, 2 * byte_count, 7)) for key in keys[12:])
    yield "HBase's testBloomFold: bytes of 1,003 keys at 1 %", "1204", f"{byte_count}"
    yield "the same: of 13 absent keys pass, folded twice", "1 at most", f"{passed}"


def _basic_bloom(name: str) -> list[bool]:
    """HBase's ``TestBloomFilterChunk.testBasicBloom``: each answer, whether it is the right one."""
    first, second = (
        StrategyBloomFilter(8 * filters.filter_bytes_for(1000, 0.01), 7, strategy_named(name))
        for _ in range(2)
    )
    key_1, key_2 = bytes([1, 2, 3, 4, 5, 6, 7, 8, 9]), bytes([1, 2, 3, 4, 5, 6, 7, 8, 7])
    small, large = bytes([1, 2, 3, 4]), b"this is a much larger byte array"
    first.add(key_1)
    second.add(key_2)
    answers = [first.may_contain(key_1), not first.may_contain(key_2)]
    answers += [not second.may_contain(key_1), second.may_contain(key_2)]
    first.add(small)
    first.add(large[1:])
    for each in (first, StrategyBloomFilter.from_bytes(first.to_bytes())):
        answers += [each.may_contain(key) for key in (key_1, small, large[1:])]
        answers += [not each.may_contain(key) for key in (key_2, large)]
    return answers
