"""Ways to derive the k probes of a key, for comparison.

The product's way is one of these; the others are those of stores, libraries and tutorials, each with
its source.  Most of them take a hash modulo m.  At the size of a block, double hashing then has 1.5 to
5 times the error rate of the theory: two keys that agree in (h1, h2) modulo m agree in every probe.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

from lsmkv.filters.bloom import MAX_BYTES
from lsmkv.filters.family.base import PROBE_LIMITS, BitArrayFilter, bits_set, check_range
from lsmkv.filters.family.classic import probed
from lsmkv.filters.family.other_hashes import MASK_32, leveldb_hash, lookup3, murmur2
from lsmkv.filters.family.saved import SavedParts
from lsmkv.filters.hashing import MASK_63, hash_key, murmur3_32, murmur3_128
from lsmkv.filters.maths.sizing import bits_for, check_arguments, exact_rate, probes_for

_BIT_LIMITS: Final = (1, 8 * MAX_BYTES)
_MASK_64: Final = 0xFFFF_FFFF_FFFF_FFFF


@dataclass(frozen=True)
class HashStrategy:
    """A way to derive probes.

    Attributes:
        name: unique among :data:`STRATEGIES`.
        number: its place there, from 1, and its number in saved filters.
        probes: from key, number of bits m and number of probes k to the k bits of the key,
            0 <= bit < m.
    """

    name: str
    number: int
    probes: Callable[[bytes, int, int], list[int]]


def product_probes(key: bytes, bit_count: int, probe_count: int) -> list[int]:
    """The product's: multiples of one 63-bit hash, scaled to m (see ``lsmkv.filters.bloom``)."""
    return probed(bit_count, probe_count, hash_key(key))


def djb2_probes(key: bytes, bit_count: int, probe_count: int) -> list[int]:
    """DJB2 of the probe's number in decimal and the key, modulo m; it is not cut to a word."""
    bits = []
    for number in range(probe_count):
        h = 5381
        for byte in str(number).encode() + key:
            h = (h * 33 + byte) % bit_count  # as if taken modulo m at the end
        bits.append(h % bit_count)
    return bits


def seeded_murmur_probes(key: bytes, bit_count: int, probe_count: int) -> list[int]:
    """k hashes: MurmurHash3 x86-32 with seeds 0 to k-1 of the key, signed, modulo m."""
    return [_signed_32(murmur3_32(key, seed)) % bit_count for seed in range(probe_count)]


def sha256_probes(key: bytes, bit_count: int, probe_count: int) -> list[int]:
    """k hashes: SHA-256 of the key and the probe's number in decimal, as big-endian, modulo m."""
    import hashlib  # here: it would take a tenth of the time that importing the package takes

    return [
        int.from_bytes(hashlib.sha256(key + str(number).encode()).digest(), "big") % bit_count
        for number in range(probe_count)
    ]


def double_hashing_probes(key: bytes, bit_count: int, probe_count: int) -> list[int]:
    """h1 + i h2 modulo m, of MurmurHash3 x64-128's halves; Kirsch and Mitzenmacher, ESA 2006."""
    h1, h2 = murmur3_128(key)
    return [(h1 + number * h2) % bit_count for number in range(probe_count)]


def enhanced_double_probes(key: bytes, bit_count: int, probe_count: int) -> list[int]:
    """Double hashing whose step grows: x += y, y += i, modulo m (Dillinger, Manolios, FMCAD 2004)."""
    h1, h2 = murmur3_128(key)
    x, y = h1 % bit_count, h2 % bit_count
    bits = [x]
    for number in range(1, probe_count):
        x = (x + y) % bit_count
        y = (y + number) % bit_count
        bits.append(x)
    return bits


def leveldb_probes(key: bytes, bit_count: int, probe_count: int) -> list[int]:
    """LevelDB's (``util/bloom.cc``): a 32-bit hash, and itself, rotated by 17 bits, added each time."""
    h = leveldb_hash(key, 0xBC9F1D34)
    delta = (h >> 17 | h << 15) & MASK_32
    bits = []
    for _ in range(probe_count):
        bits.append(h % bit_count)
        h = (h + delta) & MASK_32
    return bits


def hbase_probes(key: bytes, bit_count: int, probe_count: int) -> list[int]:
    """HBase's: h1 + i h2 of seeds 0 and h1, in signed 32 bits, modulo m, then without its sign."""
    h1 = murmur3_32(key, 0)
    return _hbase_bits(h1, murmur3_32(key, h1), bit_count, probe_count)


def _hbase_bits(h1: int, h2: int, bit_count: int, probe_count: int) -> list[int]:
    bits = []
    for _ in range(probe_count):
        bits.append(abs(_signed_32(h1)) % bit_count)
        h1 = (h1 + h2) & MASK_32
    return bits


def hbase_murmur2_probes(key: bytes, bit_count: int, probe_count: int) -> list[int]:
    """HBase's, of MURMUR, its default: MurmurHash2 as Hadoop has it (``hbase.hash.type=murmur``)."""
    h1 = murmur2(key, 0, signed_tail=True)
    return _hbase_bits(h1, murmur2(key, h1, signed_tail=True), bit_count, probe_count)


def hbase_jenkins_probes(key: bytes, bit_count: int, probe_count: int) -> list[int]:
    """HBase's, of JENKINS: hashlittle of lookup3 (``hbase.hash.type=jenkins``)."""
    h1 = lookup3(key, 0)
    return _hbase_bits(h1, lookup3(key, h1), bit_count, probe_count)


