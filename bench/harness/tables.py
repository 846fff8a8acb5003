"""Tables of text for the terminal, the report and Markdown documents.

A row type declares heading and format beside each column (:func:`bench.harness.records.column`), so
that a table only names its columns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.table import Table as RichTable

from .records import Form


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text.

    Attributes:
        left: the number of columns, from the left, that hold words and not numbers.
        brief: short enough for the terminal and for documents too.
        timed: headings of the columns that clocks or the system decide; the others repeat with a seed.
    """

    title: str
    headings: Sequence[str]
    cells: Sequence[Sequence[str]]
    note: str = ""
    left: int = 1
    brief: bool = True
    timed: Sequence[str] = ()

    def to_rich(self) -> RichTable:
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

    def to_markdown(self) -> str:
        """The table for a document: title, table and note."""
        headings = [heading.replace("\n", " ") for heading in self.headings]
        lines = [
            f"**{self.title}**",
            "",
            "| " + " | ".join(headings) + " |",
            "|" + "---|" * self.left + "---:|" * (len(headings) - self.left),
            *("| " + " | ".join(row) + " |" for row in self.cells),
        ]
        if self.note:
            lines += ["", self.note]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Shown:
    """A table column that differs from the row type's columns.

    Attributes:
        value: the name of a row's attribute, or a function of the row.
        form: the format of the value.
        is_timed: whether a clock or the system decides a function's value; of an attribute it is known.
    """

    heading: str
    value: str | Callable[[Any], object]
    form: Form = ""
    is_timed: bool = False


def table_of(
    title: str,
    rows: Sequence[Any],
    columns: Sequence[str | Shown],
    note: str = "",
    *,
    left: int = 1,
    brief: bool = True,
    empty: str = "",
) -> Table:
    """A table of at least one row; ``empty`` stands for None."""
    shown = [
        column if isinstance(column, Shown) else _declared(rows[0], column) for column in columns
    ]
    cells = [[_text(column, row, empty) for column in shown] for row in rows]
    fields = dataclasses.fields(rows[0]) if rows else ()
    kinds = {field.name: field.metadata.get("kind") for field in fields}
    timed = [
        each.heading
        for each in shown
        if each.is_timed or (isinstance(each.value, str) and kinds.get(each.value) == "time")
    ]
    return Table(title, [each.heading for each in shown], cells, note, left, brief, timed)


def _declared(row: Any, name: str) -> Shown:
    metadata = next(field.metadata for field in dataclasses.fields(row) if field.name == name)
    return Shown(metadata["heading"] or name, name, metadata["form"])


def _text(column: Shown, row: Any, empty: str) -> str:
    value = getattr(row, column.value) if isinstance(column.value, str) else column.value(row)
    if value is None:
        return empty
    return format(value, column.form) if isinstance(column.form, str) else column.form(value)


def percent(share: float) -> str:
    """A share in per cent, three digits.

    >>> percent(0.012345)
    '1.23'
    """
    return f"{share * 100:.3g}"
