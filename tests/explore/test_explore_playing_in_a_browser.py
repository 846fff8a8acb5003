"""What readers do on a page in a file: type any key, play with a small store, answer, save."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lsmkv
from browsers import Tab, facts, needs_browser, number, tab, text_of
from explored_stores import page_in
from lsmkv.explore import contract
from lsmkv.explore.demo import make_store as make_demo
from lsmkv.explore.page import file_page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

pytestmark = [needs_browser, pytest.mark.slow]


def look_up(page: Page, key: str, form: str = "text") -> None:
    page.select_option("#key-form", form)
    page.fill("#key", key)
    page.click("text=Look up")


# Any key, in a file


@pytest.fixture(scope="module")
def flushed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of four runs, and nothing in memory; its page is beside it."""
    path = tmp_path_factory.mktemp("flushed") / "db"
    make_demo(str(path))
    with lsmkv.open(path) as db:
        db.flush()
    (path.parent / "page.html").write_text(file_page(str(path)), encoding="utf-8")
    return path


@pytest.fixture
def typed(chromium: Browser, flushed: Path) -> Iterator[Tab]:
    with tab(chromium, (flushed.parent / "page.html").as_uri()) as opened:
        yield opened
        assert opened.errors == []


def test_a_file_asks_the_filters_of_any_key_as_the_store_does(typed: Tab, flushed: Path) -> None:
    page = typed.page
    draw = random.Random(3)
    made = page_in((flushed.parent / "page.html").read_text("utf-8"))
    tables = [table for level in made.map.levels for run in level.runs for table in run.tables]
    borders = [key for table in tables for key in table.cells.from_key]
    ends = ("", "x", "ä", " and more of it", " and so much more that it takes blocks of 16 bytes")
    keys = [f"user{draw.randrange(4000):04}{draw.choice(ends)}" for _ in range(20)]
    seen = set()
    with lsmkv.open(flushed, read_only=True) as db:
        for key in (*keys, *draw.sample(borders, 10)):
            explained = db.explain(key.encode())
            look_up(page, key)
            lines = page.locator(".steps li").all_inner_texts()[len(explained.memtables) :]
            assert len(lines) >= len(explained.runs)  # the page does not know where a key is found
            for run, line in zip(explained.runs, lines, strict=False):
                verdict = run.filter.verdict if run.filter else "out of range"
                seen.add(verdict)
                told = {"no": "filter says no", "maybe": "filter says maybe"}.get(verdict)
                assert (told or "No table of this run spans the key") in line
                if run.spanning is not None:
                    assert f"block {run.spanning.number}\n" in line
    assert {"no", "maybe"} <= seen


@pytest.mark.parametrize("length", [8, 16, 17, 40, 48, 63])
def test_a_file_shows_the_bits_that_a_typed_key_asks_for(
    typed: Tab, flushed: Path, length: int
) -> None:
    key = "user1234-absent and so much more that it takes four blocks of 16 bytes"[:length]
    look_up(typed.page, key)
    with lsmkv.open(flushed, read_only=True) as db:
        runs = db.explain(key.encode()).runs
    last = runs[-1].filter
    assert last is not None and len(last.probes) > 5
    assert ", ".join(map(str, last.probes)) in text_of(typed.page, ".bits p")


def test_a_file_says_what_it_cannot_know_of_a_typed_key(typed: Tab) -> None:
    with_maybe = "user1234"  # four runs have most users
    look_up(typed.page, with_maybe)
    assert text_of(typed.page, ".lead") == "user1234 may be in this store."
    assert "At most" in text_of(typed.page, ".verdict")
    assert "this file holds filters, not keys" in text_of(typed.page, ".outcome")
    look_up(typed.page, "7573657231", "hex")
    assert typed.page.inner_text(".the-key") == "0x7573657231"
    for key, form, told in (
        ("a\\q", "text", "Write \\\\ for a backslash."),
        ("abc", "hex", "no hex of whole bytes"),
        ("1e3", "number", "A number has digits"),
    ):
        look_up(typed.page, key, form)
        assert told in text_of(typed.page, ".lookup .failure")


# A small store


def press(page: Page, name: str, key: str = "") -> str:
    """Press a button of the small store; what it says then."""
    if key:
        page.fill("#small-key", key)
    page.click(f".sandbox button:has-text('{name}')")
    return text_of(page, ".sandbox-text")


def test_a_class_causes_what_it_sees_in_the_small_store(shown: Tab) -> None:
    page = shown.page
    page.click(".sandbox summary")
    press(page, "Start anew")
    for key in "acegbdfh":
        press(page, "Put", key)
    assert page.locator(".sandbox .block").count() == 2  # flushed when full
    assert press(page, "Get", "a") == (
        "get a: found, value 1. 1 block read, 0 of them wasted; filters avoided 0 reads."
    )
    press(page, "Delete", "a")
    assert press(page, "Get", "a").startswith("get a: deleted, in memory.")
    press(page, "Flush")
    assert press(page, "Get", "a").startswith("get a: deleted. 1 block read")
    assert press(page, "Compact").startswith("3 runs merged: 9 entries read, 7 written.")
    assert press(page, "Get", "a").startswith("get a: absent.")


