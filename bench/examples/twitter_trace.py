"""A data set of a published trace: ``--plugin bench/examples/twitter_trace.py --datasets twitter``.

An example plug-in: copy and change it.  ``TWITTER_TRACE`` names a file in the form of Twitter's cache
traces; ``bench/traces`` has others.  Keys that the trace writes are the store's, and its
reads are the lookups.
"""

from __future__ import annotations

import os
from typing import Final

from bench.experiments.replay.steps import Trace
from bench.experiments.saved_io.datasets import Content, DataSet, entries_of, register

VARIABLE: Final = "TWITTER_TRACE"


def _make(entries: int, seed: int) -> Content:
    """The keys that a trace writes, up to ``entries``, and all keys that it reads."""
    if VARIABLE not in os.environ:
        raise SystemExit(f"bench: set {VARIABLE} to the file of a trace")
    sizes: dict[bytes, int] = {}
    reads: list[bytes] = []
    for operation in Trace(os.environ[VARIABLE], "twitter").operations():
        if operation.kind == "get":
            reads += operation.keys
        elif operation.kind == "put" and (operation.keys[0] in sizes or len(sizes) < entries):
            sizes[operation.keys[0]] = operation.value_bytes
    return Content(entries_of(list(sizes.items()), seed), trace=reads)


register(DataSet("twitter", _make, (10**6, 10**8)))
