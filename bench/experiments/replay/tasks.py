"""The configurations of ``replay``: an engine, and for lsmkv a filter policy."""

from __future__ import annotations

from dataclasses import dataclass

from .steps import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One engine that replays a trace.

    Attributes:
        policy: of lsmkv's filters; empty for others, which have Bloom filters of ``bits_per_key``.
        memory_bytes: of filters, indexes and block cache together.
        blocks: lsmkv's block accesses are written to this file.
    """

    engine: str
    policy: str
    trace: Trace
    windows: int
    memory_bytes: int
    bits_per_key: float
    seed: int
    blocks: str = ""
    plugin_files: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.engine}, {self.policy}" if self.policy else self.engine
