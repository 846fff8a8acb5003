"""The page that tells which filters fit a memory computes what the package does."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from browsers import browser, needs_browser
from gates import WAIT_S
from lsmkv import filters

PAGE = Path(__file__).parents[2] / "docs" / "calculator.html"
FIRST: dict[str, float] = {
    "keys": 1_000_000,
    "entry": 116,
    "block": 4096,
    "runs": 4,
    "absent": 50,
    "memory": 16,
}
STORES: list[dict[str, float]] = [
    FIRST,
    FIRST | {"runs": 1, "absent": 100, "memory": 200},
    FIRST | {"entry": 3000, "memory": 1},
    FIRST | {"entry": 8, "block": 65_536, "memory": 0.5},
    FIRST | {"keys": 1, "entry": 5000, "memory": 0},
]


def expected(store: dict[str, float]) -> list[tuple[str, float, float, float]]:
    """Each choice that fits: its name, bytes of filters, rate, and reads for each lookup."""
    in_block = int(max(1, min(store["keys"], store["block"] // store["entry"])))
    blocks, memory = math.ceil(store["keys"] / in_block), store["memory"] * 2**20
    choices: list[tuple[str, float, float]] = [("none", 0.0, 1.0)]
    for p in (0.5, 0.1, 0.01, 0.001, 0.0001):
        whole = filters.filter_bytes_for(in_block, p)
        choices.append((f"Bloom, p = {p * 100:g} %", whole, filters.rate_for(8 * whole, in_block)))
        share, slots = filters.ribbon_share(p), filters.ribbon_slots_for(in_block)
        columns = filters.ribbon_columns_for(p)
        sizes = [math.ceil(slots * each / 8) for each in (columns - 1, columns)]
        size = share * sizes[0] + (1 - share) * sizes[1]
        choices.append((f"ribbon, p = {p * 100:g} %", size, p))
    rows: list[tuple[str, float, float, float]] = []
    for name, size, rate in choices:
        cache = memory - size * blocks
        if cache >= 0:
            missed = 1 - min(1, cache / (blocks * store["block"]))
            of_absent, of_present = store["runs"] * rate, 1 + (store["runs"] - 1) / 2 * rate
            reads = store["absent"] / 100 * of_absent + (1 - store["absent"] / 100) * of_present
            rows.append((name, size * blocks, rate, reads * missed))
    return rows


def test_the_calculator_computes_what_the_package_does() -> None:
    if shutil.which("node") is None:
        pytest.skip("no node here; the next test has a browser compute")
    (script,) = re.findall(r"<script>(.*?)</script>", PAGE.read_text(), re.DOTALL)
    script += f"\nconsole.log(JSON.stringify({json.dumps(STORES)}.map(plan)))"
    run = subprocess.run(
        ["node", "-e", script], capture_output=True, text=True, check=True, timeout=WAIT_S
    )
    for store, rows in zip(STORES, json.loads(run.stdout), strict=True):
        check(store, rows)


def check(store: dict[str, float], rows: list[dict[str, Any]]) -> None:
    wanted = expected(store)
    assert [row["name"] for row in rows] == [name for name, *_ in wanted]
    for row, (_, size, rate, reads) in zip(rows, wanted, strict=True):
        assert row["filterBytes"] == pytest.approx(size, rel=1e-12)
        assert row["rate"] == pytest.approx(rate, rel=1e-12)
        assert row["all"] == pytest.approx(reads, rel=1e-12)


@needs_browser
@pytest.mark.slow
def test_the_address_holds_the_numbers_and_a_narrow_page_does_not_overflow() -> None:
    with browser() as launched:
        page = launched.new_page(viewport={"width": 360, "height": 640})
        page.goto(f"{PAGE.as_uri()}#keys=5000&runs=1&absent=100&memory=2")
        assert page.input_value("[name=keys]") == "5000"
        page.fill("[name=runs]", "3")
        page.wait_for_url("**keys=5000&entry=116&block=4096&runs=3&absent=100&memory=2*")
        assert "without filters" in page.inner_text("#answer")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        for store in STORES:
            check(store, page.evaluate("plan", store))
