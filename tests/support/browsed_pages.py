"""Fixtures for tests in a browser: a store, its page in a file, and a tab that shows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browsers import Tab, browser, tab, text_of
from explored_stores import make_store, page_in
from lsmkv.explore import contract
from lsmkv.explore.page import file_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def browsed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("browsed") / "<script>document.title='taken'"
    make_store(path)
    return path


@pytest.fixture(scope="module")
def file(browsed: Path) -> Path:
    path = browsed.parent / "page.html"
    path.write_text(file_page(str(browsed)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def data(file: Path) -> contract.Page:
    """What the page in the file was given."""
    return page_in(file.read_text("utf-8"))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as launched:
        yield launched


@pytest.fixture
def shown(chromium: Browser, file: Path) -> Iterator[Tab]:
    with tab(chromium, file.as_uri()) as opened:
        yield opened
        assert opened.errors == []


def on_show(page: Page, data: contract.Page) -> contract.Lookup:
    """The recorded lookup that the page shows."""
    key, kind = text_of(page, ".the-key"), text_of(page, ".kind")
    return next(one for one in data.lookups if (one.key.text.strip(), one.kind) == (key, kind))
