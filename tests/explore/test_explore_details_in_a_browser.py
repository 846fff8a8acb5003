"""Details of the page in a real browser: filters of every kind, colours, focus, and fresh maps."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import browsed_pages
import lsmkv
from browsers import Tab, needs_browser, tab, text_of
from explored_stores import make_store
from live_pages import live_page
from lsmkv.explore import contract
from lsmkv.explore.page import file_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [needs_browser, pytest.mark.slow]

# The fixtures of these names.
chromium = browsed_pages.chromium
data = browsed_pages.data
file = browsed_pages.file
store = browsed_pages.store
shown = browsed_pages.shown


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


def test_a_filter_of_a_table_says_which_part_is_shown(chromium: Browser, tmp_path: Path) -> None:
    sizes = {"table_size_bytes": 1 << 20, "level1_size_bytes": 1 << 22}
    make_store(tmp_path / "db", 12_000, filter_granularity="table", **sizes)
    (tmp_path / "page.html").write_text(file_page(str(tmp_path / "db")), encoding="utf-8")
    with tab(chromium, (tmp_path / "page.html").as_uri()) as opened:
        page = opened.page
        page.focus(".map canvas")
        for key in ("ArrowRight", *["ArrowDown"] * 9):
            page.keyboard.press(key)
        told = text_of(page, ".selection figcaption")
        assert re.match(r"The table's filter: [\d,]+ bits, the first 16,384 shown; ", told)
        assert opened.errors == []


# The signs of a lookup


def test_the_map_explains_the_signs_of_the_lookup_on_show(shown: Tab, data: contract.Page) -> None:
    page = shown.page
    page.click("[data-pick='false positive']")
    told = text_of(page, ".signs")
    assert "the filter said maybe: a wasted read" in told
    key = text_of(page, ".the-key")
    lookup = next(one for one in data.lookups if one.key.text == key)
    outcomes = {run.outcome for run in lookup.runs}
    assert ("⊘the filter said no" in told) == ("filtered" in outcomes)
    assert ("✓found" in told) == ("found" in outcomes)


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


def test_each_step_is_announced_with_what_it_brought(shown: Tab, data: contract.Page) -> None:
    page = shown.page
    key = text_of(page, ".the-key")
    lookup = next(one for one in data.lookups if one.key.text == key)
    page.click("[aria-label='First step']")
    said = []
    for _ in range(len(lookup.memtables) + len(lookup.runs)):
        page.click("[aria-label='Step forward']")
        said.append(page.locator(".player [aria-live]").text_content() or "")
    assert said[0].endswith(": memtable, not there")
    for text, run in zip(said[len(lookup.memtables) :], lookup.runs, strict=True):
        assert f": level {run.level}, run {run.run}, " in text
        assert ("filter: no" in text) == (run.outcome == "filtered")


def test_home_and_end_select_the_ends_of_a_run(shown: Tab, data: contract.Page) -> None:
    page = shown.page
    runs = [run for level in data.map.levels for run in level.runs]
    last = runs[0].tables[-1]
    page.focus(".map canvas")
    for key in ("ArrowRight", "End"):
        page.keyboard.press(key)
    assert page.inner_text(".map [aria-live]").startswith(
        f"table {last.number}, block {last.block_count - 1},"
    )
    page.keyboard.press("Home")
    assert page.inner_text(".map [aria-live]").startswith(f"table {runs[0].tables[0].number}, ")


def test_a_block_chosen_with_the_keyboard_comes_into_sight(shown: Tab) -> None:
    page = shown.page
    page.focus(".map canvas")
    for key in ("ArrowRight", "Home", "Enter"):
        page.keyboard.press(key)
    page.wait_for_timeout(60)
    first = page.locator(".map canvas").screenshot()
    page.keyboard.press("End")
    page.wait_for_timeout(60)
    assert page.locator(".map canvas").screenshot() != first


@pytest.mark.parametrize("width", [360, 1366])
def test_the_tip_stays_in_the_window(chromium: Browser, file: Path, width: int) -> None:
    with tab(chromium, file.as_uri(), viewport={"width": width, "height": 740}) as opened:
        page = opened.page
        canvas = page.locator(".map canvas")
        # The window ends just below the third run.
        box = canvas.bounding_box()
        assert box is not None
        height = round(box["y"]) + 121
        page.set_viewport_size({"width": width, "height": height})
        for share in (0.7, 0.97):
            page.mouse.move(box["x"] + share * box["width"], box["y"] + 101)
            tip = page.locator(".tip").bounding_box()
            assert tip is not None
            assert tip["x"] >= 0 and tip["x"] + tip["width"] <= width
            assert tip["y"] >= 0 and tip["y"] + tip["height"] <= height


def test_headings_go_down_one_level_at_a_time(shown: Tab) -> None:
    page = shown.page
    page.click("[data-pick='absent']")
    page.focus(".map canvas")
    page.keyboard.press("ArrowRight")
    levels = [
        int(tag[1])
        for tag in page.eval_on_selector_all(
            "h1, h2, h3, h4", "all => all.filter(e => e.checkVisibility()).map(e => e.tagName)"
        )
    ]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))


def tops(page: Page, *parts: str) -> list[float]:
    return [page.locator(part).bounding_box()["y"] for part in parts]  # type: ignore[index]


def test_on_a_phone_lookups_follow_the_map(chromium: Browser, file: Path) -> None:
    with tab(chromium, file.as_uri(), viewport={"width": 360, "height": 740}) as opened:
        found = tops(opened.page, ".map", ".lookup", ".what-if", ".time", ".counters")
        assert found == sorted(found)


@pytest.mark.parametrize("width", [360, 1366])
def test_what_is_chosen_on_the_map_shows_below_it(
    chromium: Browser, file: Path, width: int
) -> None:
    with tab(chromium, file.as_uri(), viewport={"width": width, "height": 900}) as opened:
        page = opened.page
        assert not page.is_visible(".selection")
        page.click("[data-pick='absent']")
        page.focus(".map canvas")
        page.keyboard.press("ArrowRight")
        box = page.locator(".map").bounding_box()
        assert box is not None
        (top,) = tops(page, ".selection h3 >> nth=0")
        assert 0 < top - (box["y"] + box["height"]) < 100


def test_rows_with_reasons_show_no_names(shown: Tab, data: contract.Page) -> None:
    page = shown.page
    page.evaluate(
        """() => { window.written = []; const real = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
            window.written.push(text); real.call(this, text, ...at); }; }"""
    )
    run_count = sum(len(level.runs) for level in data.map.levels)
    lookup = next(one for one in data.lookups if len(one.runs) == run_count)
    page.fill("#key", lookup.key.hex)
    page.select_option("#key-form", "hex")
    page.click("button:has-text('Look up')")
    page.click("[aria-label='First step']")
    page.click("[aria-label='Zoom in']")
    page.wait_for_timeout(60)
    assert [text for text in page.evaluate("written") if re.match(r"\d+ ", text)]
    page.click("[aria-label='Last step']")
    page.wait_for_timeout(60)
    page.evaluate("written.length = 0")
    page.click("[aria-label='Zoom in']")
    page.wait_for_timeout(60)
    assert not [text for text in page.evaluate("written") if re.match(r"\d+ ", text)]


# Colours


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, as WCAG defines it."""

    def luminance(colour: str) -> float:
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_of_charts_stand_out(chromium: Browser, file: Path, scheme: str) -> None:
    with tab(chromium, file.as_uri(), color_scheme=scheme) as opened:
        ground = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
        fills = opened.page.eval_on_selector_all(
            "svg text", "all => all.map(e => [e.textContent, getComputedStyle(e).fill])"
        )
        assert {text for text, _ in fills} >= {"this store", "bits per key", "flushed", "space"}
        faint = [text for text, fill in fills if contrast(fill, ground) < 4.5]
        assert faint == []


