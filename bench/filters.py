"""Every filter of the package and its peers in one table: ``python -m bench filters --out DIR``.

Bits per key, error rate asked for, exact and measured, and nanoseconds per operation, at three
error rates and three numbers of keys: those of a block's filter, of ten blocks', and of a whole
table's.  Rates come from counts, which are the same for a seed; what the interval assumes stands in
:func:`bench.filter_measure.interval`.  ``bench/README.md`` describes the files.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import platform
import random
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.filter_contenders import CONTENDERS, Contender, contender_named
from bench.filter_measure import Configuration, Counts, Stopwatch, count, keys_of
from bench.filter_report import SCHEMA, Report, insert, print_tables, row_of, write
from lsmkv.filters import bloom

SEED: Final = 1970  # the year of Bloom's paper
LIBRARIES: Final = ("lsmkv", "mmh3", "librt", "scipy", "rbloom", "pybloom-live", "bitarray")

Step = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured.

    Attributes:
        key_counts: the sizes of the sets.
        error_rates: what filters are asked for.
        false_positives: how many are expected of a filter that keeps its word.
        least_trials: absent keys asked for at the least.
        most_trials: and at the most, however rare false positives are.
        least_filters: filters at the least: an interval from few is wide.
        turns: repetitions of each timing.
        timed_operations: operations that one reading of the clock covers at the least.
        timed_asked: keys that one large filter is asked for when timed.
    """

    key_counts: tuple[int, ...] = (30, 300, 100_000)
    error_rates: tuple[float, ...] = (0.1, 0.01, 0.001)
    false_positives: int = 600
    least_trials: int = 40_000
    most_trials: int = 2_000_000
    least_filters: int = 6
    turns: int = 7
    timed_operations: int = 3000
    timed_asked: int = 10_000


FULL: Final = Effort()
QUICK: Final = Effort(
    key_counts=(30, 300, 10_000),
    false_positives=150,
    least_trials=10_000,
    most_trials=300_000,
    turns=3,
    timed_operations=1500,
    timed_asked=2000,
)


