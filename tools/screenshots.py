"""Takes the pictures of the page for README and docs.  ``python -m tools.screenshots``

The store holds the files of this Python, written by the demonstration (``make explore``).  It needs
Chromium and Playwright, as the tests in a browser do.

``docs/pictures/page.json`` records the page that they show: a test fails once the page is another.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.explore import main as make_page
from tools.builds import CHECKOUT

if TYPE_CHECKING:  # the record is checked without a browser
    from playwright.sync_api import FloatRect, Page

FOLDER: Final = Path(CHECKOUT, "docs", "pictures")
RECORD: Final = "page.json"
_ASSETS: Final = Path(CHECKOUT, "lsmkv", "explore", "assets")
_SECONDS: Final = "10"
_WIDE: Final = (1280, 800)


def _as_it_opens(page: Page) -> None:
    page.evaluate("scrollTo(0, 0)")


def _scene(number: int) -> Callable[[Page], None]:
    def begin(page: Page) -> None:
        page.keyboard.press("l")
        page.keyboard.press(str(number))
        page.keyboard.press("Enter")

    return begin


def _what_if(page: Page) -> None:
    page.locator(".what-if").scroll_into_view_if_needed()


PICTURES: Final[dict[str, tuple[tuple[int, int], str, Callable[[Page], None], str | None]]] = {
    # name: size of the window, colours, what to do first, and the part that the picture shows
    "explore": (_WIDE, "light", _as_it_opens, None),
    "explore-map": (_WIDE, "light", _as_it_opens, ".map, .lookup"),
    "explore-what-if": (_WIDE, "light", _what_if, ".what-if"),
    "explore-time": (_WIDE, "light", lambda _page: None, ".time"),
    "explore-lecture": (_WIDE, "dark", _scene(3), None),
}


def take(address: str, folder: Path) -> None:
    """Take all pictures of the page at ``address``."""
    from playwright.sync_api import sync_playwright

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
            path = folder / f"{name}.png"
            if part is None:
                page.screenshot(path=path)
            else:
                page.screenshot(path=path, clip=_around(page, part), full_page=True)
            context.close()
        browser.close()


def _around(page: Page, parts: str) -> FloatRect:
    """The place of parts that stand side by side, as far down as the shortest."""
    page.evaluate("scrollTo(0, 0)")  # boxes count from the window, pictures from the page
    boxes = [box for part in page.locator(parts).all() if (box := part.bounding_box())]
    left, top = min(box["x"] for box in boxes), min(box["y"] for box in boxes)
    right = max(box["x"] + box["width"] for box in boxes)
    bottom = min(box["y"] + box["height"] for box in boxes)
    return {"x": left, "y": top, "width": right - left, "height": bottom - top}


def record(folder: Path) -> dict[str, Any]:
    """Hashes of the page that this checkout has, and of the pictures in ``folder``."""
    page = b"".join(path.read_bytes() for path in sorted(_ASSETS.iterdir()))
    return {
        "page": hashlib.sha256(page).hexdigest(),
        "pictures": {
            name: hashlib.sha256((folder / f"{name}.png").read_bytes()).hexdigest()
            for name in sorted(PICTURES)
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.screenshots", description=__doc__)
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder (default: docs/pictures)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        made = Path(directory, "files.html")
        make_page(["--seconds", _SECONDS, "--out", str(made)])
        take(made.as_uri(), options.out)
    text = json.dumps(record(options.out), indent=1)
    (options.out / RECORD).write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
