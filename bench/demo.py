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
import platform
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table

import lsmkv
from lsmkv.inspection.store_info import StoreInfo

from .harness.environment import build
from .harness.shapes import filter_disk_bytes, run_count
from .workloads.files import FILE_LIMIT, Entry, absent_keys, python_roots, read_tree

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

Say = Callable[[str], None]


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
    """Both series; the first row of each is with filters off.

    Attributes:
        explained_absent, explained_present: the read path of one key, as text.
    """

    compacted: list[Measurement]
    uncompacted: list[Measurement]
    explained_absent: str
    explained_present: str


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
    say: Say = lambda _: None,
) -> Results:
    """Make the stores of ``entries``, and measure them; ``say`` is told of each step."""
    draw = random.Random(seed)
    shuffled = draw.sample(entries, len(entries))
    present = [key for key, _ in shuffled]
    absent = absent_keys(present, len(present) if absent_count is None else absent_count, seed)
    paths = {rate: os.path.join(directory, f"p{rate}") for rate in ERROR_RATES}
    for rate, path in paths.items():
        say(
            f"Writing {len(entries):,} entries in random order, with filters of p = {_percent(rate)}"
        )
        fill(path, shuffled, rate)
    some_absent = absent[:UNCOMPACTED_LOOKUPS]
    some_present = draw.sample(present, min(len(present), UNCOMPACTED_LOOKUPS))
    say(f"Looking up {len(some_absent):,} absent, {len(some_present):,} present keys, as flushed")
    uncompacted = _measure_all(paths, some_present, some_absent)
    for rate, path in paths.items():
        say(f"Compacting the store of p = {_percent(rate)} into one run")
        compact(path, rate)
    say(f"Looking up {len(absent):,} absent and {len(present):,} present keys, compacted")
    compacted = _measure_all(paths, present, absent)
    with lsmkv.open(paths[REFERENCE_RATE], read_only=True, block_cache_size_bytes=0) as db:
        explained = [str(db.explain(key)) for key in (absent[0], present[0])]
    return Results(compacted, uncompacted, *explained)


def _measure_all(
    paths: dict[float, str], present: Sequence[bytes], absent: Sequence[bytes]
) -> list[Measurement]:
    rows = [measure(paths[REFERENCE_RATE], present, absent, None)]
    return rows + [measure(path, present, absent, rate) for rate, path in paths.items()]


def reads_saved(row: Measurement, without: Measurement) -> tuple[int, float]:
    """Number and share of absent keys' reads that filters save in ``row``."""
    reads = without.absent.block_reads
    saved = reads - row.absent.block_reads
    return saved, saved / reads if reads else 0.0


def print_results(results: Results, console: Console) -> None:
    _print_series(
        "Compacted: one run, at most one block to search for each key", results.compacted, console
    )
    _print_series("As flushed: several runs, each may hold any key", results.uncompacted, console)
    console.print("Why one of the absent keys costs what it does (p = 1 %, compacted):\n")
    console.print(results.explained_absent + "\n", soft_wrap=True)
    console.print("And one of the present keys:\n")
    console.print(results.explained_present, soft_wrap=True)


def _print_series(title: str, rows: Sequence[Measurement], console: Console) -> None:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False)
    for heading in (
        "p, %\nasked",
        "p, %\nexact",
        "p, %\nmeasured",
        "reads:\nabsent",
        "reads\nsaved",
        "share\nsaved",
        "reads:\npresent",
        "filters:\nKiB disk",
        "KiB in\nmemory",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row, rows[0]))
    console.print(table)
    absent, present, store = rows[0].absent, rows[0].present, rows[0].store
    console.print(
        f"\n{absent.gets:,} absent and {present.gets:,} present keys, {_count(run_count(store), 'run')}, "
        f"{_count(len(list(store.tables())), 'table')}, {_count(store.block_count, 'block')}; "
        f"{_count(absent.range_negatives, 'time')} no table of a run spanned an absent key, "
        "which costs no read."
    )
    reference = next(row for row in rows if row.error_rate == REFERENCE_RATE)
    console.print(
        f"Reads per absent key: {_per_lookup(absent)} without filters, "
        f"{_per_lookup(reference.absent)} with p = 1 %; "
        f"per present key: {_per_lookup(present)} and {_per_lookup(reference.present)}.\n"
    )


def _cells(row: Measurement, without: Measurement) -> list[str]:
    saved, share = reads_saved(row, without)
    counted = [f"{row.absent.block_reads:,}", f"{saved:,}", f"{share:.2%}"]
    kib = (filter_disk_bytes(row.store) / 1024, row.store.filter_memory_bytes / 1024)
    sizes = [f"{size:.1f}" for size in kib]
    present = f"{row.present.block_reads:,}"
    if row.error_rate is None:
        return ["off", "", "", counted[0], "", "", present, *sizes]
    return [
        f"{row.error_rate * 100:.3g}",
        f"{row.expected_rate * 100:.3g}",
        f"{row.measured_rate * 100:.3g}",
        *counted,
        present,
        *sizes,
    ]


def _per_lookup(counts: lsmkv.Stats) -> str:
    return f"{counts.block_reads / counts.gets:.3g}" if counts.gets else "none"


def _percent(rate: float) -> str:
    return f"{rate * 100:.3g} %"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the demonstration on the files of this Python; it takes no options."""
    argparse.ArgumentParser(
        prog="python -m bench.demo", description=(__doc__ or "").partition("\n")[0]
    ).parse_args(arguments)
    width = None if sys.stdout.isatty() else 100
    console = Console(highlight=False, markup=False, emoji=False, width=width)
    started = time.monotonic()

    def say(step: str) -> None:
        console.print(f"[{time.monotonic() - started:5.1f} s] {step}")

    console.print(
        f"lsmkv {lsmkv.__version__} ({build()}), Python {platform.python_version()}, "
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, seed {SEED}\n"
        "Block cache off: every search of a block is one read of the file, which the operating "
        "system may answer from its own cache.\n"
    )
    roots = python_roots()
    say("Reading " + " and ".join(path for _, path in roots))
    say(f"(at most {FILE_LIMIT:,} files, and for its hash the first MiB of each)")
    entries = read_tree(roots)
    if not entries:
        raise SystemExit("demo: found no file that can be read")
    say(f"Found {len(entries):,} files")
    with tempfile.TemporaryDirectory(prefix="lsmkv-demo-") as directory:
        results = run(entries, directory, say=say)
        say("Done; removing the stores")
    console.print()
    print_results(results, console)
    console.print(f"\nTook {time.monotonic() - started:.0f} s.")


if __name__ == "__main__":
    main()
