"""Commands on single entries and ranges of them: put, get, delete, scan."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import click

import lsmkv
from lsmkv.cli.group import ABSENT
from lsmkv.cli.keys import Form, argument_bytes, render, with_form
from lsmkv.cli.output import standard_input, standard_output
from lsmkv.cli.records import json_line
from lsmkv.encoding import MAX_VALUE_BYTES

store_argument = click.argument("store", type=click.Path())
create_option = click.option(
    "--create/--no-create", default=True, help="Create the store if it is not there (the default)."
)


@click.command()
@store_argument
@click.argument("key")
@click.argument("value")
@with_form
@create_option
def put(store: str, key: str, value: str, form: Form, create: bool) -> None:
    """Set KEY to VALUE in STORE.

    When the command ends, the entry would survive a loss of power.

    VALUE "-" stands for standard input, taken byte for byte whatever the form (its last newline too).
    For a value that is a single dash, write \\x2d.

    \b
    Example:  lsmkv put users.db alice '{"age": 34}'
              lsmkv put users.db photo - < alice.jpeg
    """
    key_bytes = argument_bytes(key, form, "KEY")
    if value == "-":
        value_bytes = standard_input().read(MAX_VALUE_BYTES + 1)
    else:
        value_bytes = argument_bytes(value, form, "VALUE")
    with lsmkv.open(store, create_if_missing=create) as db:
        db.put(key_bytes, value_bytes)


@click.command()
@store_argument
@click.argument("key")
@with_form
@click.option("--json", "as_json", is_flag=True, help='Print {"key": ..., "value": ...}.')
@click.option(
    "--newline/--no-newline", default=True, help="End the value with a newline (default)."
)
@click.pass_context
def get(ctx: click.Context, store: str, key: str, form: Form, as_json: bool, newline: bool) -> None:
    """Print the value of KEY in STORE.

    A key that is not there prints nothing, and exits with code 3.

    \b
    Example:  lsmkv get users.db alice
              lsmkv get users.db photo --raw --no-newline > alice.jpeg
    """
    key_bytes = argument_bytes(key, form, "KEY")
    with lsmkv.open(store, create_if_missing=False, read_only=True) as db:
        value = db.get(key_bytes)
    if value is None:
        ctx.exit(ABSENT)
    if as_json:
        standard_output().write(json_line(key_bytes, value))
    else:
        standard_output().write(render(value, form) + (b"\n" if newline else b""))


@click.command()
@store_argument
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@with_form
def delete(store: str, keys: tuple[str, ...], form: Form) -> None:
    """Delete each KEY from STORE: all of them, or on failure none.

    Deleting a key that is not there is no error.  When the command ends, the deletions would survive
    a loss of power.

    \b
    Example:  lsmkv delete users.db alice bob
    """
    parsed = [argument_bytes(key, form, "KEY") for key in keys]
    with lsmkv.open(store, create_if_missing=False) as db, db.write_batch() as batch:
        for key in parsed:
            batch.delete(key)


@click.command()
@store_argument
@click.option("--start", metavar="KEY", help="First key.")
@click.option("--stop", metavar="KEY", help="Key to stop before.")
@click.option("--prefix", metavar="KEY", help="Only keys that start with this.")
@click.option("--reverse", is_flag=True, help="From the last key to the first.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="At most N entries.")
@click.option("--keys-only", is_flag=True, help="Keys without their values.")
@with_form
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
def scan(
    store: str,
    start: str | None,
    stop: str | None,
    prefix: str | None,
    reverse: bool,
    limit: int | None,
    keys_only: bool,
    form: Form,
    as_json: bool,
) -> None:
    """Print the entries of STORE in key order: key, tab, value.

    That is the TSV of "lsmkv load", and --json is its JSON lines: what is printed can be loaded back
    (not so with --raw, whose keys and values may hold tabs and newlines, or --keys-only).  With
    --json, --hex and --raw say how --start, --stop and --prefix are written.

    \b
    Example:  lsmkv scan users.db --prefix user: --limit 10
              lsmkv scan old.db | lsmkv load new.db - --format tsv
    """
    bounds = {
        name: None if key is None else argument_bytes(key, form, f"--{name}")
        for name, key in (("start", start), ("stop", stop), ("prefix", prefix))
    }
    out = standard_output()
    with lsmkv.open(store, create_if_missing=False, read_only=True) as db:
        entries: Iterable[tuple[bytes, bytes | None]]
        if keys_only:
            entries = ((key, None) for key in db.keys(**bounds, reverse=reverse))
        else:
            entries = db.items(**bounds, reverse=reverse)
        for key, value in islice(entries, limit):
            if as_json:
                out.write(json_line(key, value))
            elif value is None:
                out.write(render(key, form) + b"\n")
            else:
                out.write(b"%b\t%b\n" % (render(key, form), render(value, form)))
