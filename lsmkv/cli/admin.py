"""Commands that maintain or copy a store."""

from __future__ import annotations

import os
from typing import Any

import click

import lsmkv
from lsmkv.cli import parameters
from lsmkv.cli.group import DAMAGED, describe
from lsmkv.cli.output import confirm, print_json, print_report, progress
from lsmkv.inspection.report import Problem, count, count_entries, size
from lsmkv.inspection.store_info import StoreInfo
from lsmkv.inspection.verify import VerifyReport
from lsmkv.salvage.report import LOST_FOLDER
from lsmkv.storage.file_names import CURRENT, UNFINISHED_COPY
from lsmkv.storage.storage import Storage, is_url, shown_url
from lsmkv.storage.store_lock import holds_store
from lsmkv.tree.ownership import check_is_ours


@click.command()
@parameters.store_argument
@parameters.json_option()
@click.pass_context
def verify(ctx: click.Context, store: str, as_json: bool) -> None:
    """Check every byte of STORE: checksums, order, filters.

    Exits with code 4 when something is damaged.  That includes damage that keeps the store from being
    opened (the counts of --json are 0 then), and a store without its file CURRENT.  Exits with code 1
    when the directory holds no files of a store.

    "lsmkv repair" saves what can be saved.

    \b
    Example:  lsmkv verify users.db
    """
    try:
        with (
            lsmkv.open(store, create_if_missing=False, read_only=True) as db,
            progress("Verifying") as report_progress,
        ):
            report = db.verify(report_progress)
    except (lsmkv.CorruptionError, lsmkv.NotAStoreError) as error:
        if isinstance(error, lsmkv.CorruptionError):
            problem = Problem.of(error, store)
        elif _lost_current(store):
            problem = Problem(os.path.join(os.path.abspath(store), CURRENT), None, "it is missing")
        else:
            raise
        message = str(problem)
        if not is_url(store):
            message += '; "lsmkv repair" can rebuild the store'
        if as_json:
            print_json(VerifyReport(0, 0, 0, 0, 0, 0, 0, (problem,)))
        else:
            click.echo(f"Error: {message}", err=True)
        ctx.exit(DAMAGED)
    print_report(report, as_json)
    if not report.ok:
        ctx.exit(DAMAGED)


