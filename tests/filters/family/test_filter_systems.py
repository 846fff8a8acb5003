"""The covered systems, row by row, with the figures of their documents.

Where a document's figure does not come out, both numbers stand here.  Rows A9 to A11, the filters that
forget, are in ``test_filter_forgetting.py``.
"""

from __future__ import annotations

import math

import pytest

from lsmkv import filters
from lsmkv.filters import (
    BloomFilter,
    FingerprintFilter,
    SingleHashFilter,
    StrategyBloomFilter,
    hash_key,
    strategy_named,
)
from lsmkv.filters.family.other_hashes import leveldb_hash
from lsmkv.filters.family.strategies import STRATEGIES

# --- A1: the classic filter ---


@pytest.mark.parametrize(("bits", "keys", "probes"), [(9592, 1000, 7), (1_000_000, 100_000, 7)])
def test_a1_probes_come_from_bits_and_keys(bits: int, keys: int, probes: int) -> None:
    assert BloomFilter.for_bits(bits, keys).probe_count == probes
    assert round(bits / keys * math.log(2)) == probes


# --- A2, A3, A4: hash strategies of the documents ---


def test_a2_an_address_on_the_blacklist_is_the_only_one_of_its_network() -> None:
    blacklist = StrategyBloomFilter(1_000_000, 7, strategy_named("djb2"))
    blacklist.add(b"192.168.1.1")
    passed = [n for n in range(1, 100_000) if blacklist.may_contain(b"192.168.1.%d" % n)]
    assert passed == [1]


def test_a2_djb2_is_as_if_taken_modulo_m_at_the_end() -> None:
    h = 5381
    for character in "3key":
        h = h * 33 + ord(character)
    assert strategy_named("djb2").probes(b"key", 997, 4)[3] == h % 997


A3_IN = b"""dog cat giraffe fly mosquito horse eagle bird bison boar butterfly ant anaconda bear chicken
    dolphin donkey crow crocodile""".split()
A3_OUT = b"""badger cow pig sheep bee wolf fox whale shark fish turkey duck dove deer elephant frog
    falcon goat gorilla hawk""".split()


def test_a3_animals_that_were_added_are_told_from_those_that_were_not() -> None:
    animals = StrategyBloomFilter(10_000, 20, strategy_named("seeded-murmur3"))
    for animal in A3_IN:
        animals.add(animal)
    assert [animal for animal in A3_IN if not animals.may_contain(animal)] == []
    assert [animal for animal in A3_OUT if animals.may_contain(animal)] == []


A4_IN = b"""abound abounds abundance abundant accessible bloom blossom bolster bonny bonus bonuses
    coherent cohesive colorful comely comfort gems generosity generous generously genial""".split()
A4_OUT = b"""bluff cheater hate war humanity racism hurt nuke gloomy facebook geeksforgeeks
    twitter""".split()
A4_STATED_FALSE_POSITIVES = 4  # the document's; 6 come out


def test_a4_of_twelve_absent_words_six_pass_where_the_document_says_four() -> None:
    words = StrategyBloomFilter(100, 10, strategy_named("sha256"))
    for word in A4_IN:
        words.add(word)
    assert all(words.may_contain(word) for word in A4_IN)
    passed = [word for word in A4_OUT if words.may_contain(word)]
    assert passed == b"hate war racism hurt nuke gloomy".split()
    assert len(passed) == A4_STATED_FALSE_POSITIVES + 2
    assert words.bits_set == 91


# --- A5: one hash, k probes derived from it ---


def test_leveldbs_hash_is_leveldbs() -> None:
    """The vectors of LevelDB's own ``util/hash_test.cc``."""
    seed = 0xBC9F1D34
    assert leveldb_hash(b"", seed) == seed
    assert leveldb_hash(b"\x62", seed) == 0xEF1345C4
    assert leveldb_hash(b"\xc3\x97", seed) == 0x5B663814
    assert leveldb_hash(b"\xe2\x99\xa5", seed) == 0x323C078F
    assert leveldb_hash(b"\xe1\x80\xb9\x32", seed) == 0xED21633A


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_probes_are_bits_of_the_filter(strategy: filters.HashStrategy) -> None:
    for bits in (1, 7, 1000, (1 << 31) - 8):
        for key in (b"", b"a", b"\xff" * 300):
            probes = strategy.probes(key, bits, 9)
            assert len(probes) == 9
            assert all(0 <= bit < bits for bit in probes)


# --- A7: one hash ---


def test_a7_one_hash_takes_a_hundred_times_the_keys_at_one_percent() -> None:
    assert filters.single_hash_bits_for(10_000, 0.01) / 10_000 == pytest.approx(100, rel=0.01)
    assert SingleHashFilter.for_keys(10_000, 0.01).bit_count / 10_000 == pytest.approx(99.5, 0.001)


# --- A8: sorted fingerprints ---


@pytest.mark.parametrize(("keys", "rate"), [(1000, 0.01), (100_000, 0.001)])
def test_a8_fingerprints_take_n_log_n_over_p_bits(keys: int, rate: float) -> None:
    stated = keys * math.log2(keys / rate)
    built = FingerprintFilter.from_hashes(
        [hash_key(b"%d" % number) for number in range(keys)], rate
    )
    assert stated <= built.byte_count * 8 * 1.001 < stated + 1.001 * keys


A8_STATED_CROSSOVER = 1.28e28  # the document's; p 2^(1/p) = 1.268e28 comes out


def test_a8_fingerprints_lose_to_one_hash_only_beyond_any_number_of_keys() -> None:
    crossover = filters.crossover_keys(0.01)
    assert crossover == pytest.approx(1.2677e28, rel=1e-4)
    assert crossover == pytest.approx(A8_STATED_CROSSOVER, rel=0.01)
    assert crossover / 0.01 == pytest.approx(crossover * math.log2(crossover / 0.01))


# --- A14: known false positives ---


def test_a14_a_remembered_false_positive_is_never_repeated() -> None:
    inner = BloomFilter.for_keys(1000, 0.05)
    present = [b"key %d" % number for number in range(1000)]
    inner.update(present)
    known = filters.KnownFalsePositives(inner)
    absent = [b"absent %d" % number for number in range(4000)]
    first = 0
    for key in absent:
        if known.may_contain(key):
            first += 1
            known.remember(key)
    assert first > 100
    assert known.known_count == first
    assert [key for key in absent if known.may_contain(key)] == []
    assert all(known.may_contain(key) for key in present)


def test_a14_a_remembered_key_that_is_added_is_held() -> None:
    known = filters.GrowingKnownFalsePositives(BloomFilter.from_bits(b"\xff", 2))
    assert known.may_contain(b"a")
    known.remember(b"a")
    assert not known.may_contain(b"a")
    known.add(b"a")
    assert known.may_contain(b"a")


def test_a14_the_one_asked_for_least_recently_is_forgotten() -> None:
    known = filters.KnownFalsePositives(BloomFilter.from_bits(b"\xff", 2), capacity=2)
    for key in (b"a", b"b"):
        known.remember(key)
    assert not known.may_contain(b"a")
    known.remember(b"c")
    assert [known.may_contain(key) for key in (b"a", b"b", b"c")] == [False, True, False]
