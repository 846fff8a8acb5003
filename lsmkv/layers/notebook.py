"""Stores, transactions, cursors, views and statistics as HTML, for notebooks.

``_repr_html_`` of each class calls this.  Nothing here scans, or reads a block; all text is escaped and
cut, and closed objects are shown, too.
"""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Iterable
from typing import Final

from lsmkv import DB, Error, Histogram, Stats

_LONGEST: Final = 200
Row = tuple[str, object]


def table(title: str, rows: Iterable[Row]) -> str:
    """A table of names and values; integers get separators."""
    lines = [
        f'<tr><th style="text-align:left">{_text(name)}</th>'
        f'<td style="text-align:{_alignment(value)}">{_text(value)}</td></tr>'
        for name, value in rows
    ]
    caption = f'<caption style="text-align:left"><b>{_text(title)}</b></caption>'
    return f"<table>{caption}<tbody>{''.join(lines)}</tbody></table>"


def _alignment(value: object) -> str:
    return "left" if isinstance(value, str) else "right"


def _text(value: object) -> str:
    text = f"{value:,}" if isinstance(value, int) else str(value)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}..."
    return html.escape(text)


def of_db(db: DB) -> str:
    """A store: where it is, about how much is in it, and its memory.  O(tables)."""
    state = "closed" if db.closed else "read-only" if db.read_only else "open for writing"
    rows: list[Row] = [("path", repr(db.path)), ("state", state)]
    try:
        if not db.closed:
            rows += _sizes(db)
    except (
        Error
    ) as error:  # it was closed meanwhile, or one that is opened by its first use cannot be
        rows.append(("sizes", f"{type(error).__name__}: {error}"))
    return table("lsmkv.DB", rows)


def _sizes(db: DB) -> Iterable[Row]:
    usage = db.memory_usage()
    yield "keys, about", db.approximate_count()
    yield "bytes of data in tables", db.approximate_size()
    yield "bytes in memory", usage.total
    for name in ("memtables", "block_cache", "filters", "indexes"):
        yield f"… {name.replace('_', ' ')}", getattr(usage, name)
    if usage.budget:
        yield "memory budget, bytes", usage.budget


def of_mapped(name: str, below: object, *rows: Row) -> str:
    """What a layer makes of ``below``."""
    return table(name, [*rows, ("of", repr(below))])


def of_stats(stats: Stats) -> str:
    """What was counted, without zeros."""
    rows: list[Row] = []
    for field in dataclasses.fields(stats):
        value = getattr(stats, field.name)
        if isinstance(value, Histogram):
            if value.count:
                rows.append((field.name, _summary(value)))
        elif value:
            rows.append((field.name, value if isinstance(value, int) else f"{value:,.3f}"))
    return table("lsmkv.Stats", rows or [("counted", "nothing")])


def _summary(values: Histogram) -> str:
    return (
        f"{values.count:,} values, mean {values.mean():,.0f}, 99 % below "
        f"{values.percentile(99):,.0f}, largest {values.maximum:,.0f}"
    )
