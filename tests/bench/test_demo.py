"""The demonstration: its entries and its lookups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench import demo
from bench.demo import Measurement, Results, run
from bench.workloads.files import Entry, read_tree

FILES = 300
ABSENT = 1000
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


# --- what is measured ---


def test_every_present_key_is_found_and_no_absent_one(results: Results) -> None:
    for row in results.compacted:
        assert (row.present.gets, row.present.get_hits) == (FILES, FILES)
        assert (row.absent.gets, row.absent.get_hits) == (ABSENT, 0)


def test_measured_rates_agree_with_the_exact_ones(results: Results) -> None:
    for rows in both(results):
        for row in rows[1:]:
            probes, exact = row.probes_of_absent, row.expected_rate
            spread = SPREAD * math.sqrt(probes * exact * (1 - exact)) + 1
            assert abs(row.absent.filter_false_positives - probes * exact) <= spread


def test_the_output_has_twenty_lines_and_the_runs_as_flushed_first(
    entries: list[Entry], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "read_tree", lambda _roots: entries)
    demo.main([])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 20
    first, second = (at for at, line in enumerate(lines) if "present keys" in line)
    assert lines[first].startswith("As flushed: ")
    assert lines[second].startswith("Compacted: 1 run; ")
    assert lines[first + 1] == lines[second + 1]
    assert lines[first + 1].split("  ")[0].strip() == "p, %"
    assert len(lines[first + 4].split()) == 5
    assert lines[first + 3].split()[::2] == ["off", f"{FILES:,}"]
