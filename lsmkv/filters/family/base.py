"""What the filters of this package share: they hash a key once, and then go by its hash."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable

from lsmkv.filters.bloom import MAX_BYTES
from lsmkv.filters.family.saved import MAX_PROBES_SAVED, SavedFilter
from lsmkv.filters.hashing import MASK_63, hash_key


class HashedFilter(SavedFilter):
    """A filter that is asked by the 63-bit hash of a key."""

    @abstractmethod
    def may_contain_hash(self, h: int, /) -> bool:
        """Whether the filter may hold the key whose hash is ``h``; False is certain.

        Args:
            h: what :func:`~lsmkv.filters.hashing.hash_key` gives for the key.
        """

    def may_contain(self, key: bytes, /) -> bool:
        """Whether the filter may hold ``key``; False is certain."""
        return self.may_contain_hash(hash_key(key))


class GrowingFilter(HashedFilter):
    """A filter that takes keys one by one."""

    @abstractmethod
    def add_hash(self, h: int, /) -> None:
        """Add the key whose 63-bit hash is ``h``."""

    def add(self, key: bytes, /) -> None:
        """Add ``key``."""
        self.add_hash(hash_key(key))

    def update(self, keys: Iterable[bytes], /) -> None:
        """Add every key of ``keys``."""
        for key in keys:
            self.add_hash(hash_key(key))


def distinct_hashes(hashes: Iterable[int]) -> list[int]:
    """``hashes`` in order without repeats.

    Raises:
        ValueError: one of them is not a 63-bit number.
    """
    distinct = sorted(set(hashes))
    if distinct and not 0 <= distinct[0] <= distinct[-1] <= MASK_63:
        raise ValueError("a hash does not lie between 0 and 2**63 - 1")
    return distinct


def check_byte_count(byte_count: int) -> None:
    """Raise ValueError unless ``byte_count`` is a size that a filter can have."""
    if not 1 <= byte_count <= MAX_BYTES:
        raise ValueError(f"byte_count={byte_count!r}: must lie between 1 and {MAX_BYTES}")


def check_probe_count(probe_count: int) -> None:
    """Raise ValueError unless ``probe_count`` is a number of probes that a filter can have."""
    if not 1 <= probe_count <= MAX_PROBES_SAVED:
        raise ValueError(f"probe_count={probe_count!r}: must lie between 1 and {MAX_PROBES_SAVED}")


def bits_set(bits: bytes | bytearray) -> int:
    """How many bits are 1.  O(len(bits))."""
    return int.from_bytes(bits, "little").bit_count()


def either(a: bytes | bytearray, b: bytes | bytearray) -> bytearray:
    """The bits that are 1 in ``a`` or in ``b``, which are of one length.  O(len(a))."""
    union = int.from_bytes(a, "little") | int.from_bytes(b, "little")
    return bytearray(union.to_bytes(len(a), "little"))


def keys_by_fill(ones: float, bit_count: int, probe_count: int) -> float:
    """About how many distinct keys set ``ones`` of ``bit_count`` bits with k probes each.

    ln(1 - X/m) / (k ln(1 - 1/m)), which inverts the mean of X (Swamidass and Baldi, "Mathematical
    correction for fingerprint similarity measures", J. Chem. Inf. Model. 47, 2007; Papapetrou et
    al., "Cardinality estimation and dynamic length adaptation for Bloom filters", 2010).  Infinite
    when all bits are set: then any number could have done it.
    """
    if ones >= bit_count:
        return math.inf
    return math.log1p(-ones / bit_count) / (probe_count * math.log1p(-1.0 / bit_count))
