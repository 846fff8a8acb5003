"""Takes the pictures of the page for README and docs.  ``python -m tools.screenshots``

The store holds the files of this Python, written by the demonstration (``make explore``).  It needs
Chromium and Playwright, as the tests in a browser do.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from playwright.sync_api import Page, sync_playwright

from bench.explore import main as make_page
from tools.builds import CHECKOUT

FOLDER: Final = Path(CHECKOUT, "docs", "pictures")
_SECONDS: Final = "10"
_WIDE: Final = (1280, 800)


def _lookup(page: Page) -> None:
    page.click("[data-pick='absent']")
    page.click("[data-pick='false positive']")
    page.focus(".map canvas")
    page.keyboard.press("ArrowRight")
    page.evaluate("scrollTo(0, 0)")


def _scene(number: int) -> Callable[[Page], None]:
    def begin(page: Page) -> None:
        page.keyboard.press("l")
        page.keyboard.press(str(number))

    return begin


def _what_if(page: Page) -> None:
    page.locator(".what-if").scroll_into_view_if_needed()


PICTURES: Final[dict[str, tuple[tuple[int, int], str, Callable[[Page], None], str | None]]] = {
    # name: size of the window, colours, what to do first, and the part that the picture shows
    "explore": (_WIDE, "light", _lookup, None),
    "explore-what-if": (_WIDE, "light", _what_if, ".what-if"),
    "explore-time": (_WIDE, "light", lambda _page: None, ".time"),
    "explore-lecture": (_WIDE, "dark", _scene(2), None),
}


def take(address: str, folder: Path) -> None:
    """Take all pictures of the page at ``address``."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name, ((width, height), colours, act, part) in PICTURES.items():
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme="dark" if colours == "dark" else "light",
                reduced_motion="reduce",
            )
            page = context.new_page()
            page.goto(address)
            page.wait_for_selector("main .map canvas")
            act(page)
            page.wait_for_timeout(300)  # until everything is painted
            shown = page.locator(part) if part else page
            shown.screenshot(path=folder / f"{name}.png")
            context.close()
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.screenshots", description=__doc__)
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder (default: docs/pictures)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        made = Path(directory, "files.html")
        make_page(["--seconds", _SECONDS, "--out", str(made)])
        take(made.as_uri(), options.out)


if __name__ == "__main__":
    main()
