"""Builds on a cluster of two processes."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.bag
import dask.dataframe
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from conftest import SMALL, number_key

import lsmkv
from filter_kinds import OwnPolicy, own_registry
from gates import LONG_WAIT_S
from lsmkv.cluster import build
from lsmkv.filters.policy import register

pytestmark = pytest.mark.slow  # a cluster of processes

PARTS = 6


def part(number: int, count: int = 500) -> list[tuple[bytes, bytes]]:
    """A part of a source whose keys are repeated, within it and in others."""
    chosen = random.Random(number)
    return [
        (number_key(chosen.randrange(1500)), b"%d of %d " % (place, number) * 3)
        for place in range(count)
    ]


def pairs() -> Iterator[tuple[bytes, bytes]]:
    for number in range(PARTS):
        yield from part(number)


def bag() -> Any:
    return dask.bag.from_sequence(range(PARTS), npartitions=PARTS).map(part).flatten()


def digest(db: lsmkv.DB) -> str:
    found = hashlib.sha256()
    for key, value in db.items():
        found.update(b"%d %d " % (len(key), len(value)) + key + value)
    return found.hexdigest()


@pytest.fixture(scope="module")
def built(dask_client: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    stores = {}
    for partitions in (1, 2, 8):
        stores[partitions] = tmp_path_factory.mktemp("built") / "store"
        report = build(bag(), stores[partitions], SMALL, partitions=partitions, client=dask_client)
        assert report.partitions == partitions
    return stores


def test_contents_are_the_same_for_any_number_of_partitions(built: dict[int, Path]) -> None:
    expected = sorted(dict(pairs()).items())
    digests = set()
    for store in built.values():
        with lsmkv.open(store, read_only=True) as db:
            assert list(db.items()) == expected
            digests.add(digest(db))
    assert len(digests) == 1


def test_tables_are_sound_and_nothing_else_is_left(built: dict[int, Path]) -> None:
    for store in built.values():
        assert not [name for name in os.listdir(store) if name.startswith("staging")]
        with lsmkv.open(store) as db:
            assert db.verify().ok
            assert {table.file_name for table in db.inspect().tables()} == {
                file.name for file in store.glob("*.sst")
            }


def test_the_report_counts_what_was_done(dask_client: Any, tmp_path: Path) -> None:
    report = build(bag(), tmp_path / "store", SMALL, partitions=3, client=dask_client)
    everything = list(pairs())
    assert (report.pairs, report.entries) == (len(everything), len(dict(everything)))
    assert report.source_bytes == sum(len(key) + len(value) for key, value in everything)
    assert report.partitions == 3 and 1.0 <= report.imbalance < 1.5
    files = list((tmp_path / "store").glob("*.sst"))
    assert report.tables == len(files)
    assert report.size_bytes == pytest.approx(sum(file.stat().st_size for file in files), rel=0.02)
    assert report.peak_memory_bytes > 10 << 20


def test_pairs_are_newer_than_what_is_there_and_snapshots_do_not_see_them(
    dask_client: Any, tmp_path: Path
) -> None:
    with lsmkv.open(tmp_path / "store", SMALL) as db:
        db[number_key(1)] = b"old"
        db[b"other"] = b"kept"
    source = dask.bag.from_sequence([(number_key(1), b"new")])
    build(source, tmp_path / "store", SMALL, client=dask_client)
    with lsmkv.open(tmp_path / "store", SMALL) as db:
        assert dict(db) == {number_key(1): b"new", b"other": b"kept"}
        db[number_key(1)] = b"newest"
        db.compact_range()
        assert db[number_key(1)] == b"newest"


def test_a_data_frame_of_text_and_bytes(dask_client: Any, tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "word": pd.array([f"wörd{number}" for number in range(300)], dtype="string"),
            "count": pd.array(
                [b"\xff%d" % number for number in range(300)], pd.ArrowDtype(pa.binary())
            ),
            "unused": range(300),
        }
    )
    source = dask.dataframe.from_pandas(frame, npartitions=3)
    build(source, tmp_path / "store", SMALL, key="word", value="count", client=dask_client)
    with lsmkv.open(tmp_path / "store", read_only=True) as db:
        assert dict(db) == {f"wörd{n}".encode(): b"\xff%d" % n for n in range(300)}


def test_parquet_files_by_pattern_in_the_order_of_their_names(
    dask_client: Any, tmp_path: Path
) -> None:
    for number in range(3):
        table = pa.table(
            {"k": [b"%d" % place for place in range(50)], "v": [b"of %d" % number] * 50}
        )
        pa.parquet.write_table(table, tmp_path / f"part-{number}.parquet", row_group_size=20)
    store = tmp_path / "store"
    build(str(tmp_path / "*.parquet"), store, key="k", value="v", partitions=2, client=dask_client)
    with lsmkv.open(store, read_only=True) as db:
        assert dict(db) == {b"%d" % place: b"of 2" for place in range(50)}


def test_an_empty_source_makes_an_empty_store(dask_client: Any, tmp_path: Path) -> None:
    source = dask.bag.from_sequence([1], npartitions=1).filter(lambda number: False)
    report = build(source, tmp_path / "store", client=dask_client)
    assert (report.pairs, report.tables, report.imbalance) == (0, 0, 1.0)
    with lsmkv.open(tmp_path / "store", create_if_missing=False) as db:
        assert len(db) == 0


def skewed(number: int) -> list[tuple[bytes, bytes]]:
    """Nine keys of ten share a long prefix; every second pair has one of ten keys."""
    chosen = random.Random(number)
    found = []
    for _ in range(2000):
        if chosen.random() < 0.5:
            found.append((b"hot%d" % chosen.randrange(10), chosen.randbytes(100)))
        else:
            prefix = b"a/long/common/prefix/" if chosen.random() < 0.9 else b"z"
            key = prefix + b"%09d" % int(10 ** (9 * chosen.random()))
            found.append((key, chosen.randbytes(chosen.choice([5, 20, 300]))))
    return found


def test_skewed_and_repeated_keys_are_balanced(dask_client: Any, tmp_path: Path) -> None:
    source = dask.bag.from_sequence(range(8), npartitions=8).map(skewed).flatten()
    report = build(source, tmp_path / "store", SMALL, partitions=8, client=dask_client)
    assert report.partitions == 8
    assert report.imbalance < 1.5


def test_more_partitions_are_made_than_asked_for_if_one_would_not_fit(
    dask_client: Any, tmp_path: Path
) -> None:
    source = dask.bag.from_sequence(range(4), npartitions=4).map(part, count=4000).flatten()
    report = build(
        source, tmp_path / "store", SMALL, partitions=1, memory_bytes=1 << 20, client=dask_client
    )
    assert report.partitions > report.source_bytes / (1 << 17) > 2


# Errors, which leave nothing


def refused(client: Any, source: Any, tmp_path: Path, **given: Any) -> BaseException:
    with pytest.raises(Exception) as caught:
        build(source, tmp_path / "new", SMALL, client=client, **given)
    assert not (tmp_path / "new").exists()
    return caught.value


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ((b"key", 7), "partition 0: 'value' is bytes or text: Expected bytes, got a 'int' object"),
        ((b"k" * 70_000, b""), "partition 0: 'key' of 70000 bytes: 65535 are the most"),
        ((b"key",), "partition 0: 'value' has 1 nulls"),
        ((b"key", b"value", b"more"), "3 columns"),
    ],
    ids=["type", "long", "single", "triple"],
)
def test_a_pair_that_is_no_entry_is_an_error(
    dask_client: Any, tmp_path: Path, pair: Any, said: str
) -> None:
    source = dask.bag.from_sequence([(b"a", b"b"), pair], npartitions=1)
    error = refused(dask_client, source, tmp_path)
    assert isinstance(error, (TypeError, ValueError)) and said in str(error)


@pytest.mark.parametrize(
    ("columns", "given", "said"),
    [
        ({"a": ["x"]}, {}, "the source has no column 'key'; it has ['a']"),
        ({"a": ["x"]}, {"key": "a", "value": "a"}, "key='a' and value='a' are the same column"),
        ({"key": ["a", "b"], "value": ["a", None]}, {}, "'value' has 1 nulls"),
        ({"key": ["a"], "value": [1]}, {}, "'value' is bytes or text: Unsupported cast from int64"),
    ],
    ids=["missing", "same", "null", "number"],
)
def test_columns_that_hold_no_entries_are_named(
    dask_client: Any, tmp_path: Path, columns: dict[str, list[Any]], given: Any, said: str
) -> None:
    frame = pd.DataFrame(columns).convert_dtypes()
    frame.to_parquet(tmp_path / "a.parquet")
    for source in (dask.dataframe.from_pandas(frame, npartitions=1), str(tmp_path / "a.parquet")):
        assert said in str(refused(dask_client, source, tmp_path, **given))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"partitions": 0}, "partitions=0: must be at least 1"),
        ({"memory_bytes": 10}, "memory_bytes=10: 1048576 are the least"),
        ({"error_rate": 2.0}, "error_rate=2.0"),
        ({"source": {b"a": b"b"}}, "not dict"),
        ({"client": None}, "No clients found"),
        (
            {"target": "s3://bucket/events"},
            "target='s3://bucket/events': give a directory that all workers see, and publish the "
            "store afterwards: lsmkv.open(directory).publish('s3://bucket/events')",
        ),
    ],
    ids=lambda value: str(value)[:20],
)
def test_wrong_arguments_are_refused(
    dask_client: Any, tmp_path: Path, given: dict[str, Any], said: str
) -> None:
    right = {"source": bag(), "target": tmp_path / "new", "options": SMALL, "client": dask_client}
    with pytest.raises(Exception) as caught:
        build(**{**right, **given})
    assert said in str(caught.value)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["*.parquet", "lost.parquet"])
def test_a_path_that_no_file_matches_is_refused(
    dask_client: Any, tmp_path: Path, name: str
) -> None:
    error = refused(dask_client, str(tmp_path / name), tmp_path)
    assert isinstance(error, FileNotFoundError) and f"{name}': no file matches" in str(error)


def test_a_filter_policy_that_workers_lack_is_refused(dask_client: Any, tmp_path: Path) -> None:
    with own_registry():
        register(OwnPolicy())
        error = refused(dask_client, bag(), tmp_path, filter_policy="own-bloom")
    assert "filter_policy='own-bloom': it is registered in this process alone" in str(error)


def test_a_failed_build_leaves_an_old_store_as_it_was(dask_client: Any, tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "store", SMALL) as db:
        db[b"key"] = b"value"
        with pytest.raises(lsmkv.LockedError):
            build(bag(), tmp_path / "store", client=dask_client)
    source = dask.bag.from_sequence([(b"a", b"b"), (b"key", 7)], npartitions=2)
    with pytest.raises(TypeError):
        build(source, tmp_path / "store", SMALL, client=dask_client)
    with lsmkv.open(tmp_path / "store", SMALL) as db:
        assert dict(db) == {b"key": b"value"}
    assert not [name for name in os.listdir(tmp_path / "store") if name.startswith("staging")]


def test_without_the_extra_the_error_says_what_to_install() -> None:
    script = "import sys; sys.modules['dask'] = None; import lsmkv.cluster"
    run = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=LONG_WAIT_S,
    )
    assert 'lsmkv.cluster needs Dask and pyarrow: pip install "lsmkv[dask]"' in run.stderr
