"""The chart of ``peers``: ratios to the best peer."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Final

from ...harness.charts import Chart, Panel, Point, marks
from ...harness.colours import ASIDE, BLACK, GREEN, VERMILION
from ...harness.ratios import Ratio, Spread

_VERDICTS: Final = {
    "ahead": (GREEN, "lsmkv ahead"),
    "level": (BLACK, "level: the interval includes 1"),
    "no verdict": (ASIDE, "no verdict: too few repetitions"),
    "behind": (VERMILION, "lsmkv behind"),
}


def ratios(found: Sequence[Ratio]) -> Chart:
    """Each phase's ratio with its interval, on both sides of 1."""
    lines = [
        marks(
            label,
            [_point(at, _bar(ratio)) for at, ratio in enumerate(found) if ratio.verdict == verdict],
            {"color": colour, "marker": "o"},
        )
        for verdict, (colour, label) in _VERDICTS.items()
    ]
    return Chart(
        "peers-ratios",
        "The best peer's time by lsmkv's",
        "The median over the repetitions, with its 95 % interval (with fewer than 6 repetitions: the "
        "least and the most, and there is no verdict). Beside each phase stands the peer: the one with "
        "the lowest median time in that phase.",
        [
            Panel(
                lines=lines,
                x="time of the best peer by that of lsmkv; right of 1, lsmkv is faster",
                names=[f"{ratio.phase}, {ratio.peer}" for ratio in found],
                log="x",
                edges=[(1.0, "equal")],
            )
        ],
        legend=3,
        height=1.4 + 0.26 * len(found),
    )


def _bar(ratio: Ratio) -> Spread:
    """The median with its interval, or with the least and the most where it has none."""
    low, high = ratio.interval
    return Spread(ratio.ratio.median, low, high) if isfinite(high) else ratio.ratio


def _point(place: float, spread: Spread) -> Point:
    return place, spread.median, spread.least, spread.most
