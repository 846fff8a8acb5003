"""Details of the page in a real browser: filters of every kind, focus, and fresh maps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lsmkv
from browsers import Tab, needs_browser, tab, text_of
from explored_stores import make_store
from live_pages import live_page
from lsmkv.explore.page import file_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [needs_browser, pytest.mark.slow]


def page_of(path: Path, **options: object) -> Path:
    make_store(path / "db", 1500, **options)
    (path / "page.html").write_text(file_page(str(path / "db")), encoding="utf-8")
    return path / "page.html"


def show_first_no(page: Page) -> None:
    """Go to the first step of an absent key's lookup at which a filter says no."""
    page.click("[data-pick='absent']")
    page.click("[aria-label='First step']")
    while "says no" not in text_of(page, ".steps"):
        page.click("[aria-label='Step forward']")


# Filters of every kind


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ("ribbon", "bits that the key's hash selects must equal one bit of the key's fingerprint"),
        ("grafite", "the key may be there if its code is in the list"),
    ],
)
def test_filters_without_single_bits_say_how_they_answer(
    chromium: Browser, tmp_path: Path, policy: str, told: str
) -> None:
    with tab(chromium, page_of(tmp_path, filter_policy=policy).as_uri()) as opened:
        show_first_no(opened.page)
        assert told in text_of(opened.page, ".bits p")
        assert text_of(opened.page, ".bits p").endswith("It does not: no.")
        assert opened.page.locator(".bits canvas").count() == 0  # no picture that shows nothing
        opened.page.focus(".map canvas")
        opened.page.keyboard.press("ArrowRight")
        assert told in text_of(opened.page, ".selection")
        assert opened.errors == []


# The keyboard and the pointer


def test_a_step_button_keeps_the_focus(shown: Tab) -> None:
    page = shown.page
    page.click("[data-pick='absent']")
    page.focus("[aria-label='First step']")
    page.keyboard.press("Enter")
    page.focus("[aria-label='Step forward']")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert "step 2 of" in text_of(page, ".path")
    assert page.evaluate("document.activeElement.ariaLabel") == "Step forward"


# Fresh maps of a live store


def test_what_is_on_show_survives_a_flush(chromium: Browser, tmp_path: Path) -> None:
    options = lsmkv.Options(level0_slowdown_trigger=20, block_size_bytes=512)
    with lsmkv.open(tmp_path / "db", options) as db:
        for number in range(600):
            db.put(b"key%05d" % number, b"value" * 5)
        db.flush()
        with live_page(tmp_path / "db") as live, tab(chromium, live.address) as opened:
            page = opened.page
            page.fill("#key", "key00300")
            page.keyboard.press("Enter")
            page.wait_for_selector(".outcome")
            page.focus(".map canvas")
            page.keyboard.press("ArrowRight")
            page.keyboard.press("ArrowRight")
            page.wait_for_selector(".selection dt:has-text('in the file')")
            page.keyboard.press("Enter")  # zooms
            page.wait_for_timeout(60)
            selected = text_of(page, ".selection h3")
            db.put(b"key00300", b"new")
            db.flush()
            page.wait_for_selector(".numbers:has-text('2 tables')")
            assert text_of(page, ".the-key") == "key00300"
            assert "Found: a value of 25 bytes" in text_of(page, ".outcome")
            assert "Tables changed since" in text_of(page, ".asked")
            assert text_of(page, ".selection h3") == selected
            page.wait_for_timeout(60)
            zoomed = page.locator(".map canvas").screenshot()
            page.click("[aria-label='Show the whole store']")
            page.wait_for_timeout(60)
            assert page.locator(".map canvas").screenshot() != zoomed
            assert opened.errors == []


def test_what_a_compaction_removed_is_no_longer_on_show(chromium: Browser, tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db") as db:
        db.update({b"%05d" % number: b"1" for number in range(2_000)})
        db.flush()
        with live_page(tmp_path / "db") as live, tab(chromium, live.address) as opened:
            page = opened.page
            page.fill("#key", "00007")
            page.keyboard.press("Enter")
            page.wait_for_selector(".outcome")
            page.focus(".map canvas")
            page.keyboard.press("ArrowRight")
            db.put(b"00007", b"2")
            db.flush()
            db.compact_range()
            page.wait_for_selector(".selection", state="hidden")
            page.wait_for_selector(".outcome")  # of another lookup
            assert opened.errors == []


def test_a_fresh_map_leaves_times_and_the_step_of_the_history(
    chromium: Browser, tmp_path: Path
) -> None:
    with lsmkv.open(tmp_path / "db") as db:
        for number in range(2):
            for end in range(0, 10, 3):
                db.put(b"%d%d" % (number, end), b"1")
            db.flush()
        with live_page(tmp_path / "db") as live, tab(chromium, live.address) as opened:
            page = opened.page
            page.fill("[aria-label='milliseconds of a read from a hard disk']", "5")
            page.locator("#time").evaluate(
                "e => { e.value = 0; e.dispatchEvent(new Event('input')); }"
            )
            db.put(b"4", b"1")
            db.flush()
            page.wait_for_selector(".numbers:has-text('3 tables')")
            assert "Step 1 of 3" in text_of(page, ".time")
            assert page.input_value("[aria-label='milliseconds of a read from a hard disk']") == "5"
            assert opened.errors == []
