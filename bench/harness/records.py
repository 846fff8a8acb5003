"""Rows of results: dataclasses with described columns, written as one tidy table.

A row type declares its columns with :func:`column`::

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Row(Observation):
        runs: int = column("overlapping sorted runs", "setting")
        block_reads: int = column("data blocks read by the lookups", heading="reads", form=",")
        get_us_p99: float = column("99th percentile of a lookup, microseconds", "time")

Settings and counts are the same in every run with one seed, on any machine.  Times are not.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

Kind = Literal["setting", "count", "time"]
SCHEMA: Final = 1  # raised when a column changes its meaning


Form = str | Callable[[Any], str]  # a format specification, or a function that makes the text


def column(meaning: str, kind: Kind = "count", *, heading: str = "", form: Form = "") -> Any:
    """A column of a row type; tables show it as ``form`` says, below ``heading``."""
    return _column(dataclasses.MISSING, meaning, kind, heading, form)


def optional(meaning: str, kind: Kind = "count", *, heading: str = "", form: Form = "") -> Any:
    """A :func:`column` that is None where it does not apply."""
    return _column(None, meaning, kind, heading, form)


def _column(default: Any, meaning: str, kind: Kind, heading: str = "", form: Form = "") -> Any:
    metadata = {"meaning": meaning, "kind": kind, "heading": heading, "form": form}
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What every row has; the harness fills it in."""

    repetition: int = _column(0, "number of the repetition", "setting")
    seed: int = _column(0, "what decided keys, values and orders of the repetition", "setting")


def columns(row_type: type) -> list[dict[str, str]]:
    """Name, kind and meaning of each column, in order."""
    return [
        {"name": field.name, "kind": field.metadata["kind"], "meaning": field.metadata["meaning"]}
        for field in dataclasses.fields(row_type)
    ]


def repeatable(rows: Iterable[Any]) -> list[dict[str, Any]]:
    """The rows without their times: equal in two runs with one seed."""
    return [
        {
            field.name: getattr(row, field.name)
            for field in dataclasses.fields(row)
            if field.metadata["kind"] != "time"
        }
        for row in rows
    ]


def plain(row: Any) -> dict[str, Any]:
    """A row for JSON: not-a-number and infinity become None."""
    return {name: _plain(value) for name, value in dataclasses.asdict(row).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, tuple):
        return list(value)
    return value


def write_json(path: str, header: dict[str, Any], row_type: type, rows: Sequence[Any]) -> None:
    """Write the header, the meaning of the columns, and the rows."""
    content = {
        "schema": SCHEMA,
        **header,
        "columns": columns(row_type),
        "rows": [plain(row) for row in rows],
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1, allow_nan=False)
        file.write("\n")


def write_csv(path: str, row_type: type, rows: Sequence[Any]) -> None:
    """Write the rows alone; None is an empty field."""
    names = [field.name for field in dataclasses.fields(row_type)]
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator=os.linesep)
        writer.writeheader()
        writer.writerows(plain(row) for row in rows)
