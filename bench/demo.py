"""The demonstration: how many disk reads filters save, on the files of this Python installation.

``python -m bench.demo`` (``make demo``) stores one entry for each file that Python is installed
with, looks up every one of them and as many that are not there, at five settings of the filters,
and prints how many data blocks had to be read.  Everything is counted by the store itself and goes
through its public interface.

The keys are real paths, and absent ones are made from present ones, so that they fall between them
and key ranges cannot answer for the filters.
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
from bench.workloads.files import FILE_LIMIT, Entry, absent_keys, python_roots, read_tree
from reports.environment import build

ERROR_RATES: Final = (0.5, 0.1, 0.01, 0.001)
REFERENCE_RATE: Final = 0.01
"""The store that is also searched without its filters, and before it is compacted."""

SEED: Final = 1970  # the year of Bloom's paper
UNCOMPACTED_LOOKUPS: Final = 2000
_NEVER: Final = 1000  # level-0 runs: more than there will be, so that only we compact

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Counts:
    """What a series of look-ups cost."""

    lookups: int
    found: int
    block_reads: int
    outside_blocks: int
    denied: int
    false_positives: int

    @property
    def probes_of_absent(self) -> int:
        """Filters asked for keys that are not there."""
        return self.denied + self.false_positives


@dataclass(frozen=True, slots=True)
class Shape:
    """A store's tree and its filters."""

    runs: int
    tables: int
    blocks: int
    data_bytes: int
    filter_bytes: int
    filter_memory_bytes: int
    expected_rate: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """One row: the look-ups at one setting.  ``error_rate`` is None with filters off."""

    error_rate: float | None
    shape: Shape
    absent: Counts
    present: Counts

    @property
    def measured_rate(self) -> float:
        """False positives by filters asked, for absent keys; nan if none was asked."""
        probes = self.absent.probes_of_absent
        return self.absent.false_positives / probes if probes else math.nan


@dataclass(frozen=True, slots=True)
class Explained:
    """The read path of one absent and one present key, as text."""

    absent: str
    present: str


@dataclass(frozen=True, slots=True)
class Results:
    """All that the demonstration measured; in each series the first row is with filters off."""

    compacted: list[Measurement]
    uncompacted: list[Measurement]
    explained: Explained


# The data


# The stores


