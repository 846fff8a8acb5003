"""Hash strategies of other systems: the published values of their hashes, and their own tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lsmkv import filters
from lsmkv.filters import FoldableBloomFilter, StrategyBloomFilter, strategy_named
from lsmkv.filters.family.other_hashes import MASK_32, lookup3, murmur2
from lsmkv.filters.hashing import murmur3_128

# --- A16: the toy filter over three SHA ---


@pytest.mark.parametrize(
    ("word", "bits"),
    [
        (b"foo", [27, 15, 16]),
        (b"baz", [18, 27, 23]),
        (b"loved", [22, 5, 26]),
        (b"response", [5, 26, 22]),
    ],
)
def test_a16_the_toys_words_have_the_documents_bits(word: bytes, bits: list[int]) -> None:
    assert strategy_named("sha").probes(word, 32, 3) == bits


def test_later_probes_of_the_toy_differ_from_the_first_three() -> None:
    probes = strategy_named("sha").probes(b"foo", 1 << 30, 9)
    assert len(set(probes)) == 9


# --- MurmurHash2 and lookup3 ---


def smhasher_verification(hashed: Callable[[bytes, int], int]) -> int:
    """The hash of the hashes of 256 keys, with which SMHasher recognises a function."""
    key = bytes(range(256))
    parts = [hashed(key[:length], 256 - length).to_bytes(4, "little") for length in range(256)]
    return hashed(b"".join(parts), 0)


def test_murmur2_and_lookup3_are_smhashers() -> None:
    assert smhasher_verification(murmur2) == 0x27864C1E
    assert smhasher_verification(lookup3) == 0x3D83917A


@pytest.mark.parametrize(
    ("data", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_has_the_values_of_kafkas_tests(data: bytes, hashed: int) -> None:
    assert murmur2(data, 0x9747B28C) == hashed & MASK_32


@pytest.mark.parametrize(
    ("data", "seed", "hashed"),
    [
        (b"", 0, 0xDEADBEEF),
        (b"", 0xDEADBEEF, 0xBD5B7DDE),
        (b"Four score and seven years ago", 0, 0x17770551),
        (b"Four score and seven years ago", 1, 0xCD628161),
    ],
)
def test_lookup3_has_the_values_of_its_source(data: bytes, seed: int, hashed: int) -> None:
    assert lookup3(data, seed) == hashed


@pytest.mark.parametrize("data", [b"", b"abc", b"\xff" * 8, b"\xff" * 4 + b"abc"])
def test_hadoops_murmur2_is_murmur2_unless_a_byte_of_the_tail_is_negative(data: bytes) -> None:
    assert murmur2(data, 7, signed_tail=True) == murmur2(data, 7)


def test_hadoops_murmur2_extends_the_sign_of_a_last_byte() -> None:
    h = 1 ^ 0xFFFFFF80  # length, and -128 as a word
    h = h * 0x5BD1E995 & MASK_32
    h = (h ^ h >> 13) * 0x5BD1E995 & MASK_32
    assert murmur2(b"\x80", 0, signed_tail=True) == h ^ h >> 15


# --- HBase's tests (TestBloomFilterChunk) ---


@pytest.mark.parametrize("name", ["hbase-murmur2", "hbase-jenkins", "hbase"])
def test_hbases_basic_bloom_holds_what_was_added_and_nothing_else(name: str) -> None:
    """``testBasicBloom``: 1,000 keys at 1 %, MURMUR; the other hashes as well."""
    first, second = (
        StrategyBloomFilter(8 * filters.filter_bytes_for(1000, 0.01), 7, strategy_named(name))
        for _ in range(2)
    )
    key_1, key_2 = bytes([1, 2, 3, 4, 5, 6, 7, 8, 9]), bytes([1, 2, 3, 4, 5, 6, 7, 8, 7])
    first.add(key_1)
    second.add(key_2)
    assert [each.may_contain(key) for each in (first, second) for key in (key_1, key_2)] == [
        True,
        False,
        False,
        True,
    ]
    large = b"this is a much larger byte array"
    first.add(bytes([1, 2, 3, 4]))
    first.add(large[1:])
    read = StrategyBloomFilter.from_bytes(first.to_bytes())
    for each in (first, read):
        asked = (key_1, key_2, bytes([1, 2, 3, 4]), large[1:], large)
        assert [each.may_contain(key) for key in asked] == [True, False, True, True, False]


def test_hbases_fold_has_at_most_one_false_positive() -> None:
    """``testBloomFold``: 12 of 1,003 keys, folded twice; HBase lays the quarters over one another."""
    keys = [number.to_bytes(4, "big") for number in range(25)]
    byte_count = FoldableBloomFilter.for_keys(1003, 0.01, 2).byte_count
    assert byte_count == 1204
    probes = strategy_named("hbase-murmur2").probes
    folded = {bit % (2 * byte_count) for key in keys[:12] for bit in probes(key, 8 * byte_count, 7)}
    passed = [key for key in keys if folded.issuperset(probes(key, 2 * byte_count, 7))]
    assert passed[:12] == keys[:12]
    assert len(passed) <= 13


def test_hbases_sizes_come_out() -> None:
    """``testSizing`` and ``testFoldableByteSize``."""
    assert filters.keys_for(8 * 128 * 1024, 0.025) == 136_570
    for needed, folds, foldable in ((125, 5, 128), (626, 4, 640)):  # bytes
        with pytest.raises(ValueError, match="cannot be halved"):
            FoldableBloomFilter(needed, 7, folds)
        assert FoldableBloomFilter(foldable, 7, folds).folds == folds
        assert foldable - needed < 1 << folds


# --- Guava's tests (BloomFilterTest) ---


@pytest.mark.parametrize("key", [b"", b"key", bytes(range(100))])
def test_guavas_probes_are_those_of_its_formulas(key: bytes) -> None:
    first, second = murmur3_128(key)
    m = 7_298_496
    signed = [
        ((first & MASK_32) + i * (first >> 32)) % (1 << 32) for i in range(1, 6)
    ]  # as ints of Java
    assert strategy_named("guava-32").probes(key, m, 5) == [
        (word if word < 1 << 31 else (1 << 32) - 1 - word) % m for word in signed
    ]
    assert strategy_named("guava-64").probes(key, m, 5) == [
        (first + i * second) % (1 << 63) % m for i in range(5)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "encoding", "below_900", "all_of_them"),
    [
        (
            "guava-32",
            "utf-16-le",
            {49, 51, 59, 163, 199, 321, 325, 363, 367, 469, 545, 561, 727, 769, 773, 781},
            29_824,
        ),
        (
            "guava-64",
            "utf-16-le",
            {15, 25, 287, 319, 381, 399, 421, 465, 529, 697, 767, 857},
            30_104,
        ),
        ("guava-64", "utf-8", {129, 471, 723, 89, 751, 835, 871}, 29_763),
    ],
)
def test_guavas_false_positives_are_ours(
    name: str, encoding: str, below_900: set[int], all_of_them: int
) -> None:
    """Guava's tests: even numbers are in, 3 % asked for; all odd ones that pass are known."""
    count = 1_000_000
    bit_count = -(-(filters.bits_for(count, 0.03) - 1) // 64) * 64  # it rounds down, then up
    built = StrategyBloomFilter(bit_count, 5, strategy_named(name))
    for number in range(0, 2 * count, 2):
        built.add(str(number).encode(encoding))
    passed = [
        number
        for number in range(1, 2 * count, 2)
        if built.may_contain(str(number).encode(encoding))
    ]
    assert {number for number in passed if number < 900} == below_900
    assert len(passed) == all_of_them
