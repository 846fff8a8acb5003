"""The chart of ``wasted-reads``: reads of absent keys by bits per key as written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from matplotlib.figure import Figure

from bench.experiments.wasted_reads.rows import Row
from bench.experiments.wasted_reads.tasks import NO_FILTER
from bench.harness.charts import Chart, plain_axis
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
            lambda figure: _draw(figure, shown),
            width=7.2,
            height=4.6,
        )
    ]


def _draw(figure: Figure, rows: Sequence[Row]) -> None:
    axes = figure.subplots()
    contenders = {row.name: (row.engine, row.filters) for row in rows}
    # A row without reads has no place on a logarithmic axis.
    seen = [row for row in rows if row.block_reads]
    for name, (engine, kind) in contenders.items():
        _line(axes, [row for row in seen if row.name == name], name, _look(engine, kind))
    least = min(row.filter_bits_per_key for row in rows)
    most = max(row.filter_bits_per_key for row in rows)
    bits = [least + (most - least) * step / _STEPS for step in range(_STEPS + 1)]
    axes.plot(bits, [1000 * 2.0**-b for b in bits], **THEORY, label="lower bound, $2^{-bits}$")
    axes.set_yscale("log")
    plain_axis(axes.yaxis)
    plain_axis(axes.xaxis)
    axes.set_xlabel("filter bits per key, as written")
    axes.set_ylabel("blocks read for 1,000 absent keys")
    axes.legend()


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


def _line(axes: Any, rows: Sequence[Row], name: str, look: dict[str, Any]) -> None:
    rows = sorted(rows, key=lambda row: row.filter_bits_per_key)
    ends = [rate_interval(row.block_reads, row.lookups) for row in rows]
    middles = [1000 * row.reads_per_lookup for row in rows]
    reach = (
        [middle - 1000 * low for middle, (low, _) in zip(middles, ends, strict=True)],
        [1000 * high - middle for middle, (_, high) in zip(middles, ends, strict=True)],
    )
    axes.errorbar(
        [row.filter_bits_per_key for row in rows],
        middles,
        reach,
        capsize=2,
        elinewidth=0.9,
        label=name,
        **look,
    )
