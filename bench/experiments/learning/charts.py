"""The chart of ``learning``: wasted reads by the size of the block cache."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from matplotlib.figure import Figure

from bench.experiments.learning.rows import Row
from bench.experiments.learning.tables import pairs, reads
from bench.harness.charts import Chart
from bench.harness.colours import series


def charts(rows: Sequence[Row]) -> list[Chart]:
    return [
        Chart(
            "learning-cache",
            "When a block cache makes learning pointless",
            "Blocks read for absent keys, per thousand lookups of them (medians), by the size of the "
            "block cache, which absent keys have to themselves or share with as many lookups of present "
            "keys. Where two lines meet, the blocks of popular absent keys are in the cache anyway.",
            partial(_draw, rows),
        )
    ]


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
