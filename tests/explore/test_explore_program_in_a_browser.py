"""The counters of the program that writes, on a live page in a real browser."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lsmkv
from browsers import needs_browser, tab
from live_pages import live_page
from lsmkv import counters

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [needs_browser, pytest.mark.slow]


def test_a_live_page_shows_what_the_program_counts_and_that_it_is_gone(
    chromium: Browser, tmp_path: Path
) -> None:
    with lsmkv.open(tmp_path / "db") as db:
        db.put(b"a", b"")
        db.flush()
        with (
            counters.publish(db, interval_s=0.1) as path,
            live_page(tmp_path / "db") as live,
            tab(chromium, live.address) as opened,
        ):
            page = opened.page
            for _ in range(7):
                db.get(b"a")
            page.wait_for_selector(".program td[data-counter='gets']:text-is('7')")
            for name in ("entry_cache_hits", "block_cache_hits"):  # one is not told as the other
                page.wait_for_selector(
                    f".program td[data-counter='{name}']:text-is('{getattr(db.stats(), name)}')"
                )
            assert db.stats().entry_cache_hits != db.stats().block_cache_hits
            assert f"Process {os.getpid()}, since" in page.inner_text(".program")
            whole = Path(path).read_bytes()
            db.close()
            Path(path).write_bytes(whole)
            os.utime(path, (time.time() - 1000,) * 2)
            page.wait_for_selector(".program .failure:has-text('it has ended, or hangs')")
            Path(path).write_text('{"<script>": 1}')
            page.wait_for_selector(".program .failure:has-text('is no file of counters')")
            assert opened.errors == []
