"""The site that ``make docs`` has built: its reference is complete, and it needs no network."""

from __future__ import annotations

import importlib
import inspect
import os
import re
from pathlib import Path

import pytest

import lsmkv
from browsers import browser, needs_browser

if "LSMKV_SITE" not in os.environ:
    pytest.skip("make docs builds the site, and runs this", allow_module_level=True)

SITE = Path(os.environ["LSMKV_SITE"])
MODULES = ("aio", "cache", "cluster", "counters", "dbm", "filters", "metrics", "typed")
PAGES = [*sorted(SITE.glob("*.html")), *sorted(SITE.glob("reference/*.html"))]


def inventory() -> set[str]:
    """The names of Python that the reference describes."""
    from sphinx.util.inventory import InventoryFile

    loaded = InventoryFile.loads((SITE / "objects.inv").read_bytes(), uri="")
    return {name for kind in loaded.data for name in loaded.data[kind] if kind.startswith("py:")}


def public() -> set[str]:
    """The public names: of the package, its public modules, and of the classes there."""
    named = {f"lsmkv.{name}": getattr(lsmkv, name) for name in lsmkv.__all__}
    for each in MODULES:
        module = importlib.import_module(f"lsmkv.{each}")
        found = {name: getattr(module, name) for name in set(module.__all__) - set(lsmkv.__all__)}
        named |= {f"{module.__name__}.{name}": value for name, value in found.items()}
    methods = {
        f"{name}.{method}"
        for name, value in named.items()
        if inspect.isclass(value)
        for method, function in vars(value).items()
        if inspect.isfunction(function) and not method.startswith("_")
    }
    return methods | set(named)


def test_the_reference_has_every_public_name() -> None:
    assert sorted(public() - inventory()) == []
    assert "lsmkv.DB.get" in inventory()  # which the class inherits


def test_pages_ask_the_network_for_nothing() -> None:
    loaded = r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"(?:https?:)?//[^\"]*"
    assert [(page.name, re.findall(loaded, page.read_text("utf-8"))) for page in PAGES] == [
        (page.name, []) for page in PAGES
    ]


@needs_browser
def test_the_first_page_shows_a_store_and_the_search_finds_a_page_without_a_server() -> None:
    with browser() as launched:
        page = launched.new_page()
        page.goto((SITE / "index.html").as_uri())
        page.frame_locator("iframe").locator("main .map").wait_for()
        page.goto(f"{(SITE / 'search.html').as_uri()}?q=ribbon")
        page.locator("#search-results a[href*='ribbon.html']").first.wait_for()


@needs_browser
@pytest.mark.parametrize("media", ["screen", "print"])
def test_no_page_is_wider_than_a_phone_or_paper(media: str) -> None:
    with browser() as launched:
        page = launched.new_page(viewport={"width": 360, "height": 640})
        page.emulate_media(media="print" if media == "print" else "screen")
        wide = {}
        for each in PAGES:
            page.goto(each.as_uri())
            width = page.evaluate("document.documentElement.scrollWidth")
            if width > 360:
                wide[each.name] = width
        assert wide == {}
