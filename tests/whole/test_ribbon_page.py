"""The page on ribbon filters: its example and its figures are what the code gives."""

from __future__ import annotations

import doctest
import random
import re
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import pytest

from lsmkv import filters
from lsmkv.filters import ribbon

PAGE: Final = (Path(__file__).parents[2] / "docs" / "ribbon.md").read_text("utf-8")

ROWS: Final = re.findall(
    r"^\| ([\d.]+) % \| (\d+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$",
    PAGE,
    flags=re.M,
)


def run_page() -> tuple[dict[str, Any], doctest.TestResults, str]:
    """The names that the page's example defines, how it went, and a report of what differs."""
    example = doctest.DocTestParser().get_doctest(PAGE, {}, "ribbon.md", "docs/ribbon.md", 0)
    report: list[str] = []
    results = doctest.DocTestRunner().run(example, out=report.append, clear_globs=False)
    return example.globs, results, "".join(report)


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    return run_page()[0]


def test_the_example_prints_what_the_page_says() -> None:
    _, results, report = run_page()
    assert results.failed == 0, report
    assert results.attempted > 30
    assert len(ROWS) == 10


def test_the_package_solves_the_same_equations(page: dict[str, Any]) -> None:
    """Which of several solutions it takes is its own affair."""
    columns, hashes = page["columns"], page["hashes"]
    built = ribbon.build(hashes, columns)
    assert len(built) == len(page["packed"])
    assert all(ribbon.may_contain(built, 0, len(built), columns, h) for h in hashes)
    number = int.from_bytes(built, "little")
    for h in hashes:
        parities = [
            (number >> column * page["slots"] & page["window"](h)).bit_count() % 2
            for column in range(columns)
        ]
        assert parities == [h >> column & 1 for column in range(columns)]


def mean_bits(key_count: int, columns: int) -> float:
    """Bits per key of ribbon filters, over sets that have 12,000 keys together."""
    dice = random.Random(f"{key_count}, {columns}")
    sizes = [
        len(ribbon.build([dice.getrandbits(63) for _ in range(key_count)], columns))
        for _ in range(12_000 // key_count)
    ]
    return 8 * fmean(sizes) / key_count


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}%-{row[1]}")
def test_the_sizes_of_other_filters_are_what_the_functions_give(row: tuple[str, ...]) -> None:
    rate, count = float(row[0]) / 100, int(row[1])
    sizes = [
        filters.lower_bound_bits(count, rate),
        8 * filters.filter_bytes_for(count, rate),
        filters.cuckoo_bits_for(count, rate),
        filters.fuse_bits_for(count, rate),
    ]
    bound, _, bloom, cuckoo, fuse = row[2:]
    assert [f"{size / count:.2f}" for size in sizes] == [bound, bloom, cuckoo, fuse]


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, marks=pytest.mark.slow if at % 3 else ()) for at, row in enumerate(ROWS)],
    ids=lambda row: f"{row[0]}%-{row[1]}",
)
def test_ribbon_filters_are_as_small_as_the_table_says(row: tuple[str, ...]) -> None:
    rate, count, stated = float(row[0]) / 100, int(row[1]), float(row[3])
    columns, share = filters.ribbon_columns_for(rate), filters.ribbon_share(rate)
    bits = share * mean_bits(count, columns - 1) + (1 - share) * mean_bits(count, columns)
    assert bits <= 1.01 * stated
    assert bits >= 0.9 * stated, f"the table may promise {bits:.2f} bits"
