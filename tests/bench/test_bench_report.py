"""A report has a form of each chart for phones."""

from __future__ import annotations

import base64
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy
import pytest
from matplotlib.figure import Figure

from bench.experiments.wasted_reads.experiment import EXPERIMENT
from bench.harness.charts import Chart, NarrowFigure, legend_below, save
from bench.harness.experiment import Results
from bench.harness.report import write
from bench.harness.story import Story

HEADER: dict[str, Any] = {
    "seed": 1, "quick": True, "executor": "1", "elapsed_s": 1.0, "missing": [], "command": "c",
    "environment": {"versions": {}},
}  # fmt: skip


def draw(figure: Figure) -> None:
    figure.subplots()


def test_a_report_has_a_form_of_each_chart_for_phones(tmp_path: Path) -> None:
    chart = Chart("one", "A title", "How to read it.", draw)
    save(chart, str(tmp_path))
    write(str(tmp_path / "report.html"), EXPERIMENT, Results(HEADER), Story([], [chart]))
    page = (tmp_path / "report.html").read_text()
    sources = re.findall(r'(?:src|srcset)="data:image/svg\+xml;base64,([^"]+)"', page)
    files = [(tmp_path / name).read_bytes() for name in ("one-narrow.svg", "one.svg")]
    assert list(map(base64.b64decode, sources)) == files


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 1), (2, 3)])
@pytest.mark.parametrize("squeeze", [True, False])
def test_on_a_phone_panels_stand_one_below_the_other(shape: tuple[int, int], squeeze: bool) -> None:
    wide: Any = Figure()
    asked = wide.subplots(*shape, squeeze=squeeze)
    stacked = NarrowFigure().subplots(*shape, squeeze=squeeze)
    assert numpy.shape(stacked) == numpy.shape(asked)
    boxes = [axes.get_position() for axes in numpy.atleast_1d(stacked).flat]
    assert all(below.y1 <= above.y0 for above, below in pairwise(boxes))
    assert len({box.x0 for box in boxes}) == 1


@pytest.mark.parametrize("shared", ["row", "col", True, False])
def test_on_a_phone_the_same_panels_share_their_scale(shared: str | bool) -> None:
    for axis in "xy":
        figures: list[Any] = [Figure(), NarrowFigure()]
        grids = [figure.subplots(2, 3, **{f"share{axis}": shared}) for figure in figures]
        groups = []
        for grid in grids:
            siblings = getattr(grid[0, 0], f"get_shared_{axis}_axes")()
            panels = list(grid.flat)
            groups.append([[siblings.joined(a, b) for b in panels] for a in panels])
        assert groups[0] == groups[1]


def test_on_a_phone_each_panel_names_its_vertical_axis() -> None:
    narrow = NarrowFigure()
    for row, name in zip(narrow.subplots(2, 2), ("reads", "bytes"), strict=True):
        row[0].set_ylabel(name)
    narrow.name_axes()
    assert [axes.get_ylabel() for axes in narrow.axes] == ["reads", "reads", "bytes", "bytes"]


def test_on_a_phone_long_texts_of_a_legend_have_a_line_each() -> None:
    for length, columns in ((10, 2), (60, 1)):
        narrow = NarrowFigure()
        axes = narrow.subplots()
        for number in range(4):
            axes.plot([0], [0], label=f"{number}" * length)
        legend_below(narrow, axes, 4)
        (legend,) = narrow.legends
        assert vars(legend)["_ncols"] == columns
