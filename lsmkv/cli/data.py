"""Commands on single entries and ranges of them: put, get, delete, scan, count."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import islice
from typing import Any

import click

import lsmkv
from lsmkv.cli import parameters
from lsmkv.cli.group import ABSENT
from lsmkv.cli.keys import render
from lsmkv.cli.output import confirm, print_json
from lsmkv.cli.records import json_line
from lsmkv.encoding.entries import MAX_VALUE_BYTES
from lsmkv.encoding.text_form import shortened, to_text
from lsmkv.inspection.report import count_entries


class _BytesOrInput(parameters.Bytes):
    def convert(self, value: Any, param: Any, ctx: Any) -> bytes:
        if value == "-":
            return sys.stdin.buffer.read(MAX_VALUE_BYTES + 1)
        return super().convert(value, param, ctx)


@click.command()
@parameters.store_argument
@click.argument("key", type=parameters.BYTES)
@click.argument("value", type=_BytesOrInput())
@parameters.form_options
@parameters.entry_ttl_option
@parameters.create_option
@parameters.wait_option
def put(
    store: str, key: bytes, value: bytes, ttl_s: float | None, create: bool, wait_s: float
) -> None:
    """Set KEY to VALUE in STORE.

    When the command ends, the entry survives a loss of power.

    VALUE "-" reads the value from standard input, byte for byte in every form, its last newline
    included.  To store a single dash, write \\x2d.

    \b
    Example:  lsmkv put users.db alice '{"age": 34}'
              lsmkv put users.db photo - < alice.jpeg
              lsmkv put users.db session:7 alice --ttl 3600
    """
    with lsmkv.open(store, create_if_missing=create, wait_s=wait_s) as db:
        db.put(key, value, ttl_s=ttl_s)


@click.command()
@parameters.store_argument
@click.argument("key", type=parameters.BYTES)
@parameters.form_options
@parameters.json_option('Print {"key": ..., "value": ...}.')
@click.option(
    "--newline/--no-newline",
    default=True,
    show_default=True,
    help="Print a newline after the value.",
)
@click.pass_context
def get(ctx: click.Context, store: str, key: bytes, as_json: bool, newline: bool) -> None:
    """Print the value of KEY in STORE.

    A KEY that STORE does not have is named on standard error, with exit code 3.

    \b
    Example:  lsmkv get users.db alice
              lsmkv get users.db photo --raw --no-newline > alice.jpeg
    """
    with lsmkv.open(store, create_if_missing=False, read_only=True) as db:
        value = db.get(key)
    if value is None:
        click.echo(f"{shortened(to_text(key))}: not in {store}", err=True)
        ctx.exit(ABSENT)
    if as_json:
        shown = json_line(key, value)
    else:
        shown = render(value, parameters.chosen_form()) + (b"\n" if newline else b"")
    sys.stdout.buffer.write(shown)


@click.command(short_help="Delete each KEY from STORE, or every key with a prefix.")
@parameters.store_argument
@click.argument("keys", nargs=-1, type=parameters.BYTES, metavar="[KEY]...")
@parameters.key_option("--prefix", "Delete every key that starts with this.")
@click.option("--yes", is_flag=True, help="Do not ask before --prefix.")
@parameters.form_options
@parameters.wait_option
@parameters.json_option('With --prefix: print {"deleted": N}.')
def delete(
    store: str,
    keys: tuple[bytes, ...],
    prefix: bytes | None,
    yes: bool,
    wait_s: float,
    as_json: bool,
) -> None:
    """Delete each KEY from STORE: all of them, or on failure none.

    A KEY that STORE does not have is no error.  When the command ends, the deletions survive a loss
    of power.

    With --prefix, delete every key that starts with it, in one step, and print how many there were.

    \b
    Example:  lsmkv delete users.db alice bob
              lsmkv delete users.db --prefix session: --yes
    """
    if bool(keys) == (prefix is not None):
        raise click.UsageError("give either KEY... or --prefix KEY")
    if prefix is None:
        if yes or as_json:
            raise click.UsageError("--yes and --json go with --prefix")
        with (
            lsmkv.open(store, create_if_missing=False, wait_s=wait_s) as db,
            db.write_batch() as batch,
        ):
            for key in keys:
                batch.delete(key)
        return
    if not prefix:  # as from a variable that is not set
        raise click.UsageError('--prefix is empty: every key; "lsmkv destroy" removes a store')
    with lsmkv.open(store, create_if_missing=False, wait_s=wait_s) as db:
        found = len(db.keys(prefix=prefix))
        if not yes:
            shown = shortened(to_text(prefix))
            confirm(f'Delete {count_entries(found)} from {store}, all that start with "{shown}"?')
        db.delete_range(prefix=prefix)
    if as_json:
        print_json({"deleted": found})
    else:
        click.echo(f"Deleted {count_entries(found)}.", err=True)


@click.command()
@parameters.store_argument
@parameters.range_options
@click.option("--reverse", is_flag=True, help="Print from the last key to the first.")
@click.option(
    "--limit",
    type=click.IntRange(0, sys.maxsize),
    metavar="N",
    help="Print at most N entries (default: all).",
)
@click.option("--keys-only", is_flag=True, help="Print keys without their values.")
@parameters.json_option("Print JSON lines.")
def scan(
    store: str, reverse: bool, limit: int | None, keys_only: bool, as_json: bool, **bounds: Any
) -> None:
    """Print the entries of STORE in key order: key, tab, value.

    "lsmkv load" reads this back as TSV, that of --json as JSON lines, and that of --keys-only with
    --format keys.  It cannot read back --raw, whose keys and values may hold tabs and newlines.  With
    --json, --hex and --raw are only about --start, --stop and --prefix.

    \b
    Example:  lsmkv scan users.db --prefix user: --limit 10
              lsmkv scan old.db | lsmkv load new.db - --format tsv
    """
    out, form = sys.stdout.buffer, parameters.chosen_form()
    with lsmkv.open(store, create_if_missing=False, read_only=True) as db:
        entries: Iterable[tuple[bytes, bytes | None]]
        if keys_only:
            entries = ((key, None) for key in db.keys(reverse=reverse, **bounds))
        else:
            entries = db.items(reverse=reverse, **bounds)
        for key, value in islice(entries, limit):
            if as_json:
                out.write(json_line(key, value))
            elif value is None:
                out.write(render(key, form) + b"\n")
            else:
                out.write(b"%b\t%b\n" % (render(key, form), render(value, form)))


@click.command()
@parameters.store_argument
@parameters.range_options
@parameters.json_option('Print {"count": N}.')
def count(store: str, as_json: bool, **bounds: Any) -> None:
    """Print how many keys STORE has, in all or in a range.

    The count is exact, and reads every key in the range.  "lsmkv stats" estimates it, and reads none.

    \b
    Example:  lsmkv count users.db --prefix user:
    """
    with lsmkv.open(store, create_if_missing=False, read_only=True) as db:
        number = len(db.keys(**bounds))
    if as_json:
        print_json({"count": number})
    else:
        click.echo(number)
