"""The figures that documents state, beside this package's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.experiments.figures import charts, curves, report, store, strategies
from bench.experiments.figures.curves import Curve, Point
from bench.experiments.figures.figure import Figure, percent
from bench.experiments.figures.formulas import formulas
from bench.experiments.figures.sizes import sizes
from drawn_charts import faults

DOCUMENT = Path(__file__).parents[2] / "docs" / "filters.md"


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Few and small filters on the curves."""
    monkeypatch.setattr(curves, "_FILTERS", 3)
    monkeypatch.setattr(curves, "_ASKED", 100)
    monkeypatch.setattr(curves, "CROWDS", (100, 2000))
    monkeypatch.setattr(curves, "NUMBERS", (10, 100))
    every = (
        curves.rate_by_fill,
        curves.rate_by_probes,
        curves.fill_by_keys,
        curves.rate_by_keys,
        curves.bits_by_keys,
    )
    for curve in every:
        curve.cache_clear()
    yield
    for curve in every:
        curve.cache_clear()


@pytest.fixture(scope="module")
def found() -> list[Figure]:
    """Every figure but those of derived probes, which take seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strategies, "_derived_probes", list)
        return list(report.figures())


def test_the_document_shows_most_figures_as_they_come_out_now(
    found: list[Figure], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "figures", lambda: iter(found))
    document = iter(DOCUMENT.read_text().splitlines())
    lines = report.markdown().splitlines()
    assert len(lines) > len(found) > 40
    assert [line for line in lines if line not in document] == []  # and in that order


@pytest.mark.slow
def test_the_document_shows_the_figures_that_come_out_now() -> None:
    assert report.markdown() in DOCUMENT.read_text()


def test_only_the_marked_section_of_a_file_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "figures", sizes)
    file = tmp_path / "page.md"
    file.write_text(f"before\n{report.BEGIN}a stale line\n{report.END}after\n")
    report.main(["--into", str(file)])
    text = file.read_text()
    assert text.startswith(f"before\n{report.BEGIN}") and text.endswith(f"{report.END}after\n")
    assert "stale" not in text and "| 9586 bits | 9586 bits |" in text


def test_figures_of_sizes_and_hashes_are_those_that_documents_state(found: list[Figure]) -> None:
    rows = {system: (stated, here) for system, stated, here in found}
    same = [system for system, (stated, here) in rows.items() if stated == here]
    for start in ("a set of 100,000,000", "8 bytes each of SHA-1", "classic, 1,000"):
        named = [system for system in rows if system.startswith(start)]
        assert named and set(named) <= set(same)
    assert rows["HBase's testSizing: keys that fit into 128 KiB at 2.5 %"] == ("136570", "136570")
    answers = [here for system, (_, here) in rows.items() if "testBasicBloom" in system]
    assert answers == ["14 of 14"] * 3


def test_a_share_of_wrong_positives_is_told_from_a_false_positive_rate(found: list[Figure]) -> None:
    shown = [here for _, _, here in found]
    at = shown.index("6 pass")
    assert shown[at + 1 : at + 3] == ["22.2 % (6 of 27)", "50.0 % (6 of 12), 91 bits"]


def test_each_wrong_formula_stands_beside_the_right_one() -> None:
    stated, right = zip(*[(stated, found) for _, stated, found in formulas()], strict=True)
    for wrong in (
        "k = ln(1/p)",
        "1 / (1 - p^(1/N))",
        "k sqrt p",
        "(1 - e^(mk/n))^k",
        "ceil(M/N ln 2)",
    ):
        assert any(wrong in text for text in stated)
    for formula in ("k = log2(1/p)", "1 / (1 - (1 - p)^(1/N))", "k N / p^(1/k)", "e^(-kN/M)"):
        assert any(formula in text for text in right)


def test_filters_of_rows_skip_scans_and_filters_of_whole_keys_skip_absent_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store, "ROWS", 200)
    counted = {name: store._count(filter_key) for name, filter_key in store.FILTER_KEYS}
    rows, fixed, whole = counted.values()
    assert fixed.absent_row_scans.block_reads == rows.absent_row_scans.block_reads
    assert rows.absent_row_scans.prefix_filter_skips > 10 * rows.absent_row_scans.block_reads
    assert whole.absent_row_scans.prefix_filter_skips == 0
    assert whole.absent_column_gets.block_reads < rows.absent_column_gets.block_reads / 10
    assert rows.filter_bytes < whole.filter_bytes


def test_a_folder_gets_the_tables_and_the_charts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: None
) -> None:
    monkeypatch.setattr(report, "figures", sizes)
    monkeypatch.setattr(curves, "misses", list)
    report.main(["--out", str(tmp_path / "new")])
    names = ("figures-fill", "figures-probes", "figures-overfull", "figures-bits")
    written = {path.name for path in (tmp_path / "new").iterdir()}
    assert written == {"figures.md"} | {f"{n}.{kind}" for n in names for kind in ("png", "svg")}
    assert (tmp_path / "new" / "figures-fill.png").read_bytes().startswith(b"\x89PNG")


def test_a_point_far_from_the_theory_fails_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: None
) -> None:
    wrong = Curve("k = 1", lambda x: x, [Point(0.5, 0.6, 0.59, 0.61, 0.5, 0.01)])
    monkeypatch.setattr(report, "figures", sizes)
    monkeypatch.setattr(curves, "rate_by_fill", lambda: [wrong])
    with pytest.raises(SystemExit, match=r"k = 1 at 0.5: measured 0.6, 0.5 in theory"):
        report.main(["--out", str(tmp_path)])


@pytest.mark.slow
def test_every_measured_point_lies_where_the_theory_has_it() -> None:
    assert curves.misses() == []


@pytest.mark.parametrize(
    ("rate", "text"), [(0.0, "0 %"), (0.0099999, "1.00 %"), (1.0, "100 %"), (1.23e-5, "0.00123 %")]
)
def test_rates_are_told_with_three_digits(rate: float, text: str) -> None:
    assert percent(rate) == text


def test_charts_have_plain_ticks_and_name_their_lines(tiny: None) -> None:
    assert faults(charts.charts()) == []
