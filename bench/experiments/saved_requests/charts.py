"""The chart of ``saved-requests``: GETs, milliseconds and money by the error rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from matplotlib.figure import Figure

from bench.experiments.saved_requests.rows import Row
from bench.experiments.saved_requests.tables import rates, run_counts, runs_text
from bench.harness.charts import Chart, legend_below, percent_axis, plain_axis
from bench.harness.colours import THEORY, series

NAME: Final = "saved-requests"

_PANELS: Final[tuple[tuple[str, Callable[[Row], float]], ...]] = (
    ("GETs per lookup", lambda row: row.gets_per_lookup),
    ("milliseconds per lookup", lambda row: row.ms_per_lookup),
    ("US dollars per million lookups", lambda row: row.usd_per_million),
)


def charts(rows: Sequence[Row]) -> list[Chart]:
    row = next(row for row in rows if row.part == "rates")
    return [
        Chart(
            NAME,
            "What a lookup costs in object storage, by the error rate of the filters",
            "GETs per lookup in the server's log, with no block cached, and what they take at "
            f"{row.get_ms:g} ms and ${row.get_usd * 1000:g} per 1,000 GETs. The rate of 100 % stands "
            "for no filters. Dashed: theory, p for each filter of a run without the key.",
            partial(_draw, rows),
            width=10.0,
            height=4.2,
        )
    ]


def _draw(rows: Sequence[Row], figure: Figure) -> None:
    panels = figure.subplots(1, len(_PANELS))
    for axes, (name, cost) in zip(panels, _PANELS, strict=True):
        number = 0
        for keys in ("absent", "present"):
            for runs in run_counts(rows):
                found = rates(rows, runs, keys)
                places = [row.error_rate for row in found]
                look: dict[str, Any] = {**series(number), "linestyle": "none"}
                label = f"{keys} keys, {runs_text(runs)}"
                axes.plot(places, [cost(row) for row in found], label=label, **look)
                expected = [
                    cost(row) * (row.expected_gets or 0.0) / row.gets if row.gets else 0.0
                    for row in found
                ]
                axes.plot(places, expected, **THEORY)
                number += 1
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.invert_xaxis()
        percent_axis(axes.xaxis)
        plain_axis(axes.yaxis)
        axes.set_xticks([row.error_rate for row in rates(rows, run_counts(rows)[0], "absent")])
        axes.tick_params(axis="x", rotation=60)
        axes.minorticks_off()
        axes.set_title(name)
        axes.set_xlabel("false-positive rate p, %")
    legend_below(figure, panels[0], 4)
