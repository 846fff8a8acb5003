"""Commands on single entries and ranges of them: put, get, delete, scan, count."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

import click

import lsmkv
from lsmkv.cli.group import ABSENT, describe
from lsmkv.cli.keys import Command, Form, argument_bytes, render, shortened, to_text, with_form
from lsmkv.cli.output import confirm, note, print_json, standard_input, standard_output
from lsmkv.cli.records import json_line
from lsmkv.encoding.entries import MAX_VALUE_BYTES
from lsmkv.inspection.report import count_entries

_DELETE_BATCH: Final = 1000
_BOUNDS: Final = ("start", "stop", "prefix")


def _parse_store(_ctx: click.Context, _param: click.Parameter, store: str) -> str:
    if not store:  # as from a variable that is not set; it would be the present directory
        raise click.BadParameter("it is empty; the present directory is .")
    return store


store_argument = click.argument("store", type=click.Path(), callback=_parse_store)
create_option = click.option(
    "--create/--no-create", default=True, help="Create the store if it is not there (the default)."
)


def with_bounds(command: Command) -> Command:
    """Add ``--start``, ``--stop`` and ``--prefix``, and the form; the command gets ``bounds``."""

    @click.option("--start", metavar="KEY", help="First key.")
    @click.option("--stop", metavar="KEY", help="Key to stop before.")
    @click.option("--prefix", metavar="KEY", help="Only keys that start with this.")
    @with_form
    @functools.wraps(command)
    def wrapped(*arguments: Any, form: Form, **options: Any) -> None:
        given = {name: options.pop(name) for name in _BOUNDS}
        bounds = {
            name: argument_bytes(key, form, f"--{name}")
            for name, key in given.items()
            if key is not None
        }
        command(*arguments, form=form, bounds=bounds, **options)

    return wrapped


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


@click.command(short_help="Delete each KEY from STORE, or every key with a prefix.")
@store_argument
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@click.option("--prefix", metavar="KEY", help="Delete every key that starts with this.")
@click.option("--yes", is_flag=True, help="Do not ask before --prefix.")
@with_form
@click.option("--json", "as_json", is_flag=True, help='With --prefix: print {"deleted": N}.')
def delete(
    store: str,
    keys: tuple[str, ...],
    prefix: str | None,
    yes: bool,
    form: Form,
    as_json: bool,
) -> None:
    """Delete each KEY from STORE: all of them, or on failure none.

    Deleting a key that is not there is no error.  When the command ends, the deletions would survive
    a loss of power.

    With --prefix, delete every key that starts with it, and say how many there were.  They are deleted
    in batches, so a failure or Ctrl-C may leave some of them.

    \b
    Example:  lsmkv delete users.db alice bob
              lsmkv delete users.db --prefix session: --yes
    """
    if bool(keys) == (prefix is not None):
        raise click.UsageError("give either KEY... or --prefix KEY")
    if prefix is None:
        if yes or as_json:
            raise click.UsageError("--yes and --json go with --prefix")
        parsed = [argument_bytes(key, form, "KEY") for key in keys]
        with lsmkv.open(store, create_if_missing=False) as db, db.write_batch() as batch:
            for key in parsed:
                batch.delete(key)
        return
    prefix_bytes = argument_bytes(prefix, form, "--prefix")
    if not prefix_bytes:  # as from a variable that is not set
        raise click.UsageError('--prefix is empty: every key; "lsmkv destroy" removes a store')
    with lsmkv.open(store, create_if_missing=False) as db:
        if not yes:
            found = count_entries(len(db.keys(prefix=prefix_bytes)))
            confirm(f"Delete {found} from {store}, all that start with {_shown(prefix_bytes)}?")
        deleted = _delete_all(db, prefix_bytes)
    if as_json:
        print_json({"deleted": deleted})
    else:
        note(f"Deleted {count_entries(deleted)}.")


def _delete_all(db: lsmkv.DB, prefix: bytes) -> int:
    """Delete the keys that start with ``prefix``, in batches; how many they were."""
    deleted = 0
    keys = iter(db.keys(prefix=prefix))
    try:
        while group := list(islice(keys, _DELETE_BATCH)):
            with db.write_batch() as batch:
                for key in group:
                    batch.delete(key)
            deleted += len(group)
    except (lsmkv.Error, OSError) as error:
        raise click.ClickException(f"{describe(error)} ({_deleted_before(deleted)})") from error
    except KeyboardInterrupt:
        note(f"stopped ({_deleted_before(deleted)})")
        raise
    return deleted


def _deleted_before(number: int) -> str:
    return f"{count_entries(number)} deleted before that"


def _shown(key: bytes) -> str:
    return f'"{shortened(to_text(key))}"'


@click.command()
@store_argument
@with_bounds
@click.option("--reverse", is_flag=True, help="From the last key to the first.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="At most N entries.")
@click.option("--keys-only", is_flag=True, help="Keys without their values.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
def scan(
    store: str,
    bounds: dict[str, bytes],
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


@click.command()
@store_argument
@with_bounds
@click.option("--approximate", is_flag=True, help="Estimate it, and read no table.")
@click.option("--json", "as_json", is_flag=True, help='Print {"count": N, "approximate": ...}.')
def count(
    store: str, bounds: dict[str, bytes], form: Form, approximate: bool, as_json: bool
) -> None:
    """Print how many keys STORE has, in all or in a range.

    The count is exact, and reads every key in the range.  The estimate of --approximate reads no table.
    It may count overwritten keys more than once, and is for the whole store alone.

    \b
    Example:  lsmkv count users.db --prefix user:
              lsmkv count users.db --approximate
    """
    if approximate and bounds:
        raise click.UsageError("--approximate is for the whole store, without a range")
    with lsmkv.open(store, create_if_missing=False, read_only=True) as db:
        number = db.approximate_count() if approximate else len(db.keys(**bounds, reverse=False))
    if as_json:
        print_json({"count": number, "approximate": approximate})
    else:
        click.echo(number)
