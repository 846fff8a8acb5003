"""Prints what commands show: text, tables, JSON and progress.

rich is imported only where it is used, so that other commands start quickly.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import json
import os
import stat
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Final, cast

import click

from lsmkv.cli.keys import jsonable
from lsmkv.inspection.report import Report

Progress = Callable[[int, int | None], None]
"""Takes how much is done, and of how much (None: not known)."""

REPORT_EVERY: Final = 1000  # entries, or lookups
_PIPE_WIDTH: Final = 10_000  # columns: a terminal's width cuts rows, a pipe must not


def print_json(value: object) -> None:
    """Print ``value`` as JSON, with its bytes as text or ``{"hex": ...}``."""
    text = json.dumps(jsonable(value), indent=2, ensure_ascii=False)
    click.echo(text.encode("utf-8"))


def print_report(report: Report, as_json: bool) -> None:
    if as_json:
        print_json(report)
    else:
        click.echo(str(report))


def percent(rate: float) -> str:
    """A rate in percent, to three significant digits.

    >>> percent(0.01), percent(0.000999), percent(0.5)
    ('1', '0.0999', '50')
    """
    return f"{rate * 100:.3g}"


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, text: Collection[str]
) -> bool:
    """Print a table, numbers but for the columns in ``text``; returns whether none of it was cut."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title=title or None, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, padding=0
    )
    for name in columns:
        is_text = name in text
        table.add_column(
            name,
            justify="left" if is_text else "right",
            no_wrap=not is_text,
            min_width=6 if is_text else None,
            overflow="ellipsis",
        )
    for row in rows:
        table.add_row(*(f"{cell:,}" if type(cell) is int else str(cell) for cell in row))
    # Keys are data: rich must not find markup, numbers to colour or names of emoji in them.
    console = Console(markup=False, highlight=False, emoji=False, width=_width())
    console.print(table)
    uncut = console.measure(table, options=console.options.update(width=_PIPE_WIDTH))
    return uncut.maximum <= console.width


def _width() -> int | None:
    """Columns of a table; None: those of the terminal."""
    return None if sys.stdout.isatty() else _PIPE_WIDTH


@contextlib.contextmanager
def progress(what: str, *, of_bytes: bool = False, beside_data: bool = False) -> Iterator[Progress]:
    """A progress bar on a terminal's standard error; none if the block prints data to a terminal."""
    if not sys.stderr.isatty() or (beside_data and sys.stdout.isatty()):
        yield lambda _done, _total: None
        return
    from rich import progress as bars
    from rich.console import Console

    with bars.Progress(
        bars.TextColumn("{task.description}", markup=False),
        bars.BarColumn(),
        bars.DownloadColumn(binary_units=True) if of_bytes else bars.MofNCompleteColumn(),
        bars.TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    ) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextlib.contextmanager
def reading(what: str, file: str) -> Iterator[tuple[BinaryIO, Callable[[Iterable[Any]], Any]]]:
    """A file to read, standard input for ``-``; and what shows the progress of items read from it."""
    with contextlib.ExitStack() as stack:
        stream = sys.stdin.buffer if file == "-" else stack.enter_context(open(file, "rb"))
        size = os.path.getsize(file) if os.path.isfile(file) else None  # a pipe has none
        report = stack.enter_context(progress(what, of_bytes=size is not None))

        def watched(items: Iterable[Any]) -> Iterator[Any]:
            for number, item in enumerate(items, 1):
                if number % REPORT_EVERY == 0:
                    report(number if size is None else stream.tell(), size)
                yield item

        yield stream, watched


def refuse_inside(store: str, option: str, path: str) -> None:
    """UsageError if an option's file is inside the store, by whatever links."""
    inside = os.path.join(os.path.realpath(store), "")
    if path != "-" and os.path.realpath(path).startswith(inside):
        raise click.UsageError(f"{option} {path} is inside STORE, among its own files")


@contextlib.contextmanager
def output_file(path: str, *, packed: bool = False) -> Iterator[BinaryIO]:
    """A file that replaces ``path`` once it is whole; standard output for ``-``.

    It takes over the permissions of what it replaces.  A symbolic link stays: what it names is replaced.
    Pipes and devices are written directly.  An OSError names ``path``, also for a file that is there and
    may not be written.  (``click.open_file(atomic=True)`` replaces also after an error.)
    """
    if path == "-":
        yield sys.stdout.buffer
        return
    target = os.path.realpath(path)
    directory = os.path.dirname(target)
    if not os.path.isdir(directory):
        raise FileNotFoundError(errno.ENOENT, "its directory is missing; make that first", path)
    part = os.path.join(directory, f"lsmkv-{os.getpid()}-{os.urandom(4).hex()}.part")
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "wb") as stream, _packing(stream, packed) as packer:
                yield packer
            return
        if os.path.exists(target) and not os.access(target, os.W_OK):  # renaming would not ask
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        with open(part, "xb") as stream:
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(stream.fileno(), stat.S_IMODE(os.stat(target).st_mode))
            with _packing(stream, packed) as packer:
                yield packer
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(part, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(part)
        if isinstance(error, OSError) and error.filename in (None, part):
            error.filename = path  # the name that the user gave
        raise


@contextlib.contextmanager
def _packing(stream: BinaryIO, packed: bool) -> Iterator[BinaryIO]:
    if not packed:
        yield stream
        return
    # Without time and name, the same entries make the same bytes.  6 is gzip's own default level.
    with gzip.GzipFile("", "wb", 6, stream, mtime=0) as packer:
        yield cast(BinaryIO, packer)


def confirm(question: str) -> None:
    """Ask on standard error; any answer but yes ends the command."""
    # click.confirm asks with input(), which loses an interrupt that comes while it writes the question.
    click.echo(f"{question} [y/N]: ", err=True, nl=False)
    answer = sys.stdin.readline()
    if not answer:
        click.echo(err=True)
        raise click.ClickException("nothing is changed, for nobody answers: give --yes")
    if answer.strip().lower() not in ("y", "yes"):
        raise click.ClickException("nothing is changed")
