"""The page in a real browser: its numbers and its controls."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lsmkv
from browsed_pages import on_show
from browsers import Tab, facts, needs_browser, number, tab, text_of
from explored_stores import HOSTILE
from live_pages import live_page
from lsmkv.encoding.text_form import to_text
from lsmkv.explore import contract
from lsmkv.explore.keys import text_of as key_text
from lsmkv.explore.page import file_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [needs_browser, pytest.mark.slow]


# What it shows


def test_hostile_names_and_keys_are_text(shown: Tab, browsed: Path) -> None:
    assert shown.page.title().startswith("<script>document.title='taken' ·")
    assert text_of(shown.page, "h1").startswith("<script>document.title='taken'")
    assert shown.page.locator("img, svg[onload], iframe").count() == 0


def test_no_error_in_a_store_without_tables(chromium: Browser, tmp_path: Path) -> None:
    lsmkv.open(tmp_path / "db").close()
    (tmp_path / "page.html").write_text(file_page(str(tmp_path / "db")), encoding="utf-8")
    with tab(chromium, (tmp_path / "page.html").as_uri()) as opened:
        opened.page.click("[data-pick='present']")
        assert "No present key was found" in text_of(opened.page, ".lookup .failure")
        opened.page.keyboard.press("l")
        for _ in range(8):
            opened.page.keyboard.press("ArrowRight")
        assert opened.errors == []


# The map and the selection


def test_the_first_line_has_the_numbers_of_inspect(shown: Tab, browsed: Path) -> None:
    with lsmkv.open(browsed, read_only=True) as db:
        info = db.inspect()
    text = text_of(shown.page, ".numbers")
    numbers = [int(found.replace(",", "")) for found in re.findall(r"\d[\d,]*(?= )", text)]
    tables = list(info.tables())
    assert numbers[:3] == [info.entry_count, len(tables), sum(t.block_count for t in tables)]
    assert sum(info.memtable_key_counts) in numbers


def test_a_block_is_selected_with_the_keyboard(shown: Tab, browsed: Path) -> None:
    page = shown.page
    page.focus(".map canvas")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    found = facts(page, ".selection")
    with lsmkv.open(browsed, read_only=True) as db:
        table = next(db.inspect().tables())
        block = list(db.blocks(table.number))[1]
    assert "Block 1" in text_of(page, ".selection")
    assert page.inner_text(".map [aria-live]").startswith(f"table {table.number}, block 1")
    assert found["first key"].startswith("from ")  # the index has separators, not keys
    assert key_text(block.first_key).startswith(found["first key"].removeprefix("from "))
    assert found["keys n"] == str(block.key_count)
    assert found["bits m"] == f"{block.bit_count:,}"
    assert found["probes k"] == str(block.probe_count)
    assert number(found["sequence numbers"]) == table.smallest_seq
    assert found["before compression"].endswith(f"codec {block.codec}")
    assert found["size"].endswith(f"in {table.block_count} blocks")
    assert "set" in text_of(page, ".selection figcaption")


def test_every_colouring_draws(shown: Tab) -> None:
    page = shown.page
    pictures = set()
    for colouring in page.locator("#colouring option").all():
        page.select_option("#colouring", colouring.get_attribute("value"))
        page.wait_for_timeout(50)
        name = colouring.inner_text()
        assert name == "level" or name in text_of(page, ".legend")
        pictures.add(page.locator(".map canvas").screenshot())
    assert len(pictures) > 1


def test_zooming_shows_a_part_and_all_again(shown: Tab) -> None:
    page = shown.page
    canvas = page.locator(".map canvas")
    page.wait_for_timeout(100)
    whole = canvas.screenshot()
    page.click("[aria-label='Zoom in']")
    page.wait_for_timeout(100)
    assert canvas.screenshot() != whole
    page.click("[aria-label='Show the whole store']")
    page.mouse.move(5, 5)
    page.wait_for_timeout(100)
    assert canvas.screenshot() == whole


# Lookups


@pytest.mark.parametrize("pick", ["present", "false positive", "absent"])
def test_a_picked_lookup_shows_the_totals_of_explain(
    shown: Tab, data: contract.Page, pick: str
) -> None:
    page = shown.page
    page.click(f"[data-pick='{pick}']")
    expected = on_show(page, data)
    assert expected.kind == pick
    outcome = text_of(page, ".outcome")
    assert f"Blocks read: {expected.blocks_read} " in outcome
    assert f"without filters {expected.reads_without_filters}." in outcome
    steps = page.locator(".steps li").all_inner_texts()
    assert len(steps) == len(expected.memtables) + len(expected.runs)
    for text, step in zip(steps[len(expected.memtables) :], expected.runs, strict=True):
        assert f"level {step.level}, run {step.run}" in text
        if step.filter is not None and step.filter.verdict in ("no", "maybe"):
            assert f"filter says {step.filter.verdict}" in text
        assert ("false positive" in text) == step.is_false_positive


def test_the_score_is_that_of_all_recorded_absent_keys(shown: Tab, data: contract.Page) -> None:
    page = shown.page
    absent = [lookup for lookup in data.lookups if lookup.kind == "absent"]
    without = sum(lookup.reads_without_filters for lookup in absent)
    done = sum(lookup.blocks_read for lookup in absent)
    assert f"{len(absent)} absent keys" in text_of(page, ".score")
    assert number(page.inner_text("[data-score=without]")) == without
    assert number(page.inner_text("[data-score=done]")) == done
    assert number(page.inner_text("[data-score=saved]")) == without - done
    assert f"{without} reads without filters, {done} with them" in text_of(page, ".totals")


def test_a_lookup_can_be_stepped_through(shown: Tab, data: contract.Page) -> None:
    page = shown.page
    page.click("[data-pick='false positive']")
    expected = on_show(page, data)
    total = len(expected.memtables) + len(expected.runs)
    page.click("[aria-label='First step']")
    for step in range(1, total + 1):
        assert not page.is_visible(".outcome")
        page.click("[aria-label='Step forward']")
        assert f"step {step} of {total}" in text_of(page, ".path")
    assert f"Blocks read: {expected.blocks_read} " in text_of(page, ".outcome")


def test_the_bits_of_a_no_are_told(shown: Tab, data: contract.Page) -> None:
    page = shown.page
    lookup = on_show(page, data)
    at = next(i for i, step in enumerate(lookup.runs) if step.outcome == "filtered")
    asked = lookup.runs[at].filter
    assert asked is not None and asked.unset_probes
    page.click("[aria-label='First step']")
    for _ in range(len(lookup.memtables) + at + 1):
        page.click("[aria-label='Step forward']")
    told = text_of(page, ".bits p")
    assert all(f"{bit:,}" in told for bit in asked.probes)
    assert told.endswith("not set: no.")


def test_steps_play_by_themselves_where_motion_is_wanted(chromium: Browser, file: Path) -> None:
    with tab(chromium, file.as_uri(), reduced_motion="no-preference") as opened:
        opened.page.clock.install()
        opened.page.click("[data-pick='absent']")
        assert "step 1 of" in text_of(opened.page, ".path")
        opened.page.clock.run_for(60_000)
        found = re.search(r"step (\d+) of (\d+)", text_of(opened.page, ".path"))
        assert found and found[1] == found[2]


def test_a_recorded_key_is_found_by_its_text_and_hex(shown: Tab, data: contract.Page) -> None:
    page = shown.page
    lookup = next(one for one in data.lookups if one.key.text.startswith("key"))
    for form, text in (("text", lookup.key.text), ("hex", lookup.key.hex)):
        page.select_option("#key-form", form)
        page.fill("#key", text)
        page.keyboard.press("Enter")
        assert text_of(page, ".the-key") == lookup.key.text


# What if


def test_every_kind_and_rate_shows_what_was_measured(shown: Tab, data: contract.Page) -> None:
    page = shown.page
    what_if = data.what_if
    assert what_if is not None
    rates = sorted({one.requested_rate for one in what_if.rebuilt} - {1.0}, reverse=True)
    assert len(rates) >= 8
    policies = sorted({one.policy for one in what_if.rebuilt} - {"none"})
    assert page.locator("[name=policy]").count() == len(policies) + 1
    for policy in (*policies, "none"):
        page.check(f"input[value='{policy}']")
        for at, rate in enumerate(rates):
            page.locator("#rate").evaluate(
                "(e, v) => { e.value = v; e.dispatchEvent(new Event('input')); }", str(at + 1)
            )
            wanted = 1.0 if policy == "none" else rate
            (one,) = [
                r for r in what_if.rebuilt if (r.policy, r.requested_rate) == (policy, wanted)
            ]
            told = text_of(page, ".measured")
            left = f"{one.false_positives:,} of {what_if.absent_count:,} reads left"
            assert left in told
            bits = re.search(r"for ([\d.]+) bits per key", told)
            assert bits
            assert float(bits[1]) == pytest.approx(
                one.bit_count / what_if.key_count, rel=0.006, abs=0.01
            )


# Time


def test_the_history_ends_with_the_tables_of_the_store(shown: Tab, data: contract.Page) -> None:
    page = shown.page
    steps = data.history.steps
    assert f"Step {len(steps)} of {len(steps)}" in text_of(page, ".time")
    assert number(facts(page, ".time")["tables hold"]) == data.map.entry_count
    page.locator("#time").evaluate("e => { e.value = 0; e.dispatchEvent(new Event('input')); }")
    assert f"Step 1 of {len(steps)}" in text_of(page, ".time")
    assert number(facts(page, ".time")["tables hold"]) == steps[0].live_entries


# The lecture, and everybody


@pytest.mark.parametrize("width", [360, 600, 900, 1366, 2560])
def test_nothing_is_wider_than_the_window(chromium: Browser, file: Path, width: int) -> None:
    with tab(chromium, file.as_uri(), viewport={"width": width, "height": 740}) as opened:
        page = opened.page
        page.click("[data-pick='false positive']")
        page.focus(".map canvas")
        page.keyboard.press("ArrowRight")
        wide = "document.documentElement.scrollWidth"
        assert page.evaluate(wide) <= width
        page.keyboard.press("Escape")
        page.locator("button:has-text('Lecture')").click()
        for _ in range(8):
            assert page.evaluate(wide) <= width
            page.keyboard.press("ArrowRight")


# Live


def test_a_live_page_looks_up_every_key_and_shows_it_as_text(
    chromium: Browser, browsed: Path
) -> None:
    with live_page(browsed) as live, tab(chromium, live.address) as opened:
        page = opened.page
        for key, value in HOSTILE.items():
            if len(key) > 1000:
                continue
            page.fill("#key", to_text(key))
            page.keyboard.press("Enter")
            page.wait_for_selector(".outcome")
            page.locator(".the-key").get_by_text(to_text(key), exact=True).wait_for()
            assert "Found: a value of" in text_of(page, ".outcome")
            assert page.text_content(".value") == to_text(value)
        assert page.title().startswith("<script>")
        assert {url.split("/")[2] for url in opened.requests if url.startswith("http")} == {
            f"127.0.0.1:{live.port}"
        }
        assert opened.errors == []


def test_a_live_page_follows_a_writer(chromium: Browser, tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db") as db:
        db[b"a"] = b"1"
        with live_page(tmp_path / "db") as live, tab(chromium, live.address) as opened:
            page = opened.page
            assert text_of(page, ".memtables").startswith("Memtable: 1 key")
            db[b"b"] = b"2"
            page.wait_for_selector(".memtables:has-text('2 keys')")
            db.flush()
            page.wait_for_selector(".numbers:has-text('2 entries in 1 table')")
            assert "Step 1 of 1" in text_of(page, ".time")
            assert opened.errors == []


def test_a_live_page_tells_that_its_server_is_gone(chromium: Browser, browsed: Path) -> None:
    with live_page(browsed) as live:
        opened = tab(chromium, live.address)
        shown = opened.__enter__()
    try:
        shown.page.wait_for_selector(".banner:visible")
        assert "connection" in text_of(shown.page, ".banner")
        shown.page.click("[data-pick='absent']")
        shown.page.wait_for_selector(".lookup .failure:has-text('does not answer')")
    finally:
        opened.__exit__(None, None, None)


def test_a_live_map_counts_the_wasted_reads_of_a_block(chromium: Browser, browsed: Path) -> None:
    with (
        live_page(browsed, filter_residency="off") as live,
        tab(chromium, live.address) as opened,
    ):
        page = opened.page
        with lsmkv.open(browsed, read_only=True) as db:
            table = next(db.inspect().tables())
            block = next(iter(db.blocks(table.number)))
            found, absent = block.first_key, block.first_key + b"\0"
            assert db.get(absent) is None and block.first_key < block.last_key
        page.focus(".map canvas")
        page.keyboard.press("ArrowRight")
        page.wait_for_selector(".selection dt:has-text('in the file')")
        assert table.file_name in text_of(page, ".selection")
        before = number(facts(page, ".selection")["reads that this page wasted"])
        page.select_option("#key-form", "hex")
        for key, told in ((found, "found"), (absent, "wasted read")):
            page.fill("#key", key.hex())
            page.click("button:has-text('Look up')")
            page.locator(f".verdict:has-text('{told}')").wait_for()
        page.wait_for_selector(f".selection dd:text-is('{before + 1}')")
        assert opened.errors == []