def test_pictures_of_filters_turn_with_the_colours(shown: Tab) -> None:
    page = shown.page
    page.focus(".map canvas")
    page.keyboard.press("ArrowRight")
    pixel = """e => [...e.getContext('2d').getImageData(10, 10, 1, 1).data].join()"""
    before = page.locator(".selection canvas").evaluate(pixel)
    page.click("text=Dark or light")
    assert page.locator(".selection canvas").evaluate(pixel) != before


def test_painting_asks_the_style_for_each_colour_once(chromium: Browser, file: Path) -> None:
    counting = """window.asked = 0;
        const real = window.getComputedStyle;
        window.getComputedStyle = (...given) => { window.asked += 1; return real(...given); };
        null"""
    with tab(chromium, file.as_uri()) as opened:
        page = opened.page
        page.click("[data-pick='absent']")
        page.click("[aria-label='Zoom in']")
        page.wait_for_timeout(100)
        page.evaluate(counting)
        for _ in range(5):
            page.click("[aria-label='Zoom in']")
            page.wait_for_timeout(30)
        assert page.evaluate("window.asked") <= 1  # d3 may ask; the map does not


def test_a_print_is_light_and_without_controls(chromium: Browser, file: Path) -> None:
    with tab(chromium, file.as_uri(), color_scheme="dark") as opened:
        page = opened.page
        page.click("[data-pick='absent']")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == "rgb(255, 255, 255)"
        for control in (".tools", "#colouring", "#key", "[data-pick]", ".player", ".counters"):
            assert not page.locator(control).first.is_visible(), control
        assert page.is_visible(".steps")
        page.emulate_media(media="screen")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != ground


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
        db.put(b"a", b"1")
        db.flush()
        with live_page(tmp_path / "db") as live, tab(chromium, live.address) as opened:
            page = opened.page
            page.fill("#key", "a")
            page.keyboard.press("Enter")
            page.wait_for_selector(".outcome")
            page.focus(".map canvas")
            page.keyboard.press("ArrowRight")
            db.put(b"a", b"2")
            db.flush()
            db.compact_range()
            page.wait_for_selector(".asked:has-text('There is no such key')")
            assert not page.is_visible(".selection")
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
