"""The page on ribbon filters: its example, its picture and its figures are what the code gives."""

from __future__ import annotations

import doctest
import random
import re
from pathlib import Path
from statistics import fmean
from typing import Any, Final
from xml.etree import ElementTree as ET

import pytest

from lsmkv import filters
from lsmkv.filters import hashing, ribbon
from lsmkv.filters.maths.layouts import fuse_shape

DOCS: Final = Path(__file__).parents[2] / "docs"
PAGE: Final = (DOCS / "ribbon.md").read_text("utf-8")
PICTURE: Final = DOCS / "pictures" / "ribbon.svg"

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


def test_the_sum_of_bee_and_ant_is_the_row_of_slot_2(page: dict[str, Any]) -> None:
    ant, bee = (hashing.hash_key(word) for word in (b"ant", b"bee"))
    assert page["rows"][2] == (
        page["window"](bee) ^ page["window"](ant),
        page["result"](bee) ^ page["result"](ant),
    )


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


def test_the_picture_shows_the_question_for_ape(page: dict[str, Any]) -> None:
    texts = {
        text.get("id"): text.text
        for text in ET.parse(PICTURE).iter("{http://www.w3.org/2000/svg}text")
    }
    h, slots = hashing.hash_key(b"ape"), page["slots"]
    window = page["window"](h)
    assert texts["window"] == page["bits"](window, slots).replace(" ", "")
    for column, answer in enumerate(("agrees", "disagrees", None)):
        bits = page["number"] >> column * slots
        assert texts[f"column{column}"] == page["bits"](bits, slots).replace(" ", "")
        ones = (bits & window).bit_count()
        shown = texts[f"column{column}-answer"]
        if answer is None:
            assert shown == "not read"
        else:
            assert answer == ("agrees" if ones % 2 == h >> column & 1 else "disagrees")
            result = h >> column & 1
            assert shown == f"{ones} ones, parity {ones % 2}, result {result}: {answer}"


def mean_bits(key_count: int, columns: int) -> float:
    """Bits per key of ribbon filters, over sets that have 12,000 keys together."""
    dice = random.Random(f"{key_count}, {columns}")
    sizes = [
        len(ribbon.build([dice.getrandbits(63) for _ in range(key_count)], columns))
        for _ in range(12_000 // key_count)
    ]
    return 8 * fmean(sizes) / key_count


def test_the_table_has_every_size_at_both_rates() -> None:
    expected = [(rate, count) for rate in ("1", "0.1") for count in (10, 30, 100, 300, 600)]
    assert [(rate, int(count)) for rate, count, *_ in ROWS] == expected


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


@pytest.mark.parametrize("spare", range(5))
def test_random_equations_are_independent_as_often_as_the_page_says(
    page: dict[str, Any], spare: int
) -> None:
    stated = re.findall(r"^\[(0\.29, .*)\]$", PAGE, flags=re.M)[0].split(", ")
    dice = random.Random(spare)
    key_count, sets = 20, 2000
    independent = 0
    for _ in range(sets):
        equations = [
            (dice.getrandbits(key_count + spare) | 1, dice.getrandbits(31))
            for _ in range(key_count)
        ]
        rows = page["eliminate"](equations)
        independent += rows is not None and len(rows) == key_count
    assert independent / sets == pytest.approx(float(stated[spare]), abs=0.04)


def test_binary_fuse_filters_have_the_slots_that_the_page_says() -> None:
    stated = re.findall(r"but (\d+)\s+for\s+(\d+)\s+keys,\s+and\s+(\d+)\s+for\s+(\d+)\.", PAGE)[0]
    slots, count, more_slots, greater_count = map(int, stated)
    for each_slots, each_count in ((slots, count), (more_slots, greater_count)):
        length, segments = fuse_shape(each_count)
        assert length * segments == each_slots
