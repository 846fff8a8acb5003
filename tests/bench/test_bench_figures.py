"""The figures that documents state, beside this package's."""

from __future__ import annotations

from pathlib import Path

from bench.experiments import figures

DOCUMENT = Path(__file__).parents[2] / "docs" / "filters.md"


def test_the_document_shows_the_figures_that_come_out_now() -> None:
    assert figures.markdown() in DOCUMENT.read_text()


def test_only_the_marked_section_of_a_file_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text(f"before\n{figures.BEGIN}a stale line\n{figures.END}after\n")
    figures.main(["--into", str(file)])
    text = file.read_text()
    assert text.startswith(f"before\n{figures.BEGIN}") and text.endswith(f"{figures.END}after\n")
    assert "stale" not in text and "| 9586 bits | 9586 bits |" in text
