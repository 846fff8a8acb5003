"""Charts have a light and a dark form, in which the same meaning has the same colour."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

from bench.harness import colours
from bench.harness.charts import Chart, Line, Panel, save
from bench.harness.report import style

LEAST_CONTRAST = 3.0
"""Of lines and marks to what they are drawn on, by WCAG 2."""

FAINT = (colours.WHITE, colours.GRID, colours.BAND, colours.REST)


PANEL = Panel(
    lines=[
        Line(colour, [(0, 0), (1, 1)], {"color": colour, "marker": "o"})
        for colour in colours.COLOURS
    ]
)


def test_every_colour_of_a_chart_has_a_dark_form(tmp_path: Path) -> None:
    save(Chart("one", "A title", "", [PANEL]), str(tmp_path))
    rules, drawing = (tmp_path / "one.svg").read_text().split("</style>", 1)
    drawn = set(re.findall(r"(fill|stroke): (#[0-9a-f]{6})", drawing))
    assert len(drawn) > len(colours.COLOURS)
    for what, colour in drawn:
        assert f'[style*="{what}: {colour}"] {{ {what}: {colours.DARK[colour]} !' in rules


def luminance(colour: str) -> float:
    """Relative luminance, by WCAG 2."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_dark_forms_differ_and_stand_out_from_the_ground() -> None:
    ground = luminance(colours.DARK[colours.WHITE])
    for light, dark in colours.DARK.items():
        if light not in FAINT:
            assert (luminance(dark) + 0.05) / (ground + 0.05) >= LEAST_CONTRAST, light
    for one, other in itertools.combinations(colours.COLOURS, 2):
        assert colours.DARK[one] != colours.DARK[other]


def test_what_becomes_of_a_read_has_the_colours_of_the_page() -> None:
    light, _, dark = style().partition("prefers-color-scheme: dark")
    assert f"--avoided: {colours.AVOIDED};" in light
    assert f"--found: {colours.FOUND};" in light
    assert f"--is-found: {colours.DARK[colours.FOUND]};" in dark
    assert f"--ground: {colours.DARK[colours.WHITE]};" in dark
