"""A report has a form of each chart for phones."""

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
from bench.harness.experiment import Results, section
from bench.harness.report import write
from bench.harness.story import Story
from bench.harness.tables import Table

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


@pytest.mark.parametrize(("count", "columns"), [(1, 0), (3, 0), (3, 1), (6, 3)])
def test_on_a_phone_panels_stand_one_below_the_other(
    count: int, columns: int, tmp_path: Path
) -> None:
    panels = [Panel(lines=[Line("a line", [(1, 2), (2, 3)], series(0))])] * count
    places = panels_of(Chart("one", "", "", panels, columns=columns), tmp_path)
    assert len(places) == count
    assert len({place["x"] for place in places}) == 1
    assert all(above["y"] < below["y"] for above, below in pairwise(places))


def test_on_a_phone_each_panel_names_its_vertical_axis(tmp_path: Path) -> None:
    panels = [Panel(lines=[], y=name) for name in ("reads", "", "bytes", "")]
    save(Chart("one", "", "", panels, columns=2), str(tmp_path))
    drawing = (tmp_path / "one-narrow.svg").read_text()
    assert [drawing.count(f">{name}<") for name in ("reads", "bytes")] == [2, 2]


def test_a_chart_that_is_published_stands_in_a_documents_section() -> None:
    charts = [
        Chart(name, f"About {name}", "", [], is_published=name == "one") for name in ["one", "two"]
    ]
    header = HEADER | {"environment": {
        "versions": {}, "processor": "p", "cpu_count": 1, "file_system": "f", "device": "d",
        "device_virtual": "no", "python": "3", "lsmkv_build": "b",
    }}  # fmt: skip
    text = section(header, Story([Table("words", ["a"], [["1"]], note="same")] * 2, charts))
    assert "![About one](pictures/one.svg)" in text
    assert "two" not in text
    assert text.count("same") == 1
