"""Charts have dark forms, and forms for phones."""

from __future__ import annotations

import base64
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bench.experiments.wasted_reads.experiment import EXPERIMENT
from bench.harness.charts import Chart, Line, Panel, save
from bench.harness.colours import series
from bench.harness.experiment import Results
from bench.harness.report import write
from bench.harness.story import Story

HEADER: dict[str, Any] = {
    "seed": 1, "quick": True, "executor": "1", "elapsed_s": 1.0, "missing": [], "command": "c",
    "environment": {"versions": {}},
}  # fmt: skip


PANEL = Panel(lines=[])


def test_a_report_has_a_form_of_each_chart_for_phones(tmp_path: Path) -> None:
    chart = Chart("one", "A title", "How to read it.", [PANEL])
    save(chart, str(tmp_path))
    write(str(tmp_path / "report.html"), EXPERIMENT, Results(HEADER), Story([], [chart]))
    page = (tmp_path / "report.html").read_text()
    sources = re.findall(r'(?:src|srcset)="data:image/svg\+xml;base64,([^"]+)"', page)
    files = [(tmp_path / name).read_bytes() for name in ("one-narrow.svg", "one.svg")]
    assert list(map(base64.b64decode, sources)) == files


def panels_of(chart: Chart, tmp_path: Path) -> list[dict[str, float]]:
    """Places of the panels in the form for phones, by their titles."""
    save(chart, str(tmp_path))
    drawing = (tmp_path / f"{chart.name}-narrow.svg").read_text()
    places = re.findall(r'<g id="axes_\d+">.*?<path d="M (\S+) (\S+)', drawing, re.DOTALL)
    return [{"x": float(x), "y": float(y)} for x, y in places]


@pytest.mark.parametrize(("count", "columns"), [(1, 0), (6, 3)])
def test_on_a_phone_panels_stand_one_below_the_other(
    count: int, columns: int, tmp_path: Path
) -> None:
    panels = [Panel(lines=[Line("a line", [(1, 2), (2, 3)], series(0))])] * count
    places = panels_of(Chart("one", "", "", panels, columns=columns), tmp_path)
    assert len(places) == count
    assert len({place["x"] for place in places}) == 1
    assert all(above["y"] < below["y"] for above, below in pairwise(places))