def fill(path: str, entries: Sequence[Entry], error_rate: float) -> None:
    """Make a store of ``entries`` with filters of ``error_rate``: flushed runs, nothing compacted."""
    options = lsmkv.Options(
        error_rate=error_rate,
        write_buffer_size_bytes=256 * 1024,
        block_size_bytes=4 * 1024,
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
    with lsmkv.open(path, error_rate=error_rate, block_size_bytes=4 * 1024) as db:
        db.compact_range()


def measure(
    path: str,
    present: Sequence[bytes],
    absent: Sequence[bytes],
    error_rate: float | None,
) -> Measurement:
    """Look up ``absent`` and ``present`` with a cold cache: every search of a block is a read.

    Args:
        path: a store, whose filters are ignored when ``error_rate`` is None.
    """
    residency: Any = "off" if error_rate is None else "resident"
    with lsmkv.open(
        path, read_only=True, block_cache_size_bytes=0, filter_residency=residency
    ) as db:
        return Measurement(error_rate, _shape(db), look_up(db, absent), look_up(db, present))


def _shape(db: lsmkv.DB) -> Shape:
    info = db.inspect()
    tables = list(info.tables())
    blocks = sum(table.block_count for table in tables)
    expected = math.fsum(
        table.block_count * (math.nan if table.expected_rate is None else table.expected_rate)
        for table in tables
    )
    return Shape(
        runs=sum(len(level.runs) for level in info.levels),
        tables=len(tables),
        blocks=blocks,
        data_bytes=sum(table.size_bytes for table in tables),
        # A filter per block is in the file twice: in its block, and where look-ups load it from.
        filter_bytes=sum(
            table.filter_bytes * (2 if table.granularity == "block" else 1) for table in tables
        ),
        filter_memory_bytes=info.filter_memory_bytes,
        expected_rate=expected / blocks,
    )


def look_up(db: lsmkv.DB, keys: Sequence[bytes]) -> Counts:
    """Ask for each of ``keys``, and count what that cost."""
    before = db.stats()
    for key in keys:
        db.get(key)
    cost = db.stats() - before
    return Counts(
        lookups=cost.gets,
        found=cost.get_hits,
        block_reads=cost.block_reads,
        outside_blocks=cost.fence_negatives,
        denied=cost.filter_negatives,
        false_positives=cost.filter_false_positives,
    )


def run(
    entries: Sequence[Entry],
    directory: str,
    *,
    seed: int = SEED,
    absent_count: int | None = None,
    say: Say = lambda _: None,
) -> Results:
    """Make the stores below ``directory`` and measure them.

    Args:
        entries: what to store.
        seed: decides the order of insertion, the absent keys and the samples.
        absent_count: how many absent keys to look up; as many as there are entries by default.
        say: told of each step before it is taken.

    Raises:
        ValueError: there are no entries.
    """
    draw = random.Random(seed)
    shuffled = draw.sample(entries, len(entries))
    present = [key for key, _ in shuffled]
    absent = absent_keys(present, len(present) if absent_count is None else absent_count, seed)
    paths = {rate: os.path.join(directory, f"p{rate}") for rate in ERROR_RATES}
    for rate, path in paths.items():
        say(
            f"Writing {len(entries):,} entries, in random order, with filters of p = {_percent(rate)}"
        )
        fill(path, shuffled, rate)
    some_absent = absent[:UNCOMPACTED_LOOKUPS]
    some_present = draw.sample(present, min(len(present), UNCOMPACTED_LOOKUPS))
    say(
        f"Looking up {len(some_absent):,} absent and {len(some_present):,} present keys, as flushed"
    )
    uncompacted = _measure_all(paths, some_present, some_absent)
    for rate, path in paths.items():
        say(f"Compacting the store of p = {_percent(rate)} into one run")
        compact(path, rate)
    say(f"Looking up {len(absent):,} absent and {len(present):,} present keys, compacted")
    compacted = _measure_all(paths, present, absent)
    return Results(compacted, uncompacted, _explain(paths[REFERENCE_RATE], absent[0], present[0]))


def _measure_all(
    paths: dict[float, str], present: Sequence[bytes], absent: Sequence[bytes]
) -> list[Measurement]:
    rows = [measure(paths[REFERENCE_RATE], present, absent, None)]
    return rows + [measure(path, present, absent, rate) for rate, path in paths.items()]


def _explain(path: str, absent: bytes, present: bytes) -> Explained:
    with lsmkv.open(path, read_only=True, block_cache_size_bytes=0) as db:
        return Explained(str(db.explain(absent)), str(db.explain(present)))


# The report


def wilson_interval(hits: int, trials: int, z: float = 1.96) -> tuple[float, float]:
    """Where a rate lies of which ``hits`` of ``trials`` were seen (Wilson 1927); 95 % by default.

    >>> [round(end, 4) for end in wilson_interval(10, 1000)]
    [0.0054, 0.0183]
    """
    if not trials:
        return 0.0, 1.0
    rate = hits / trials
    centre = rate + z * z / (2 * trials)
    reach = z * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return max(0.0, (centre - reach) / scale), min(1.0, (centre + reach) / scale)


def reads_saved(row: Measurement, without: Measurement) -> tuple[int, float]:
    """Reads for absent keys that ``row`` saved compared with filters off: how many, what share."""
    reads = without.absent.block_reads
    saved = reads - row.absent.block_reads
    return saved, saved / reads if reads else 0.0


def print_results(results: Results, console: Console) -> None:
    """The tables, and what they show."""
    _print_series(
        "Compacted: one run, at most one block to search for each key", results.compacted, console
    )
    _print_series(
        "As flushed: several runs, each of which may hold any key", results.uncompacted, console
    )
    console.print("Why one of the absent keys costs what it does (p = 1 %, compacted):\n")
    console.print(results.explained.absent + "\n", soft_wrap=True)
    console.print("And one of the present keys:\n")
    console.print(results.explained.present, soft_wrap=True)


def _print_series(title: str, rows: Sequence[Measurement], console: Console) -> None:
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, padding=0
    )
    for heading in (
        "p, %\nasked",
        "p, %\nexact",
        "p, %, measured\n(95 % interval)",
        "absent\nreads",
        "reads\nsaved",
        "of\nthem",
        "present\nreads",
        "filters\non disk",
        "(KiB) in\nmemory",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row, rows[0]))
    console.print(table)
    absent, present, shape = rows[0].absent, rows[0].present, rows[0].shape
    console.print(
        f"\n{absent.lookups:,} absent and {present.lookups:,} present keys, {_count(shape.runs, 'run')}, "
        f"{_count(shape.tables, 'table')}, {_count(shape.blocks, 'block')}; "
        f"{absent.outside_blocks:,} times an absent key fell between two blocks, "
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
    sizes = [f"{row.shape.filter_bytes / 1024:.1f}", f"{row.shape.filter_memory_bytes / 1024:.1f}"]
    present = f"{row.present.block_reads:,}"
    if row.error_rate is None:
        return ["off", "", "", counted[0], "", "", present, *sizes]
    low, high = wilson_interval(row.absent.false_positives, row.absent.probes_of_absent)
    return [
        f"{row.error_rate * 100:.3g}",
        f"{row.shape.expected_rate * 100:.3g}",
        f"{row.measured_rate * 100:.3g} ({low * 100:.3g}-{high * 100:.3g})",
        *counted,
        present,
        *sizes,
    ]


def _per_lookup(counts: Counts) -> str:
    return f"{counts.block_reads / counts.lookups:.3g}" if counts.lookups else "none"


def _percent(rate: float) -> str:
    return f"{rate * 100:.3g} %"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the demonstration on the files of this Python; it takes no options."""
    argparse.ArgumentParser(
        prog="python -m bench demo", description=(__doc__ or "").partition("\n")[0]
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
