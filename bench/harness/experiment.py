"""An experiment from its command line to its files.

``lsmkv bench NAME --out DIR`` plans configurations, measures each (:mod:`bench.harness.sweep`),
makes rows of the measurements, and writes a tidy table (:func:`bench.harness.records.write`),
``report.html``, and where matplotlib is installed the charts as PNG and SVG.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Any, Final, Generic, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .. import COMMAND
from . import charts, document, plugins, records, report, seeds
from .document import provenance
from .environment import environment
from .story import Story
from .sweep import Step, executor_for, sweep
from .tables import Table

T = TypeVar("T")
M = TypeVar("M")
R = TypeVar("R", bound=records.Observation)

PICTURES: Final = "pictures"  # the folder beside a document
DEFAULT_SEED: Final = 1970  # the year of Bloom's paper


@dataclass(frozen=True, slots=True)
class Plan:
    """One repetition of the parsed command line; its seed decides every key, value and order."""

    quick: bool
    seed: int
    options: argparse.Namespace
    repetition: int = 0


def _none(_: argparse.ArgumentParser) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment(Generic[T, M, R]):
    """A question, and the functions that answer it.

    Attributes:
        name: its name in commands and files.
        method: paragraphs of the report.
        row_type: a dataclass of :func:`bench.harness.records.column`.
        tasks: makes a repetition's configurations, which can be pickled; the progress shows ``str`` of
            each.
        measure: a module's function that measures one task in an empty directory.
        rows: makes the rows of a repetition's measurements, which come in the order of the tasks.
        libraries: distributions whose versions the report names, besides lsmkv.
        missing: names the contenders that are not installed.
        alone: measures one task at a time, on this machine, because times matter.
        after: adds to a repetition's measurements when all of them are there (times, for example).
        repetitions: as many as there are by default, quick and full.
        pools: the story is of all repetitions; others tell the first one, and what failed in any.
        figures: what the report tells of each configuration, with intervals between seeds.
    """

    name: str
    title: str
    question: str
    method: Sequence[str]
    row_type: type[R]
    tasks: Callable[[Plan], list[T]]
    measure: Callable[[T, str], M]
    rows: Callable[[list[M]], list[R]]
    story: Callable[[list[R]], Story]
    libraries: Sequence[str] = ()
    missing: Callable[[], list[str]] = list
    alone: bool = False
    after: Callable[[Plan, list[M], Step], list[M]] | None = None
    add_options: Callable[[argparse.ArgumentParser], None] = _none
    repetitions: tuple[int, int] = (1, 1)
    pools: bool = False
    figures: Sequence[seeds.Figure] = ()

    def story_of(self, found: Sequence[R]) -> Story:
        """The story of all repetitions."""
        parts: dict[int, list[R]] = {}
        for row in found:
            parts.setdefault(0 if self.pools else row.repetition, []).append(row)
        stories = [self.story(part) for part in parts.values()]
        failures = list(dict.fromkeys(chain.from_iterable(story.failures for story in stories)))
        tables = list(stories[0].tables)
        if self.figures and any(row.repetition for row in found):
            tables.append(seeds.table(found, self.figures))
        return replace(stories[0], tables=tables, failures=failures)


@dataclass(frozen=True, slots=True)
class Results(Generic[R]):
    """The rows of a run, and a header that describes the run."""

    header: dict[str, Any]
    rows: list[R] = field(default_factory=list)


def flattened(measured: Iterable[Iterable[R]]) -> list[R]:
    """The rows of an experiment whose measurements are lists of rows."""
    return [row for rows in measured for row in rows]


def positive(text: str) -> int:
    """The type of options that are 1 or more."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be 1 or more")
    return number


def at_least(least: int) -> Callable[[str], int]:
    """The type of options that are ``least`` or more.

    >>> at_least(500)("500")
    500
    """

    def number_of(text: str) -> int:
        number = int(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"{text}: must be {least} or more")
        return number

    return number_of


def between(least: float, most: float) -> Callable[[str], float]:
    """The type of numbers from ``least`` to ``most``."""

    def number_of(text: str) -> float:
        number = float(text)
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"{text}: must be from {least:g} to {most:g}")
        return number

    return number_of


