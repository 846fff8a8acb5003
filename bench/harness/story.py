"""The content of a report: sentences, tables and charts."""

from __future__ import annotations

from dataclasses import dataclass, field

from bench.harness.charts import Chart
from bench.harness.tables import Table


@dataclass(frozen=True, slots=True)
class Story:
    """The content of a report.

    Attributes:
        findings: sentences computed from the rows.
        headline: the table that answers the question; it and the first chart come before the words.
        failures: broken promises (counts that disagree, for example): the command exits with 1.
    """

    findings: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    headline: Table | None = None
