"""A real browser for tests of the page: Chromium, driven by Playwright.

Tests that need it are skipped, with one line that says so, where either is missing.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def chromium_path() -> str | None:
    """The installed Chromium; ``LSMKV_CHROMIUM`` names another."""
    chosen = os.environ.get("LSMKV_CHROMIUM")
    return chosen or next(filter(None, map(shutil.which, _NAMES)), None)


needs_browser = pytest.mark.skipif(
    chromium_path() is None or importlib.util.find_spec("playwright") is None,
    reason="needs Chromium (apt-get install chromium, or LSMKV_CHROMIUM) and Playwright (pip)",
)


@dataclass
class Tab:
    """A tab, and what went wrong in it."""

    page: Page
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Containers forbid Chromium's sandbox; it shows only pages that the tests make.
        launched = playwright.chromium.launch(
            executable_path=chromium_path(), args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            yield launched
        finally:
            launched.close()


@contextlib.contextmanager
def tab(browser: Browser, address: str, **settings: Any) -> Iterator[Tab]:
    """A tab that shows ``address``; without motion, unless asked for."""
    settings.setdefault("viewport", {"width": 1366, "height": 768})
    settings.setdefault("reduced_motion", "reduce")
    context = browser.new_context(**settings)
    try:
        opened = Tab(context.new_page())
        opened.page.on("pageerror", lambda error: opened.errors.append(str(error)))
        opened.page.on(
            "console",
            lambda message: (
                opened.errors.append(message.text) if message.type in ("error", "warning") else None
            ),
        )
        opened.page.on("request", lambda request: opened.requests.append(request.url))
        opened.page.goto(address)
        opened.page.wait_for_selector("main .map")
        yield opened
    finally:
        context.close()


def text_of(page: Page, selector: str) -> str:
    return " ".join(page.inner_text(selector).split())


def facts(page: Page, within: str) -> dict[str, str]:
    """The names and values that a part of the page lists."""
    # In one go: a live page may replace the list meanwhile.
    rows: list[list[str]] = page.eval_on_selector_all(
        f"{within} .facts dt",
        "all => all.map(name => [name.innerText, name.nextElementSibling.innerText])",
    )
    return {row[0]: row[1] for row in rows}


def number(text: str) -> int:
    """The first number of a text."""
    found = re.search(r"\d[\d,]*", text)
    assert found, text
    return int(found[0].replace(",", ""))
