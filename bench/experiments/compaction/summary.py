"""Summaries of the rows of one configuration: several key spaces and seeds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

import lsmkv
from lsmkv.options import CompactionStyle, FilterAllocation

from .rows import Row

STYLES: Final = get_args(CompactionStyle)
ALLOCATIONS: Final = get_args(FilterAllocation)
MAIN_LOAD: Final = "overwrite"
DEFAULT: Final = lsmkv.Options()


@dataclass(frozen=True, slots=True, order=True)
class Config:
    """The settings that rows of one summary share."""

    load: str
    style: str
    size_ratio: int
    error_rate: float
    allocation: str

    def __str__(self) -> str:
        return f"{self.style} T={self.size_ratio} {self.error_rate * 100:g} % {self.allocation}"


@dataclass(frozen=True, slots=True)
class Summary:
    """One configuration.

    Attributes:
        rows: one for each key space and seed.
        row: all of them combined: means of means, the least of ``_min``, the most of ``_max``.
    """

    config: Config
    rows: tuple[Row, ...]
    row: Row

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Summary:
        """The summary of the rows of one configuration."""
        first = rows[0]
        config = Config(
            first.load, first.style, first.size_ratio, first.error_rate, first.allocation
        )
        combined: dict[str, Any] = {}
        for field in dataclasses.fields(Row):
            if field.metadata["kind"] == "count" and field.name != "run_counts":
                values = [getattr(row, field.name) for row in rows]
                combined[field.name] = _combined(field.name, values)
        return cls(config, tuple(rows), dataclasses.replace(first, **combined))


def _combined(name: str, values: Sequence[float]) -> float:
    if name.endswith("_max") or name == "level_count":
        return max(values)
    if name.endswith("_min"):
        return min(values)
    return math.fsum(values) / len(values)


def summarise(rows: Iterable[Row]) -> list[Summary]:
    """One summary for each configuration, in the order of their first rows."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        config = row.load, row.style, row.size_ratio, row.error_rate, row.allocation
        groups.setdefault(config, []).append(row)
    return [Summary.of(found) for found in groups.values()]


def loads_of(summaries: Sequence[Summary]) -> list[str]:
    return list(dict.fromkeys(each.config.load for each in summaries))


def of_load(summaries: Sequence[Summary], load: str) -> list[Summary]:
    return [each for each in summaries if each.config.load == load]


def at_default(summaries: Sequence[Summary], load: str, allocation: str) -> list[Summary]:
    """The styles at the default size ratio and error rate, by :data:`STYLES`."""
    return [
        each
        for style in STYLES
        for each in summaries
        if each.config == Config(load, style, DEFAULT.size_ratio, DEFAULT.error_rate, allocation)
    ]
