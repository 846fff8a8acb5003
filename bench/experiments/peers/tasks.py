"""One repetition of ``peers``: its engines, phases and settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ...engines.base import MIB

VALUE_BYTES: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Each phase on each engine.

    Attributes:
        number: from 0; it decides which engine begins.
        entries: entries of each large store.
        bits_per_key, compression, background: as in ``Settings``.
        passes: of each reading phase.
        page_cache_limit_bytes: for phases that limit the page cache.
        cache_size_bytes: for phases with a warm cache; it should hold everything.
        plugins: files that each process loads.
    """

    number: int
    engines: tuple[str, ...]
    phases: tuple[str, ...]
    entries: int
    seed: int
    bits_per_key: float
    cache_size_bytes: int
    compression: Any
    background: Any = "auto"
    passes: int = 1
    page_cache_limit_bytes: int = MIB
    plugins: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"repetition {self.number + 1}: {', '.join(self.engines)}"

    def order(self, number: int = 0) -> tuple[str, ...]:
        """The engines in the pass of that number; each repetition and pass begins with another one."""
        first = (self.number + number) % len(self.engines)
        return self.engines[first:] + self.engines[:first]
