"""The requests that a build sends to an object store, beside the server's own log."""

from __future__ import annotations

from collections import Counter

import dask.bag
import distributed
import pytest
from conftest import number_key

import lsmkv
from bench.harness.object_server import ObjectServer
from lsmkv.cluster import build


@pytest.mark.slow
def test_each_table_is_put_once_and_one_object_names_them_all(
    server: ObjectServer, url: str
) -> None:
    pairs = {number_key(number): b"v" * 50 for number in range(5000)}
    source = dask.bag.from_sequence(pairs.items(), npartitions=4)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", env=server.environment
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        server.reset()
        report = build(source, url, partitions=3, client=client, table_size_bytes=4096)
        counted = Counter(request.method for request in server.log())
    assert report.tables > 3
    assert counted["PUT"] == report.tables + 1
    assert counted["GET"] == 1  # the list of generations
    assert set(counted) == {"PUT", "GET"}
    with lsmkv.open(url, read_only=True) as db:
        assert dict(db.items()) == pairs
