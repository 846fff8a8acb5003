"""Commands that look inside a store: stats, inspect."""

from __future__ import annotations

import os
from typing import Final

import click

import lsmkv
from lsmkv.cli.output import percent, print_json, print_table
from lsmkv.cli.parameters import json_option, refuse_empty, store_argument
from lsmkv.encoding.text_form import shortened, to_text
from lsmkv.inspection.report import count, size, utc
from lsmkv.inspection.store_info import (
    BlockInfo,
    LevelInfo,
    StoreInfo,
    TableInfo,
    block_infos,
    table_info,
)
from lsmkv.inspection.tables import open_table_file
from lsmkv.storage.storage import absolute_path, is_url

_KEYS: Final = ("first key", "last key")
_SHOWN_KEY: Final = 32  # characters of a key in a table; --json has all of it


@click.command(short_help="Show the shape of STORE and the memory it takes.")
@store_argument
@json_option()
def stats(store: str, as_json: bool) -> None:
    """Show the shape of STORE, its memory, and what opening it read.

    Counters belong to the process that has the store open.  This command shows its own: what it read to
    open the store and its tables.  A program sees its counters in DB.stats().

    \b
    Example:  lsmkv stats users.db
    """
    with lsmkv.open(store, create_if_missing=False, read_only=True) as db:
        info = db.inspect()  # first: it makes every table read its index and filters
        counters, memory = db.stats(), db.memory_usage()
        about = db.approximate_count()
        path = db.path
    opening = {
        name: value
        for name, value in counters.as_dict().items()
        if name.startswith(("log_read", "index_read", "filter_read", "object_"))
    }
    if as_json:
        print_json(
            {
                "path": path,
                "approximate_count": about,
                "memtable_key_counts": info.memtable_key_counts,
                "levels": [_level_totals(level) for level in info.levels],
                "memory": memory,
                "opening": opening,
            }
        )
        return
    memtable_keys = sum(info.memtable_key_counts)
    click.echo(
        f"{path}: about {count(about, 'key')}; {size(info.size_bytes)} in tables, "
        f"{count(memtable_keys, 'key')} in the log"
    )
    if info.levels:
        rows = [list(_level_totals(level).values()) for level in info.levels]
        totals = [sum(column) for column in zip(*rows, strict=True)]
        headings = ["level", "runs", "tables", "entries", "deleted", "blocks", "bytes", "index"]
        headings.append("filters")
        print_table("", headings, [*rows, ["all", *totals[1:]]], text=["level"])
    click.echo(f"Memory: {memory.index_and_filters()}; memtables {size(memory.memtable_bytes)}")
    click.echo(
        f"Opening it and its tables read: {size(counters.log_read_bytes)} of logs, "
        f"{size(counters.index_read_bytes)} of indexes, "
        f"{size(counters.filter_read_bytes)} of filters"
    )
    if counters.object_gets:
        click.echo(
            f"That took {count(counters.object_lists, 'LIST request')} and "
            f"{count(counters.object_gets, 'GET request')} of {size(counters.object_get_bytes)}"
        )


def _level_totals(level: LevelInfo) -> dict[str, int]:
    tables = [table for run in level.runs for table in run.tables]
    return {
        "level": level.number,
        "runs": len(level.runs),
        "tables": len(tables),
        "entries": level.entry_count,
        "deletions": sum(table.tombstone_count for table in tables),
        "blocks": level.block_count,
        "size_bytes": level.size_bytes,
        "index_bytes": level.index_bytes,
        "filter_bytes": level.filter_bytes,
    }


@click.command()
@click.argument("store", type=click.Path(), callback=refuse_empty, metavar="STORE|FILE.sst")
@click.option("--blocks", is_flag=True, help="Show each block with its filter; reads them all.")
@json_option()
def inspect(store: str, blocks: bool, as_json: bool) -> None:
    """Show the levels, runs and tables of STORE, or one FILE.sst.

    p is a filter's false-positive rate: as asked for, and the exact rate of the filter built from n
    keys with m bits and k probes (of ribbon filters: columns; of Grafite filters: low bits).  A table
    shows the mean of its blocks, or "?" where only reading the blocks would tell.  Beside it stands,
    with --blocks, the rate of the very bits: of a Bloom filter the share of bits set, to the power k,
    of a ribbon filter the same, of others "-".  Bytes of filters count once, although a file holds
    them twice: in its blocks, and together for loading.  Index and filters are told side by side, in
    all, by key and by block.  Where entries expire, it is told how many, and when half of all are due.

    FILE.sst is one table, and needs no store around it.

    \b
    Example:  lsmkv inspect users.db
              lsmkv inspect users.db/000012.sst --blocks
    """
    if _is_table_file(store):
        _inspect_file(store, blocks, as_json)
        return
    with lsmkv.open(store, create_if_missing=False, read_only=True) as db:
        info = db.inspect()
        found = {table.number: list(db.blocks(table.number)) for table in info.tables() if blocks}
    if as_json:
        tables = [_table_json(table, found.get(table.number)) for table in info.tables()]
        print_json({"tables": tables} if blocks else info)
    elif blocks:
        if not found:
            click.echo(_no_tables(info))
        for table in info.tables():
            _print_blocks(table, found[table.number])
    else:
        _print_tables(info)


def _is_table_file(path: str) -> bool:
    """Whether it is a file, or would be one by its name."""
    if path.endswith(".sst"):
        return not os.path.isdir(path) and not is_url(path)
    return os.path.isfile(path)


