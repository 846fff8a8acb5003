"""Rows of one configuration taken together: several key spaces and seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, get_args

import lsmkv
from bench.experiments.compaction.rows import Row
from lsmkv.options import CompactionStyle, FilterAllocation

STYLES: Final = get_args(CompactionStyle)
ALLOCATIONS: Final = get_args(FilterAllocation)
MAIN_LOAD: Final = "overwrite"
DEFAULT: Final = lsmkv.Options()


@dataclass(frozen=True, slots=True, order=True)
class Config:
    """What makes rows belong together."""

    load: str
    style: str
    size_ratio: int
    error_rate: float
    allocation: str

    def __str__(self) -> str:
        return f"{self.style} T={self.size_ratio} {self.error_rate * 100:g} % {self.allocation}"


@dataclass(frozen=True, slots=True)
class Summary:
    """One configuration: means of means, least of least and most of most over its rows."""

    config: Config
    rows: tuple[Row, ...]

    def mean(self, column: str) -> float:
        """The mean of a column over the rows."""
        return math.fsum(getattr(row, column) for row in self.rows) / len(self.rows)

    def most(self, column: str) -> float:
        """The largest of a column over the rows."""
        return float(max(getattr(row, column) for row in self.rows))

    def least(self, column: str) -> float:
        """The smallest of a column over the rows."""
        return float(min(getattr(row, column) for row in self.rows))


def summarise(rows: Iterable[Row]) -> list[Summary]:
    """One summary for each configuration, in the order of their first rows."""
    groups: dict[Config, list[Row]] = {}
    for row in rows:
        config = Config(row.load, row.style, row.size_ratio, row.error_rate, row.allocation)
        groups.setdefault(config, []).append(row)
    return [Summary(config, tuple(found)) for config, found in groups.items()]


def loads_of(summaries: Sequence[Summary]) -> list[str]:
    """The loads that were measured, in order."""
    return list(dict.fromkeys(each.config.load for each in summaries))


def of_load(summaries: Sequence[Summary], load: str) -> list[Summary]:
    """The summaries of one load."""
    return [each for each in summaries if each.config.load == load]


def at_default(summaries: Sequence[Summary], load: str, allocation: str) -> list[Summary]:
    """The styles at the default size ratio and error rate, by :data:`STYLES`."""
    return [
        each
        for style in STYLES
        for each in summaries
        if each.config == Config(load, style, DEFAULT.size_ratio, DEFAULT.error_rate, allocation)
    ]
