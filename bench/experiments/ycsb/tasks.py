"""One configuration of ``ycsb``: an engine and its workloads."""

from __future__ import annotations

from dataclasses import dataclass

from ...engines.base import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A new store of one engine, its load and its workloads.

    Attributes:
        repetition: 0 is the counting pass, in which engines count blocks and filters.
        workloads: names in order, without the load.
        plugin_files: loaded in the measuring process.
    """

    engine: str
    repetition: int
    workloads: tuple[str, ...]
    records: int
    operations: int
    seed: int
    settings: Settings
    plugin_files: tuple[str, ...] = ()

    def __str__(self) -> str:
        what = f"repetition {self.repetition}" if self.repetition else "counting pass"
        return f"{what}, load {' '.join(self.workloads)}, {self.engine}"
