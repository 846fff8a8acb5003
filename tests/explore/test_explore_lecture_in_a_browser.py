"""The lecture in a real browser: each scene fits the window, and shows what it tells."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lsmkv
from browsed_pages import on_show
from browsers import Tab, needs_browser, number, tab, text_of
from lsmkv.explore import contract
from lsmkv.explore.page import file_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [needs_browser, pytest.mark.slow]


SCENES = range(9)
ON_MAP = (2, 3, 6, 8)
WINDOWS = ((1366, 768), (1920, 1080))

# The parts of the page that are not whole: outside the window, or cut off by what holds them.
_CUT = """() => [...document.querySelectorAll('.card, .card *, .lecture, .lecture *')]
    .filter(e => e.checkVisibility() && !e.closest('.visually-hidden, .the-key, .steps li *, svg *'))
    .filter(e => {
        const box = e.getBoundingClientRect();
        const holder = e.closest('.card')?.getBoundingClientRect() ?? box;
        return box.width && (box.bottom > innerHeight + 1 || box.right > innerWidth + 1
            || box.top < -1 || box.left < -1 || box.bottom > holder.bottom + 1
            || box.right > holder.right + 1);
    }).map(e => `${e.tagName}.${e.className} ${e.textContent.slice(0, 60)}`)"""

_SCROLLING = """() => [...document.querySelectorAll('.card, .card *, html, body')]
    .filter(e => e.checkVisibility() && /auto|scroll|hidden/.test(getComputedStyle(e).overflowY))
    .filter(e => !e.matches('.visually-hidden, .the-key') && e.scrollHeight > e.clientHeight + 1)
    .map(e => `${e.tagName}.${e.className}`)"""

# Of the width of the window.
_TEXT_SIZES = """() => [...document.querySelectorAll('.card *')]
    .filter(e => e.checkVisibility() && !e.closest('svg, .visually-hidden, button'))
    .filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
    .map(e => parseFloat(getComputedStyle(e).fontSize) / innerWidth)"""


@pytest.fixture(scope="module")
def many_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a store with more than 20 runs."""
    path = tmp_path_factory.mktemp("many")
    with lsmkv.open(
        path / "db",
        level0_compaction_trigger=40,
        level0_slowdown_trigger=50,
        level0_stop_trigger=80,
    ) as db:
        for run in range(23):
            for number in range(200):
                db.put(b"key%06d" % (7 * (number * 23 + run)), b"value" * 9)
            db.flush()
    (path / "page.html").write_text(file_page(str(path / "db")), encoding="utf-8")
    return path / "page.html"


@pytest.fixture(params=WINDOWS, ids=lambda size: f"{size[0]}x{size[1]}")
def window(request: pytest.FixtureRequest) -> dict[str, int]:
    return dict(zip(("width", "height"), request.param, strict=True))


def scenes(page: Page) -> Iterator[int]:
    """Each scene in turn, once it has shown its number."""
    page.keyboard.press("l")
    for scene in SCENES:
        page.keyboard.press(str(scene))
        page.keyboard.press("Enter")
        page.wait_for_timeout(60)  # until the map has its new size
        yield scene


@pytest.mark.parametrize("which", ["file", "many_runs"])
def test_every_scene_fits_the_window_and_uses_it(
    chromium: Browser, window: dict[str, int], which: str, request: pytest.FixtureRequest
) -> None:
    file: Path = request.getfixturevalue(which)
    with tab(chromium, file.as_uri(), viewport=window) as opened:
        for scene in scenes(opened.page):
            assert opened.page.evaluate(_CUT) == [], scene
            assert opened.page.evaluate(_SCROLLING) == [], scene
            assert min(opened.page.evaluate(_TEXT_SIZES)) >= 0.01, scene
            box = opened.page.locator("main").bounding_box()
            assert box is not None
            assert box["height"] > 0.55 * window["height"], scene
            if scene in ON_MAP:
                drawn = opened.page.locator(".map canvas").bounding_box()
                assert drawn is not None
                assert drawn["height"] > 0.35 * window["height"], scene
                assert drawn["width"] > 0.55 * window["width"], scene
        assert opened.errors == []


def test_a_scene_hides_controls_that_it_does_not_need(shown: Tab) -> None:
    for _ in scenes(shown.page):
        for control in ("#colouring", "#key", "[data-pick]", ".selection"):
            assert not shown.page.locator(control).first.is_visible(), control


