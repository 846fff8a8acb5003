"""The cache-line blocked Bloom filter as an object: see :mod:`lsmkv.filters.blocked`."""

from __future__ import annotations

import math
from typing import Self

from lsmkv.filters.blocked import has_in_line, set_in_line
from lsmkv.filters.bloom import MAX_BYTES
from lsmkv.filters.family.base import PROBE_LIMITS, bits_set, keys_by_fill
from lsmkv.filters.family.classic import BitFilter
from lsmkv.filters.family.saved import SavedParts
from lsmkv.filters.hashing import MASK_63
from lsmkv.filters.maths.layouts import (
    LINE_BITS,
    LINE_BYTES,
    blocked_lines_for,
    blocked_probes_for,
    blocked_rate,
)


class BlockedBloomFilter(BitFilter):
    """A Bloom filter that keeps each key in one cache line.

    It has ``line_count`` lines of 64 bytes; each key sets k = ``probe_count`` bits of one, 1 to 255.
    """

    KIND = 5
    _ARGUMENTS = ("line_count", "probe_count")

    def __init__(self, line_count: int, probe_count: int) -> None:
        super().__init__(line_count * LINE_BYTES, probe_count)

    @classmethod
    def for_keys(cls, key_count: int, error_rate: float) -> Self:
        """An empty filter for ``key_count`` distinct keys: the fewest lines, and their best k."""
        line_count = blocked_lines_for(key_count, error_rate)
        return cls(line_count, blocked_probes_for(line_count, key_count))

    @property
    def line_count(self) -> int:
        """Cache lines of 64 bytes."""
        return len(self._bits) // LINE_BYTES

    def add_hash(self, h: int, /) -> None:
        set_in_line(self._bits, self.probe_count, h & MASK_63)

    def may_contain_hash(self, h: int, /) -> bool:
        return has_in_line(self._bits, self.probe_count, h & MASK_63)

    def key_count(self) -> float:
        """About how many keys were added: the sum over lines, or infinite if one is full.  O(m)."""
        return math.fsum(
            [keys_by_fill(ones, LINE_BITS, self.probe_count) for ones in self._bits_set_of_lines()]
        )

    def current_rate(self) -> float:
        """The false-positive rate of the bits as they are: the mean of the lines'.  O(m)."""
        rates = [(ones / LINE_BITS) ** self.probe_count for ones in self._bits_set_of_lines()]
        return math.fsum(rates) / len(rates)

    def _bits_set_of_lines(self) -> list[int]:
        starts = range(0, len(self._bits), LINE_BYTES)
        return [bits_set(self._bits[at : at + LINE_BYTES]) for at in starts]

    def expected_rate(self, key_count: int) -> float:
        return blocked_rate(self.line_count, key_count, self.probe_count)

    def _parameters(self) -> tuple[int, ...]:
        return (len(self._bits), self.probe_count)

    @classmethod
    def _restore(cls, parts: SavedParts) -> Self:
        byte_count, probe_count = parts.checked_parameters((LINE_BYTES, MAX_BYTES), PROBE_LIMITS)
        if byte_count % LINE_BYTES:
            raise parts.corrupt(f"{byte_count} bytes are not whole lines")
        body = parts.checked_body(byte_count)
        return cls(byte_count // LINE_BYTES, probe_count)._with_bits(body)
