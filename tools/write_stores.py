"""Writes stores with every kind of file: ``python tools/write_stores.py FOLDER``.

It prints the files' hashes.  They are the same with every build and Python: nothing is done in the
background, and logs get known salts.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
from pathlib import Path
from typing import Final

import lsmkv
from lsmkv.options import FilterGranularity

POLICIES: Final = ("bloom", "ribbon", "grafite", "none")
GRANULARITIES: Final[tuple[FilterGranularity, ...]] = ("block", "table")
ENTRIES: Final = 1500


def key(number: int) -> bytes:
    return b"user%06d" % number


def write(path: str, policy: str, granularity: FilterGranularity) -> None:
    """Write, delete, flush, compact; ends with an entry in the log alone."""
    with lsmkv.open(
        path,
        filter_policy=policy,
        filter_granularity=granularity,
        filter_key=lsmkv.FixedPrefix(9) if policy == "ribbon" else lsmkv.WholeKey(),
        compression="zstd" if granularity == "block" else "none",
        compression_dictionary_size_bytes=1024 if policy == "bloom" else 0,
        block_size_bytes=512,
        table_size_bytes=16384,
    ) as db:
        for number in range(ENTRIES):
            db.put(key(number * 7919 % ENTRIES), b"value %d" % number * (number % 9))
        db.compact_range()
        with db.write_batch() as batch:
            for number in range(0, ENTRIES, 7):
                batch.delete(key(number))
                batch.put(key(number + 1), b"newer %d" % number)
        held = db.snapshot()
        db.delete(key(2), sync=True)
        db.put(key(3), b"")
        db.put(key(4) * 40, b"of a longer key")
        db.flush()
        held.close()
        db.compact_range(key(0), key(700))
        db.put(b"", b"in the log alone")


def main() -> None:
    """Write below the folder that is named, and print each file's hash as JSON."""
    (folder,) = map(Path, sys.argv[1:])
    os.urandom = random.Random(1).randbytes
    for policy in POLICIES:
        for granularity in GRANULARITIES[: 1 if policy == "grafite" else 2]:
            write(str(folder / f"{policy}-{granularity}"), policy, granularity)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "LOCK"]
    hashes = {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }
    print(json.dumps(hashes))


if __name__ == "__main__":
    main()
