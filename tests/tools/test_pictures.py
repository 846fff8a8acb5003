"""The pictures in the documents show the present code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import pictures

pytestmark = pytest.mark.slow  # they are drawn


def texts(file: Path) -> list[str]:
    """The labels of a picture; lines and fonts depend on the drawing library's version."""
    return sorted(re.findall(r"<text[^>]*>([^<]*)</text>", file.read_text()))


def test_pictures_of_the_documents_are_up_to_date(tmp_path: Path) -> None:
    drawn = pictures.draw(tmp_path)
    assert len(drawn) == 3
    for file in drawn:
        assert len(texts(file)) > 5
        assert texts(file) == texts(pictures.FOLDER / file.name), "run python -m tools.pictures"
