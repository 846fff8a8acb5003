"""One configuration of ``granularity``: a tree, its filters and the number of lookups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .contenders import Contender
from .shapes import Load, PlannedTable


@dataclass(frozen=True, slots=True)
class Effort:
    """Numbers of lookups: counted, and for each order with cached filters."""

    absent: int
    present: int
    cached: int


@dataclass(frozen=True, slots=True)
class Task:
    """One configuration.

    Attributes:
        budget: filter bits per key; exactly one of it and ``error_rate`` is given.
        cache_share: the block cache by filter bytes, with cached filters.
    """

    load: Load
    contender: Contender
    budget: float | None
    error_rate: float | None
    effort: Effort
    cache_share: float

    def __str__(self) -> str:
        budget = "" if self.budget is None else f", {self.budget:g} bits per key"
        return f"{self.load.style}: {self.contender}{budget}"

    def rate(self, tables: Sequence[PlannedTable]) -> float:
        """The option ``error_rate``."""
        if self.error_rate is not None:
            return self.error_rate
        assert self.budget is not None, "a task has a budget or a rate"
        budget_bytes = self.budget * self.load.entries / 8
        return self.contender.rate_for(tables, self.load.options(), budget_bytes)
