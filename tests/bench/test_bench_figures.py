"""The figures that documents state, beside this package's."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.experiments.figures import report, store, strategies
from lsmkv.filters import strategy_named

DOCUMENT = Path(__file__).parents[2] / "docs" / "filters.md"
GOLDEN = Path(__file__).parents[1] / "golden" / "figures.md"


@pytest.mark.slow
def test_the_figures_are_those_that_came_out_before() -> None:
    """``python -m bench figures > tests/golden/figures.md`` renews them."""
    assert f"{report.markdown()}\n" == GOLDEN.read_text()


def test_the_document_shows_the_formulas_that_documents_have_wrong() -> None:
    assert report.section() in DOCUMENT.read_text()


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


def test_a_counting_filter_keeps_what_it_shares_bits_with_and_loses_what_looks_the_same() -> None:
    probes = strategy_named("sha").probes
    after = strategies._counters(probes, [b"foo", b"baz"], [b"baz"])
    assert all(after[bit] for bit in probes(b"foo", 32, 3))
    after = strategies._counters(probes, [b"loved", b"your"], [b"response"])
    assert not all(after[bit] for bit in probes(b"loved", 32, 3))
    # What is not there is not removed: two of its counters were 0.
    after = strategies._counters(probes, [b"foo"], [b"baz"])
    assert all(after[bit] for bit in probes(b"foo", 32, 3))
