"""The chart of ``wasted-reads``: reads of absent keys by bits per key of filters and index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from ...harness.charts import Chart, Line, Panel
from ...harness.colours import KINDS, THEORY, WHITE
from ...harness.intervals import rate_interval
from .rows import Row
from .tables import key_sets, least_rate
from .tasks import PACKED, PARTITIONED, PER_TABLE

NAME: Final = "wasted-reads"
_KEYS: Final = "hex"
_STEPS: Final = 60
_DASHES: Final = {"lsmkv": "-", "rocksdb": "--", "leveldb": ":"}
_MARKS: Final = {PACKED: "P", PARTITIONED: "D", PER_TABLE: "v"}


def charts(rows: Sequence[Row]) -> list[Chart]:
    sets = list(key_sets(rows))
    if not sets:
        return []
    shown = [each for each in sets if each[0].keys == _KEYS] or sets[:1]
    return [
        Chart(
            NAME,
            "Wasted block reads by the memory of filters and index",
            f"Data blocks read for a thousand absent keys ({shown[0][0].keys}), against bits per key "
            "of filters and index together, with 95 % intervals; a point to the left is smaller, one "
            "further down wastes fewer reads. A store begins where its index fits. Hollow marks: not "
            "lsmkv. Grey: the least that any filters and index can do with.",
            [
                Panel(
                    lines=list(_lines(each)),
                    title=f"values of {each[0].value_bytes:,} bytes",
                    x="bits per key, filters and index",
                    y="blocks read for 1,000 absent keys",
                    log="y",
                )
                for each in shown
            ],
            width=9.2,
            height=5.0,
            is_published=True,
        )
    ]


def _lines(rows: Sequence[Row]) -> Iterator[Line]:
    for name, row in {row.name: row for row in rows}.items():
        # A row without reads has no place on a logarithmic axis.
        seen = sorted(
            (other for other in rows if other.name == name and other.block_reads),
            key=lambda each: each.bits_per_key,
        )
        yield Line(name, [_point(each) for each in seen], _look(row))
    fitting = [row for row in rows if row.block_reads]
    bits = [row.bits_per_key for row in fitting] or [1.0]
    least, most = min(bits), max(bits)
    steps = [least + (most - least) * step / _STEPS for step in range(_STEPS + 1)]
    floor = min((row.block_reads or 1) / row.lookups for row in fitting) / 10 if fitting else 0.0
    below = [(b, 1000 * rate) for b in steps if (rate := least_rate(rows, b)) > floor]
    yield Line("the least", below, THEORY)


def _point(row: Row) -> tuple[float, float, float, float]:
    reads = row.block_reads or 0
    low, high = rate_interval(min(reads, row.lookups), row.lookups)
    return row.bits_per_key, 1000 * reads / row.lookups, 1000 * low, 1000 * high


def _look(row: Row) -> dict[str, Any]:
    """The kind's colour, the form's mark, the engine's dashes; a hollow mark if it is not lsmkv."""
    colour, mark = KINDS[row.filters]
    return {
        "color": colour,
        "marker": _MARKS.get(row.form, mark),
        "markerfacecolor": colour if row.engine == "lsmkv" else WHITE,
        "linestyle": _DASHES[row.engine],
    }
