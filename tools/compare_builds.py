"""Times the same work in several builds of lsmkv, by turns.  ``python -m tools.compare_builds``

This measures in one run, on one machine, what a change is worth::

    git worktree add ../before COMMIT && make -C ../before build/compiled && make build/compiled
    python -m tools.compare_builds ../before/build/compiled build/compiled --kind put --kind batch

Each repetition of each timed kind of :mod:`bench.workloads.operations` is a process of its own, with a
fresh store if it writes.  The builds take turns at being first.  The tables show median, least and most,
and for each further build the median of the repetitions' ratios: how many times as long the first took.
On a busy machine that says little, as the spread shows.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.table import Table

from bench.workloads import operations
from bench.workloads.operations import TIMED
from tools.builds import BuildError, environment, nature

_TIME: Final = "time, us"
Measured = dict[str, float]


def _run(build: str, kind: str, store: str, entries: int, *options: str) -> str:
    done = subprocess.run(
        [
            *(sys.executable, "-P", str(operations.__file__), "timed", kind, store),
            *("--entries", str(entries), *options),
        ],
        env=environment(build),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildError(f"{kind} failed with {build}:\n{done.stderr}")
    return done.stdout


def measure(
    builds: Sequence[str], kind: str, entries: int, repetitions: int, folder: str | None
) -> list[list[Measured]]:
    """The repetitions of ``kind``: a list for each build."""
    rows: list[list[Measured]] = [[] for _ in builds]
    with tempfile.TemporaryDirectory(dir=folder) as directory:
        stores = [os.path.join(directory, str(number)) for number in range(len(builds))]
        for build, store in zip(builds, stores, strict=True):
            if TIMED[kind].reads:
                _run(build, kind, store, entries, "--prepare-only")
        for repetition in range(repetitions):
            turn = repetition % len(builds)
            for number in [*range(turn, len(builds)), *range(turn)]:
                found = json.loads(_run(builds[number], kind, stores[number], entries))
                rows[number].append(found)
                if not TIMED[kind].reads:
                    shutil.rmtree(stores[number])
    return rows


def ratios(first: list[Measured], other: list[Measured]) -> list[float]:
    """How many times as long ``first`` took in each repetition."""
    return [ours[_TIME] / theirs[_TIME] for ours, theirs in zip(first, other, strict=True)]


def spread(numbers: list[float]) -> str:
    """Median, least and most.

    >>> spread([1.0, 4.0, 2.0])
    '2 (1-4)'
    """
    return f"{statistics.median(numbers):.3g} ({min(numbers):.3g}-{max(numbers):.3g})"


def table(kind: str, entries: int, builds: Sequence[str], rows: list[list[Measured]]) -> Table:
    """A table of one kind: a line for each measure, a column for each build."""
    shown = Table(title=f"{kind}, {entries:,} entries, {len(rows[0])} repetitions; an operation")
    shown.add_column("")
    for build in builds:
        shown.add_column(build, justify="right", overflow="fold")
    for name in rows[0][0]:
        shown.add_row(name, *(spread([row[name] for row in column]) for column in rows))
    shown.add_row(
        "the first's time by its", "", *(spread(ratios(rows[0], row)) for row in rows[1:])
    )
    return shown


def main() -> int:
    """Print a table for each kind; 0, or 1 after an error."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.compare_builds", description=__doc__.split("\n")[0]
    )
    parser.add_argument("builds", metavar="BUILD", nargs="+", help="a folder that holds an lsmkv")
    parser.add_argument(
        "--kind",
        metavar="KIND",
        action="append",
        choices=TIMED,
        help=f"repeat for more: {', '.join(TIMED)} (default: all)",
    )
    parser.add_argument(
        "--entries", type=int, help="number of entries (default: what suits the kind)"
    )
    parser.add_argument("--repetitions", type=int, default=9, help="default: 9")
    parser.add_argument(
        "--folder", help="where to put the stores (default: the temporary directory)"
    )
    chosen = parser.parse_args()
    for name in ("entries", "repetitions"):
        value = getattr(chosen, name)
        if value is not None and value < 1:
            parser.error(f"--{name} {value}: must be 1 or more")
    if chosen.folder is not None and not os.path.isdir(chosen.folder):
        parser.error(f"--folder {chosen.folder}: no such folder")
    builds = [os.path.abspath(build) for build in chosen.builds]
    console = Console()
    try:
        natures = [f"{build}\n{nature(build)}" for build in builds]
        for kind in chosen.kind or TIMED:
            entries = chosen.entries or TIMED[kind].entries
            rows = measure(builds, kind, entries, chosen.repetitions, chosen.folder)
            console.print(table(kind, entries, natures, rows))
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
