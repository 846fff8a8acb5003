"""A data set of a trace: ``--plugin bench/examples/twitter_trace.py --datasets trace``.

An example plug-in: copy and change it.  ``TRACE`` names a file of any form that ``bench replay`` takes.
Keys that the trace writes are the store's, and its reads are the lookups.

``python bench/examples/twitter_trace.py FILE`` writes a sample in the form of Twitter's cache traces, for
``bench replay`` too.  It is made, not measured.
"""

from __future__ import annotations

import csv
import os
import random
import sys
from typing import Final

VARIABLE: Final = "TRACE"


def write_sample(path: str, keys: int = 20_000, requests: int = 150_000) -> None:
    """A made trace: sets, deletes, and twice as many gets, half of them of keys that nobody sets."""
    draw = random.Random("a made trace")
    names = [f"nz:u:{draw.getrandbits(64):016x}" for _ in range(keys)]
    with open(path, "w", encoding="utf-8", newline="") as file:
        trace = csv.writer(file, lineterminator="\n")
        for number in range(requests):
            name = names[int(keys * draw.random() ** 3)]
            what = draw.choices(("set", "delete", "get", "none"), (30, 4, 33, 33))[0]
            size, ttl_s = (draw.randrange(20, 400), draw.choice((600, 86400))) if what == "set" else (0, 0)
            if what == "none":
                what, name = "get", f"nz:u:{draw.getrandbits(64):016x}"
            trace.writerow((number // 100, name, len(name), size, 1, what, ttl_s))


if __name__ == "__main__":
    write_sample(sys.argv[1])
else:
    from bench.experiments.replay.steps import Trace
    from bench.experiments.saved_io.datasets import Content, DataSet, entries_of, register

    def _make(entries: int, seed: int) -> Content:
        if VARIABLE not in os.environ:
            raise SystemExit(f"bench: set {VARIABLE} to the file of a trace")
        sizes: dict[bytes, int] = {}
        reads = []
        for operation in Trace(os.environ[VARIABLE], "auto").operations():
            key = operation.keys[0]
            if operation.kind == "get":
                reads.append(key)
            elif operation.kind == "put" and (key in sizes or len(sizes) < entries):
                sizes[key] = operation.value_bytes
        return Content(entries_of(list(sizes.items()), seed), trace=reads)

    register(DataSet("trace", _make, (10**6, 10**8)))
