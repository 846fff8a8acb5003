"""Builds whose workers send their tables to object storage."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import dask.bag
import pytest
from conftest import number_key

import lsmkv
from lsmkv.cluster import build

pytestmark = pytest.mark.slow  # clusters of processes; test_cluster_build.py has one, too

SMALL: dict[str, Any] = {"block_size_bytes": 512, "table_size_bytes": 8192, "compression": "none"}


def part(number: int) -> list[tuple[bytes, bytes]]:
    chosen = random.Random(number)
    return [(number_key(chosen.randrange(1000)), b"%d" % number * 20) for _ in range(400)]


def source(parts: int = 4) -> Any:
    return dask.bag.from_sequence(range(parts), npartitions=parts).map(part).flatten()


def expected(parts: int = 4) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for number in range(parts):
        found.update(part(number))
    return found


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/bucket"


def test_a_generation_holds_the_pairs_for_any_number_of_partitions(
    dask_client: Any, url: str
) -> None:
    for partitions in (1, 4):
        report = build(
            source(), f"{url}/{partitions}", partitions=partitions, client=dask_client, **SMALL
        )
        assert report.generation == 1 and report.tables >= partitions
        with lsmkv.open(f"{url}/{partitions}", read_only=True) as db:
            assert dict(db.items()) == expected()
            assert db.get(b"absent") is None
            assert db.verify().ok
            levels = db.inspect().levels
            assert [len(level.runs) for level in levels] == [0, 1]


@pytest.mark.slow
def test_a_second_build_is_a_generation_of_its_own(dask_client: Any, url: str) -> None:
    build(source(2), url, client=dask_client, **SMALL)
    with lsmkv.open(url, read_only=True) as db:
        assert dict(db.items()) == expected(2)
        assert build(source(3), url, client=dask_client, **SMALL).generation == 2
        assert dict(db.items()) == expected(2)
        db.refresh()
        assert dict(db.items()) == expected(3)


def test_a_failed_build_publishes_nothing(dask_client: Any, url: str, tmp_path: Path) -> None:
    bad = dask.bag.from_sequence([(b"a", b"b"), (b"c", 1)], npartitions=2)
    with pytest.raises(TypeError, match="pair 0 of partition 1"):
        build(bad, url, client=dask_client)
    assert list((tmp_path / "bucket").rglob("*.json")) == []
    with pytest.raises(lsmkv.NotAStoreError):
        lsmkv.open(url, read_only=True)


@pytest.mark.slow
def test_an_empty_source_publishes_an_empty_generation(dask_client: Any, url: str) -> None:
    nothing = dask.bag.from_sequence([1], npartitions=1).filter(lambda number: False)
    assert build(nothing, url, client=dask_client).tables == 0
    with lsmkv.open(url, read_only=True) as db:
        assert dict(db) == {}
