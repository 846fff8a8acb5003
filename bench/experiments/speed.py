"""Microseconds per operation of this build, alone: a sanity check, not a comparison.

The store has 500,000 entries with 16-byte keys and 100-byte values, in random order; warm means that the
block cache holds everything.  The write buffer holds everything too, so that puts are measured alone;
``--write-buffer-mib 64``, the default of a store, lets flushes take their share of the interpreter.  Each
figure is the median of the rounds, with the least and the most beside it.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table

import lsmkv
from bench.workloads.operations import get_all, put_all, put_batches, scan, seek
from reports.environment import build

_BATCH: Final = 1000
_SEEKS: Final = 10_000
_SEEK_ENTRIES: Final = 10


def measure(entries: int, seed: int, write_buffer_size_bytes: int = 1 << 30) -> dict[str, float]:
    """One round: microseconds per operation, by its name."""
    rng = random.Random(seed)
    numbers = list(range(0, 2 * entries, 2))
    rng.shuffle(numbers)
    keys = [b"%016d" % number for number in numbers]
    absent = [b"%016d" % (number + 1) for number in numbers]
    pool = [rng.randbytes(50) + b"v" * 50 for _ in range(1000)]
    values = [pool[position % 1000] for position in range(entries)]
    taken: dict[str, float] = {}

    def run(name: str, count: int, operation: Callable[..., None], *arguments: object) -> None:
        started = time.perf_counter()
        operation(*arguments)
        taken[name] = (time.perf_counter() - started) / count * 1e6

    with (
        tempfile.TemporaryDirectory(prefix="lsmkv-speed-") as path,
        lsmkv.open(
            path, block_cache_size_bytes=1 << 30, write_buffer_size_bytes=write_buffer_size_bytes
        ) as db,
    ):
        run("put", entries, put_all, db, keys, values)
        run("flush and compact", entries, db.compact_range)
        get_all(db, keys)  # fills the cache
        run("get, present, warm", entries, get_all, db, keys)
        run("get, absent, warm", entries, get_all, db, absent)
        run("scan", entries, scan, db)
        run("scan, reverse", entries, scan, db, True)
        run(f"seek + {_SEEK_ENTRIES}", min(_SEEKS, entries), seek, db, keys[:_SEEKS], _SEEK_ENTRIES)
        run(f"put in batches of {_BATCH}", entries, put_batches, db, keys, values, _BATCH)
    return taken


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench speed", description=__doc__.split("\n")[0])
    parser.add_argument("--entries", type=int, default=500_000, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--write-buffer-mib", type=int, default=1024, help="default: %(default)s")
    chosen = parser.parse_args(arguments)
    rounds: dict[str, list[float]] = defaultdict(list)
    for number in range(chosen.rounds):
        for name, microseconds in measure(
            chosen.entries, chosen.seed + number, chosen.write_buffer_mib << 20
        ).items():
            rounds[name].append(microseconds)
    title = f"{chosen.entries:,} entries, {build()}, {chosen.rounds} rounds; microseconds each"
    table = Table("operation", "median", "least", "most", title=title, box=box.SIMPLE_HEAD)
    for name, taken in rounds.items():
        figures = statistics.median(taken), min(taken), max(taken)
        table.add_row(name, *(f"{figure:.2f}" for figure in figures))
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
