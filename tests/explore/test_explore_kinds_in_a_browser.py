"""What the page says first is true of every kind of store."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lsmkv
from browsed_pages import on_show
from browsers import needs_browser, tab, text_of
from kinds_of_stores import KINDS
from lsmkv.explore import contract
from lsmkv.explore.exploration import Detail, Exploration
from lsmkv.explore.page import render

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [needs_browser, pytest.mark.slow]


DETAIL = Detail(present=10, absent=20, false_positives=5, tried=50, filters=20)


def show(browser: Browser, path: Path, source: str, **settings: Any) -> None:
    """Open the page of a store, and hold its first screen to what was counted."""
    with Exploration(source, **settings) as exploration:
        made = exploration.page(DETAIL)
    file = path / "page.html"
    file.write_text(render(made), encoding="utf-8")
    with tab(browser, file.as_uri()) as opened:
        assert opened.errors == []
        check(opened.page, made)
        for scene, lacks in lacking(made).items():
            opened.page.keyboard.press("l")
            opened.page.keyboard.press(str(scene))
            assert opened.page.locator(".lecture .value button").count() == (not lacks), scene
            opened.page.keyboard.press("Enter")
            assert opened.page.is_visible(".lecture .value b") == (not lacks), scene


def lacking(made: contract.Page) -> dict[int, bool]:
    """The scenes that need a lookup of some kind, and whether the store has none."""
    absent = [one for one in made.lookups if one.kind == "absent"]
    tried = [one for one in made.lookups if one.kind in ("absent", "present")]
    spared = [
        one
        for one in tried
        if one.reads_without_filters > one.blocks_read and not one.false_positives
    ]
    return {
        2: not any(one.reads_without_filters for one in tried),
        3: not any(one.kind == "absent" for one in spared),
        5: not any(one.reads_without_filters for one in absent or tried if one.rebuilt),
        6: not spared,
        8: not any(one.kind == "present" for one in spared),
    }


def check(page: Page, made: contract.Page) -> None:
    verdict = text_of(page, ".verdict")
    if not made.lookups:
        assert made.map.entry_count + sum(made.map.memtable_key_counts) == 0
        assert verdict == "This store is empty. There is no key to look up yet."
        return
    assert f"{made.map.entry_count:,} entr" in text_of(page, ".numbers") or not made.map.entry_count
    lookup = on_show(page, made)
    assert lookup.blocks_searched == lookup.blocks_read  # a cache made no zero
    if any(step.outcome != "absent" for step in lookup.memtables):
        assert verdict == "The memtable has it. 0 reads."
        return
    spanned = [run for run in lookup.runs if run.spanning_block is not None]
    assert re.match(r"(No|\d+) blocks? ", verdict), verdict
    assert verdict.startswith(f"{len(spanned) or 'No'} block")
    wasted = sum(len(run.blocks) for run in lookup.runs if run.outcome == "absent")
    reads = f"{wasted} wasted read" if wasted else "0 reads."
    assert lookup.outcome == "found" or reads in verdict
    totals = text_of(page, ".totals")
    kinds = {one.kind for one in made.lookups}
    tried = [
        one for one in made.lookups if one.kind == ("absent" if "absent" in kinds else "present")
    ]
    without = sum(one.reads_without_filters for one in tried)
    done = sum(one.blocks_read for one in tried)
    reads = "1 read" if without == 1 else f"{without} reads"
    assert not without or f"{reads} without filters, {done} with them" in totals


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_screen_is_true_of_every_kind_of_store(
    chromium: Browser, tmp_path: Path, kind: str
) -> None:
    KINDS[kind](tmp_path / "db")
    show(chromium, tmp_path, str(tmp_path / "db"))


@pytest.mark.parametrize(
    "settings",
    [
        {"filter_residency": "off"},
        {"filter_residency": "cached"},
        {"block_cache_size_bytes": 0},
        {"block_cache_size_bytes": 1 << 30},
        {"adaptive_filters": True},
    ],
    ids=str,
)
def test_the_first_screen_is_true_under_other_options(
    chromium: Browser, tmp_path: Path, settings: dict[str, Any]
) -> None:
    KINDS["several runs"](tmp_path / "db")
    show(chromium, tmp_path, str(tmp_path / "db"), **settings)


def test_the_first_screen_is_true_of_a_published_store(chromium: Browser, tmp_path: Path) -> None:
    pytest.importorskip("obstore")
    KINDS["one run"](tmp_path / "db")
    with lsmkv.open(tmp_path / "db") as db:
        db.publish(f"file://{tmp_path}/published")
    show(chromium, tmp_path, f"file://{tmp_path}/published")
