"""A store built by a cluster of two worker processes on this machine.

The pairs are a Dask Bag; Parquet files and Dask DataFrames work the same.  On a real cluster only the
client's address differs, and the target is a directory that all workers see.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import dask.bag
import distributed

import lsmkv
import lsmkv.cluster

PARTS = 8


def visits(part: int) -> list[tuple[bytes, bytes]]:
    """The last page of each visitor, as one server saw it."""
    draw = random.Random(part)
    return [
        (b"visitor %06d" % draw.randrange(20_000), b"page %d of server %d" % (number, part))
        for number in range(5_000)
    ]


def main() -> None:
    pairs = dask.bag.from_sequence(range(PARTS), npartitions=PARTS).map(visits).flatten()
    with (
        tempfile.TemporaryDirectory() as folder,
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as made,
        distributed.Client(made) as client,
    ):
        target = Path(folder, "visits.db")
        report = lsmkv.cluster.build(pairs, target, partitions=4, client=client)
        print(f"{report.pairs:,} pairs, {report.entries:,} visitors, {report.tables} tables")
        print(f"largest partition: {report.imbalance:.2f} of the mean")
        expected = dict(pair for part in range(PARTS) for pair in visits(part))
        with lsmkv.open(target) as db:
            assert dict(db.items()) == expected
            print(f"{len(expected):,} visitors read back")


if __name__ == "__main__":
    main()
