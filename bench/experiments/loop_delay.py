"""How late an event loop is while the writers of its store stall.

Eight tasks write as fast as they can into a store with small buffers, so that writes have to wait for
flushes and compactions.  Meanwhile another task sleeps for a millisecond at a time, and notes by how
much each sleep is too long.  First the eight tasks sleep instead, which shows the machine; then they
call ``db.put`` in the loop; then ``lsmkv.aio``.

The figures are those of the interpreter, too: whenever a thread computes, another may have to wait
for ``sys.getswitchinterval()`` (5 ms) before it goes on.  "ready" is the share of the time in which
the loop's thread could run but had no processor (Linux): if it is not small, measure again on a machine
that does nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table

import lsmkv.aio
from lsmkv.options import Background
from reports.environment import build

_TASKS: Final = 8
_BEAT_S: Final = 0.001
_STALLING: Final[dict[str, Any]] = {
    "write_buffer_size_bytes": 1 << 20,
    "max_immutable_memtables": 1,
    "level0_slowdown_trigger": 6,
    "level0_stop_trigger": 8,
}

HOW: Final[dict[str, tuple[str, Background]]] = {
    "nobody writes": ("", "thread"),
    "db.put in the loop": ("put", "thread"),
    "lsmkv.aio": ("aio", "thread"),
    "lsmkv.aio, background='process'": ("aio", "process"),
}


@dataclass
class Measured:
    """What one way of writing did to the loop."""

    writes: int
    delays_s: list[float]
    ready_share: float | None
    stats: lsmkv.Stats

    def percentile_ms(self, percent: float) -> float:
        ordered = sorted(self.delays_s)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] * 1e3


async def measure(how: str, seconds: float) -> Measured:
    """Write for some seconds, and note the delays."""
    with tempfile.TemporaryDirectory(prefix="lsmkv-loop-") as path:
        way, background = HOW[how]
        async with lsmkv.aio.open(path, background=background, **_STALLING) as db:
            return await _write_and_note(db, way, seconds)


async def _write_and_note(db: lsmkv.aio.AsyncDB, way: str, seconds: float) -> Measured:
    stops_at = time.perf_counter() + seconds
    plain: lsmkv.DB = db._reader
    rng = random.Random(1)
    found = Measured(0, [], None, lsmkv.Stats())

    async def write() -> None:
        value = rng.randbytes(300)
        while time.perf_counter() < stops_at:
            if way == "aio":
                await db.put(rng.randbytes(8), value)
            elif way == "put":
                plain.put(rng.randbytes(8), value)
                if found.writes % 50 == 0:
                    await asyncio.sleep(0)
            else:
                await asyncio.sleep(_BEAT_S)
                continue
            found.writes += 1

    async def beat() -> None:
        while time.perf_counter() < stops_at:
            started = time.perf_counter()
            await asyncio.sleep(_BEAT_S)
            found.delays_s.append(time.perf_counter() - started - _BEAT_S)

    before = _ready_s()
    await asyncio.gather(beat(), *(write() for _ in range(_TASKS)))
    after = _ready_s()
    if before is not None and after is not None:
        found.ready_share = (after - before) / seconds
    found.stats = db.stats()
    return found


def _ready_s() -> float | None:
    """How long this thread waited for a processor; None where nobody counts."""
    try:
        text = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat").read_text()
    except OSError:
        return None
    return int(text.split()[1]) / 1e9


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench loop-delay", description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="default: %(default)s")
    parser.add_argument(
        "--switch-interval-ms",
        type=float,
        default=sys.getswitchinterval() * 1e3,
        help="how long a thread may keep the others waiting; default: %(default)s",
    )
    chosen = parser.parse_args(arguments)
    before = sys.getswitchinterval()
    sys.setswitchinterval(chosen.switch_interval_ms / 1e3)
    try:
        _show(chosen.seconds)
    finally:
        sys.setswitchinterval(before)


def _show(seconds: float) -> None:
    title = f"Delays of an event loop in ms, {build()}, {seconds:g} s each"
    table = Table(title=title, box=box.SIMPLE_HEAD)
    for heading in (
        "",
        "writes/s",
        "waits",
        "in s",
        "median",
        "99 %",
        "99.9 %",
        "longest",
        "ready",
    ):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for how in HOW:
        found = asyncio.run(measure(how, seconds))
        stats = found.stats
        table.add_row(
            how,
            f"{found.writes / seconds:,.0f}",
            str(stats.write_stops),
            f"{stats.write_stop_s + stats.write_slowdown_s:.1f}",
            *(f"{found.percentile_ms(percent):.2f}" for percent in (50, 99, 99.9, 100)),
            "" if found.ready_share is None else f"{found.ready_share:.0%}",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