def guava_32_probes(key: bytes, bit_count: int, probe_count: int) -> list[int]:
    """Guava's MURMUR128_MITZ_32: h1 + i h2, i from 1, in 32 bits, inverted if negative; modulo m."""
    first, _ = murmur3_128(key)
    h1, h2 = first & MASK_32, first >> 32
    bits = []
    for _ in range(probe_count):
        h1 = (h1 + h2) & MASK_32
        bits.append((h1 ^ MASK_32 if h1 >> 31 else h1) % bit_count)
    return bits


def guava_64_probes(key: bytes, bit_count: int, probe_count: int) -> list[int]:
    """Guava's MURMUR128_MITZ_64, its default: h1 + i h2 in 64 bits without the sign, modulo m."""
    h1, h2 = murmur3_128(key)
    bits = []
    for _ in range(probe_count):
        bits.append((h1 & MASK_63) % bit_count)
        h1 = (h1 + h2) & _MASK_64
    return bits


def sha_probes(key: bytes, bit_count: int, probe_count: int) -> list[int]:
    """SHA-1, SHA-256, SHA-512: first 8 bytes, big-endian, modulo m; more hash key and 1, 2, ..."""
    import hashlib  # here: see sha256_probes

    hashes = (hashlib.sha1, hashlib.sha256, hashlib.sha512)
    bits = []
    for number in range(probe_count):
        rounds, nth = divmod(number, len(hashes))
        hashed = hashes[nth](key + str(rounds).encode() if rounds else key)
        bits.append(int.from_bytes(hashed.digest()[:8], "big") % bit_count)
    return bits


STRATEGIES: Final = (
    HashStrategy("product", 1, product_probes),
    HashStrategy("djb2", 2, djb2_probes),
    HashStrategy("seeded-murmur3", 3, seeded_murmur_probes),
    HashStrategy("sha256", 4, sha256_probes),
    HashStrategy("double-hashing", 5, double_hashing_probes),
    HashStrategy("enhanced-double-hashing", 6, enhanced_double_probes),
    HashStrategy("leveldb", 7, leveldb_probes),
    HashStrategy("hbase", 8, hbase_probes),
    HashStrategy("sha", 9, sha_probes),
    HashStrategy("hbase-murmur2", 10, hbase_murmur2_probes),
    HashStrategy("hbase-jenkins", 11, hbase_jenkins_probes),
    HashStrategy("guava-32", 12, guava_32_probes),
    HashStrategy("guava-64", 13, guava_64_probes),
)
"""Every strategy, by number."""


def strategy_named(name: str) -> HashStrategy:
    """The strategy with this name; ValueError when there is none."""
    for strategy in STRATEGIES:
        if strategy.name == name:
            return strategy
    names = ", ".join([strategy.name for strategy in STRATEGIES])
    raise ValueError(f"hash strategy {name!r}: must be one of {names}")


class StrategyBloomFilter(BitArrayFilter):
    """A Bloom filter with any hash strategy and number of bits.

    It has m = ``bit_count`` bits, of which each key sets k = ``probe_count``, 1 to 255.  It takes keys
    only: most strategies need more than the product's hash of a key.

    >>> f = StrategyBloomFilter(1000, 7, strategy_named("djb2"))
    >>> f.add(b"a")
    >>> f.may_contain(b"a"), f.may_contain(b"b")
    (True, False)
    """

    KIND = 12

    def __init__(self, bit_count: int, probe_count: int, strategy: HashStrategy) -> None:
        check_range("bit_count", bit_count, _BIT_LIMITS)
        super().__init__((bit_count + 7) // 8, probe_count)
        self._bit_count = bit_count
        self.strategy: Final = strategy

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(bit_count={self._bit_count}, "
            f"probe_count={self.probe_count}, strategy={self.strategy.name})"
        )

    @classmethod
    def for_keys(cls, key_count: int, error_rate: float, strategy: HashStrategy) -> Self:
        """An empty filter for ``key_count`` distinct keys: m from (n, p), then the best k."""
        check_arguments(key_count, error_rate)
        bit_count = max(1, bits_for(key_count, error_rate))
        return cls(bit_count, probes_for(bit_count, key_count), strategy)

    @property
    def bit_count(self) -> int:
        """Size, in bits: m."""
        return self._bit_count

    @property
    def bits_set(self) -> int:
        """How many bits are 1.  O(m)."""
        return bits_set(self._bits)

    def add(self, key: bytes, /) -> None:
        """Add ``key``."""
        self._set(self.strategy.probes(key, self._bit_count, self.probe_count))

    def may_contain(self, key: bytes, /) -> bool:
        return self._has(self.strategy.probes(key, self._bit_count, self.probe_count))

    def ideal_rate(self, key_count: int) -> float:
        """The exact false-positive rate that independent probes would have."""
        return exact_rate(self._bit_count, key_count, self.probe_count)

    def _parameters(self) -> tuple[int, ...]:
        return (self._bit_count, self.probe_count, self.strategy.number)

    @classmethod
    def _restore(cls, parts: SavedParts) -> Self:
        bit_count, probe_count, number = parts.checked_parameters(
            _BIT_LIMITS, PROBE_LIMITS, (1, len(STRATEGIES))
        )
        body = parts.checked_body((bit_count + 7) // 8)
        if bit_count % 8 and body[-1] >> bit_count % 8:
            raise parts.corrupt("bits after the last one are set")
        return cls(bit_count, probe_count, STRATEGIES[number - 1])._with_bits(body)


def _signed_32(number: int) -> int:
    return number - (1 << 32) if number >> 31 else number
