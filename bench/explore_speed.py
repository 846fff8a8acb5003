"""How fast the page of a large store opens and moves: ``python -m bench.explore_speed``

It makes a store, shows its page in Chromium, as a file and live, and counts the frames while the map is
dragged.  It needs Chromium and Playwright, as the tests in a browser do.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, sync_playwright

import lsmkv
from lsmkv.explore.page import file_page
from reports.document import insert
from reports.environment import build, processor

ENTRIES: Final = 1_000_000
REPETITIONS: Final = 9
_SEED: Final = 1970
_BATCH: Final = 1000
_PAN_S: Final = 2.0
_ZOOM: Final = 6  # clicks on "Zoom in": 64 times

# Resolves once the map is painted, with the milliseconds since loading began.
_PAINTED: Final = """() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(
    () => done(performance.now()))))"""

# Drags the map for a while, a step in each frame; resolves with the times of the frames.
_PAN: Final = """seconds => new Promise(done => {
    const canvas = document.querySelector('.map canvas');
    const box = canvas.getBoundingClientRect();
    const middle = box.left + box.width / 2, frames = [];
    const mouse = (type, x) => (type === 'mousedown' ? canvas : window).dispatchEvent(
        new MouseEvent(type, {bubbles: true, view: window, clientX: x, clientY: box.top + 20}));
    mouse('mousedown', middle);
    const step = now => {
        frames.push(now);
        const passed = (now - frames[0]) / 1000;
        mouse('mousemove', middle + 200 * Math.sin(3 * passed));
        if (passed < seconds) requestAnimationFrame(step);
        else { mouse('mouseup', middle); done(frames); }
    };
    requestAnimationFrame(step);
})"""


def fill(path: str, entries: int) -> None:
    """A store of random keys of 16 bytes and values of 100 bytes, in several levels."""
    draw = random.Random(_SEED)
    with lsmkv.open(path, level1_size_bytes=32 << 20, table_size_bytes=8 << 20) as db:
        for _ in range(0, entries, _BATCH):
            with db.write_batch() as batch:
                for _ in range(_BATCH):
                    batch.put(b"%016d" % draw.randrange(10**15), draw.randbytes(50) * 2)
        db.flush()
        db.wait_until_settled()


@contextlib.contextmanager
def live(path: str) -> Iterator[str]:
    """The address of the store's live page, served by another process."""
    command = [sys.executable, "-m", "lsmkv", "explore", path, "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


def measure(browser: Browser, address: str) -> dict[str, float]:
    """One opening: seconds until the map is painted, and frames per second while it is dragged."""
    context = browser.new_context(viewport={"width": 1366, "height": 900})
    page = context.new_page()
    try:
        page.goto(address)
        page.wait_for_selector("main .map canvas")
        opened_s = float(page.evaluate(_PAINTED)) / 1000
        whole = _frames_per_s(page.evaluate(_PAN, _PAN_S))
        for _ in range(_ZOOM):
            page.click("[aria-label='Zoom in']")
        part = _frames_per_s(page.evaluate(_PAN, _PAN_S))
        return {"opened_s": opened_s, "whole": whole[0], "part": part[0], "longest_ms": whole[1]}
    finally:
        context.close()


def _frames_per_s(frames: list[float]) -> tuple[float, float]:
    """The mean rate, and the longest frame in milliseconds."""
    steps = [later - earlier for earlier, later in pairwise(frames)]
    return 1000 * len(steps) / sum(steps), max(steps)


def run(entries: int, repetitions: int) -> str:
    """The measured section as Markdown."""
    with tempfile.TemporaryDirectory(prefix="lsmkv-explore-") as directory:
        path = str(Path(directory, "large"))
        fill(path, entries)
        file = Path(directory, "page.html")
        began_s = time.monotonic()
        file.write_text(file_page(path), encoding="utf-8")
        made_s = time.monotonic() - began_s
        rows: dict[str, list[dict[str, float]]] = {"file": [], "live": []}
        with sync_playwright() as playwright, live(path) as address:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            for _ in range(repetitions):
                rows["file"].append(measure(browser, file.as_uri()))
                rows["live"].append(measure(browser, address))
            version = browser.version
            browser.close()
        with lsmkv.open(path, read_only=True) as db:
            info = db.inspect()
        blocks = sum(table.block_count for table in info.tables())
        lines = [
            f"{info.entry_count:,} entries in {len(list(info.tables())):,} tables and {blocks:,} "
            f"blocks; lsmkv {lsmkv.__version__} ({build()}), {processor()}; Chromium {version} "
            f"without a graphics processor. The file has {file.stat().st_size:,} bytes, and was made "
            f"in {made_s:.1f} s.",
            "",
            "| page | until the map is painted, s | frames/s, whole store | frames/s, zoomed "
            "64 times | longest frame, ms |",
            "|---|---:|---:|---:|---:|",
        ]
        for name, measured in rows.items():
            cells = [
                _spread([one[key] for one in measured])
                for key in ("opened_s", "whole", "part", "longest_ms")
            ]
            lines.append(f"| {name} | {' | '.join(cells)} |")
        lines += ["", f"Medians of {repetitions} openings (least-most), file and live by turns."]
        return "\n".join(lines)


def _spread(values: Sequence[float]) -> str:
    def shown(value: float) -> str:
        return f"{value:.3g}"

    return f"{shown(statistics.median(values))} ({shown(min(values))}-{shown(max(values))})"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.explore_speed", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--entries", type=int, default=ENTRIES, help="default: %(default)s")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, help="default: %(default)s")
    parser.add_argument("--into", help="a document with a section for the result")
    options = parser.parse_args(arguments)
    section = run(options.entries, options.repetitions)
    print(section)
    if options.into:
        insert(options.into, "explore_speed", section)


if __name__ == "__main__":
    main()
