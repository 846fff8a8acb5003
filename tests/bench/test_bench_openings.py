"""The best error rate by lookups between openings: loads are counted, and reads grow with lookups."""

from __future__ import annotations

import argparse
import dataclasses
import math
from pathlib import Path

import pytest

from bench.experiments.openings.experiment import EXPERIMENT
from bench.experiments.openings.measure import absent_keys, block_slope, measure, opening
from bench.experiments.openings.rows import Row
from bench.experiments.openings.story import failures, section, story, write_picture
from bench.experiments.openings.tables import (
    BYTES,
    MIXED,
    REQUESTS,
    best,
    bests,
    shapes,
    tables,
)
from bench.experiments.openings.tasks import LOOKUPS_PER_KEY, RATES, Task
from bench.experiments.openings.theory import best_rate, cost_per_key
from bench.harness.experiment import Results, run, write
from bench.harness.records import repeatable
from bench.harness.run_stores import write_runs
from lsmkv.options import Options

pytestmark = pytest.mark.slow  # real stores of every configuration

TINY = ["--out", "unused", "--keys", "1000", "--openings", "2", "--lookups", "4000"]
PAGE = Path(__file__).parents[2] / "docs" / "openings.md"


@pytest.fixture(scope="module")
def results() -> Results[Row]:
    return run(EXPERIMENT, TINY)


def test_block_reads_of_openings_grow_as_their_lookups(results: Results[Row]) -> None:
    assert failures(results.rows) == []
    judged = [row for row in results.rows if row.direct_block_reads is not None]
    assert {row.error_rate for row in judged} == {1.0, *RATES}


def test_twice_the_lookups_read_twice_the_blocks(tmp_path: Path) -> None:
    """A lookup reads what it would read in any other place: counts of parts add up."""
    task = Task(0.1, 2, 4096, 2000, 1, 1.0, 6000, 3, 0)
    path = str(tmp_path / "store")
    write_runs(path, 2000, 2, 3, Options(error_rate=0.1))
    found = opening(path, task, "resident", 0)
    half, whole = found[0.3].block_reads, found[1.0].block_reads
    assert whole == pytest.approx(half / 0.3, rel=0.25)
    slope = block_slope(path, task)
    assert whole / 1999 == pytest.approx(slope.block_reads / slope.lookups, rel=0.25)


def test_an_opening_of_fewer_lookups_reads_what_a_longer_one_has_read_by_then(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "store")
    write_runs(path, 2000, 1, 3, Options())
    for residency in ("resident", "cached"):
        long = opening(path, Task(0.01, 1, 4096, 2000, 1, 1.0, 100, 3, 0), residency, 0)
        short = opening(path, Task(0.01, 1, 4096, 2000, 1, 0.03, 100, 3, 0), residency, 0)
        assert short == {at: long[at] for at in short}
        assert max(short) == 0.03


def test_resident_filters_are_loaded_whole_by_the_first_lookup(results: Results[Row]) -> None:
    for row in results.rows:
        if row.residency == "resident" and row.error_rate < 1:
            assert row.filter_bytes_least == row.filter_bytes_most
            assert row.filter_bytes == round(row.filter_bits_per_key * row.key_count / 8)
            assert row.filter_requests == row.run_count


def test_cached_filters_load_no_more_than_all_of_them(results: Results[Row]) -> None:
    cached = [row for row in results.rows if row.residency == "cached"]
    assert cached
    for row in cached:
        assert row.filter_bytes_most <= round(row.filter_bits_per_key * row.key_count / 8)


def test_the_best_measured_rate_is_near_theory(results: Results[Row]) -> None:
    of = shapes(results.rows, "resident")[0]
    found = {each.lookups_per_key: each for each in bests(results.rows, of, BYTES)}
    for lookups in (0.001, 0.01, 0.1):
        assert 0.2 < found[lookups].rate / found[lookups].theory < 5
    assert found[0.01].off > 5 * found[0.01].cost


def test_requests_alone_ask_for_the_lowest_rate_once_enough_lookups_follow(
    results: Results[Row],
) -> None:
    of = shapes(results.rows, "resident")[0]
    many = best(results.rows, of, 10.0, REQUESTS)
    assert many is not None
    assert many.least == min(RATES)


def test_the_mixed_cost_charges_for_each_request(results: Results[Row]) -> None:
    row = results.rows[0]
    free = dataclasses.replace(row, request_cost_bytes=0)
    assert free.mixed_per_lookup == free.bytes_per_lookup
    assert row.mixed_per_lookup == pytest.approx(
        row.bytes_per_lookup + 65536 * row.requests_per_lookup
    )


