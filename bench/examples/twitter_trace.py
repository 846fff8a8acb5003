"""A data set of a published trace: ``--plugin bench/examples/twitter_trace.py --datasets twitter``.

An example plug-in: copy and change it.  ``TWITTER_TRACE`` names a file in the format of Twitter's cache
traces (https://github.com/twitter/cache-trace): timestamp, anonymized key, size of the key, size of the
value, client, operation, and time to live, between commas, without a heading.  Keys that the trace
writes are the store's, and its reads are the lookups.

``python bench/examples/twitter_trace.py FILE`` writes a sample in that format.  It is made, not measured.
"""

from __future__ import annotations

import csv
import os
import random
import sys
from typing import Final

from bench.experiments.saved_io.datasets import Content, DataSet, entries_of, register

VARIABLE: Final = "TWITTER_TRACE"
_READS: Final = ("get", "gets")


def read_trace(path: str, entries: int, seed: int) -> Content:
    """The keys that a trace writes, up to ``entries``, and all keys that it reads."""
    sizes: dict[bytes, int] = {}
    reads = []
    with open(path, encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.reader(file), 1):
            if len(row) != 7 or not row[3].isdecimal():
                raise ValueError(f"{path}, line {number}: not seven fields of a trace: {row}")
            key = row[1].encode()
            if row[5] in _READS:
                reads.append(key)
            elif row[5] != "delete" and (key in sizes or len(sizes) < entries):
                sizes[key] = int(row[3])
    return Content(entries_of(list(sizes.items()), seed), trace=reads)


def _make(entries: int, seed: int) -> Content:
    if VARIABLE not in os.environ:
        raise SystemExit(f"bench: set {VARIABLE} to the file of a trace")
    return read_trace(os.environ[VARIABLE], entries, seed)


def write_sample(path: str, keys: int = 50_000, reads: int = 100_000) -> None:
    """A made trace: each key is set once; a third of the reads ask for one of these keys."""
    draw = random.Random("a made trace")
    names = [f"nz:u:{draw.getrandbits(64):016x}" for _ in range(keys)]
    with open(path, "w", encoding="utf-8", newline="") as file:
        trace = csv.writer(file, lineterminator="\n")
        for second, name in enumerate(names):
            trace.writerow((second, name, len(name), draw.randrange(20, 400), 1, "set", 86400))
        for second in range(keys, keys + reads):
            is_there = draw.random() < 1 / 3
            name = draw.choice(names) if is_there else f"nz:u:{draw.getrandbits(64):016x}"
            trace.writerow((second, name, len(name), 0, 2, "get", 0))


if __name__ == "__main__":
    write_sample(sys.argv[1])
else:
    register(DataSet("twitter", _make, (10**6, 10**8)))
