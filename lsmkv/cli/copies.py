"""Commands that copy a whole store: checkpoint, backup."""

from __future__ import annotations

import click

import lsmkv
from lsmkv.cli.output import print_report, progress
from lsmkv.cli.parameters import json_option, store_argument

_target_argument = click.argument("target", type=click.Path())


@click.command(short_help="Make a store of its own in TARGET that shares STORE's tables.")
@store_argument
@_target_argument
@json_option()
def checkpoint(store: str, target: str, as_json: bool) -> None:
    """Make a store of its own in TARGET: STORE, as it is now.

    TARGET is an empty directory, or one that does not exist.  It gets hard links to STORE's tables, which
    never change, so it takes little time and space; on another device they are copied.  A program may
    write to STORE meanwhile.  STORE may be a URL to which a store was published.

    What was interrupted leaves no store in TARGET, and the same command makes it anew.

    \b
    Example:  lsmkv checkpoint users.db users-monday.db
    """
    with (
        lsmkv.open(store, create_if_missing=False, read_only=True) as db,
        progress("Copying", of_bytes=True) as report_progress,
    ):
        report = db.checkpoint(target, progress=report_progress)
    print_report(report, as_json)


@click.command(short_help="Copy STORE to TARGET, or what is new in it since the last backup.")
@store_argument
@_target_argument
@json_option()
def backup(store: str, target: str, as_json: bool) -> None:
    """Copy STORE to TARGET, or bring the backup there up to date.

    Tables that are in TARGET already are not copied again, and nothing is linked.  A program may write to
    STORE meanwhile.  Whatever interrupts the command, TARGET opens as the previous backup or as the new
    one; the same command goes on.

    A backup is a store: "lsmkv verify" checks it, "lsmkv scan" reads it, and "cp -r" restores it.  A
    backup that was written to is refused, as is one of another store.

    \b
    Example:  lsmkv backup users.db /mnt/usb/users.db
    """
    with progress("Backing up", of_bytes=True) as report_progress:
        report = lsmkv.backup(store, target, progress=report_progress)
    print_report(report, as_json)
