"""``report.html``: one page that needs no network, made from an experiment's story.

Its style is that of the page of ``lsmkv explore``: both have ``base.css``.
"""

from __future__ import annotations

import base64
import os
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

import lsmkv

from . import charts, records
from .story import Story

_HERE: Final = os.path.dirname(os.path.abspath(__file__))
_OWN: Final = os.path.join(_HERE, "report.css")
_PACKAGE: Final = os.path.dirname(os.path.abspath(lsmkv.__file__))
_BASE: Final = os.path.join(_PACKAGE, "explore", "web", "src", "base.css")


def style() -> str:
    """The style of reports."""
    with open(_BASE, encoding="utf-8") as base, open(_OWN, encoding="utf-8") as own:
        return base.read() + own.read()


def write(path: str, experiment: Any, results: Any, story: Story) -> None:
    """Write the page of an experiment, with the charts that were saved beside it."""
    templates = Environment(
        loader=FileSystemLoader(_HERE),
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
            "source": _svg(path, chart.name),
            "narrow": _svg(path, f"{chart.name}-narrow"),
        }
        for chart in (story.charts if charts.can_draw() else ())
    ]
    page = templates.get_template("report.html.j2").render(
        experiment=experiment,
        style=style(),
        header=results.header,
        row_count=len(results.rows),
        columns=records.columns(experiment.row_type),
        story=story,
        figures=figures,
        without_figures="" if figures or not story.charts else charts.HOW_TO_DRAW,
    )
    with open(path, "w", encoding="utf-8") as file:
        file.write(page)


def _svg(page: str, name: str) -> str:
    """The chart's file beside the page, as a URL."""
    with open(os.path.join(os.path.dirname(page), f"{name}.svg"), "rb") as file:
        return "data:image/svg+xml;base64," + base64.b64encode(file.read()).decode()