def configuration(
    name: str, key_count: int, error_rate: float, seed: int, effort: Effort
) -> Configuration:
    """How many filters of how many trials: filters about as costly to fill as to ask.

    What is expected is told by the filter's own rate, which may be far below the one asked for (a
    cache line is large for 30 keys).  The lower the rate, the more keys a filter is asked for.
    """
    rate = rate_in_theory(name, key_count, error_rate)
    trials = math.ceil(effort.false_positives / rate)
    trials = max(effort.least_trials, min(effort.most_trials, trials))
    per_filter = max(math.ceil(1 / rate), key_count // 2)
    filter_count = max(effort.least_filters, math.ceil(trials / per_filter))
    per_filter = math.ceil(trials / filter_count)
    return Configuration(name, key_count, error_rate, seed, filter_count, per_filter)


@cache
def rate_in_theory(name: str, key_count: int, error_rate: float) -> float:
    """The rate that a contender should have."""
    contender = contender_named(name)
    if contender.start is not None and contender.group != "peer":  # rbloom's tells less when timed
        filled = contender.start(key_count, error_rate)
    else:
        filled = contender.fill(keys_of(random.Random(0), key_count), error_rate)
    return contender.facts(filled, key_count)[1]


def installed() -> tuple[list[Contender], list[Contender]]:
    """Those that can be measured here, and those that are missing."""
    here = {contender.name: contender.is_installed() for contender in CONTENDERS}
    return (
        [contender for contender in CONTENDERS if here[contender.name]],
        [contender for contender in CONTENDERS if not here[contender.name]],
    )


def configurations(
    contenders: Sequence[Contender], seed: int, effort: Effort
) -> list[Configuration]:
    """Everything that is counted, in the order of the rows."""
    return [
        configuration(contender.name, key_count, error_rate, seed, effort)
        for key_count in effort.key_counts
        for error_rate in effort.error_rates
        for contender in contenders
        if contender.offers(error_rate)
    ]


def count_all(
    wanted: Sequence[Configuration], jobs: int, step: Step
) -> dict[Configuration, Counts]:
    """The counts of all configurations, in ``jobs`` processes."""
    if jobs == 1:
        counts = {}
        for what in wanted:
            counts[what] = count(what)
            step(f"counted {what.contender}")
        return counts
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        # The longest first, so that no process is left with one of them at the end.
        by_cost = sorted(wanted, key=lambda each: -each.filter_count * each.key_count)
        futures = {pool.submit(count, what): what for what in by_cost}
        counts = {}
        for future in as_completed(futures):
            counts[futures[future]] = future.result()
            step(f"counted {futures[future].contender}")
        return counts


def time_all(
    wanted: Sequence[Configuration], effort: Effort, seed: int, step: Step
) -> Iterator[tuple[tuple[int, float], Stopwatch]]:
    """A stopwatch that has seen all contenders, for each number of keys and rate."""
    for key_count in effort.key_counts:
        for error_rate in effort.error_rates:
            watch = Stopwatch(
                key_count,
                error_rate,
                seed,
                operations=effort.timed_operations,
                asked=effort.timed_asked,
            )
            here = [
                contender_named(what.contender)
                for what in wanted
                if (what.key_count, what.error_rate) == (key_count, error_rate)
            ]
            for _ in range(effort.turns):
                for contender in here:
                    watch.turn(contender)
                step(f"timed {key_count:,} keys")
            yield (key_count, error_rate), watch


def run(
    effort: Effort,
    seed: int,
    *,
    jobs: int = 1,
    command: str = "",
    step: Step = lambda _: None,
) -> Report:
    """Count and time everything.

    Args:
        effort: how much.
        seed: decides every key.
        jobs: processes that count; timing is done by this one alone, afterwards.
        command: goes into the report, so that it can be made again.
        step: told of each of :func:`steps` that has been taken.
    """
    began = time.monotonic()
    present, missing = installed()
    wanted = configurations(present, seed, effort)
    counts = count_all(wanted, jobs, step)
    watches = dict(time_all(wanted, effort, seed, step))
    rows = []
    for what in wanted:
        contender = contender_named(what.contender)
        timings = watches[what.key_count, what.error_rate].timings(contender)
        rows.append(row_of(contender, what, counts[what], timings))
    header: dict[str, Any] = {
        "schema": SCHEMA,
        "experiment": "filters",
        "command": command,
        "seed": seed,
        "missing": [contender.name for contender in missing],
        "effort": asdict(effort),
        "machine": machine(),
        "form": "interpreted" if str(bloom.__file__).endswith(".py") else "compiled",
        "versions": versions(),
        "elapsed_s": round(time.monotonic() - began, 1),
    }
    return Report(header, rows)


def steps(effort: Effort) -> int:
    """How many steps a run takes."""
    counted = len(configurations(installed()[0], 0, effort))
    return counted + len(effort.key_counts) * len(effort.error_rates) * effort.turns


def machine() -> dict[str, Any]:
    """What the times were taken on."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cpu_count": os.cpu_count(),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Python and the libraries that are measured or measure."""
    found = {"Python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            found[library] = "not installed"
    return found


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="python -m bench filters", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="folder for tables and plots")
    parser.add_argument(
        "--quick", action="store_true", help="fewer keys and trials, wider intervals"
    )
    parser.add_argument(
        "--into",
        metavar="FILE",
        help="also replace the marked section of a Markdown file with tables",
    )
    parser.add_argument("--seed", type=int, default=SEED, help="default: %(default)s")
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="processes that count; default: all CPUs",
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the tables, and write them and the plots."""
    options = parse(arguments)
    effort = QUICK if options.quick else FULL
    # Imported late: drawing is the slowest import, and processes that count do without.
    from bench import filter_plots

    os.makedirs(options.out, exist_ok=True)
    console = Console(
        highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else 130
    )
    command = ["python", "-m", "bench", "filters", "--out", options.out]
    command += ["--into", options.into] if options.into else []
    command += ["--quick"] * options.quick + ["--seed", str(options.seed)]
    columns = (
        TextColumn("{task.description:<36}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting", total=steps(effort))
        report = run(
            effort,
            options.seed,
            jobs=max(1, options.jobs),
            command=shlex.join(command),
            step=lambda what: progress.update(task, advance=1, description=what),
        )
    for name in report.missing:
        console.print(f"{name} is not installed, and was not measured: pip install 'lsmkv[bench]'")
    print_tables(report, console)
    written = write(report, options.out) + filter_plots.draw(report, options.out)
    if options.into:
        insert(report, options.into)
        written.append(options.into)
    console.print(f"\nTook {report.header['elapsed_s']:.0f} s.  Written:")
    for path in written:
        console.print(f"  {path}", soft_wrap=True)
