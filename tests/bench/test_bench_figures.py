"""The figures that documents state, beside this package's."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.experiments.figures import report

DOCUMENT = Path(__file__).parents[2] / "docs" / "filters.md"
GOLDEN = Path(__file__).parents[1] / "golden" / "figures.md"


@pytest.mark.slow
def test_the_figures_are_those_that_came_out_before() -> None:
    """``python -m bench figures > tests/golden/figures.md`` renews them."""
    assert f"{report.markdown()}\n" == GOLDEN.read_text()


@pytest.mark.slow
def test_the_document_shows_what_is_wrong_and_what_others_published() -> None:
    assert report.section() in DOCUMENT.read_text()
