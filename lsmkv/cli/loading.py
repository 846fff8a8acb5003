"""Commands that move whole stores in and out of files: load, dump."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final

import click

import lsmkv
from lsmkv.cli import parameters
from lsmkv.cli.fields import Fields
from lsmkv.cli.group import describe
from lsmkv.cli.keys import Form
from lsmkv.cli.output import REPORT_EVERY, output_file, progress, reading, refuse_inside
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


def batches(items: Iterator[_Item], most: int) -> Iterator[list[_Item]]:
    """The items, up to ``most`` at a time; those before a bad line, too."""
    batch, size_bytes = list[_Item](), 0
    try:
        for item in items:
            batch.append(item)
            size_bytes += len(item[0]) + len(item[1])
            if len(batch) >= most or size_bytes >= _BATCH_BYTES:
                yield batch
                batch, size_bytes = [], 0
    except ValueError:
        yield batch
        raise
    yield batch


def _write(db: lsmkv.DB, items: list[_Item], ttl_s: float | None, sync: bool) -> None:
    with db.write_batch(sync=sync) as batch:
        for key, value, due_s in items:
            batch.put(key, value, ttl_s=ttl_s if due_s is None else None, expires_at=due_s)


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
    loaded = 0
    with contextlib.ExitStack() as stack:
        stack.callback(  # after the progress bar is gone
            lambda: click.echo(
                "".join(f"Hint: {file}: {hint}\n" for hint in hints), None, False, True
            )
        )
        stream, watched = stack.enter_context(reading("Loading", file))
        records = read_records(
            stream, file_format, form, fields, hints.append, is_text=form is not Form.RAW
        )
        with _telling(file, is_guess, lambda: 0):
            first = list(itertools.islice(records, 1))  # before there is a new store
        db = stack.enter_context(
            lsmkv.open(store, create_if_missing=create, wait_s=wait_s, **settings)
        )
        every = itertools.chain(first, records)
        checked = _ascending(every) if is_sorted else every
        with _telling(file, is_guess, lambda: loaded):
            items = (record[1:] for record in watched(checked))
            if bulk:
                loaded = db.bulk_load(items, ttl_s=ttl_s, sorted=is_sorted).entries
            else:
                for batch in batches(items, batch_size):
                    _write(db, batch, ttl_s, sync)
                    loaded += len(batch)
    click.echo(f"Loaded {count_entries(loaded)}.", err=True)


@contextlib.contextmanager
def _telling(file: str, is_guess: bool, loaded: Callable[[], int]) -> Iterator[None]:
    """Name file, guessed format and entries loaded in errors of the block."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"stopped ({count_entries(loaded())} loaded before that)", err=True)
        raise
    except (lsmkv.Error, OSError, ValueError, MemoryError) as error:
        text = describe(error)
        if isinstance(error, ValueError):
            text = f"{file}: {text}"
        if is_guess and isinstance(error, BadRecordError) and error.line == 1:
            text += "; it was read as jsonl, --format says if it is another: tsv or csv "
            text += "(with any --delimiter), or keys, one on each line"
        told = f"{text} ({count_entries(loaded())} loaded before that)"
        raise click.ClickException(told) from error


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
            if number % REPORT_EVERY == 0:
                report(number, max(total, number))
    if output != "-":
        click.echo(f"Dumped {count_entries(number)}.", err=True)
