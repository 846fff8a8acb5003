"""The page in a real browser, as ``make test`` asks it: it loads, is lectured, and axe finds no fault."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browsers import Tab, needs_browser, tab, text_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = needs_browser


def test_a_page_in_a_file_requests_nothing(shown: Tab, file: Path) -> None:
    page = shown.page
    for pick in ("present", "absent", "false positive"):
        page.click(f"[data-pick='{pick}']")
    page.keyboard.press("l")
    for _ in range(8):
        page.keyboard.press("ArrowRight")
    assert [url for url in shown.requests if not url.startswith("data:")] == [file.as_uri()]


def test_the_lecture_has_nine_scenes_by_keyboard_alone(shown: Tab) -> None:
    page = shown.page
    page.keyboard.press("l")
    seen = []
    for scene in range(9):
        assert text_of(page, ".lecture .where").startswith(f"{scene} of 8 · ")
        seen.append(text_of(page, ".lecture h2"))
        assert page.locator(".lecture .sentence").count() == 1
        page.keyboard.press("ArrowRight")
    assert len(set(seen)) == 9
    page.keyboard.press("0")
    assert text_of(page, ".lecture h2") == seen[0]
    page.keyboard.press("Escape")
    assert not page.is_visible(".lecture")
    assert page.is_visible(".score")


@pytest.mark.parametrize(
    ("scheme", "width"),
    [
        ("light", 1366),
        *(
            pytest.param(scheme, width, marks=pytest.mark.slow)
            for scheme, width in (("dark", 1366), ("light", 360), ("dark", 360))
        ),
    ],
)
def test_axe_finds_no_serious_fault(chromium: Browser, file: Path, scheme: str, width: int) -> None:
    from axe_playwright_python.sync_playwright import Axe

    viewport = {"width": width, "height": 768}
    with tab(chromium, file.as_uri(), color_scheme=scheme, viewport=viewport) as opened:
        page = opened.page
        page.click("[data-pick='false positive']")
        page.focus(".map canvas")
        page.keyboard.press("ArrowRight")
        serious = []
        for scene in range(10):
            serious += [
                f"{fault['id']} in scene {scene}: {fault['nodes'][0]['html'][:200]}"
                for fault in Axe().run(page).response["violations"]
                if fault["impact"] in ("serious", "critical")
            ]
            if scene == 0:
                page.locator("button:has-text('Lecture')").click()
            else:
                page.keyboard.press("ArrowRight")
        assert serious == []