class _Directory(click.Path):
    """A path, and no URL."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if is_url(value):
            self.fail(
                f"{shown_url(value)} is a URL: repair the store in its directory, and publish it again",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


@click.command(short_help="Build a sound store from what can be read of STORE.")
@click.argument("source", metavar="STORE", type=_Directory(), callback=parameters.refuse_empty)
@click.option("--output", metavar="DIRECTORY", type=click.Path(), help="Build the new store here.")
@click.option("--in-place", is_flag=True, help="Replace STORE by the new store.")
@click.option("--yes", is_flag=True, help="Do not ask before --in-place.")
@parameters.json_option()
@click.pass_context
def repair(
    ctx: click.Context, source: str, output: str | None, in_place: bool, yes: bool, as_json: bool
) -> None:
    """Build a sound store from what can be read of STORE.

    With --output, STORE stays as it is.  The new store gets the undamaged blocks of tables, and what
    the logs hold before their first damage.  The report says what was lost.

    Exits with code 4 when something is lost or may be out of date.  The new store is built anyway.

    \b
    Example:  lsmkv repair users.db --output rescued.db
    """
    if (output is None) != in_place:
        raise click.UsageError("give either --output DIRECTORY or --in-place")
    if in_place and not yes and os.path.isdir(source):
        confirm(f"Rebuild {source} in place?")
    try:
        with progress("Repairing") as report_progress:
            report = lsmkv.repair(source, output, in_place=in_place, progress=report_progress)
    except ValueError as error:
        if not str(error).startswith("output="):
            raise
        raise click.UsageError(f"--{describe(error)}") from None
    print_report(report, as_json)
    if not report.is_complete:
        ctx.exit(DAMAGED)


@click.command(short_help="Merge STORE, or a range of its keys, into one sorted run.")
@parameters.store_argument
@parameters.start_option
@parameters.stop_option
@click.option("--force", is_flag=True, help="Rewrite also what is one sorted run already.")
@parameters.form_options
@parameters.settings_option()
@parameters.wait_option
@parameters.json_option()
def compact(
    store: str,
    start: bytes | None,
    stop: bytes | None,
    force: bool,
    settings: dict[str, Any],
    wait_s: float,
    as_json: bool,
) -> None:
    """Merge STORE, or a range of its keys, into one sorted run.

    Removes overwritten and deleted entries, so that a lookup has one place to search.  Needs free space
    for a second copy of what it merges.  What is one run already stays as it is; --force rewrites it
    too, with the options of --set.

    \b
    Example:  lsmkv compact users.db
              lsmkv compact users.db --start a --stop n
              lsmkv compact users.db --force --set error_rate=0.001
    """
    with (
        lsmkv.open(store, create_if_missing=False, wait_s=wait_s, **settings) as db,
        progress("Compacting"),
    ):
        before = db.inspect()
        db.compact_range(start, stop, force=force)
        after = db.inspect()
    if as_json:
        print_json({"before": _totals(before), "after": _totals(after)})
        return
    if _tables(before) == _tables(after):
        click.echo(f"Nothing to merge: {_described(after)}")
        return
    click.echo(f"Before: {_described(before)}")
    click.echo(f"After:  {_described(after)}")


@click.command(short_help="Make a store of its own in TARGET that shares STORE's tables.")
@parameters.store_argument
@click.argument("target", type=click.Path())
@parameters.json_option()
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
@parameters.store_argument
@click.argument("target", type=click.Path())
@parameters.json_option()
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


@click.command(short_help="Copy STORE to object storage, to be read from there.")
@parameters.store_argument
@click.argument("url")
@click.option(
    "--keep",
    type=click.IntRange(1),
    metavar="N",
    help="Keep the newest N generations, and remove older ones (default: remove none).",
)
@parameters.settings_option()
@parameters.wait_option
@parameters.json_option()
def publish(
    store: str, url: str, keep: int | None, settings: dict[str, Any], wait_s: float, as_json: bool
) -> None:
    """Copy STORE to object storage, as a new generation below URL.

    URL is s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///FOLDER.  Credentials
    come from the environment, as for the tools of these clouds.  Tables that are there already are not
    sent again, so after an interruption the same command goes on.

    Commands that only read take URL as STORE.  Those that run go on with the generation that they
    opened, for as long as --keep leaves it.

    It needs obstore: pip install "lsmkv[remote]"

    \b
    Example:  lsmkv publish users.db s3://bucket/users --keep 3
              lsmkv get s3://bucket/users alice
    """
    with (
        lsmkv.open(store, create_if_missing=False, wait_s=wait_s, **settings) as db,
        progress("Publishing", of_bytes=True) as report_progress,
    ):
        report = db.publish(url, keep=keep, progress=report_progress)
    print_report(report, as_json)


@click.command(short_help="Remove STORE and every entry in it.")
@parameters.store_argument
@click.option("--yes", is_flag=True, help="Do not ask.")
@parameters.json_option('Print {"path": ..., "directory_removed": ...}.')
def destroy(store: str, yes: bool, as_json: bool) -> None:
    """Remove STORE and every entry in it.

    Removes the store's own files, and the directory if it is empty then.  The folder "lost", to which
    "lsmkv repair --in-place" moves files, is not removed.

    Removes nothing from a directory that is no store, or from a store that is open for writing.

    \b
    Example:  lsmkv destroy users.db
              lsmkv destroy users.db --yes
    """
    if not yes and holds_store(Storage(), store):
        confirm(f"Remove {store} and every entry in it?")
    lsmkv.destroy(store)
    remains = os.path.lexists(store)
    if as_json:
        print_json({"path": os.path.abspath(store), "directory_removed": not remains})
    else:
        shown = f"the store; {store} stays{_why_it_stays(store)}" if remains else store
        click.echo(f"Removed {shown}.", err=True)


def _lost_current(store: str) -> bool:
    try:
        names = os.listdir(store)
        check_is_ours(Storage(), store)
    except (FileNotFoundError, NotADirectoryError, lsmkv.NotAStoreError):
        return False
    return CURRENT not in names and UNFINISHED_COPY not in names


def _why_it_stays(directory: str) -> str:
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return ""
    if not names:
        return ", and nothing is in it"
    example = LOST_FOLDER if LOST_FOLDER in names else names[0]
    return f": other files are in it, such as {example}"


def _tables(info: StoreInfo) -> list[int]:
    return [table.number for table in info.tables()]


def _totals(info: StoreInfo) -> dict[str, int]:
    return {
        "memtable_keys": sum(info.memtable_key_counts),
        "runs": sum(len(level.runs) for level in info.levels),
        "tables": sum(1 for _ in info.tables()),
        "entries": info.entry_count,
        "size_bytes": info.size_bytes,
    }


def _described(info: StoreInfo) -> str:
    totals = _totals(info)
    return (
        f"{count(totals['runs'], 'run')}, {count(totals['tables'], 'table')}, "
        f"{count_entries(totals['entries'])}, {size(totals['size_bytes'])}, "
        f"{count(totals['memtable_keys'], 'key')} in the log"
    )