def _inspect_file(path: str, blocks: bool, as_json: bool) -> None:
    reader = open_table_file(absolute_path(path))
    table = table_info(reader)
    found = list(block_infos(reader)) if blocks else None
    if as_json:
        print_json(_table_json(table, found))
    elif found is not None:
        _print_blocks(table, found)
    else:
        _print_file(table)


def _print_file(table: TableInfo) -> None:
    filters = "none"
    if table.filter_kind != "none":
        exact = "?" if table.expected_rate is None else percent(table.expected_rate)
        filters = (
            f"{table.filter_kind}, one per {table.granularity}, {table.filter_key} keys; "
            f"p {percent(table.requested_rate)} % asked, {exact} % exact"
        )
    click.echo(f"{table.file_name}: table {table.number}, {size(table.size_bytes)}")
    for name, fact in (
        ("written by", table.writer),
        ("keys", f"{shown_key(table.smallest)} to {shown_key(table.largest)}"),
        ("entries", f"{table.entry_count:,}, {count(table.tombstone_count, 'deletion')}"),
        ("sequence", f"{table.smallest_seq} to {table.largest_seq}"),
        ("expiry", "none" if table.expiry is None else table.expiry),
        (
            "blocks",
            f"{table.block_count:,}, {size(table.raw_bytes)}, stored as {size(table.stored_bytes)}",
        ),
        ("dictionary", size(table.dictionary_bytes)),
        ("filters", filters),
        ("memory", table.index_and_filters()),
    ):
        click.echo(f"{name:<12}{fact}")
    tell_of_cut_keys(True, [table.smallest, table.largest])


def _table_json(table: TableInfo, blocks: list[BlockInfo] | None) -> dict[str, object]:
    return table.values() | ({} if blocks is None else {"blocks": blocks})


def _no_tables(info: StoreInfo) -> str:
    keys = sum(info.memtable_key_counts)
    if not keys:
        return "There are no tables: the store is empty."
    where = "the only key is" if keys == 1 else f"all {keys:,} keys are"
    return f'There are no tables yet: {where} in the log.  "lsmkv compact" writes a table.'


def _print_tables(info: StoreInfo) -> None:
    tables = list(info.tables())
    places = {
        table.number: f"{level.number}/{run.number}"
        for level in info.levels
        for run in level.runs
        for table in run.tables
    }
    headings = ["level\n/run", "table", *_KEYS, "entries", "deleted", "blocks", "bytes", "index"]
    headings += ["filters", "p, %\nasked", "p, %\nexact"]
    has_expiry = any(table.expiry is not None for table in tables)
    headings += ["expire", "half due"] if has_expiry else []
    rows = [
        [
            places[table.number],
            table.number,
            shown_key(table.smallest),
            shown_key(table.largest),
            table.entry_count,
            table.tombstone_count,
            table.block_count,
            table.size_bytes,
            table.index_bytes,
            table.filter_bytes,
            "none" if table.filter_kind == "none" else percent(table.requested_rate),
            "?" if table.expected_rate is None else percent(table.expected_rate),
            *(_expiry(table) if has_expiry else []),
        ]
        for table in tables
    ]
    is_whole = not rows or print_table("", headings, rows, text=[headings[0], *_KEYS])
    counts = ", ".join(f"{keys:,}" for keys in info.memtable_key_counts)
    click.echo(
        f"{count(len(rows), 'table')}, {size(sum(table.size_bytes for table in tables))}; "
        f"keys in memtables: {counts}"
    )
    click.echo(f"In all: {info.index_and_filters()}")
    if info.expiry is not None:
        click.echo(f"In tables and memtables: {info.expiry}")
    if info.store_id:
        click.echo(f"Identity of the store: {info.store_id}")
    tell_of_cut_keys(is_whole, [key for it in tables for key in (it.smallest, it.largest)])


def _expiry(table: TableInfo) -> list[object]:
    """How many entries expire, and when half of all are due."""
    expiry = table.expiry
    if expiry is None:
        return [0, "never"]
    return [expiry.count, "never" if expiry.half_due_s is None else utc(expiry.half_due_s)]


def _print_blocks(table: TableInfo, blocks: list[BlockInfo]) -> None:
    headings = ["block", "offset", "bytes", "raw", "codec", *_KEYS, "entries", "n", "m", "k"]
    headings += ["p, %\nexact", "p, %\nof bits"]
    rows = [
        [
            block.number,
            block.offset,
            block.length_bytes,
            block.raw_bytes,
            block.codec,
            shown_key(block.first_key),
            shown_key(block.last_key),
            block.entry_count,
            block.key_count,
            block.bit_count,
            block.probe_count,
            percent(block.expected_rate),
            "-" if block.bits_rate is None else percent(block.bits_rate),
        ]
        for block in blocks
    ]
    title = f"Table {table.number} ({table.file_name}); {table.index_and_filters()}"
    is_whole = print_table(title, headings, rows, text=["codec", *_KEYS])
    tell_of_cut_keys(is_whole, [key for it in blocks for key in (it.first_key, it.last_key)])


def tell_of_cut_keys(is_whole: bool, keys: list[bytes]) -> None:
    if not is_whole or any(shown_key(key) != to_text(key) for key in keys):
        click.echo("Some keys are cut; --json shows them whole.")


def shown_key(key: bytes) -> str:
    return shortened(to_text(key), _SHOWN_KEY)
