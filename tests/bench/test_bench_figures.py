"""The figures that documents state, beside this package's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.experiments.figures import curves, report, store, strategies
from bench.experiments.figures.curves import Curve, Point
from bench.experiments.figures.figure import Figure
from bench.experiments.figures.sizes import sizes
from lsmkv.filters import strategy_named

DOCUMENT = Path(__file__).parents[2] / "docs" / "filters.md"
GOLDEN = Path(__file__).parents[1] / "golden" / "figures.md"


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
        curves.fill_by_probes,
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


@pytest.mark.slow
def test_the_figures_are_those_that_came_out_before() -> None:
    """``python -m bench figures > tests/golden/figures.md`` renews them."""
    assert f"{report.markdown()}\n" == GOLDEN.read_text()


def test_the_document_shows_the_formulas_that_documents_have_wrong() -> None:
    assert report.section() in DOCUMENT.read_text()


@pytest.mark.slow
def test_figures_of_sizes_and_hashes_are_those_that_documents_state(found: list[Figure]) -> None:
    rows = {system: (stated, here) for system, stated, here in found}
    same = [system for system, (stated, here) in rows.items() if stated == here]
    for start in ("a set of 100,000,000", "8 bytes each of SHA-1", "classic, 1,000"):
        named = [system for system in rows if system.startswith(start)]
        assert named and set(named) <= set(same)
    assert rows["HBase's testSizing: keys that fit into 128 KiB at 2.5 %"] == ("136570", "136570")
    answers = [here for system, (_, here) in rows.items() if "testBasicBloom" in system]
    assert answers == ["14 of 14"] * 3


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


@pytest.mark.slow
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


def test_a_counting_filter_keeps_what_it_shares_bits_with_and_loses_what_looks_the_same() -> None:
    probes = strategy_named("sha").probes
    after = strategies._counters(probes, [b"foo", b"baz"], [b"baz"])
    assert all(after[bit] for bit in probes(b"foo", 32, 3))
    after = strategies._counters(probes, [b"loved", b"your"], [b"response"])
    assert not all(after[bit] for bit in probes(b"loved", 32, 3))
    # What is not there is not removed: two of its counters were 0.
    after = strategies._counters(probes, [b"foo"], [b"baz"])
    assert all(after[bit] for bit in probes(b"foo", 32, 3))


def test_nearly_full_filters_are_not_taken_for_points_off_the_theory() -> None:
    (curve,) = (each for each in curves.fill_by_probes(1000) if each.name == "k = 14")
    assert all(point.is_right for point in curve.points)
    assert curve.points[-1].value > 0.99