def test_counts_repeat(tmp_path: Path) -> None:
    task = Task(0.05, 2, 4096, 1000, 2, 1.0, 3000, 9, 100)
    rows = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        rows.append(repeatable(measure(task, str(tmp_path / name))))
    assert rows[0] == rows[1]


def test_block_reads_that_do_not_grow_as_lookups_fail_the_report(results: Results[Row]) -> None:
    row = next(
        row
        for row in results.rows
        if row.error_rate == 1 and row.lookups_per_key == 1 and row.residency == "resident"
    )
    assert row.direct_block_reads is not None
    changed = dataclasses.replace(row, direct_block_reads=2 * row.direct_block_reads)
    rows = [changed if each is row else each for each in results.rows]
    (failure,) = failures(rows)
    assert "were expected" in failure
    assert "off, 1 lookups per key" in failure


def test_rates_far_from_theory_fail_the_report(results: Results[Row]) -> None:
    rows = [
        dataclasses.replace(row, filter_bytes=0.0 if row.error_rate == 0.5 else 1e12)
        for row in results.rows
    ]
    assert any("theory's best rate" in failure for failure in failures(rows))


def test_theory_has_its_minimum_where_it_says() -> None:
    for lookups, runs, block in ((0.001, 1, 4096), (0.01, 4, 4096), (1.0, 1, 65536)):
        rate = best_rate(lookups, runs, block)
        least = cost_per_key(rate, lookups, runs, block)
        for factor in (0.5, 0.99, 1.01, 2.0):
            assert cost_per_key(min(1.0, rate * factor), lookups, runs, block) > least


def test_theory_sizes_bloom_filters_as_the_textbook_does() -> None:
    bits = math.log2(1 / 0.01) / math.log(2)
    assert 8 * cost_per_key(0.01, 0.0, 1, 4096) == pytest.approx(bits)


def test_theory_has_no_filters_where_few_lookups_follow() -> None:
    assert best_rate(0.00005, 1, 4096) == 1.0
    assert best_rate(0.0001, 1, 4096) < 1.0
    assert best_rate(0.0001, 1, 4096, load=1.0) == 1.0


def test_absent_keys_differ_between_openings_and_lie_between_present_ones() -> None:
    task = Task(0.1, 1, 4096, 1000, 1, 1.0, 1, 3, 0)
    first, second = absent_keys(task, 0), absent_keys(task, 1)
    assert len({*first, *second}) == 2 * 999
    present = [b"%016d" % (2 * at) for at in range(1000)]
    for at, key in enumerate(sorted(first)):
        assert present[at] < key < present[at + 1]


def test_the_section_shows_findings_picture_and_tables(
    results: Results[Row], tmp_path: Path
) -> None:
    text = section(results)
    assert "](pictures/openings.svg)" in text
    assert text.count("**Best error rate, measured (theory)") == 1
    out, document = tmp_path / "out", tmp_path / "docs" / "page.md"
    write(EXPERIMENT, results, str(out))
    (picture,) = write_picture(results, argparse.Namespace(into=str(document), out=str(out)))
    assert Path(picture) == document.parent / "pictures" / "openings.svg"
    assert write_picture(results, argparse.Namespace(into=None, out=str(out))) == []


def test_the_page_has_the_tables_and_findings_of_the_experiment(results: Results[Row]) -> None:
    """Same headings, one line for each number of lookups; the figures are those of a full run."""
    page = PAGE.read_text()
    for table in tables(results.rows):
        if table.brief:
            lines = table.to_markdown().splitlines()
            assert lines[0] in page
            assert lines[2] in page
    for lookups in LOOKUPS_PER_KEY:
        assert f"| {lookups:.4f}".rstrip("0").rstrip(".") + " |" in page
    for finding in story(results.rows).findings:
        assert " ".join(finding.split()[:4]) in page


def test_theory_in_the_tables_is_that_of_the_function(results: Results[Row]) -> None:
    of = shapes(results.rows, "resident")[0]
    off = next(row for row in results.rows if row.error_rate == 1)
    block = off.counted_block_bytes / off.counted_block_reads
    for found in bests(results.rows, of, BYTES):
        assert found.theory == best_rate(found.lookups_per_key, 1, block)
    mixed = best(results.rows, of, 1.0, MIXED)
    assert mixed is not None
    assert mixed.theory == best_rate(1.0, 1, block + 65536, 65536 / 1000)


@pytest.mark.parametrize(
    "option", [["--keys", "10"], ["--openings", "0"], ["--request-cost-bytes", "-1"]]
)
def test_options_out_of_range_are_refused(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run(EXPERIMENT, ["--out", "unused", *option])
    assert "must be" in capsys.readouterr().err
