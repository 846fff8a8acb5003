"""The demonstration: its entries, its lookups and its report."""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import xxhash
from rich.console import Console

from bench.demo import (
    ERROR_RATES,
    REFERENCE_RATE,
    Measurement,
    Results,
    compact,
    fill,
    measure,
    print_results,
    reads_saved,
    run,
    wilson_interval,
)
from bench.harness.shapes import block_count, filter_disk_bytes, run_count
from bench.workloads.files import (
    HASHED_BYTES,
    Entry,
    absent_keys,
    find_files,
    python_roots,
    read_tree,
)

FILES = 300
ABSENT = 3000
SPREAD = 4.5  # standard deviations; further off once in 150,000 times


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 files in folders."""
    root = tmp_path_factory.mktemp("tree")
    for number in range(FILES):
        path = root / f"package{number % 7}" / f"module{number:03}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * number)
    return root


@pytest.fixture(scope="module")
def entries(tree: Path) -> list[Entry]:
    return read_tree([(b"lib", str(tree))])


@pytest.fixture(scope="module")
def results(entries: list[Entry], tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The demonstration's measurements of that tree."""
    directory = tmp_path_factory.mktemp("stores")
    return run(entries, str(directory), absent_count=ABSENT)


def both(results: Results) -> Sequence[list[Measurement]]:
    return results.compacted, results.uncompacted


# --- the data ---


def test_every_file_has_an_entry_under_its_path(entries: list[Entry]) -> None:
    keys = [key for key, _ in entries]
    assert len(set(keys)) == FILES
    assert b"lib/package3/module010.py" in keys


def test_a_value_describes_its_file(tree: Path, entries: list[Entry]) -> None:
    status = (tree / "package3" / "module010.py").stat()
    assert json.loads(dict(entries)[b"lib/package3/module010.py"]) == {
        "size": 10,
        "mode": status.st_mode,
        "mtime": status.st_mtime_ns,
        "ctime": status.st_ctime_ns,
        "xxh3": xxhash.xxh3_128_hexdigest(b"x" * 10),
    }


def test_a_hash_covers_the_first_mebibyte(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(HASHED_BYTES))
    (tmp_path / "b").write_bytes(bytes(HASHED_BYTES) + b"more")
    hashes = [json.loads(value)["xxh3"] for _, value in read_tree([(b"", str(tmp_path))])]
    assert hashes[0] == hashes[1]


def test_only_the_first_files_are_taken(tree: Path, entries: list[Entry]) -> None:
    assert read_tree([(b"lib", str(tree))], limit=10) == entries[:10]


def test_links_pipes_and_missing_directories_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    roots = [(b"x", str(tmp_path)), (b"y", str(tmp_path / "missing"))]
    assert [key for key, _ in read_tree(roots)] == [b"x/file"]


def test_names_that_are_not_utf8_are_kept(tmp_path: Path) -> None:
    try:
        (tmp_path / os.fsdecode(b"\xff")).write_bytes(b"")
    except OSError:
        pytest.skip("this file system takes UTF-8 alone")
    assert [key for key, _ in read_tree([(b"x", str(tmp_path))])] == [b"x/\xff"]


def test_a_directory_inside_another_is_walked_once(tree: Path) -> None:
    roots = [(b"all", str(tree)), (b"part", str(tree / "package1"))]
    paths = [path for _, path in find_files(roots)]
    assert len(paths) == len(set(paths)) == FILES


def test_this_python_has_files() -> None:
    assert next(find_files(python_roots()))


def test_absent_keys_are_new_and_different(entries: list[Entry]) -> None:
    present = [key for key, _ in entries]
    absent = absent_keys(present, ABSENT, 1)
    assert len(set(absent) - set(present)) == ABSENT


def test_absent_keys_lie_between_present_ones(entries: list[Entry]) -> None:
    present = [key for key, _ in entries]
    absent = absent_keys(present, ABSENT, 1)
    inside = sum(min(present) < key < max(present) for key in absent)
    assert inside > 0.98 * ABSENT


def test_absent_keys_are_the_same_for_the_same_seed() -> None:
    present = [b"a.py", b"b.py"]
    assert absent_keys(present, 20, 7) == absent_keys(present, 20, 7) != absent_keys(present, 20, 8)