def show(page: Page, scene: int) -> None:
    """Go to a scene and have it show its number."""
    page.keyboard.press("l")
    page.keyboard.press(str(scene))
    page.keyboard.press("Enter")


@pytest.mark.parametrize(("scene", "frames"), [(1, 4), (7, 3)])
def test_the_small_store_is_played_step_by_step(shown: Tab, scene: int, frames: int) -> None:
    page = shown.page
    page.keyboard.press("l")
    page.keyboard.press(str(scene))
    texts = {text_of(page, ".sandbox-text")}
    for _ in range(frames):
        page.keyboard.press("ArrowDown")
        texts.add(text_of(page, ".sandbox-text"))
    assert len(texts) == frames + 1
    page.keyboard.press("ArrowUp")
    assert text_of(page, ".sandbox-text") in texts
    page.keyboard.press("Enter")
    counts = [text_of(page, f".sandbox .counts dd >> nth={at}") for at in range(4)]
    assert counts[1].startswith("1")  # one run is left to ask
    assert text_of(page, ".lecture .value b") == "1"


def told(page: Page, scene: int, at: int, data: contract.Page, browsed: Path) -> tuple[int, int]:
    """The number that a scene shows, and what it must be by the store; scene 5 chooses a rate."""
    page.keyboard.press("Enter")
    for _ in range(abs(at - data.rates.index(0.01)) if scene == 5 else 0):
        page.keyboard.press("ArrowUp" if at < data.rates.index(0.01) else "ArrowDown")
    shown = number(page.inner_text(".lecture .value b"))
    if scene == 5:
        absent = [lookup for lookup in data.lookups if lookup.kind == "absent"]
        return shown, sum(len(one.rebuilt[at]) for one in absent)
    if scene not in ON_MAP:
        return shown, {0: round(1000 / data.devices[0].read_ms), 1: 1, 4: 3, 7: 1}[scene]
    key = bytes.fromhex(on_show(page, data).key.hex)
    off: dict[str, Any] = {"filter_residency": "off"} if scene == 2 else {}
    with lsmkv.open(browsed, read_only=True, block_cache_size_bytes=0, **off) as db:
        explained = db.explain(key)
    asked = [run for run in explained.runs if run.filter is not None and run.filter.was_asked]
    if scene == 6:
        kept = sum(-(-run.filter.bit_count // 8) for run in asked if run.filter)
        assert f"{kept:,} bytes of memory" in text_of(page, ".proof")
        return shown, sum(run.spanning is not None for run in asked)
    return shown, explained.blocks_read


@pytest.mark.parametrize("rate", [0.5, 0.01, 0.0001])
def test_each_number_is_the_stores_on_the_way_forth_and_back(
    shown: Tab, data: contract.Page, browsed: Path, rate: float
) -> None:
    page = shown.page
    page.keyboard.press("l")
    for scene in (*SCENES, *reversed(SCENES[:-1])):
        if int(text_of(page, ".lecture .where")[0]) != scene:
            page.keyboard.press(
                "ArrowRight" if scene > int(text_of(page, ".lecture .where")[0]) else "ArrowLeft"
            )
        found, expected = told(page, scene, data.rates.index(rate), data, browsed)
        assert found == expected, scene
    page.keyboard.press("Escape")
    assert page.input_value("#rate") == "0"


# Scenes with something of their own


def test_the_sixth_scene_compares_filters_in_and_apart_from_blocks(
    shown: Tab, data: contract.Page
) -> None:
    show(shown.page, 6)
    lookup = on_show(shown.page, data)
    asked = [run for run in lookup.runs if run.filter and run.filter.verdict in ("no", "maybe")]
    unread = [run for run in asked if run.spanning_block is not None]
    blocks = [block for run in asked for block in run.blocks]
    assert len(asked) > len(blocks)  # or there is nothing to see
    first, second, third, fourth = (
        " ".join(text.split()) for text in shown.page.locator(".proof .measure").all_inner_texts()
    )
    assert number(first) == len(unread)
    assert number(second) == len(blocks)
    assert number(third) == len(asked)
    kept = sum(-(-run.filter.bit_count // 8) for run in asked if run.filter)
    assert f"{kept:,} bytes of memory" in third
    indexed = sum(run.index_bytes_per_block for run in asked)
    assert float(re.findall(r"([\d.]+) bytes of memory", fourth)[0]) == pytest.approx(indexed, 0.01)
