"""``report.html``: one page that needs no network, made from an experiment's story."""

from __future__ import annotations

import base64
import os
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from bench.harness import charts, records
from bench.harness.story import Story


def write(path: str, experiment: Any, results: Any, story: Story) -> None:
    """Write the page; ``experiment`` and ``results`` are those of :mod:`bench.harness.experiment`."""
    templates = Environment(
        loader=FileSystemLoader(os.path.dirname(os.path.abspath(__file__))),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    figures = [
        {
            "name": chart.name,
            "title": chart.title,
            "caption": chart.caption,
            # An image, because inline SVGs would share their identifiers.
            "source": "data:image/svg+xml;base64," + base64.b64encode(charts.svg(chart)).decode(),
        }
        for chart in story.charts
    ]
    page = templates.get_template("report.html.j2").render(
        experiment=experiment,
        header=results.header,
        row_count=len(results.rows),
        columns=records.columns(experiment.row_type),
        story=story,
        figures=figures,
    )
    with open(path, "w", encoding="utf-8") as file:
        file.write(page)
