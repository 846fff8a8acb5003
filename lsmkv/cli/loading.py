"""Commands that move whole stores in and out of files: load, dump."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final

import click

import lsmkv
from lsmkv.cli import parameters
from lsmkv.cli.fields import Fields
from lsmkv.cli.group import describe, saying_how_far
from lsmkv.cli.keys import Form
from lsmkv.cli.output import Progress, output_file, progress, refuse_inside
from lsmkv.cli.records import (
    FORMATS,
    KEYS,
    BadRecordError,
    Record,
    RecordWriter,
    format_by_suffix,
    is_packed,
    read_records,
)
from lsmkv.encoding.text_form import to_text
from lsmkv.inspection.report import count_entries

_BATCH_BYTES: Final = 4 * 1024 * 1024  # a batch takes its memory twice: here and in the memtable
_REPORT_EVERY: Final = 1000  # entries

_Item = tuple[bytes, bytes, int | None]  # key, value, when it is due


def _format_option(help_text: str, *others: str) -> parameters.Decorator:
    return click.option(
        "--format",
        "file_format",
        type=click.Choice(["auto", *FORMATS, *others]),
        default="auto",
        show_default=True,
        help=help_text,
    )


def _checked_delimiter(
    _ctx: click.Context, _param: click.Parameter, given: str | None
) -> str | None:
    if given is not None and (len(given) != 1 or given in '"\r\n\\'):
        raise click.BadParameter(f"{given!r}: must be one character, and no quote or backslash")
    return given


class Loader:
    """Writes entries to a store in batches; ``loaded`` counts those written."""

    def __init__(
        self, db: lsmkv.DB, batch_size: int, sync: bool, ttl_s: float | None = None
    ) -> None:
        self.loaded = 0
        self._db = db
        self._ttl_s = ttl_s
        self._batch_size = batch_size
        self._sync = sync
        self._waiting: list[_Item] = []
        self._waiting_bytes = 0

    def load(self, items: Iterator[_Item]) -> None:
        for item in items:
            self._waiting.append(item)
            self._waiting_bytes += len(item[0]) + len(item[1])
            if len(self._waiting) >= self._batch_size or self._waiting_bytes >= _BATCH_BYTES:
                self._write()
        self._write()

    def give_up(self) -> None:
        """Keep what came before an error."""
        self._write()

    def _write(self) -> None:
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        with self._db.write_batch(sync=self._sync) as batch:
            for key, value, due_s in waiting:
                batch.put(
                    key, value, ttl_s=self._ttl_s if due_s is None else None, expires_at=due_s
                )
        self.loaded += len(waiting)


class BulkLoader:
    """Adds all entries in one step; ``loaded`` counts them afterwards."""

    def __init__(self, db: lsmkv.DB, is_sorted: bool, ttl_s: float | None) -> None:
        self.loaded = 0
        self._db = db
        self._ttl_s = ttl_s
        self._is_sorted = is_sorted

    def load(self, items: Iterator[_Item]) -> None:
        report = self._db.bulk_load(items, ttl_s=self._ttl_s, sorted=self._is_sorted)
        self.loaded = report.entries

    def give_up(self) -> None:
        """Nothing is loaded."""


@click.command()
@parameters.store_argument
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@_format_option("Format of FILE; auto means by its suffix, or else jsonl.", KEYS)
@click.option(
    "--header/--no-header",
    default=None,
    help="Whether the first row of TSV or CSV names the columns (default: only if a field is named).",
)
@click.option(
    "--delimiter",
    metavar="CHARACTER",
    callback=_checked_delimiter,
    help="The character between fields of TSV and CSV (default: tab, comma).",
)
@click.option(
    "--key-field",
    metavar="NAME|N",
    help='Field to take as key (default: "key"); N: column of a file without header, from 1.',
)
@click.option(
    "--value-field",
    metavar="NAME|N",
    help="Field to take as value (default: the rest of the row, as a JSON object).",
)
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    metavar="N",
    help="Write N entries at a time, all or none of them (fewer if they are long).",
)
@click.option(
    "--bulk",
    is_flag=True,
    help="Sort all entries and add them as finished tables, all or none: faster for millions.",
)
@click.option(
    "--sorted",
    "is_sorted",
    is_flag=True,
    help="With --bulk: the keys of FILE ascend, each once, so nothing needs sorting.",
)
@parameters.form_options
@parameters.ttl_option
@click.option("--sync", is_flag=True, help="Sync each batch to the disk before the next.")
@parameters.create_option
@parameters.settings_option()
@parameters.wait_option
def load(  # more than 60 lines: its parameters and its help
    store: str,
    file: str,
    file_format: str,
    header: bool | None,
    delimiter: str | None,
    key_field: str | None,
    value_field: str | None,
    batch_size: int,
    bulk: bool,
    is_sorted: bool,
    ttl_s: float | None,
    sync: bool,
    create: bool,
    settings: dict[str, Any],
    wait_s: float,
) -> None:
    """Put the entries of FILE into STORE.  FILE "-" is standard input.

    Each entry replaces what STORE has under its key.  When the command ends, all of them survive a
    loss of power.

    \b
    jsonl  {"key": "...", "value": "..."} on each line.  Write bytes that are not
           UTF-8 as {"hex": "..."}.  A key may be a number.  A value of another
           kind, but not null, is stored as JSON without spaces.
    tsv    key, tab, value on each line, without quoting
    csv    key, comma, value, with quoting as in spreadsheets
    keys   a key on each line, as "lsmkv scan --keys-only" prints them; values are
           empty

    An entry that expires has, in JSON, "expires_at" too, in seconds since 1970, and in TSV and CSV a
    third field, expires_at=SECONDS.  One that is due by now replaces its key all the same: it is gone.

    The first row of TSV and CSV is an entry, unless --header, --key-field or --value-field is given.
    With --header alone, load skips that row, and all rows are key and value.  With --key-field or
    --value-field, rows may have any fields, with names from the header or the JSON object.  Numbers mean
    columns of TSV or CSV without a header; with --header they are names.

    Keys, and fields of TSV and CSV, are text with \\xNN and \\\\ as escapes, with --hex hex digits,
    with --raw plain bytes.  load skips blank lines, and unpacks gzip data whatever the name of FILE.

    Loading stops at a line that is not valid, or where gzip data are damaged or cut short, with exit
    code 1.  The whole lines before stay loaded, but with --bulk nothing is.  A line of more than 64 MiB
    that gzip packed into less than 1/100 is not valid.

    \b
    Example:  lsmkv load users.db users.jsonl.gz
              printf 'alice\\t34\\n' | lsmkv load users.db - --format tsv
              lsmkv load users.db users.csv --key-field id
              lsmkv load users.db users.csv --key-field id --value-field name
              lsmkv load sites.db ranks.csv --key-field 2
              lsmkv load words.db words.txt --format keys
              lsmkv load users.db dump.jsonl.gz --bulk --sorted
    """
    if is_sorted and not bulk:
        raise click.UsageError("--sorted is for --bulk; entries may come in any order without it")
    form = parameters.chosen_form()
    is_guess = file_format == "auto" and format_by_suffix(file) is None
    file_format = _chosen_format(file, file_format, form)
    fields = Fields(key_field, value_field, header, delimiter)
    _refuse_header(file_format, fields)
    hints: list[str] = []
    with contextlib.ExitStack() as stack:
        stack.callback(  # after the progress bar is gone
            lambda: click.echo(
                "".join(f"Hint: {file}: {hint}\n" for hint in hints), None, False, True
            )
        )
        stream = sys.stdin.buffer if file == "-" else stack.enter_context(open(file, "rb"))
        records = read_records(
            stream, file_format, form, fields, hints.append, is_text=form is not Form.RAW
        )
        with _telling(file, is_guess, lambda: 0):
            first = list(itertools.islice(records, 1))  # before there is a new store
        db = stack.enter_context(
            lsmkv.open(store, create_if_missing=create, wait_s=wait_s, **settings)
        )
        loader = BulkLoader(db, is_sorted, ttl_s) if bulk else Loader(db, batch_size, sync, ttl_s)
        size = os.path.getsize(file) if os.path.isfile(file) else None  # a pipe has none
        report = stack.enter_context(progress("Loading", of_bytes=size is not None))
        every = itertools.chain(first, records)
        checked = _ascending(every) if is_sorted else every
        with _telling(file, is_guess, lambda: loader.loaded):
            try:
                loader.load(record[1:] for record in _reporting(checked, stream, size, report))
            except ValueError:  # a bad line; those before it are good
                loader.give_up()
                raise
    click.echo(f"Loaded {count_entries(loader.loaded)}.", err=True)


@contextlib.contextmanager
def _telling(file: str, is_guess: bool, loaded: Callable[[], int]) -> Iterator[None]:
    """Name file, guessed format and entries loaded in errors of the block."""
    with saying_how_far(lambda: f"{count_entries(loaded())} loaded"):
        try:
            yield
        except ValueError as error:
            advice = ""
            if is_guess and isinstance(error, BadRecordError) and error.line == 1:
                advice = "; it was read as jsonl, --format says if it is another: tsv or csv "
                advice += "(with any --delimiter), or keys, one on each line"
            raise ValueError(f"{file}: {describe(error)}{advice}") from error


def _ascending(records: Iterator[Record]) -> Iterator[Record]:
    """The same records; BadRecordError at a key that is not above the one before."""
    before: bytes | None = None
    for record in records:
        number, key, *_ = record
        if before is not None and key <= before:
            what = "comes twice" if key == before else f"follows {to_text(before)}"
            raise BadRecordError(
                number, f"key {to_text(key)} {what}: with --sorted, keys ascend, each once"
            )
        before = key
        yield record


def _reporting(
    records: Iterator[Record], stream: BinaryIO, size: int | None, report: Progress
) -> Iterator[Record]:
    """The same records; reports how much of ``stream`` is read, or how many there were."""
    for number, record in enumerate(records, 1):
        if number % _REPORT_EVERY == 0:
            report(number if size is None else stream.tell(), size)
        yield record


def _chosen_format(path: str, chosen: str, form: Form) -> str:
    file_format = chosen if chosen != "auto" else format_by_suffix(path) or "jsonl"
    if file_format == "jsonl" and form is not Form.TEXT:
        raise click.UsageError(f"--{form.value} is for TSV and CSV; JSON lines have one form")
    return file_format


def _refuse_header(file_format: str, fields: Fields) -> None:
    if fields.header is not None and file_format == "jsonl":
        raise click.UsageError(
            "--header and --no-header are for TSV and CSV; JSON names its fields"
        )
    if fields.delimiter is not None and file_format not in ("tsv", "csv"):
        raise click.UsageError("--delimiter is for TSV and CSV: add --format csv")
    if file_format == KEYS and (fields.header is not None or fields.are_named):
        raise click.UsageError("a line of --format keys is a key: leave out headers and fields")
    if fields.header is False and fields.are_named and not fields.are_numbers:
        raise click.UsageError(
            "--no-header leaves --key-field and --value-field without names: give numbers of columns"
        )


@click.command(short_help="Write every entry of STORE to a file or a pipe.")
@parameters.store_argument
@_format_option("Format to write; auto means by the suffix of --output, or else jsonl.")
@click.option("--hex", "as_hex", is_flag=True, help="Write keys and values of TSV and CSV in hex.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, allow_dash=True),
    default="-",
    metavar="FILE",
    help="Write to FILE, replacing it once the dump is whole (default: standard output).",
)
def dump(store: str, file_format: str, as_hex: bool, output: str) -> None:
    """Write every entry of STORE as "lsmkv load" reads it back.

    Entries are in key order, in the formats of "lsmkv load", with when they expire.  A FILE whose name
    ends in .gz is packed by gzip.  The dump shows the store as it was when the command began, whatever
    other programs write meanwhile.

    What is at FILE stays as it is until the dump is whole, and for good if it fails.  A symbolic link
    stays a link: the file that it names is replaced.  Pipes and devices are written as they are.

    \b
    Example:  lsmkv dump users.db --output users.csv
              lsmkv dump users.db --output users.jsonl.gz
              lsmkv dump users.db | lsmkv load copy.db -
    """
    form = Form.HEX if as_hex else Form.TEXT
    file_format = _chosen_format(output, file_format, form)
    refuse_inside(store, "--output", output)
    number = 0
    with (
        lsmkv.open(store, create_if_missing=False, read_only=True) as db,
        db.snapshot() as snapshot,
        output_file(output, packed=is_packed(output)) as stream,
        progress("Dumping", beside_data=output == "-") as report,
    ):
        total = db.approximate_count()
        writer = RecordWriter(stream, file_format, form)
        expires = db.inspect().expiry is not None  # then each key is looked up once more
        for number, (key, value) in enumerate(snapshot.items(), 1):
            writer.add(key, value, snapshot.expires_at(key) if expires else None)
            if number % _REPORT_EVERY == 0:
                report(number, max(total, number))
    if output != "-":
        click.echo(f"Dumped {count_entries(number)}.", err=True)
