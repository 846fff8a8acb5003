"""Commands that move whole stores in and out of files: load, dump."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import click

import lsmkv
from lsmkv.cli.data import create_option, store_argument
from lsmkv.cli.fields import Fields
from lsmkv.cli.group import describe
from lsmkv.cli.keys import Form, with_form
from lsmkv.cli.output import Progress, note, output_file, progress, standard_input
from lsmkv.cli.records import (
    FORMATS,
    BadRecordError,
    Record,
    RecordWriter,
    format_by_suffix,
    format_of,
    is_packed,
    read_records,
)
from lsmkv.cli.settings import settings_option
from lsmkv.inspection.report import count_entries

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
    "--header/--no-header",
    default=None,
    help="The first row of TSV or CSV names the columns (default if a field is named), or is an entry.",
)
@click.option("--key-field", metavar="NAME", help='The field that is the key (default "key").')
@click.option(
    "--value-field",
    metavar="NAME",
    help="The field that is the value; without it, the rest of the row as a JSON object.",
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
    header: bool | None,
    key_field: str | None,
    value_field: str | None,
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
           a string for bytes that are not UTF-8.  A key may be a number.  A value
           that is none of these, nor null, is stored as JSON without spaces.
    tsv    key, tab, value on each line, no quoting
    csv    key, comma, value, quoted as spreadsheets do

    The first row of TSV and CSV is an entry, unless --header, --key-field or --value-field is given.
    With --header alone it is passed over, and rows are key and value.  With the other two a row may
    have any fields, which go by their names in the header or in the JSON object.

    Fields of TSV and CSV are text with \\xNN and \\\\ as escapes; with --hex hex digits; with --raw
    what the file says, backslashes and all.  Blank lines are passed over.  Gzip data
    are unpacked, whatever the name of FILE.

    A line that is none of these stops the loading, exit code 1; the lines before it stay loaded.

    \b
    Example:  lsmkv load users.db users.jsonl.gz
              printf 'alice\\t34\\n' | lsmkv load users.db - --format tsv
              lsmkv load users.db users.csv --key-field id
              lsmkv load users.db users.csv --key-field id --value-field name
    """
    is_known = file_format != "auto" or format_by_suffix(file) is not None
    file_format = format_of(file, file_format)
    _refuse_form(file_format, form)
    fields = Fields(key_field, value_field, header)
    _refuse_header(file_format, fields)
    hints: list[str] = []
    with contextlib.ExitStack() as stack:
        stack.callback(_note_all, file, hints)  # once no progress bar is drawn any more
        stream = standard_input() if file == "-" else stack.enter_context(open(file, "rb"))
        db = stack.enter_context(lsmkv.open(store, create_if_missing=create, **settings))
        report = stack.enter_context(progress("Loading", of_bytes=_has_size(file)))
        loader = Loader(db, batch_size, sync)
        try:
            for _, key, value in _watched(
                read_records(stream, file_format, form, fields, hints.append), stream, file, report
            ):
                loader.add(key, value)
            loader.finish()
        except ValueError as error:  # a bad line; those before it are good
            loader.finish()
            reason = f"{file}: {describe(error)}"
            if not is_known and isinstance(error, BadRecordError) and error.line == 1:
                reason += "; it was read as jsonl, --format says if it is another"
            raise click.ClickException(_stopped(reason, loader)) from error
        except (lsmkv.Error, OSError, MemoryError) as error:
            raise click.ClickException(_stopped(describe(error), loader)) from error
        except KeyboardInterrupt:
            note(_stopped("stopped", loader))
            raise
    note(f"Loaded {count_entries(loader.loaded)}.")


def _note_all(file: str, hints: list[str]) -> None:
    for hint in hints:
        note(f"Hint: {file}: {hint}")


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
    return f"{reason} ({count_entries(loader.loaded)} loaded before that)"


def _refuse_form(file_format: str, form: Form) -> None:
    if file_format == "jsonl" and form is not Form.TEXT:
        raise click.UsageError(f"--{form.value} is for TSV and CSV; JSON lines have one form")


def _refuse_header(file_format: str, fields: Fields) -> None:
    if fields.header is not None and file_format == "jsonl":
        raise click.UsageError(
            "--header and --no-header are for TSV and CSV; JSON names its fields"
        )
    if fields.header is False and fields.are_named:
        raise click.UsageError("--no-header leaves --key-field and --value-field without names")


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

    The formats are those of "lsmkv load"; a FILE whose name ends in .gz is packed by gzip.  The dump
    shows the store as it was when the command began, whatever is written meanwhile.

    \b
    Example:  lsmkv dump users.db --output users.csv
              lsmkv dump users.db --output users.jsonl.gz
              lsmkv dump users.db | lsmkv load copy.db -
    """
    form = Form.HEX if as_hex else Form.TEXT
    file_format = format_of(output, file_format)
    _refuse_form(file_format, form)
    if output != "-" and os.path.realpath(os.path.dirname(output) or ".") == os.path.realpath(
        store
    ):
        raise click.UsageError(f"--output {output} is inside STORE, among its own files")
    number = 0
    with (
        lsmkv.open(store, create_if_missing=False, read_only=True) as db,
        output_file(output, packed=is_packed(output)) as stream,
        progress("Dumping", beside_data=output == "-") as report,
    ):
        total = db.approximate_count()
        writer = RecordWriter(stream, file_format, form)
        for number, (key, value) in enumerate(db.items(), 1):
            writer.add(key, value)
            if number % _REPORT_EVERY == 0:
                report(number, max(total, number))
    if output != "-":
        note(f"Dumped {count_entries(number)}.")
