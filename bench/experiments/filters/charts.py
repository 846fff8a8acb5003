"""The chart of ``filters``: size by error rate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

from ...harness.charts import Chart, Line, Panel
from ...harness.colours import THEORY, WHITE, kind_looks
from .rows import Row, key_counts, names, rows_of

OURS: Final = ("store", "package")
_KINDS: Final = {
    "blocked": "blocked-bloom",
    "binary-fuse-8": "binary-fuse",
    "binary-fuse-16": "binary-fuse",
    "counting-4": "counting",
    "counting-8": "counting",
    "rbloom": "bloom",
    "pybloom-live": "bloom",
}
MOST_BITS: Final = 160  # the chart does not show points of more bits per key


def charts(rows: Sequence[Row]) -> list[Chart]:
    return [
        Chart(
            "filters-bits",
            "Size by error rate",
            "Bits per key against the exact rate (the measured one where probes are not "
            "independent), by the number of keys. Solid: the lower bound of any filter; dashed: "
            "1.44 times that, a Bloom filter's. Hollow marks: not of this package. Points of more "
            f"than {MOST_BITS} bits are left out.",
            [
                Panel(
                    lines=list(_lines(rows, key_count)),
                    title=f"{key_count:,} keys",
                    x="error rate, %, lower to the right",
                    y="" if number else "bits per key",
                    log="xy",
                    percent="x",
                    y_ends=(2.5, MOST_BITS),
                    is_reversed=not number,  # all panels share the axis
                )
                for number, key_count in enumerate(key_counts(rows))
            ],
            legend=5,
            same_x=True,
            width=10.5,
            height=6.0,
        )
    ]


def _lines(rows: Sequence[Row], key_count: int) -> Iterator[Line]:
    for name, look in contender_looks(names(rows)).items():
        here = [row for row in rows_of(rows, key_count) if row.filter == name and row.rate > 0]
        is_ours = bool(here) and here[0].group in OURS
        face = look["color"] if is_ours else WHITE
        points = sorted({(row.rate, row.bits_per_key) for row in here})
        yield Line(name, points, {**look, "markerfacecolor": face, "linewidth": 0.8})
    rates = [row.rate for row in rows if row.rate > 0]
    least, most = min(rates), min(0.5, max(rates))
    xs = [least * (most / least) ** (i / 60) for i in range(61)]
    for factor, style in ((1.0, "-"), (1.44, "--")):
        bound = [(x, -factor * math.log2(x)) for x in xs]
        yield Line(f"{factor:.2f} log2(1/p)", bound, THEORY | {"linestyle": style})


def contender_looks(shown: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour and mark of each contender: the colour is its kind's."""
    return dict(zip(shown, kind_looks([_kind(name) for name in shown]), strict=True))


def _kind(name: str) -> str:
    """The kind of a contender.

    >>> _kind("store/ribbon"), _kind("bloom/leveldb"), _kind("counting-4")
    ('ribbon', 'bloom', 'counting')
    """
    plain = name.removeprefix("store/").partition("/")[0]
    return _KINDS.get(plain, plain)
