"""Commands that move whole stores in and out of files: load, dump."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import click

import lsmkv
from lsmkv.cli.data import create_option, store_argument
from lsmkv.cli.group import describe
from lsmkv.cli.keys import Form, with_form
from lsmkv.cli.output import Progress, count, note, output_file, progress, standard_input
from lsmkv.cli.records import FORMATS, Record, RecordWriter, format_of, read_records
from lsmkv.cli.settings import settings_option

_BATCH_BYTES: Final = 4 * 1024 * 1024  # a batch is memory twice over: here and in the memtable
_REPORT_EVERY: Final = 1000  # entries


class Loader:
    """Writes records to a store in batches.  ``loaded`` is how many are written."""

    def __init__(self, db: lsmkv.DB, batch_size: int, sync: bool) -> None:
        self.loaded = 0
        self._db = db
        self._batch_size = batch_size
        self._sync = sync
        self._waiting: list[tuple[bytes, bytes]] = []
        self._waiting_bytes = 0

    def add(self, key: bytes, value: bytes) -> None:
        """Take one entry, and write those that wait when they are enough."""
        self._waiting.append((key, value))
        self._waiting_bytes += len(key) + len(value)
        if len(self._waiting) >= self._batch_size or self._waiting_bytes >= _BATCH_BYTES:
            self.finish()

    def finish(self) -> None:
        """Write the entries that wait."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        with self._db.write_batch(sync=self._sync) as batch:
            for key, value in waiting:
                batch.put(key, value)
        self.loaded += len(waiting)


@click.command()
@store_argument
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["auto", *FORMATS]),
    default="auto",
    help="Of FILE; auto (the default) goes by its suffix, and is jsonl for any other.",
)
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    metavar="N",
    help="Entries written at a time, each time all or none of them (fewer if they are long).",
)
@with_form
@click.option(
    "--sync", is_flag=True, help="Make each batch survive a loss of power before the next."
)
@create_option
@settings_option
def load(
    store: str,
    file: str,
    file_format: str,
    batch_size: int,
    form: Form,
    sync: bool,
    create: bool,
    settings: dict[str, Any],
) -> None:
    """Put the entries of FILE into STORE.  FILE "-" is standard input.

    Each replaces what STORE has under its key.  When the command ends, all of them would survive a
    loss of power.

    \b
    jsonl  {"key": "...", "value": "..."} on each line; {"hex": "..."} in place of
           a string for bytes that are not UTF-8
    tsv    key, tab, value on each line, no quoting
    csv    key, comma, value, quoted as spreadsheets do; no header

    Fields of TSV and CSV are text with \\xNN and \\\\ as escapes; with --hex hex digits; with --raw
    what the file says, backslashes and all.  Blank lines are passed over.

    A line that is none of these stops the loading, exit code 1; the lines before it stay loaded.

    \b
    Example:  lsmkv load users.db users.jsonl
              printf 'alice\\t34\\n' | lsmkv load users.db - --format tsv
    """
    file_format = format_of(file, file_format)
    _refuse_form(file_format, form)
    with contextlib.ExitStack() as stack:
        stream = standard_input() if file == "-" else stack.enter_context(open(file, "rb"))
        db = stack.enter_context(lsmkv.open(store, create_if_missing=create, **settings))
        report = stack.enter_context(progress("Loading", of_bytes=_has_size(file)))
        loader = Loader(db, batch_size, sync)
        try:
            for _, key, value in _watched(
                read_records(stream, file_format, form), stream, file, report
            ):
                loader.add(key, value)
            loader.finish()
        except ValueError as error:  # a bad line; those before it are good
            loader.finish()
            raise click.ClickException(_stopped(f"{file}: {describe(error)}", loader)) from error
        except (lsmkv.Error, OSError) as error:
            raise click.ClickException(_stopped(describe(error), loader)) from error
        except KeyboardInterrupt:
            note(_stopped("stopped", loader))
            raise
    note(f"Loaded {_entries(loader.loaded)}.")


def _watched(
    records: Iterator[Record], stream: BinaryIO, file: str, report: Progress
) -> Iterator[Record]:
    """The same records, with ``report`` told now and then how far they have come."""
    total = os.path.getsize(file) if _has_size(file) else None
    for number, record in enumerate(records, 1):
        if number % _REPORT_EVERY == 0:
            report(number if total is None else stream.tell(), total)
        yield record


def _has_size(file: str) -> bool:
    """Whether it can be told how much of ``file`` is read: not so with a pipe."""
    return file != "-" and os.path.isfile(file)


def _stopped(reason: str, loader: Loader) -> str:
    return f"{reason} ({_entries(loader.loaded)} loaded before that)"


def _entries(number: int) -> str:
    return count(number, "entry", "entries")


def _refuse_form(file_format: str, form: Form) -> None:
    if file_format == "jsonl" and form is not Form.TEXT:
        raise click.UsageError("--hex and --raw are for TSV and CSV; JSON lines have one form")


@click.command(short_help="Write every entry of STORE to a file or a pipe.")
@store_argument
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["auto", *FORMATS]),
    default="auto",
    help="auto (the default) goes by the suffix of --output, and is jsonl for any other.",
)
@click.option("--hex", "as_hex", is_flag=True, help="Write keys and values of TSV and CSV in hex.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, allow_dash=True),
    default="-",
    metavar="FILE",
    help="Write to FILE, which is replaced once the dump is whole; standard output by default.",
)
def dump(store: str, file_format: str, as_hex: bool, output: str) -> None:
    """Write every entry of STORE, in key order, as "lsmkv load" reads it back.

    The formats are those of "lsmkv load".  The dump shows the store as it was when the command began,
    whatever is written meanwhile.

    \b
    Example:  lsmkv dump users.db --output users.csv
              lsmkv dump users.db | gzip > users.jsonl.gz
    """
    form = Form.HEX if as_hex else Form.TEXT
    file_format = format_of(output, file_format)
    _refuse_form(file_format, form)
    number = 0
    with (
        lsmkv.open(store, create_if_missing=False, read_only=True) as db,
        output_file(output) as stream,
        progress("Dumping", beside_data=output == "-") as report,
    ):
        total = db.approximate_count()
        writer = RecordWriter(stream, file_format, form)
        for number, (key, value) in enumerate(db.items(), 1):
            writer.add(key, value)
            if number % _REPORT_EVERY == 0:
                report(number, max(total, number))
    if output != "-":
        note(f"Dumped {_entries(number)}.")
