"""What an experiment's rows say: sentences, tables and charts, for the terminal and the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table as RichTable

if TYPE_CHECKING:
    from bench.harness.charts import Chart


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text.

    Attributes:
        title: what it shows.
        headings: of its columns.
        cells: its rows.
        note: what a reader has to know, below it.
        left: how many columns, from the left, are words and not numbers.
        brief: short enough to be printed at the end of the command too.
    """

    title: str
    headings: Sequence[str]
    cells: Sequence[Sequence[str]]
    note: str = ""
    left: int = 1
    brief: bool = True

    def to_rich(self) -> RichTable:
        """The table for a terminal."""
        table = RichTable(
            title=self.title,
            title_justify="left",
            caption=self.note or None,
            caption_justify="left",
            box=box.SIMPLE_HEAD,
        )
        for number, heading in enumerate(self.headings):
            table.add_column(
                heading, justify="left" if number < self.left else "right", no_wrap=True
            )
        for row in self.cells:
            table.add_row(*row)
        return table


@dataclass(frozen=True, slots=True)
class Story:
    """What a report tells.

    Attributes:
        findings: what came out, a sentence each, computed from the rows.
        tables: the figures behind them.
        charts: and what they look like.
        failures: what did not hold that must (counts that disagree, say): the command exits with 1.
    """

    findings: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
