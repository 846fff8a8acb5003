"""Workers that are killed, and the memory of those that are not."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import dask.bag
import dask.config
import distributed
import pytest
from conftest import number_key

import lsmkv
from lsmkv.cluster import BuildReport, build
from time_limits import join

PARTITIONS = 6
SLOW_TO_WRITE: dict[str, Any] = {"compression_level": 19, "block_size_bytes": 16_384}
MIB = 1 << 20


def part(number: int, count: int = 3000, value_bytes: int = 200) -> list[tuple[bytes, bytes]]:
    chosen = random.Random(number)
    return [
        (number_key(chosen.randrange(1_000_000)), chosen.randbytes(value_bytes // 2).hex().encode())
        for _ in range(count)
    ]


def source(parts: int, **given: int) -> Any:
    return dask.bag.from_sequence(range(parts), npartitions=parts).map(part, **given).flatten()


@contextmanager
def cluster(**given: Any) -> Iterator[distributed.Client]:
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", **given
        ) as workers,
        distributed.Client(workers, set_as_default=False) as client,
    ):
        yield client


def is_writing(pid: int) -> bool:
    for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
        with suppress(OSError):
            name = os.readlink(descriptor)
            if "/staging-" in name and ".sst" in name:
                return True
    return False


class Killer(threading.Thread):
    def __init__(self, store: Path, pids: list[int]) -> None:
        super().__init__()
        self._store = store
        self._pids = pids
        self.folders: set[str] = set()
        self.killed: int | None = None
        self.done = False

    def run(self) -> None:
        while not self.done:
            try:
                found = {str(path.parent) for path in self._store.glob("staging-*/*/*.sst*")}
            except FileNotFoundError:  # it was removed just now
                continue
            self.folders |= found
            writing = [pid for pid in self._pids if found and is_writing(pid)]
            if writing and self.killed is None:
                self.killed = writing[0]
                os.kill(self.killed, signal.SIGKILL)
            time.sleep(0.002)


@pytest.mark.slow
def test_the_partitions_of_a_killed_worker_are_done_again(tmp_path: Path) -> None:
    expected: dict[bytes, bytes] = {}
    for number in range(8):
        expected.update(part(number))
    with cluster() as client:
        pids = sorted(client.run(os.getpid).values())
        killer = Killer(tmp_path / "store", pids)
        killer.start()
        try:
            report = build(
                source(8), tmp_path / "store", partitions=PARTITIONS, client=client, **SLOW_TO_WRITE
            )
        finally:
            killer.done = True
            join(killer)
        assert killer.killed is not None
        assert killer.killed not in client.run(os.getpid).values()
    assert report.partitions == PARTITIONS < len(killer.folders)
    with lsmkv.open(tmp_path / "store") as db:
        assert dict(db.items()) == expected
        assert db.verify().ok
        assert {table.file_name for table in db.inspect().tables()} == {
            file.name for file in (tmp_path / "store").glob("*.sst")
        }
    assert list((tmp_path / "store").glob("staging-*")) == []


@pytest.mark.slow
def test_a_cluster_that_gives_up_leaves_nothing(tmp_path: Path) -> None:
    def die(number: int) -> Any:
        os._exit(9)

    deadly = dask.bag.from_sequence(range(2), npartitions=2).map(die)
    with cluster() as client, pytest.raises(lsmkv.WorkerError, match="nothing was changed"):
        build(deadly, tmp_path / "store", client=client)
    assert not (tmp_path / "store").exists()


def peak_of_build(parts: int, path: Path) -> BuildReport:
    buffers = {"distributed.p2p.storage.buffer": "8 MiB", "distributed.p2p.comm.buffer": "8 MiB"}
    with dask.config.set(buffers), cluster() as client:
        return build(
            source(parts, count=250, value_bytes=40_000), path, memory_bytes=32 * MIB, client=client
        )


@pytest.mark.slow
def test_the_memory_of_a_worker_does_not_grow_with_the_source(tmp_path: Path) -> None:
    small = peak_of_build(4, tmp_path / "small")
    large = peak_of_build(16, tmp_path / "large")
    assert large.source_bytes > 3.9 * small.source_bytes > 140 * MIB
    assert large.peak_memory_bytes - small.peak_memory_bytes < 64 * MIB
