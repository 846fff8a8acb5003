"""The demonstration: disk reads that filters save, on the files of this Python installation.

``python -m bench.demo`` (``make demo``) stores one entry for each file of Python, looks up every one
of them and as many absent ones, at five settings of the filters, and prints how many data blocks it
read.  The store itself counts everything, through its public interface.

The keys are real paths.  Absent keys are made from present ones, so that they fall between them and
key ranges cannot answer for the filters.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table

import lsmkv
from lsmkv.inspection.store_info import StoreInfo

from .harness.environment import build
from .harness.shapes import run_count
from .workloads.files import Entry, absent_keys, python_roots, read_tree

ERROR_RATES: Final = (0.5, 0.1, 0.01, 0.001)
REFERENCE_RATE: Final = 0.01  # the rate of the store that is also searched with its filters off
SEED: Final = 1970  # the year of Bloom's paper
UNCOMPACTED_LOOKUPS: Final = 2000
_NEVER: Final = 1000  # more level-0 runs than there will be, so that only ``compact`` compacts
_FORM: Final = lsmkv.Options(
    filter_policy="bloom",
    filter_allocation="uniform",
    block_size_bytes=4 * 1024,
    fit_pages=False,  # the same blocks with any filters
)


@dataclass(frozen=True, slots=True)
class Measurement:
    """The lookups at one setting; ``error_rate`` is None with filters off."""

    error_rate: float | None
    store: StoreInfo
    absent: lsmkv.Stats
    present: lsmkv.Stats

    @property
    def probes_of_absent(self) -> int:
        """Filters asked for absent keys."""
        return self.absent.filter_negatives + self.absent.filter_false_positives

    @property
    def measured_rate(self) -> float:
        """False positives by filters asked, for absent keys; nan if none was asked."""
        probes = self.probes_of_absent
        return self.absent.filter_false_positives / probes if probes else math.nan

    @property
    def expected_rate(self) -> float:
        """The exact rate of the filters; nan if it is unknown."""
        expected = math.fsum(
            table.block_count * (math.nan if table.expected_rate is None else table.expected_rate)
            for table in self.store.tables()
        )
        return expected / self.store.block_count


@dataclass(frozen=True, slots=True)
class Results:
    """Both series; the first row of each is with filters off."""

    compacted: list[Measurement]
    uncompacted: list[Measurement]


def fill(path: str, entries: Sequence[Entry], error_rate: float) -> None:
    """Make a store of ``entries`` with filters of ``error_rate``: flushed runs, nothing compacted."""
    options = _FORM.replace(
        error_rate=error_rate,
        write_buffer_size_bytes=256 * 1024,
        level0_compaction_trigger=_NEVER,
        level0_slowdown_trigger=_NEVER,
        level0_stop_trigger=_NEVER,
    )
    with lsmkv.open(path, options, error_if_exists=True) as db:
        for key, value in entries:
            db.put(key, value)
        db.flush()


def compact(path: str, error_rate: float) -> None:
    """Merge everything in a store into one run, with filters of ``error_rate``."""
    with lsmkv.open(path, _FORM, error_rate=error_rate) as db:
        db.compact_range()


def measure(
    path: str, present: Sequence[bytes], absent: Sequence[bytes], error_rate: float | None
) -> Measurement:
    """Look up ``absent`` and ``present`` without block cache, and without filters if no rate is given."""
    residency: Any = "off" if error_rate is None else "resident"
    with lsmkv.open(
        path, read_only=True, block_cache_size_bytes=0, filter_residency=residency
    ) as db:
        return Measurement(error_rate, db.inspect(), look_up(db, absent), look_up(db, present))


def look_up(db: lsmkv.DB, keys: Sequence[bytes]) -> lsmkv.Stats:
    """The counters of looking up each of ``keys``."""
    before = db.stats()
    for key in keys:
        db.get(key)
    return db.stats() - before


def run(
    entries: Sequence[Entry],
    directory: str,
    *,
    seed: int = SEED,
    absent_count: int | None = None,
) -> Results:
    """Make the stores of ``entries``, and measure them."""
    draw = random.Random(seed)
    shuffled = draw.sample(entries, len(entries))
    present = [key for key, _ in shuffled]
    absent = absent_keys(present, len(present) if absent_count is None else absent_count, seed)
    paths = {rate: os.path.join(directory, f"p{rate}") for rate in ERROR_RATES}
    for rate, path in paths.items():
        fill(path, shuffled, rate)
    some_absent = absent[:UNCOMPACTED_LOOKUPS]
    some_present = draw.sample(present, min(len(present), UNCOMPACTED_LOOKUPS))
    uncompacted = _measure_all(paths, some_present, some_absent)
    for rate, path in paths.items():
        compact(path, rate)
    return Results(_measure_all(paths, present, absent), uncompacted)


def _measure_all(
    paths: dict[float, str], present: Sequence[bytes], absent: Sequence[bytes]
) -> list[Measurement]:
    rows = [measure(paths[REFERENCE_RATE], present, absent, None)]
    return rows + [measure(path, present, absent, rate) for rate, path in paths.items()]


def print_results(results: Results, console: Console) -> None:
    _print_series("As flushed", results.uncompacted, console)
    console.print()
    _print_series("Compacted", results.compacted, console)


def _print_series(name: str, rows: Sequence[Measurement], console: Console) -> None:
    absent, present = rows[0].absent, rows[0].present
    runs = _count(run_count(rows[0].store), "run")
    title = f"{name}: {runs}; {absent.gets:,} absent, {present.gets:,} present keys"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False)
    for heading in ("p, %", "measured", "reads, absent", "reads, present", "filters, KiB"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row))
    console.print(table)


def _cells(row: Measurement) -> list[str]:
    reads = [f"{counts.block_reads:,}" for counts in (row.absent, row.present)]
    if row.error_rate is None:
        return ["off", "", *reads, ""]
    rates = [f"{rate * 100:.3g}" for rate in (row.error_rate, row.measured_rate)]
    return [*rates, *reads, f"{row.store.filter_memory_bytes / 1024:.1f}"]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the demonstration on the files of this Python; it takes no options."""
    argparse.ArgumentParser(
        prog="python -m bench.demo", description=(__doc__ or "").partition("\n")[0]
    ).parse_args(arguments)
    width = None if sys.stdout.isatty() else 100
    console = Console(highlight=False, markup=False, emoji=False, width=width)
    entries = read_tree(python_roots())
    if not entries:
        raise SystemExit("demo: found no file that can be read")
    console.print(
        f"{len(entries):,} files of this Python in lsmkv {lsmkv.__version__} ({build()}),"
    )
    console.print("without a block cache: each block that a lookup searches is a read.\n")
    with (
        console.status("Writing stores and looking keys up: about a minute"),
        tempfile.TemporaryDirectory(prefix="lsmkv-demo-") as directory,
    ):
        results = run(entries, directory)
    print_results(results, console)


if __name__ == "__main__":
    main()
