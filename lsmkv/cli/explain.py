"""The command that explains lookups: one step by step, or which of many waste reads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO, Final

import click

import lsmkv
from lsmkv.cli.group import describe
from lsmkv.cli.keys import Form, parse
from lsmkv.cli.output import percent, print_json, print_table, reading
from lsmkv.cli.parameters import BYTES, chosen_form, form_options, json_option, store_argument
from lsmkv.cli.records import BadRecordError
from lsmkv.cli.shape import shown_key, tell_of_cut_keys
from lsmkv.cli.streams import Lines
from lsmkv.encoding.entries import MAX_KEY_BYTES, key_bytes
from lsmkv.inspection.report import count
from lsmkv.inspection.wasted_reads import WastedReads, WastedReadsCount

_COLOURS: Final = {"+": "green", "-": "cyan", "!": "yellow"}  # by the sign of an explained step
_LONGEST_LINE: Final = 4 * MAX_KEY_BYTES + 2  # \xNN for each byte, and the end of the line
_WORST: Final = 10


@click.command()
@store_argument
@click.argument("key", type=BYTES, required=False)
@click.option("--filters", is_flag=True, help="Show more of each filter: n, m, k, the key's bits.")
@click.option(
    "--lookups",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Look up each key of FILE, a key a line; show what wasted reads.",
)
@click.option(
    "--worst",
    type=click.IntRange(1, 10_000),
    metavar="N",
    help=f"With --lookups: show N blocks and N keys (default: {_WORST}).",
)
@form_options
@json_option()
def explain(
    store: str,
    key: bytes | None,
    filters: bool,
    lookups: str | None,
    worst: int | None,
    as_json: bool,
) -> None:
    """Look KEY up in STORE, and show each step of the lookup.

    A line for each memtable and each run says what its filter answered, which block was searched, and
    what was read: - a filter saved a read, ! a wasted read, + the key's entry.  STORE need not have
    KEY.

    With --filters more lines tell of each filter n, m, k, the exact error rate, and the key's bits with
    those that are not set; and of each table what its index and filters take.

    With --lookups the command looks up the keys of FILE instead ("-" is standard input), as without a
    block cache, and shows the blocks and the keys that wasted most reads: of blocks that wasted equally
    the newest first, of keys the lowest.  Keys in FILE are text, or as --hex or --raw says; blank lines
    are skipped, and gzip data unpacked.  Beside p, the filter's exact error rate, stands the share of
    lookups of absent keys that read the block all the same.

    \b
    Example:  lsmkv explain users.db alice
              lsmkv explain users.db --lookups keys.txt --worst 20
    """
    if (key is None) == (lookups is None):
        raise click.UsageError("give either KEY or --lookups FILE")
    if lookups is not None:
        if filters:
            raise click.UsageError("--filters goes with KEY")
        _explain_lookups(store, lookups, worst or _WORST, as_json)
        return
    if worst is not None:
        raise click.UsageError("--worst goes with --lookups FILE")
    assert key is not None
    with lsmkv.open(store, create_if_missing=False, read_only=True) as db:
        explanation = db.explain(key)
    if as_json:
        print_json(explanation)
        return
    has_colour = False if os.environ.get("NO_COLOR") else None  # None: on a terminal
    for line in explanation.lines(with_filters=filters):
        click.secho(line, color=has_colour, fg=_COLOURS.get(line[0]))


def _explain_lookups(store: str, file: str, worst: int, as_json: bool) -> None:
    counted = WastedReadsCount()
    with (
        reading("Looking up", file) as (stream, watched),
        # A cache would hide reads.
        lsmkv.open(store, create_if_missing=False, read_only=True, block_cache_size_bytes=0) as db,
    ):
        try:
            for key in watched(lookup_keys(stream, chosen_form())):
                counted.add(db.explain(key))
        except ValueError as error:  # a line that is no key
            raise ValueError(f"{file}: {describe(error)}") from error
        found = counted.report(db.tables(), worst)
    if as_json:
        print_json(found)
    else:
        _print_wasted(found)


def lookup_keys(stream: BinaryIO, form: Form) -> Iterator[bytes]:
    """The key of each line that is not blank, until BadRecordError."""
    lines = Lines(stream, longest=_LONGEST_LINE, is_text=form is not Form.RAW)
    for number, line in enumerate(lines, 1):
        lines.begin_record()
        data = line.removesuffix(b"\n")
        if form is not Form.RAW:
            data = data.removesuffix(b"\r")
        if not data:
            continue
        try:
            yield key_bytes(data if form is Form.RAW else parse(data.decode("utf-8"), form))
        except UnicodeDecodeError as error:
            advice = "write such bytes as \\xNN, or give --raw"
            raise BadRecordError(number, f"not UTF-8: {error}; {advice}") from None
        except ValueError as error:
            raise BadRecordError(number, str(error)) from None


def _print_wasted(found: WastedReads) -> None:
    click.echo(
        f"{count(found.lookups, 'lookup')}: {found.present:,} of present keys, "
        f"{found.absent:,} of absent ones"
    )
    click.echo(
        f"Reads: {found.needed:,} needed, {found.wasted:,} wasted, {found.avoided:,} avoided by filters"
    )
    if not found.wasted:
        return
    headings = ["level\n/run", "table", "block", "first key", "last key", "wasted", "denied"]
    rows = [
        [
            f"{block.level}/{block.run}",
            block.table,
            block.block,
            shown_key(block.first_key),
            shown_key(block.last_key),
            block.wasted,
            block.denied,
            percent(block.expected_rate),
            percent(block.seen_rate),
        ]
        for block in found.blocks
    ]
    click.echo(f"\n{count(found.wasteful_blocks, 'block')} wasted reads; the worst:")
    text = [headings[0], "first key", "last key"]
    is_whole = print_table("", [*headings, "p, %\nexact", "p, %\nseen"], rows, text=text)
    click.echo("\nKeys that wasted most:")
    keys = [[shown_key(key.key), key.wasted] for key in found.keys]
    is_whole &= print_table("", ["key", "wasted"], keys, text=["key"])
    spans = [key for block in found.blocks for key in (block.first_key, block.last_key)]
    tell_of_cut_keys(is_whole, [*spans, *(key.key for key in found.keys)])
