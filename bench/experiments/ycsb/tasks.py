"""One configuration of ``ycsb``: an engine and its workloads."""

from __future__ import annotations

from dataclasses import dataclass

from ...engines.base import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A new store of one engine, its load and its workloads.

    Attributes:
        settings: with ``count`` this is the counting pass, which is not timed.
        workloads: names in order, without the load.
        plugin_files: loaded in the measuring process.
    """

    engine: str
    workloads: tuple[str, ...]
    records: int
    operations: int
    seed: int
    settings: Settings
    plugin_files: tuple[str, ...] = ()

    def __str__(self) -> str:
        what = "counting pass" if self.settings.count else "timed"
        return f"{what}, load {' '.join(self.workloads)}, {self.engine}"
