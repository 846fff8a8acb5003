"""A filter policy to try out: ``--plugin bench/examples/partitioned_policy.py``.

An example plug-in: copy and change it.  It adds partitioned Bloom filters: each of the k probes has
m/k of the m bits.
"""

from __future__ import annotations

from collections.abc import Iterator

from lsmkv import filters
from lsmkv.filters.bloom import MULTIPLIER
from lsmkv.filters.hashing import MASK_63
from lsmkv.filters.policy import MAX_PARAMETER, NO_FILTER, register


class PartitionedPolicy(filters.FilterPolicy):
    """Partitioned Bloom filters (Kirsch and Mitzenmacher, ESA 2006); the parameter is k."""

    scheme = 6
    name = "partitioned"

    def build(self, hashes: list[int], error_rate: float) -> tuple[bytes, int]:
        """Bits and k, of the smallest filter with the rate."""
        if not hashes or error_rate >= 1.0:
            return NO_FILTER
        bits, probe_count = min(
            (filters.partitioned_bits_for(len(hashes), error_rate, k), k)
            for k in range(1, MAX_PARAMETER + 1)
        )
        built = bytearray((bits + 7) // 8)
        for h in hashes:
            for bit in _probes(h, len(built) * 8, probe_count):
                built[bit >> 3] |= 1 << (bit & 7)
        return bytes(built), probe_count

    def may_contain(self, bits: bytes, start: int, byte_count: int, parameter: int, h: int) -> bool:
        """Whether each of the k bits is set."""
        if not byte_count:
            return True
        return all(
            bits[start + (bit >> 3)] >> (bit & 7) & 1
            for bit in _probes(h, byte_count * 8, parameter)
        )

    def exact_rate(self, byte_count: int, key_count: int, parameter: int) -> float:
        """See :func:`lsmkv.filters.family.partitioned_rate`."""
        if not byte_count:
            return 1.0
        return filters.partitioned_rate(byte_count * 8, key_count, parameter)

    def is_possible(self, byte_count: int, parameter: int) -> bool:
        """At least one bit for each probe."""
        return byte_count == 0 or 1 <= parameter <= min(byte_count * 8, MAX_PARAMETER)


def _probes(h: int, bit_count: int, probe_count: int) -> Iterator[int]:
    """A bit in each of the k arrays; like the product it takes several numbers from one hash."""
    part = bit_count // probe_count
    for first in range(0, part * probe_count, part):
        h = h * MULTIPLIER & MASK_63
        yield first + ((h >> 31) * part >> 32)


register(PartitionedPolicy())
