"""Rows of results: dataclasses whose columns say what they mean, written as JSON and CSV.

A row type declares its columns with :func:`column`::

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Row:
        runs: int = column("overlapping sorted runs", kind="setting")
        data_block_reads: int = column("data blocks read by the look-ups")
        get_us_p99: float = column("99th percentile of a look-up, microseconds", kind="time")

Settings and counts are the same whenever a seed is run, on any machine; times are not.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import os
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

Kind = Literal["setting", "count", "time"]
SCHEMA: Final = 1
"""Raised when a column changes its meaning."""


def column(meaning: str, kind: Kind = "count") -> Any:
    """A column of a row type; ``kind`` tells whether it repeats from run to run."""
    return dataclasses.field(metadata={"meaning": meaning, "kind": kind})


def columns(row_type: type) -> list[dict[str, str]]:
    """Name, kind and meaning of each column, in order."""
    return [
        {"name": field.name, "kind": field.metadata["kind"], "meaning": field.metadata["meaning"]}
        for field in dataclasses.fields(row_type)
    ]


def repeatable(rows: Iterable[Any]) -> list[dict[str, Any]]:
    """The rows without their times: what two runs with one seed have in common."""
    return [
        {
            field.name: getattr(row, field.name)
            for field in dataclasses.fields(row)
            if field.metadata["kind"] != "time"
        }
        for row in rows
    ]


def plain(row: Any) -> dict[str, Any]:
    """A row as JSON knows it: not-a-number and infinity become None."""
    return {name: _plain(value) for name, value in dataclasses.asdict(row).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, tuple):
        return list(value)
    return value


def write_json(path: str, header: dict[str, Any], row_type: type, rows: Sequence[Any]) -> None:
    """Everything: how it was measured, what the columns mean, the rows."""
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
    """The rows alone; what has no value is empty."""
    names = [field.name for field in dataclasses.fields(row_type)]
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator=os.linesep)
        writer.writeheader()
        writer.writerows(plain(row) for row in rows)
