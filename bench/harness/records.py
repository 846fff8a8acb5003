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
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final, Literal

Kind = Literal["setting", "count", "time"]
SCHEMA: Final = 2  # raised when a column changes its meaning


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


def unit(name: str) -> str:
    """The unit of a column, as its name tells; empty for counts and words.

    >>> unit("filter_bytes_per_key"), unit("get_us_p99"), unit("block_reads"), unit("hit_share")
    ('bytes per key', 'us', '', 'share')
    """
    found = re.search(r"(?:^|_)(bytes|bits|us|ns|ms|s|usd|share|rate)(?=_|$)", name)
    per = re.search(r"_(per_[a-z]+)", name)
    parts = [found[1] if found else "", per[1].replace("_", " ") if per else ""]
    return " ".join(filter(None, parts))


def columns(row_type: type) -> list[dict[str, str]]:
    """Name, kind, unit and meaning of each column, in order."""
    return [
        {
            "name": field.name,
            "kind": field.metadata["kind"],
            "unit": unit(field.name),
            "meaning": field.metadata["meaning"],
        }
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


def _plain(value: Any) -> Any:
    """A value as files have it: what is not finite becomes None, and a list its words."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return " ".join(map(str, value)) if isinstance(value, tuple) else value


def write(stem: str, header: dict[str, Any], row_type: type, rows: Sequence[Any]) -> list[str]:
    """Write the tidy table, a row an observation, and return the paths.

    ``STEM.csv`` has the rows; None is an empty field.  ``STEM.json`` has the header, and what each column
    is.  ``STEM.parquet`` has both, where pyarrow is installed.
    """
    described = {"schema": SCHEMA, **header, "rows": len(rows), "columns": columns(row_type)}
    names = [column["name"] for column in described["columns"]]
    cells = [[_plain(getattr(row, name)) for name in names] for row in rows]
    with open(f"{stem}.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([names, *cells])
    text = json.dumps(described, indent=1, allow_nan=False)
    with open(f"{stem}.json", "w", encoding="utf-8") as file:
        file.write(text + "\n")
    paths = [f"{stem}.csv", f"{stem}.json"]
    if find_spec("pyarrow"):
        import pyarrow as pa
        import pyarrow.parquet

        table = pa.table(dict(zip(names, zip(*cells, strict=True), strict=True)) if cells else {})
        pa.parquet.write_table(
            table.replace_schema_metadata({"lsmkv-bench": text}), f"{stem}.parquet"
        )
        paths.append(f"{stem}.parquet")
    return paths
