"""The configurations of ``wasted-reads``, and their keys."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ...workloads.key_files import read_keys
from ...workloads.key_shapes import keys_of
from ...workloads.keys import Values

NO_FILTER: Final = "none"  # filters of the control: every lookup must read one block
PACKED: Final = "packed index"
PARTITIONED: Final = "partitioned"
PER_TABLE: Final = "per table"
"""Forms: RocksDB's index with restarts of 16, or in parts, with its filters; lsmkv's filters."""

_BATCH: Final = 1000


@dataclass(frozen=True, slots=True)
class Task:
    """One engine with one kind of filter, on one set of keys.

    Attributes:
        filters: ``bloom``, ``ribbon`` or ``none``.
        form: ``""``, or one of those above.
        keys: a shape (:mod:`bench.workloads.key_shapes`), or a file of keys.
        budgets: bits a key of filters and index together.
        entries: present keys; a file may have fewer.
        passes: how often an absent key is looked up between each two neighbours.
    """

    engine: str
    filters: str
    form: str
    keys: str
    is_file: bool
    value_bytes: int
    budgets: tuple[float, ...]
    entries: int
    passes: int
    block_size_bytes: int
    seed: int

    def __str__(self) -> str:
        return (
            f"{label(self.engine, self.filters, self.form)}: {self.keys}, {self.value_bytes} bytes"
        )

    def key_set(self) -> KeySet:
        count = self.entries * (self.passes + 1)
        all_keys = _all_keys(self.keys, self.is_file, count, self.seed)
        return KeySet(all_keys, self.passes, self.value_bytes, self.seed)


def label(engine: str, filters: str, form: str) -> str:
    return ", ".join((engine, filters, form) if form else (engine, filters))


@lru_cache(maxsize=1)
def _all_keys(keys: str, is_file: bool, count: int, seed: int) -> list[bytes]:
    if not is_file:
        return keys_of(keys, count, seed)
    found = sorted({key for key, _ in read_keys(keys, 0)})
    if len(found) > count:
        found = sorted(random.Random(f"sample/{seed}").sample(found, count))
    return found


class KeySet:
    """Present keys, and absent ones: one of each pass between each two present neighbours."""

    def __init__(self, keys: list[bytes], passes: int, value_bytes: int, seed: int) -> None:
        step = passes + 1
        entries = (len(keys) - 1) // step + 1
        if entries < 2:
            raise ValueError(f"{len(keys)} keys are too few for {passes} passes: give more keys")
        self.present = keys[::step]
        self._absent = [keys[number : step * (entries - 1) : step] for number in range(1, step)]
        self._seed = seed
        self._values = Values(value_bytes, seed)
        self.entry_bytes = sum(map(len, self.present)) // entries + value_bytes

    def batches(self) -> Iterator[list[tuple[bytes, bytes]]]:
        """The entries in key order, a thousand at a time."""
        for start in range(0, len(self.present), _BATCH):
            keys = self.present[start : start + _BATCH]
            yield [(key, self._values.of(number)) for number, key in enumerate(keys, start)]

    def absent(self) -> list[list[bytes]]:
        """The absent keys of each pass, in key order."""
        return self._absent

    def lookups(self) -> list[bytes]:
        """The absent keys of all passes, in random order within a pass."""
        draw = random.Random(f"lookups/{self._seed}")
        return [key for keys in self._absent for key in draw.sample(keys, len(keys))]
