"""Compares the values of ``Options.background``, under a fill or beside lookups.

``python -m tools.background_work --entries 2000000 --write-buffer-mib 64`` fills a fresh store with
single puts of 16-byte keys and 100-byte values that compress to about half, and waits until no flush or
compaction is due.  With ``--beside-lookups`` the fill is not measured, but two rounds of ``flush`` and
``compact_range(force=True)`` beside a thread that looks keys up in a loop.  It does so by turns with each
value of ``Options.background``, each time in a process of its own.  Times say nothing on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from pathlib import Path
from typing import Final, get_args

import lsmkv
from lsmkv.options import MIB, Background

MODES: Final[tuple[Background, ...]] = get_args(Background)
Measured = dict[str, float]


def helper_peak_mib() -> float:
    """The peak RSS of the largest child process that is alive; 0 without one.

    ``RUSAGE_CHILDREN`` would count what a child had of its parent before it ran another program.
    """
    pids = " ".join(file.read_text() for file in Path("/proc/self/task").glob("*/children")).split()
    peaks = [
        int(found[1])
        for pid in pids
        if (found := re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text()))
    ]
    return max(peaks, default=0) / 1024


def measure(mode: Background, entries: int, write_buffer_mib: int, folder: str | None) -> Measured:
    """Measure one fill."""
    dice = random.Random(7)
    values = [dice.randbytes(50) + bytes(50) for _ in range(1000)]
    latencies_ns = array("q", bytes(8 * entries))
    clock = time.perf_counter_ns
    with tempfile.TemporaryDirectory(dir=folder) as path:
        options = lsmkv.Options(write_buffer_size_bytes=write_buffer_mib * MIB, background=mode)
        with lsmkv.open(path, options) as db:
            begun_cpu_s, begun_ns = time.process_time(), clock()
            for number in range(entries):
                key = b"%016x" % dice.getrandbits(62)
                before = clock()
                db.put(key, values[number % 1000])
                latencies_ns[number] = clock() - before
            filled_ns = clock()
            db.flush()
            db.wait_until_settled()
            settled_ns, cpu_s = clock(), time.process_time() - begun_cpu_s
            helper_mib = helper_peak_mib()
            stats = db.stats()
    ordered = sorted(latencies_ns)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "fill, us a put": (filled_ns - begun_ns) / entries / 1e3,
        "until settled, us a put": (settled_ns - begun_ns) / entries / 1e3,
        **{
            f"put, p{share * 100:g}, us": ordered[int(entries * share)] / 1e3
            for share in (0.5, 0.99, 0.999, 0.9999)
        },
        "put, longest, ms": ordered[-1] / 1e6,
        "CPU, store's process, s": cpu_s,
        "CPU, helpers, s": children.ru_utime + children.ru_stime,
        "peak RSS, store's process, MiB": own.ru_maxrss / 1024,
        "peak RSS, larger helper, MiB": helper_mib,
        "writers stopped, s": stats.write_stop_s,
        "writers slowed down, s": stats.write_slowdown_s,
    }


def measure_beside_lookups(
    mode: Background, entries: int, write_buffer_mib: int, folder: str | None
) -> Measured:
    """Measure two rounds of upkeep, and the lookups meanwhile."""
    dice = random.Random(7)
    keys = [b"%016x" % dice.getrandbits(62) for _ in range(entries)]
    values = [dice.randbytes(50) + bytes(50) for _ in range(1000)]
    latencies_ns = array("q")
    clock = time.perf_counter_ns
    is_done = False

    def look_up() -> None:
        wanted = dice.choices(keys, k=100_000)
        while not is_done:
            for key in wanted:
                before = clock()
                db.get(key)
                latencies_ns.append(clock() - before)
                if is_done:
                    return

    with tempfile.TemporaryDirectory(dir=folder) as path:
        options = lsmkv.Options(write_buffer_size_bytes=write_buffer_mib * MIB, background=mode)
        with lsmkv.open(path, options) as db:
            for number, key in enumerate(keys):
                db.put(key, values[number % 1000])
            reader = threading.Thread(target=look_up)
            reader.start()
            begun_ns = clock()
            for _ in range(2):
                db.flush()
                db.compact_range(force=True)
            taken_ns = clock() - begun_ns
            is_done = True
            reader.join()
            helper_mib = helper_peak_mib()
    ordered = sorted(latencies_ns)
    return {
        "two rounds of upkeep, s": taken_ns / 1e9,
        "lookup, mean, us": statistics.fmean(ordered) / 1e3,
        **{
            f"lookup, p{share * 100:g}, us": ordered[int(len(ordered) * share)] / 1e3
            for share in (0.5, 0.99, 0.999, 0.9999)
        },
        "lookup, longest, ms": ordered[-1] / 1e6,
        "peak RSS, larger helper, MiB": helper_mib,
    }


def main() -> None:
    """Measure each mode, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m tools.background_work", description=__doc__)
    parser.add_argument("--entries", type=int, default=2_000_000, help="default: %(default)s")
    parser.add_argument("--write-buffer-mib", type=int, default=64, help="default: %(default)s")
    parser.add_argument("--repetitions", type=int, default=3, help="default: %(default)s")
    parser.add_argument(
        "--folder", help="where to put the stores (default: the temporary directory)"
    )
    parser.add_argument("--beside-lookups", action="store_true", help="upkeep beside lookups")
    parser.add_argument("--one", choices=MODES, help="measure once, and print JSON")
    chosen = parser.parse_args()
    for name in ("entries", "write_buffer_mib", "repetitions"):
        if getattr(chosen, name) < 1:
            parser.error(f"--{name.replace('_', '-')} {getattr(chosen, name)}: must be 1 or more")
    if chosen.one is not None:
        measured = measure_beside_lookups if chosen.beside_lookups else measure
        found = measured(chosen.one, chosen.entries, chosen.write_buffer_mib, chosen.folder)
        print(json.dumps(found))
        return
    rows: dict[str, list[Measured]] = {mode: [] for mode in MODES}
    for _ in range(chosen.repetitions):
        for mode in MODES:
            command = [sys.executable, "-m", "tools.background_work", *sys.argv[1:], "--one", mode]
            rows[mode].append(json.loads(subprocess.check_output(command)))
    print(f"{'':34}" + "".join(f"{mode:>30}" for mode in MODES))
    for name in rows[MODES[0]][0]:
        cells = [[row[name] for row in rows[mode]] for mode in MODES]
        shown = [
            f"{statistics.median(cell):.4g} ({min(cell):.4g}-{max(cell):.4g})" for cell in cells
        ]
        print(f"{name:34}" + "".join(f"{cell:>30}" for cell in shown))


if __name__ == "__main__":
    main()
