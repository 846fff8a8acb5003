"""The chart of ``wasted-reads``: reads of absent keys by bits per key as written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from bench.experiments.wasted_reads.rows import Row
from bench.experiments.wasted_reads.tasks import NO_FILTER
from bench.harness.charts import Chart, Line, Panel
from bench.harness.colours import KINDS, THEORY, WHITE
from bench.harness.intervals import rate_interval

NAME: Final = "wasted-reads"
_STEPS: Final = 60
_DASHES: Final = {"lsmkv": "-", "rocksdb": "--", "leveldb": ":"}


def charts(rows: Sequence[Row]) -> list[Chart]:
    shown = [row for row in rows if row.filters != NO_FILTER]
    if not shown:
        return []
    return [
        Chart(
            NAME,
            "Wasted block reads by the size of the filters",
            "Data blocks read for a thousand absent keys, against filter bits per key as written, with "
            "95 % intervals; a point to the left is smaller, one further down wastes fewer reads. "
            "Colours and marks are those of the kinds of filters; hollow marks: not lsmkv. Grey: the "
            "lower bound of any filter, 2^(-bits per key).",
            [
                Panel(
                    lines=list(_lines(shown)),
                    x="filter bits per key, as written",
                    y="blocks read for 1,000 absent keys",
                    log="y",
                )
            ],
            width=7.2,
            height=4.6,
            is_published=True,
        )
    ]


def _lines(rows: Sequence[Row]) -> Iterator[Line]:
    for name, row in {row.name: row for row in rows}.items():
        # A row without reads has no place on a logarithmic axis.
        seen = sorted(
            (other for other in rows if other.name == name and other.block_reads),
            key=lambda each: each.filter_bits_per_key,
        )
        yield Line(name, [_point(each) for each in seen], _look(row.engine, row.filters))
    bits = [row.filter_bits_per_key for row in rows]
    least, most = min(bits), max(bits)
    steps = [least + (most - least) * step / _STEPS for step in range(_STEPS + 1)]
    yield Line("lower bound, $2^{-bits}$", [(b, 1000 * 2.0**-b) for b in steps], THEORY)


def _point(row: Row) -> tuple[float, float, float, float]:
    low, high = rate_interval(row.block_reads, row.lookups)
    return row.filter_bits_per_key, 1000 * row.reads_per_lookup, 1000 * low, 1000 * high


def _look(engine: str, kind: str) -> dict[str, Any]:
    """The kind's colour and mark; the engine's dashes, and a hollow mark if it is not lsmkv."""
    colour, mark = KINDS[kind]
    face = colour if engine == "lsmkv" else WHITE
    return {
        "color": colour,
        "marker": mark,
        "markerfacecolor": face,
        "linestyle": _DASHES[engine],
    }
