"""Prints what commands show: text, tables, JSON and progress.

rich is imported only where it is used, so that other commands start quickly.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import stat
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import BinaryIO, Final, cast

import click

from lsmkv.cli.keys import jsonable
from lsmkv.inspection.report import Report

Progress = Callable[[int, int | None], None]
"""Takes how much is done, and of how much (None: not known)."""

_PIPE_WIDTH: Final = 10_000  # columns: a terminal's width cuts rows, a pipe must not
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def print_json(value: object) -> None:
    """Print ``value`` as JSON, with its bytes as text or ``{"hex": ...}``."""
    text = json.dumps(jsonable(value), indent=2, ensure_ascii=False)
    click.echo(text.encode("utf-8"))


def print_report(report: Report, as_json: bool) -> None:
    if as_json:
        print_json(report.as_dict())
    else:
        click.echo(str(report))


def size(number: float) -> str:
    """A number of bytes in the unit that fits it.

    >>> size(0), size(1), size(1023), size(1536), size(3 << 30)
    ('0 bytes', '1 byte', '1023 bytes', '1.5 KiB', '3.0 GiB')
    """
    if number < 1024:
        return "1 byte" if number == 1 else f"{number:.0f} bytes"
    power = 0
    while number >= 1024 and power < len(_UNITS) - 1:
        number /= 1024
        power += 1
    return f"{number:.1f} {_UNITS[power]}"


def percent(rate: float) -> str:
    """A rate in percent, to three significant digits.

    >>> percent(0.01), percent(0.000999), percent(0.5)
    ('1', '0.0999', '50')
    """
    return f"{rate * 100:.3g}"


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, text: Collection[str]
) -> None:
    """Print a table; the columns not named in ``text`` hold numbers."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title=title or None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=0,
    )
    for name in columns:
        is_text = name in text  # a narrow terminal cuts text, never numbers
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
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    Console(markup=False, highlight=False, emoji=False, width=width).print(table)


@contextlib.contextmanager
def progress(what: str, *, of_bytes: bool = False, beside_data: bool = False) -> Iterator[Progress]:
    """A progress bar on standard error, if that is a terminal.

    With ``beside_data`` the block prints data: no bar then, if standard output is a terminal.
    """
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
def output_file(path: str, *, packed: bool = False) -> Iterator[BinaryIO]:
    """A file that replaces ``path`` once it is whole; standard output for ``-``.

    It takes over the permissions of what it replaces.  Pipes and devices are written directly.  An
    OSError names ``path``.  (``click.open_file(atomic=True)`` replaces also after an error.)
    """
    if path == "-":
        yield sys.stdout.buffer
        return
    target = os.path.realpath(path)
    part = os.path.join(os.path.dirname(target), f"lsmkv-{os.getpid()}-{os.urandom(4).hex()}.part")
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "wb") as stream, _packing(stream, packed) as packer:
                yield packer
            return
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
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort as error:  # also what click makes of Ctrl-C
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        click.echo(err=True)
        raise click.ClickException("nothing is changed, for nobody answers: give --yes") from None
    if not agreed:
        raise click.ClickException("nothing is changed")
