"""Counts the read calls of any command and its children, by file: ``python -m bench count-reads``."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Sequence

from rich.console import Console

from . import COMMAND
from .harness.read_counter import WAYS, FileReads, Reads, best_way, count_reads
from .harness.tables import Table

_SHOWN = 20
_LONGEST = 60


def main(arguments: Sequence[str]) -> None:
    """Run the command, print its reads to the standard error, and exit as it did."""
    parser = argparse.ArgumentParser(
        prog=f"{COMMAND} count-reads",
        usage="%(prog)s [-h] [--by {preload,strace}] [--under DIR] [--out FILE] -- COMMAND ...",
        description=__doc__,
        epilog="Not seen: reads through mmap (mapped files are named), io_uring, sendfile and "
        "copy_file_range (cp may use it). preload misses "
        "stdio's reads, and programs that are statically linked or set-user-ID; strace sees them.",
    )
    parser.add_argument("--by", choices=WAYS, help="default: preload if there is a C compiler")
    parser.add_argument("--under", metavar="DIR", help="only files below this folder")
    parser.add_argument("--out", metavar="FILE", help="also write all counts as JSON")
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="and its arguments, after --")
    given = parser.parse_args(arguments)
    way = given.by or best_way()
    if way is None:
        raise SystemExit("bench: count-reads needs a C compiler (cc, or $CC) or strace")
    try:
        status, reads = count_reads(given.command, way)
    except OSError as error:
        raise SystemExit(f"bench: count-reads by {way}: {error}") from error
    if given.under is not None:
        reads = _below(reads, given.under)
    width = None if sys.stderr.isatty() else 130
    console = Console(stderr=True, highlight=False, markup=False, width=width)
    if not reads.programs:
        console.print(
            "No program loaded the counter: it is statically linked or set-user-ID. Try --by strace."
        )
    console.print(_table(reads, way).to_rich())
    if reads.has_ring:
        console.print(
            "A program has an io_uring: what it reads through it is not counted. Let it read without."
        )
    if given.under is not None and not reads.files:
        console.print(_nothing_below(given.under))
    if given.out:
        with open(given.out, "w", encoding="utf-8") as file:
            json.dump(
                {"command": given.command, "by": way, **dataclasses.asdict(reads)}, file, indent=1
            )
            file.write("\n")
    sys.exit(status if status >= 0 else 128 - status)


def _below(reads: Reads, folder: str) -> Reads:
    prefix = os.path.realpath(folder).rstrip("/") + "/"
    here = tuple(file for file in reads.files if file.path.startswith(prefix))
    return Reads(reads.programs, here, reads.has_ring)


def _nothing_below(folder: str) -> str:
    path = os.path.realpath(folder)
    if not os.path.isdir(path):
        return f"--under {folder}: there is no folder {path}."
    return f"No file below {path} was read; without --under all files are shown."


def _table(reads: Reads, way: str) -> Table:
    shown, rest = reads.files[:_SHOWN], reads.files[_SHOWN:]
    cells = [_cells(file) for file in shown]
    if rest:
        cells.append(_cells(_sum(rest, f"{len(rest):,} more")))
    cells.append(_cells(_sum(reads.files, "all")))
    maps = sum(file.maps > 0 for file in reads.files)
    note = f"Files that are mapped: {maps:,}. Reads through a map are not seen." if maps else ""
    return Table(
        f"Read calls by file ({way}; programs: {reads.programs:,})",
        ("file", "calls", "bytes", "maps", "mapped bytes"),
        cells,
        note,
    )


def _cells(file: FileReads) -> tuple[str, ...]:
    counts = file.calls, file.bytes, file.maps, file.mapped_bytes
    return (_end_of(file.path), *(f"{count:,}" for count in counts))


def _end_of(path: str) -> str:
    return path if len(path) <= _LONGEST else "…" + path[1 - _LONGEST :]


def _sum(files: Sequence[FileReads], name: str) -> FileReads:
    return FileReads(
        name,
        sum(file.calls for file in files),
        sum(file.bytes for file in files),
        sum(file.maps for file in files),
        sum(file.mapped_bytes for file in files),
    )
