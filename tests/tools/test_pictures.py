"""The pictures in the documents show the present code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.harness.colours import AVOIDED, FOUND, PURPLE
from tools import pictures

pytestmark = pytest.mark.slow  # they are drawn


def drawn(file: Path) -> list[tuple[str, str]]:
    """Texts and colours of a picture, in its order; lines and fonts depend on the drawing library."""
    return re.findall(r"<text[^>]*>([^<]*)</text>|((?:fill|stroke): #\w+)", file.read_text())


def test_pictures_of_the_documents_are_up_to_date(tmp_path: Path) -> None:
    files = pictures.draw(tmp_path)
    assert len(files) == 3
    for file in files:
        assert len(drawn(file)) > 5
        assert drawn(file) == drawn(pictures.FOLDER / file.name), "run python -m tools.pictures"


@pytest.mark.parametrize("name", ["store", "table", "lookups", "ribbon"])
def test_a_colour_with_a_meaning_has_no_other(name: str) -> None:
    used = set(re.findall(r"#[0-9a-f]{6}\b", (pictures.FOLDER / f"{name}.svg").read_text()))
    greys = {colour for colour in used if _spread(colour) < 0x20}
    meant = {"lookups": {AVOIDED, FOUND}, "ribbon": {AVOIDED, PURPLE}}.get(name, {PURPLE})
    assert used - greys <= meant


def _spread(colour: str) -> int:
    parts = bytes.fromhex(colour[1:])
    return max(parts) - min(parts)
