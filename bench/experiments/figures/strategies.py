"""Figures of hash strategies: what documents and other systems' tests say that they give."""

from __future__ import annotations

import random
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import mmh3

from lsmkv import filters
from lsmkv.filters import StrategyBloomFilter, strategy_named

from .figure import Figure, percent, yes_and_no

Probes = Callable[[bytes, int, int], list[int]]

_ANIMALS: Final = b"""dog cat giraffe fly mosquito horse eagle bird bison boar butterfly ant anaconda
    bear chicken dolphin donkey crow crocodile""".split()
_OTHER_ANIMALS: Final = b"""badger cow pig sheep bee wolf fox whale shark fish turkey duck dove deer
    elephant frog falcon goat gorilla hawk""".split()
_WORDS: Final = b"""abound abounds abundance abundant accessible bloom blossom bolster bonny bonus
    bonuses coherent cohesive colorful comely comfort gems generosity generous generously
    genial""".split()
_OTHER_WORDS: Final = b"""bluff cheater hate war humanity racism hurt nuke gloomy facebook
    geeksforgeeks twitter""".split()


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
    yield from _word_demo()
    yield from _toy()
    yield from _murmur()
    yield from _derived_probes()
    yield from _hbase_tests()


def _word_demo() -> Iterator[Figure]:
    words = StrategyBloomFilter(100, 10, strategy_named("sha256"))
    for word in _WORDS:
        words.add(word)
    wrong = sum(map(words.may_contain, _OTHER_WORDS))
    yield "sha256 of key and number, 12 words not added", "4 pass", f"{wrong} pass"
    positives = wrong + len(_WORDS)
    yield (
        "the same: wrong ones of all positives, which is no false-positive rate",
        "16.0 % (4 of 25)",
        f"{wrong / positives:.1%} ({wrong} of {positives})".replace("%", " %"),
    )
    yield (
        "the same: the false-positive rate, and bits set of 100",
        "",
        f"{percent(wrong / len(_OTHER_WORDS))} ({wrong} of {len(_OTHER_WORDS)}), {words.bits_set} bits",
    )


def _toy() -> Iterator[Figure]:
    probes = strategy_named("sha").probes
    for word, stated in (
        (b"foo", "{27, 15, 16}"),
        (b"baz", "{18, 27, 23}"),
        (b"loved", "{5, 22, 26}"),
        (b"response", "{5, 22, 26}"),
    ):
        bits = probes(word, 32, 3)
        if word in (b"loved", b"response"):  # the document has them in order
            bits = sorted(bits)
        shown = ", ".join(map(str, bits))
        yield (
            f"8 bytes each of SHA-1, SHA-256, SHA-512, modulo 32: bits of {word.decode()}",
            stated,
            f"{{{shown}}}",
        )
    left = {*probes(b"foo", 32, 3), *probes(b"baz", 32, 3)} - {*probes(b"baz", 32, 3)}
    kept = [word for word in (b"foo", b"baz") if left.issuperset(probes(word, 32, 3))]
    yield (
        "the same with foo and baz added, the bits of baz cleared",
        "neither is there",
        f"{len(kept)} of 2 pass",
    )
    counting = _counters(probes, [b"foo", b"baz"], [b"baz"])
    yield (
        "the same with counters: foo, after baz was removed",
        "is there",
        "passes" if all(counting[bit] for bit in probes(b"foo", 32, 3)) else "denied",
    )
    counting = _counters(probes, [b"loved", b"your"], [b"response"])
    yield (
        "the same with counters: loved and your added, response removed: loved",
        "a false negative",
        "passes" if all(counting[bit] for bit in probes(b"loved", 32, 3)) else "denied",
    )
    held = {*probes(b"loved", 32, 3), *probes(b"response", 32, 3)}
    held -= {*probes(b"loved", 32, 3)}
    denied = not held.issuperset(probes(b"response", 32, 3))
    yield (
        "the same with both added, the bits of loved cleared: response",
        "a false negative",
        "denied" if denied else "passes",
    )


def _counters(probes: Probes, added: Sequence[bytes], removed: Sequence[bytes]) -> Counter[int]:
    """A counting filter of 32 counters that removes what seems to be there."""
    counters: Counter[int] = Counter()
    for key in added:
        counters.update(probes(key, 32, 3))
    for key in removed:
        bits = probes(key, 32, 3)
        if all(counters[bit] for bit in bits):
            counters.subtract(bits)
    return counters


def _murmur() -> Iterator[Figure]:
    """MurmurHash3 has a form for each width of machine, and they differ."""
    key = b"key"
    forms = (
        ("x86, 32 bits", f"{mmh3.hash(key, signed=False):08x}"),
        ("x86, 128 bits", f"{mmh3.hash64(key, x64arch=False, signed=False)[0]:016x}"),
        ("x64, 128 bits", f"{mmh3.hash64(key, x64arch=True, signed=False)[0]:016x}"),
    )
    shown = "; ".join(f"{name}: {value}" for name, value in forms)
    yield "MurmurHash3 of b'key', the first bits by form", "the forms differ", shown


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
