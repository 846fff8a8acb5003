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
        first: the answer in a few rows.  The report shows it and the first chart before all else.
        failures: broken promises (counts that disagree, for example): the command exits with 1.
    """

    findings: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    first: Table | None = None