def names_of(known: Iterable[str]) -> Callable[[str], tuple[str, ...]]:
    """The type of options that are some of these names, separated by commas; ``all`` are all.

    >>> names_of(["trees", "skew"])("skew")
    ('skew',)
    """
    every = tuple(known)

    def chosen(text: str) -> tuple[str, ...]:
        names = every if text == "all" else tuple(dict.fromkeys(text.split(",")))
        if unknown := [name for name in names if name not in every]:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r}: must be of {', '.join(every)}")
        return names

    return chosen


def parser_for(experiment: Experiment[Any, Any, Any]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{COMMAND} {experiment.name}", description=experiment.question
    )
    parser.add_argument(
        "--out",
        default=os.path.join("out", experiment.name),
        metavar="DIR",
        help="folder for the files; default: %(default)s",
    )
    parser.add_argument("--quick", action="store_true", help="a part that takes a few minutes")
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED, help="default: %(default)s")
    quick, full = experiment.repetitions
    parser.add_argument(
        "--repetitions",
        type=positive,
        metavar="N",
        help=f"each with a seed of its own, from --seed on; default: {full}, with --quick {quick}",
    )
    parser.add_argument(
        "--work", metavar="DIR", help="where stores are made; default: the temporary directory"
    )
    parser.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="FILE",
        help="a Python file that adds an engine, a workload, a data set or a filter policy; may be "
        "repeated",
    )
    if not experiment.alone:
        parser.add_argument(
            "--jobs",
            type=positive,
            default=1,
            help="processes that measure at once; more than one disturbs times, never counts; "
            "default: %(default)s",
        )
    parser.add_argument(
        "--into",
        metavar="FILE",
        help=f"also replace the section <!-- bench {experiment.name} --> of a Markdown document",
    )
    experiment.add_options(parser)
    return parser


def run(
    experiment: Experiment[T, M, R], arguments: Sequence[str], console: Console | None = None
) -> Results[R]:
    """Measure the command line's configurations below the working directories; show progress."""
    given = parser_for(experiment).parse_args(arguments)
    plugins.load(given.plugin)
    repetitions = given.repetitions or experiment.repetitions[not given.quick]
    plans = [Plan(given.quick, given.seed + n, given, n) for n in range(repetitions)]
    parts = [experiment.tasks(plan) for plan in plans]
    tasks = list(chain.from_iterable(parts))
    jobs = 1 if experiment.alone else given.jobs
    began = time.monotonic()
    with _progress(experiment.name, len(tasks), console or Console(quiet=True)) as step:
        with executor_for(jobs) as executor:
            every = sweep(
                experiment.measure,
                tasks,
                executor,
                work=given.work,
                plugin_files=given.plugin,
                step=step,
            )
        rows: list[R] = []
        for plan, part in zip(plans, parts, strict=True):
            measured, every = every[: len(part)], every[len(part) :]
            if experiment.after is not None:
                measured = experiment.after(plan, measured, step)
            stamps: dict[str, Any] = {"repetition": plan.repetition, "seed": plan.seed}
            rows += [replace(row, **stamps) for row in experiment.rows(measured)]
    header = {
        "experiment": experiment.name,
        "title": experiment.title,
        "command": f"{COMMAND} {shlex.join([experiment.name, *arguments])}",
        "seed": given.seed,
        "repetitions": repetitions,
        "quick": given.quick,
        "executor": f"{jobs} process{'es' * (jobs > 1)}",
        "missing": experiment.missing(),
        "environment": environment(given.work or tempfile.gettempdir(), experiment.libraries),
        "elapsed_s": round(time.monotonic() - began, 1),
    }
    return Results(header, rows)


