"""The configurations of ``wasted-reads``, and their keys."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bench.workloads.keys import Values

VALUE_BYTES: Final = 100
ENTRY_BYTES: Final = 16 + VALUE_BYTES
_GAP: Final = 1000  # between two present keys
_BATCH: Final = 1000

NO_FILTER: Final = "none"
"""Filters of the control: every lookup must read one block."""


@dataclass(frozen=True, slots=True)
class Task:
    """One engine with one kind of filter.

    Attributes:
        filters: ``bloom``, ``ribbon`` or ``none``.
        bits_per_key: the budget of all filters; 0 for ``none``.
        passes: how often an absent key is looked up between each two neighbours.
    """

    engine: str
    filters: str
    bits_per_key: float
    entries: int
    passes: int
    block_size_bytes: int
    seed: int

    def __str__(self) -> str:
        budget = f", {self.bits_per_key:g} bits per key" if self.bits_per_key else ""
        return f"{self.engine}, {self.filters}{budget}"

    @property
    def budget_bytes(self) -> int:
        return int(self.bits_per_key * self.entries / 8)

    def batches(self) -> Iterator[list[tuple[bytes, bytes]]]:
        """The entries in key order, a thousand at a time."""
        values = Values(VALUE_BYTES, self.seed)
        for start in range(0, self.entries, _BATCH):
            numbers = range(start, min(start + _BATCH, self.entries))
            yield [(_key(number * _GAP), values.of(number)) for number in numbers]

    def absent(self, number: int) -> list[bytes]:
        """The absent keys of a pass, in key order: one between each two neighbours."""
        draw = random.Random(f"absent/{self.seed}/{number}")
        return [_key(at * _GAP + draw.randrange(1, _GAP)) for at in range(self.entries - 1)]


def _key(number: int) -> bytes:
    return b"%016d" % number