def test_one_file_is_enough(tmp_path: Path) -> None:
    assert run([(b"a", b"1")], str(tmp_path)).compacted[0].present.get_hits == 1


def test_no_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no keys"):
        run([], str(tmp_path))


# --- what is measured ---


def test_there_is_a_row_without_filters_and_one_for_each_rate(results: Results) -> None:
    for rows in both(results):
        assert [row.error_rate for row in rows] == [None, *ERROR_RATES]


def test_every_present_key_is_found_and_no_absent_one(results: Results) -> None:
    for row in results.compacted:
        assert (row.present.gets, row.present.get_hits) == (FILES, FILES)
        assert (row.absent.gets, row.absent.get_hits) == (ABSENT, 0)


def test_compaction_leaves_one_run_of_several_blocks(results: Results) -> None:
    for row in results.compacted:
        assert run_count(row.store) == 1
        assert block_count(row.store) > 5


def test_without_filters_each_absent_key_inside_a_block_costs_one_read(
    entries: list[Entry], tmp_path: Path
) -> None:
    present = [key for key, _ in entries]
    absent = absent_keys(present, 500, 1)
    path = str(tmp_path / "store")
    fill(path, entries, REFERENCE_RATE)
    compact(path, REFERENCE_RATE)
    cost = measure(path, present, absent, None).absent
    outside_table = sum(not min(present) <= key <= max(present) for key in absent)
    assert cost.block_reads == 500 - cost.fence_negatives - outside_table


def test_with_filters_a_read_for_an_absent_key_is_a_false_positive(results: Results) -> None:
    for rows in both(results):
        for row in rows[1:]:
            assert row.absent.block_reads == row.absent.filter_false_positives


def test_a_filter_is_asked_exactly_where_a_block_would_be_read_without_it(results: Results) -> None:
    for row in results.compacted[1:]:
        assert row.probes_of_absent == results.compacted[0].absent.block_reads


def test_each_present_key_costs_one_read(results: Results) -> None:
    assert {row.present.block_reads for row in results.compacted} == {FILES}


def test_measured_rates_agree_with_the_exact_ones(results: Results) -> None:
    for rows in both(results):
        for row in rows[1:]:
            probes, exact = row.probes_of_absent, row.expected_rate
            spread = SPREAD * math.sqrt(probes * exact * (1 - exact)) + 1
            assert abs(row.absent.filter_false_positives - probes * exact) <= spread


def test_exact_rates_are_at_most_the_requested_ones(results: Results) -> None:
    for row in results.compacted[1:]:
        assert row.error_rate is not None
        assert 0.8 * row.error_rate < row.expected_rate < 1.1 * row.error_rate


def test_one_percent_saves_ninety_eight_of_a_hundred_reads(results: Results) -> None:
    for rows in both(results):
        row = next(row for row in rows if row.error_rate == REFERENCE_RATE)
        saved, share = reads_saved(row, rows[0])
        assert saved > 0 and share >= 0.98


def test_filters_ignored_take_disk_and_no_memory(results: Results) -> None:
    off, *on = results.compacted
    reference = next(row for row in on if row.error_rate == REFERENCE_RATE)
    assert off.store.filter_memory_bytes == 0
    assert filter_disk_bytes(off.store) == filter_disk_bytes(reference.store)
    assert reference.store.filter_memory_bytes * 2 == filter_disk_bytes(reference.store)


def test_a_present_and_an_absent_key_are_explained(results: Results) -> None:
    assert "absent" in results.explained_absent.splitlines()[-1]
    assert "found" in results.explained_present.splitlines()[-1]


# --- the report ---


def test_the_report_fits_a_terminal_and_has_every_row(results: Results) -> None:
    out = io.StringIO()
    print_results(results, Console(file=out, width=80, markup=False, highlight=False))
    lines = out.getvalue().splitlines()
    assert sum(line.split()[:1] == ["off"] for line in lines) == 2
    assert not any("…" in line for line in lines)


def test_progress_is_reported(entries: list[Entry], tmp_path: Path) -> None:
    steps: list[str] = []
    run(entries[:20], str(tmp_path), say=steps.append)
    assert any("0.1 %" in step for step in steps)


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [(0, 0, 0.0, 1.0), (0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0)],
)
def test_wilson_intervals(hits: int, trials: int, low: float, high: float) -> None:
    assert wilson_interval(hits, trials) == pytest.approx((low, high), abs=1e-4)
