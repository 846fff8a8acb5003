"""Compaction styles side by side: what each writes, keeps and reads.  ``python -m bench styles``

Every style takes the same seeded load (random puts over a key space, so that about every other put
overwrites), with buffers small enough that the tree grows several levels, and then the same look-ups
and scans with the block cache off.  All figures but the last column are counts; yet they differ from
run to run, because compaction works beside the load and what it finds to merge depends on timing.
They also depend on where in its cycle the load leaves a tree: run it several times, and with several
numbers of puts.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, get_args

from rich import box
from rich.console import Console
from rich.table import Column, Table

import lsmkv
from lsmkv.options import CompactionStyle

KEY_BYTES: Final = 16
VALUE_BYTES: Final = 100
LOOKUPS: Final = 20_000
SCANS: Final = 500
SCAN_ENTRIES: Final = 100


@dataclass(frozen=True, slots=True)
class StyleRow:
    """One style's figures; amplifications are ratios, reads are data blocks per operation."""

    style: str
    write_amplification: float
    space_amplification: float
    levels: int
    runs: int
    present_reads: float
    absent_reads: float
    unfiltered_absent_reads: float
    scan_reads: float
    load_s: float


def measure(style: CompactionStyle, puts: int, seed: int) -> StyleRow:
    """Load a store of one style with ``puts`` random puts over as many keys, and read it."""
    rng = random.Random(seed)
    options = lsmkv.Options(
        compaction=style,
        write_buffer_size_bytes=512 * 1024,
        table_size_bytes=1024 * 1024,
        level1_size_bytes=2 * 1024 * 1024,
        block_cache_size_bytes=0,
        compression="none",
    )
    present: set[int] = set()
    with tempfile.TemporaryDirectory(prefix="lsmkv-styles-") as path:
        started = time.perf_counter()
        with lsmkv.open(path, options) as db:
            for _ in range(puts):
                number = rng.randrange(puts)
                present.add(number)
                db.put(_key(number), rng.randbytes(VALUE_BYTES))
            db.flush()
            db.wait_until_settled()
            load_s = time.perf_counter() - started
            stats = db.stats()
            view = db.inspect()
            stored = sum(table.size_bytes for table in _tables(view))
            written = stats.flush_bytes + stats.compaction_write_bytes
            numbers = sorted(present)
            found = [_key(rng.choice(numbers)) for _ in range(LOOKUPS)]
            absent = [_key(rng.choice(numbers)) + b"\0" for _ in range(LOOKUPS)]
            row_reads = [_reads(db, found), _reads(db, absent), _scan_reads(db, found[:SCANS])]
        with lsmkv.open(path, options, filter_residency="off") as db:
            unfiltered = _reads(db, absent)
    user_bytes = puts * (KEY_BYTES + VALUE_BYTES)
    live_bytes = len(present) * (KEY_BYTES + VALUE_BYTES)
    return StyleRow(
        style,
        written / user_bytes,
        stored / live_bytes,
        sum(1 for level in view.levels if level.runs),
        sum(len(level.runs) for level in view.levels),
        row_reads[0],
        row_reads[1],
        unfiltered,
        row_reads[2],
        load_s,
    )


def _key(number: int) -> bytes:
    return b"%0*d" % (KEY_BYTES, number)


def _tables(info: lsmkv.inspect.StoreInfo) -> Iterator[lsmkv.inspect.TableInfo]:
    for level in info.levels:
        for run in level.runs:
            yield from run.tables


def _reads(db: lsmkv.DB, keys: list[bytes]) -> float:
    before = db.stats()
    for key in keys:
        db.get(key)
    return (db.stats() - before).block_reads / len(keys)


def _scan_reads(db: lsmkv.DB, starts: list[bytes]) -> float:
    before = db.stats()
    for start in starts:
        for _ in zip(range(SCAN_ENTRIES), db.items(start=start), strict=False):
            pass
    return (db.stats() - before).block_reads / len(starts)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every style and print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m bench styles", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--puts", type=int, default=400_000, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=2017, help="default: %(default)s")
    options = parser.parse_args(arguments)
    table = Table(
        Column("style", no_wrap=True),
        "write amp.",
        "space amp.",
        "levels",
        "runs",
        "reads per get",
        "absent get",
        "absent, no filters",
        f"scan of {SCAN_ENTRIES}",
        "load, s",
        title=f"{options.puts:,} random puts, p = 1 %, seed {options.seed}",
        box=box.SIMPLE_HEAD,
    )
    for style in get_args(CompactionStyle):
        row = measure(style, options.puts, options.seed)
        table.add_row(
            row.style,
            f"{row.write_amplification:.2f}",
            f"{row.space_amplification:.2f}",
            str(row.levels),
            str(row.runs),
            f"{row.present_reads:.3f}",
            f"{row.absent_reads:.4f}",
            f"{row.unfiltered_absent_reads:.2f}",
            f"{row.scan_reads:.1f}",
            f"{row.load_s:.1f}",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