def test_filters_of_no_bits_waste_the_reads_that_ten_bits_avoid(shown: Tab) -> None:
    page = shown.page
    page.click(".sandbox summary")
    wasted = {}
    for bits in ("0", "20"):
        press(page, "Start anew")
        page.fill("#small-bits", bits)
        for key in "acegbdfi":
            press(page, "Put", key)
        press(page, "Get", "dd")
        wasted[bits] = text_of(page, ".sandbox .counts dd:last-child")
    assert wasted["0"] == "2in 1 gets: 2 wasted, 0 avoided"
    assert wasted["20"] == "0in 1 gets: 0 wasted, 2 avoided"


# The toy of the tutorials: its bits are published ones


def sha(page: Page, word: str, *names: str) -> str:
    """Type a word, press buttons; what is said of the word then."""
    page.fill("#sha-word", word)
    page.locator(f".sha p:has-text('“{word}” has')").wait_for()
    for name in names:
        page.click(f".sha button:has-text('{name}')")
        page.wait_for_timeout(50)
    return text_of(page, ".sha p[aria-live]")


def test_three_sha_hashes_set_the_published_bits_and_a_removal_loses_a_word(shown: Tab) -> None:
    page = shown.page
    page.click(".toy summary")
    assert sha(page, "foo", "Add").startswith("“foo” has the bits 27, 15, 16: maybe.")
    assert "bits 18, 27, 23" in sha(page, "baz", "Add")
    sha(page, "baz", "Remove")
    assert "no, though it was added" in sha(page, "foo")  # bit 27 is of both


def test_counters_keep_foo_and_lose_loved(shown: Tab) -> None:
    page = shown.page
    page.click(".toy summary")
    page.check(".sha input[type=checkbox]")
    sha(page, "foo", "Add")
    sha(page, "baz", "Add", "Remove")
    assert "maybe. Added: foo" in sha(page, "foo")
    sha(page, "loved", "Start anew", "Add")
    sha(page, "your", "Add")
    sha(page, "response", "Remove")  # never added, and all its bits are those of loved
    assert "no, though it was added" in sha(page, "loved")


# Exercises and pictures


def test_exercises_check_the_answers_of_this_store(shown: Tab, data: contract.Page) -> None:
    page = shown.page
    page.click(".exercises >> xpath=../summary")
    by_kind = {kind: [one for one in data.lookups if one.kind == kind] for kind in ("absent",)}
    best = max(one.reads_without_filters - one.blocks_read for one in by_kind["absent"])
    assert data.what_if is not None
    made = next(
        one for one in data.what_if.rebuilt if (one.policy, one.requested_rate) == ("bloom", 0.01)
    )
    page.focus(".map canvas")
    page.keyboard.press("ArrowRight")
    told = facts(page, ".selection")
    n, m, k = (number(told[name]) for name in ("keys n", "bits m", "probes k"))
    answers = {
        1: f"{best}",
        4: f"{100 * (1 - (1 - 1 / m) ** (k * n)) ** k:.3f}",
        5: f"{made.bit_count / data.what_if.key_count:.1f}",
        7: "4",
        8: "2",
    }
    for at, answer in answers.items():
        for given, judged in ((answer, "✓ right"), (f"{float(answer) * 3}", "✗ not yet")):
            page.fill(f"#answer-{at}", given)
            assert text_of(page, f".exercises li:nth-child({at}) b") == judged, at


def test_a_scene_is_saved_as_a_picture(shown: Tab) -> None:
    page = shown.page
    page.keyboard.press("l")
    page.keyboard.press("3")
    page.keyboard.press("Enter")
    with page.expect_download() as saved:
        page.keyboard.press("s")
    content = Path(saved.value.path()).read_bytes()
    assert saved.value.suggested_filename == "scene-3.png"
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", content[16:24]) == (2 * 1366, 2 * 768)
    assert len(content) > 50_000  # it is not blank
    assert not shown.errors


def test_the_speakers_notes_show_on_a_key_and_the_scenes_take_45_minutes(shown: Tab) -> None:
    page = shown.page
    page.keyboard.press("l")
    minutes = 0
    for scene in range(9):
        page.keyboard.press(str(scene))
        minutes += number(text_of(page, ".lecture .where").split("·")[1])
        assert not page.is_visible(".notes")
        page.keyboard.press("n")
        assert len(text_of(page, ".notes").split()) > 5
        page.keyboard.press("n")
    assert minutes == 45
