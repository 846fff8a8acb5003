"""One size of store: its options, keys and values, and the operations on it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy
from numpy.typing import NDArray

import lsmkv
from bench.workloads.distributions import generator
from bench.workloads.keys import KEY_BYTES, Values
from lsmkv.options import CompactionStyle

Numbers = NDArray[numpy.int64]

VALUE_BYTES: Final = 100
ENTRY_BYTES: Final = KEY_BYTES + VALUE_BYTES
BATCH: Final = 1000
"""Operations of a batch."""
SEEK_ENTRIES: Final = 10
LOG_BYTES: Final = 125
"""The most bytes of an entry in the log: they decide the entries of a write buffer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One size of store, with one compaction style.

    Attributes:
        entries: n; each key is written once.
        scale: divides the default sizes of write buffer, tables and level 1.
        lookups: random lookups of each kind, at most n.
        window: random overwrites of a sustained write.
        repetitions: repetitions of the times.
    """

    entries: int
    style: CompactionStyle
    scale: int
    lookups: int
    window: int
    repetitions: int
    seed: int

    def __str__(self) -> str:
        return f"{self.entries:,} entries, {self.style}"

    def options(self, **changes: Any) -> lsmkv.Options:
        """The options of its stores, with ``changes``."""
        default = lsmkv.Options()
        chosen: dict[str, Any] = {
            "compaction": self.style,
            "write_buffer_size_bytes": default.write_buffer_size_bytes // self.scale,
            "table_size_bytes": default.table_size_bytes // self.scale,
            "level1_size_bytes": default.level1_size_bytes // self.scale,
            "compression": "none",
            **changes,
        }
        return lsmkv.Options(**chosen)

    @property
    def buffer_entries(self) -> int:
        """Entries that fill a write buffer."""
        return self.options().write_buffer_size_bytes // LOG_BYTES

    def values(self) -> Values:
        return Values(VALUE_BYTES, self.seed)

    def write_buffers(self) -> Iterator[list[int]]:
        """All keys' numbers in random order, by write buffers."""
        order = generator(self.seed, "growth", "order", self.entries).permutation(self.entries)
        for start in range(0, self.entries, self.buffer_entries):
            yield order[start : start + self.buffer_entries].tolist()

    def sample(self, use: str, count: int, below: int | None = None) -> list[int]:
        """``count`` different key numbers below ``below``, or all of them; each ``use`` has its own."""
        draw = generator(self.seed, "growth", use, self.entries)
        limit = self.entries if below is None else below
        found: list[int] = draw.choice(limit, min(count, limit), replace=False).tolist()
        return found

    def overwrites(self, use: str) -> list[int]:
        """The key numbers of a sustained write, drawn with repetition."""
        draw = generator(self.seed, "growth", use, self.entries)
        found: list[int] = draw.integers(0, self.entries, self.window).tolist()
        return found


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of one style, which are measured side by side."""

    tasks: tuple[Task, ...]

    def __str__(self) -> str:
        sizes = ", ".join(f"{task.entries:,}" for task in self.tasks)
        return f"{self.tasks[0].style}: {sizes} entries"


def copy_of(store: str, target: str) -> str:
    """A copy of a closed store; tables never change, so they are linked."""
    os.mkdir(target)
    for name in sorted(os.listdir(store)):
        place = os.link if name.endswith(".sst") else shutil.copyfile
        place(os.path.join(store, name), os.path.join(target, name))
    return target
