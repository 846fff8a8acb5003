"""Weighs the transposed form of blocks on real data.  ``python -m tools.block_forms --help``

Each data set is loaded at the default options three times: with blocks as they are stored; without
their columns, so that keys and numbers stand as in the payload; and with whole payloads, compressed as
they are in memory.  A line has the bytes of all tables, and those of the other forms relative to it.
"""

from __future__ import annotations

import argparse
import os
import re
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final
from unittest.mock import patch

import lsmkv
from lsmkv.encoding.words import COMPILED
from lsmkv.sstable.block import codec
from lsmkv.sstable.block.layout import HEADER_BYTES, TRANSPOSED_HEADER_BYTES, section_offsets
from lsmkv.sstable.block.transposed import transpose

_TIME: Final = re.compile(rb"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d")
Entries = dict[bytes, bytes]


def without_columns(payload: bytes) -> bytes:
    """A payload without its fingerprints, and otherwise as it is."""
    _, fingerprints, key_lengths, *_ = section_offsets(payload, False)
    head = payload[:TRANSPOSED_HEADER_BYTES] + payload[HEADER_BYTES:fingerprints]
    return head + payload[key_lengths:]


FORMS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "as stored": transpose,
    "no columns": without_columns,
    "whole payloads": lambda payload: payload,
}


def names(path: Path) -> Entries:
    """Names with their versions: the first two fields of each line, after a head."""
    lines = path.read_bytes().splitlines()[1:]
    rows = (line.split(b"\t", 2) for line in lines)
    return {row[0]: row[1] for row in rows if len(row) > 1 and row[0]}


def paths(folder: Path) -> Entries:
    """Paths of files with their sizes."""
    found: Entries = {}
    for name, _, files in os.walk(folder):
        for file in files:
            path = os.path.join(name, file)
            found[os.fsencode(path)] = b"%d" % os.lstat(path).st_size
    return found


def by_time(lines: list[bytes]) -> Entries:
    """Lines of a log by the last time read, and their number."""
    found: Entries = {}
    time = b"0000-00-00 00:00:00"
    for number, line in enumerate(lines):
        match = _TIME.search(line)
        time = match[0] if match else time
        found[b"%s/%07d" % (time, number)] = line
    return found


def by_number(lines: list[bytes]) -> Entries:
    """Lines of a log by their number, in 8 bytes."""
    return {struct.pack(">Q", number): line for number, line in enumerate(lines)}


def table_bytes(entries: Entries, form: Callable[[bytes], bytes]) -> int:
    """The bytes of all tables of a store of ``entries`` whose blocks have that form."""
    if COMPILED:
        raise SystemExit("only a checkout can change the form: this build is compiled")
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(codec, "transpose", form),
        lsmkv.open(os.path.join(folder, "store")) as db,
    ):
        db.bulk_load(sorted(entries.items()), sorted=True)
        return db.inspect().size_bytes


def main() -> None:
    """Print a line for each data set."""
    parser = argparse.ArgumentParser(description=__doc__.split("  ")[0])
    parser.add_argument("--names", type=Path, metavar="TSV", help="names and versions, with a head")
    parser.add_argument("--paths", type=Path, metavar="FOLDER", help="its files and their sizes")
    parser.add_argument("--log", type=Path, metavar="FILE", help="lines of text with times")
    asked = parser.parse_args()
    sets: dict[str, Entries] = {}
    if asked.names:
        sets["names"] = names(asked.names)
    if asked.paths:
        sets["paths"] = paths(asked.paths)
    if asked.log:
        lines = asked.log.read_bytes().splitlines()
        sets |= {"log by time": by_time(lines), "log by number": by_number(lines)}
    print(f"{'data':14}{'entries':>10}{'bytes':>12}" + "".join(f"{name:>16}" for name in FORMS))
    for name, entries in sets.items():
        given = sum(len(key) + len(value) for key, value in entries.items())
        first, *others = (table_bytes(entries, form) for form in FORMS.values())
        shares = "".join(f"{other / first - 1:>+16.1%}" for other in others)
        print(f"{name:14}{len(entries):10,}{given:12,}{first:16,}{shares}", flush=True)


if __name__ == "__main__":
    main()
