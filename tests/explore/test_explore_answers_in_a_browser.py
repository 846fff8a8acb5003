"""What the page says first, in a real browser: the answer, what drives it, and links to it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lsmkv
from browsed_pages import on_show
from browsers import Tab, needs_browser, number, tab, text_of
from live_pages import live_page
from lsmkv.explore import contract
from lsmkv.explore.demo import make_store as make_demo
from lsmkv.explore.page import file_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [needs_browser, pytest.mark.slow]


def test_the_page_opens_with_what_an_absent_key_cost(shown: Tab, data: contract.Page) -> None:
    page = shown.page
    expected = on_show(page, data)
    assert expected.kind == "absent"
    saved = [one.reads_without_filters - one.blocks_read for one in data.lookups]
    assert expected.reads_without_filters - expected.blocks_read == max(saved)
    count = expected.reads_without_filters
    assert text_of(page, ".hero .lead") == f"{expected.key.text} is not in this store."
    assert text_of(page, ".verdict") == (
        f"{count} blocks could hold it. {count} filters said no. 0 reads."
    )
    sizes = """all => all.map(e => parseFloat(getComputedStyle(e).fontSize))"""
    largest = max(page.eval_on_selector_all("body *", sizes))
    assert page.eval_on_selector(".verdict", "e => parseFloat(getComputedStyle(e).fontSize)") == (
        largest
    )


def test_the_slider_drives_the_score_the_lookup_and_the_map(
    shown: Tab, data: contract.Page
) -> None:
    page = shown.page
    absent = [lookup for lookup in data.lookups if lookup.kind == "absent"]
    assert all(len(one.rebuilt) == len(data.rates) for one in absent)
    for at in (0, len(data.rates) - 1):
        page.locator("#rate").evaluate(
            "(e, v) => { e.value = v; e.dispatchEvent(new Event('input')); }", str(at + 1)
        )
        passed = sum(len(one.rebuilt[at]) for one in absent)
        assert number(page.inner_text("[data-score=done]")) == passed
        assert page.input_value("#colouring") == "rate"
        lookup = on_show(page, data)
        steps = " ".join(page.locator(".steps li").all_inner_texts())
        assert steps.count("filter says maybe") == len(lookup.rebuilt[at])
    assert f"p={data.rates[-1]}" in page.url


def test_the_first_screen_has_sixty_words_the_map_bits_and_a_field_for_a_key(
    chromium: Browser, tmp_path: Path
) -> None:
    make_demo(str(tmp_path / "demo"))
    (tmp_path / "demo.html").write_text(file_page(str(tmp_path / "demo")), encoding="utf-8")
    with tab(chromium, (tmp_path / "demo.html").as_uri()) as opened:
        page = opened.page
        told = f"{text_of(page, '.intro')} {text_of(page, '.answer')}"
        assert len(told.split()) <= 60
        assert "Without filters: 4 reads, 49.6 ms from a hard disk." in told
        for part in (".map canvas", ".bits canvas", "#key"):
            box = page.locator(part).bounding_box()
            assert box is not None and box["y"] + box["height"] <= 768, part
        below = page.evaluate(
            "['.map', '.lookup'].map(card => document.querySelector(card).getBoundingClientRect().bottom)"
        )
        assert below[1] - below[0] < 80  # little is empty below the map


@pytest.mark.parametrize("kind", ["present", "absent"])
def test_a_link_names_the_key_on_show(
    chromium: Browser, file: Path, data: contract.Page, kind: str
) -> None:
    lookup = next(one for one in data.lookups if one.kind == kind and one.key.text.isalnum())
    with tab(chromium, f"{file.as_uri()}#key={lookup.key.text}") as opened:
        assert text_of(opened.page, ".the-key") == lookup.key.text


def test_a_link_names_a_scene(chromium: Browser, file: Path) -> None:
    with tab(chromium, f"{file.as_uri()}#scene=3") as opened:
        assert text_of(opened.page, ".lecture .where").startswith("3 of 8")
        opened.page.keyboard.press("ArrowRight")
        assert opened.page.url.endswith("#scene=4")


def test_a_frame_of_a_live_page_looks_up_every_key(
    chromium: Browser, browsed: Path, tmp_path: Path
) -> None:
    with live_page(browsed) as live:
        frame = f'<iframe src="{live.address}?embed=lookup" width=640 height=480></iframe>'
        (tmp_path / "slide.html").write_text(f"<main><p class=map>A slide</p></main>{frame}")
        with tab(chromium, (tmp_path / "slide.html").as_uri()) as opened:
            inside = opened.page.frame_locator("iframe")
            inside.locator("#key").fill("fresh07")
            inside.locator("#key").press("Enter")
            inside.locator(".verdict:has-text('The memtable has it.')").wait_for()
            assert opened.errors == []


def test_a_lookup_of_an_entry_that_is_due_says_that_it_has_expired(
    chromium: Browser, tmp_path: Path
) -> None:
    with lsmkv.open(tmp_path / "db", clock=lambda: 0.0) as db:
        db.bulk_load([(b"due", b"1", 60), (b"late", b"2", 9e9)])
    with live_page(tmp_path / "db") as live, tab(chromium, f"{live.address}#key=due") as opened:
        page = opened.page
        page.locator(".verdict:has-text('1 read found it expired.')").wait_for()
        assert text_of(page, ".hero .lead") == "due has expired, on 1970-01-01 00:01:00 UTC."
        assert "Expired." in text_of(page, ".steps")
        page.locator("#key").fill("late")
        page.locator("#key").press("Enter")
        page.locator(".lead:has-text('is in this store until 2255-03-14 16:00:00 UTC.')").wait_for()
        assert opened.errors == []


@pytest.mark.parametrize("part", ["lookup", "map"])
def test_a_frame_holds_one_part_alone(
    chromium: Browser, file: Path, tmp_path: Path, part: str
) -> None:
    frame = f'<iframe src="{file.as_uri()}?embed={part}" width=640 height=480></iframe>'
    (tmp_path / "slide.html").write_text(f"<main><p class=map>A slide</p></main>{frame}")
    with tab(chromium, (tmp_path / "slide.html").as_uri()) as opened:
        inside = opened.page.frame_locator("iframe")
        inside.locator(".verdict" if part == "lookup" else ".map canvas").wait_for()
        for name, is_shown in (
            (".verdict", part == "lookup"),
            (".map canvas", part == "map"),
            (".lookup", part == "lookup"),
            ("header", False),
            (".what-if", False),
            ("footer", False),
        ):
            assert inside.locator(name).first.is_visible() == is_shown, name
        assert opened.errors == []