@contextmanager
def _progress(name: str, total: int, console: Console) -> Iterator[Step]:
    """A bar on a terminal, and a line a step elsewhere; ``Experiment.after`` may take more."""
    columns = (
        TextColumn("{task.description:<44.44}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    began, numbers = time.monotonic(), count(1)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        progress = bar.add_task(name, total=total)

        def step(what: str) -> None:
            done = next(numbers)
            bar.update(
                progress, completed=done, total=total if done <= total else None, description=what
            )
            if not console.is_terminal:
                elapsed = time.monotonic() - began
                place = f"{done}/{total} " if done <= total else ""
                console.print(f"[{elapsed:6.1f} s] {place}{what}", soft_wrap=True)

        yield step


def write(experiment: Experiment[T, M, R], results: Results[R], directory: str) -> list[str]:
    """Write every file below ``directory``, and return their paths, the report first."""
    os.makedirs(directory, exist_ok=True)
    story = experiment.story_of(results.rows)
    clocks = {table.title: list(table.timed) for table in _brief(story) if table.timed}
    stem = os.path.join(directory, experiment.name)
    header = {**results.header, "timed": clocks}
    paths = records.write(stem, header, experiment.row_type, results.rows)
    drawn = []
    if charts.can_draw():
        drawn = [path for chart in story.charts for path in charts.save(chart, directory)]
    page = os.path.join(directory, "report.html")
    report.write(page, experiment, results, story)
    return [page, *paths, *drawn]


def section(header: dict[str, Any], story: Story) -> str:
    """A section of Markdown: headline, pictures, command, tables in brief; a note of several once."""
    parts = [story.headline] if story.headline else []
    parts += [
        f"![{chart.title}]({PICTURES}/{chart.name}.svg)"
        for chart in story.charts
        if chart.is_published
    ]
    parts.append(f"Command: `{header['command']}`. {provenance(header)}")
    parts += [f"{name} is not installed, and was not measured." for name in header["missing"]]
    shown = _brief(story)
    for table, following in zip(shown, [*shown[1:], None], strict=True):
        is_told_later = following is not None and following.note == table.note
        parts.append((replace(table, note="") if is_told_later else table).to_markdown())
    return "\n\n".join(parts) + "\n"


def _brief(story: Story) -> list[Table]:
    first = [] if story.first is None else [story.first]
    return [*first, *(table for table in story.tables if table.brief)]


def _copy_pictures(story: Story, given: argparse.Namespace) -> list[str]:
    """Copy the published charts beside the document, and return their paths."""
    folder = os.path.join(os.path.dirname(given.into), PICTURES)
    os.makedirs(folder, exist_ok=True)
    names = [f"{chart.name}.svg" for chart in story.charts if chart.is_published]
    return [shutil.copy(os.path.join(given.out, name), folder) for name in names]


def _print(console: Console, story: Story) -> None:
    """Headline and brief tables."""
    if story.headline:
        console.print(f"{story.headline}\n", soft_wrap=True)
    for table in _brief(story):
        console.print(table.to_rich())


def _check_places(experiment: Experiment[Any, Any, Any], given: argparse.Namespace) -> None:
    """Exit with a message if a folder or document cannot be used: before an hour of work, not after."""
    try:
        os.makedirs(given.out, exist_ok=True)
    except OSError as error:
        raise SystemExit(f"bench: --out {given.out!r}: {error.strerror}") from error
    if given.work is not None and not os.path.isdir(given.work):
        raise SystemExit(f"bench: --work {given.work!r}: must be a folder that exists")
    if given.into is not None:
        if not charts.can_draw():
            raise SystemExit(f"bench: --into has pictures.  {charts.HOW_TO_DRAW}")
        try:
            document.around(given.into, experiment.name)
        except OSError as error:
            raise SystemExit(f"bench: --into {given.into!r}: {error.strerror}") from error
        except ValueError as error:
            raise SystemExit(f"bench: --into: {error}") from error


def main(experiment: Experiment[Any, Any, Any], arguments: Sequence[str]) -> None:
    """The command: measure, write, and print the brief tables."""
    console = Console(
        highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else 130
    )
    given = parser_for(experiment).parse_args(arguments)
    _check_places(experiment, given)
    results = run(experiment, arguments, console)
    for name in results.header["missing"]:
        console.print(
            f"{name} is not installed, and was not measured: pip install 'lsmkv[bench-peers]'"
        )
    story = experiment.story_of(results.rows)
    _print(console, story)
    written = write(experiment, results, given.out)
    if given.into:
        document.insert(given.into, experiment.name, section(results.header, story))
        written += [given.into, *_copy_pictures(story, given)]
    console.print(f"\nTook {results.header['elapsed_s']:.0f} s.  Written:")
    for path in written:
        console.print(f"  {path}", soft_wrap=True)
    if not charts.can_draw():
        console.print(charts.HOW_TO_DRAW)
    if story.failures:
        raise SystemExit("bench: " + "; ".join(story.failures))
