"""The content of a report: a headline, tables and charts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from .charts import Chart
from .tables import Table

HEADLINE_WORDS: Final = 25
"""The most words of a headline: with the title, the first chart stands below at most 40."""


@dataclass(frozen=True, slots=True)
class Story:
    """The content of a report.

    Attributes:
        headline: the main finding and its number, in one sentence of at most
            :data:`HEADLINE_WORDS`; the report begins with it.
        tables: figures.
        charts: the first one stands right below the headline.
        first: the answer in a few rows, before the other tables.
        failures: broken promises (counts that disagree, for example): the command exits with 1.
    """

    tables: list[Table] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    first: Table | None = None
    headline: str = ""
