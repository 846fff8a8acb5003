"""The chart of ``learning``: wasted reads by the size of the block cache."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import median

from matplotlib.figure import Figure

from bench.experiments.learning.rows import Row
from bench.experiments.learning.tables import HOWS, by_load, pairs, reads
from bench.experiments.learning.tasks import EXPONENTS, LOADS
from bench.harness.charts import Chart
from bench.harness.colours import series


def charts(rows: Sequence[Row]) -> list[Chart]:
    return [
        Chart(
            "learning-contenders",
            "What denies keys that passed",
            "Blocks read for absent keys, per thousand lookups without a block cache, by the exponent of "
            "the Zipf law that absent keys follow. Lines are medians of the repetitions, and bands go "
            "from the least to the most.",
            partial(_draw_contenders, rows),
        ),
        Chart(
            "learning-cache",
            "When a block cache makes learning pointless",
            "Blocks read for absent keys, per thousand lookups of them (medians), by the size of the "
            "block cache, which absent keys have to themselves or share with as many lookups of present "
            "keys. Where two lines meet, the blocks of popular absent keys are in the cache anyway.",
            partial(_draw, rows),
        ),
    ]


def _draw_contenders(rows: Sequence[Row], figure: Figure) -> None:
    axes = figure.subplots()
    for number, how in enumerate(HOWS):
        found = [
            [1000 * row.wasted_reads / row.lookup_count for row in by_load(rows, load, how)]
            for load in LOADS[: len(EXPONENTS)]
        ]
        look = series(number)
        axes.plot(EXPONENTS, [median(some) for some in found], label=how, **look)
        low, high = [min(some) for some in found], [max(some) for some in found]
        axes.fill_between(EXPONENTS, low, high, color=look["color"], alpha=0.15, linewidth=0)
    axes.set_yscale("log")
    axes.set_xlabel("exponent of the Zipf law")
    axes.set_ylabel("wasted reads per 1,000 lookups")
    axes.legend()


def _draw(rows: Sequence[Row], figure: Figure) -> None:
    axes = figure.subplots()
    for shared, asked in enumerate(("absent keys", "absent and present keys")):
        found = [pair for pair in pairs(rows) if pair[0][0].is_shared == shared or not _cache(pair)]
        for learns, how in enumerate(("without", "with")):
            points = [
                (100 * _cache(pair), 1000 * reads(pair[learns]) / pair[learns][0].lookup_count)
                for pair in found
            ]
            label = f"{asked}, {how} learning"
            axes.plot(*zip(*points, strict=True), label=label, **series(2 * shared + learns))
    axes.set_xlabel("block cache, % of all blocks")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("wasted reads per 1,000 absent lookups")
    axes.legend()


def _cache(pair: tuple[list[Row], list[Row]]) -> float:
    return pair[0][0].cache_share
