"""Scans with Grafite filters: the items of a sorted dict, and few blocks read for empty ranges."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from conftest import open_small
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lsmkv
from damage import flip, footer_of
from lsmkv import DB, Snapshot
from lsmkv.typed import Bytes, Int64, TypedDB

Contents = dict[bytes, bytes]
Layered = tuple[list[tuple[DB | Snapshot, Contents]], Callable[[int], bytes]]

NUMBERS = 1500
MANY_RUNS: dict[str, Any] = {
    "level0_compaction_trigger": 50,
    "level0_slowdown_trigger": 60,
    "level0_stop_trigger": 70,
    "read_compaction_rate_bytes": 0,
}


def of_one_length(number: int) -> bytes:
    return b"id" + struct.pack(">I", 200 + number)


def of_several_lengths(number: int) -> bytes:
    return struct.pack(">H", number) * (1 + number % 3 // 2) + b"x" * (number % 2)


@pytest.fixture(scope="module", params=[of_one_length, of_several_lengths])
def layered(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Layered]:
    """A store of runs, a large one below, with a snapshot before the last; and their contents."""
    key: Callable[[int], bytes] = request.param
    contents: Contents = {}
    chance = random.Random(38)
    path = tmp_path_factory.mktemp("layered")
    options: dict[str, Any] = {"filter_policy": "grafite", "error_rate": 1e-3, **MANY_RUNS}
    with open_small(path, block_size_bytes=512, **options) as db:
        states: list[tuple[DB | Snapshot, Contents]] = []
        for layer, count in enumerate((900, 150, 60, 60)):
            for number in chance.sample(range(NUMBERS), count):
                if layer and chance.random() < 0.3:
                    db.delete(key(number))
                    contents.pop(key(number), None)
                else:
                    contents[key(number)] = db[key(number)] = b"%d" % layer * chance.randrange(20)
            if layer == 2:
                states.append((db.snapshot(), contents.copy()))
            if layer == 0:
                db.compact_range()
            else:
                db.flush()
        for number in chance.sample(range(NUMBERS), 20):
            contents[key(number)] = db[key(number)] = b"in memory"
        yield [*states, (db, contents)], key


numbers = st.integers(-1, NUMBERS)
ends = st.sampled_from([b"", b"\0", b"\xff", b"\xff\xff"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    number=numbers,
    length=st.integers(0, 12) | st.integers(0, 600),
    cut=st.integers(0, 2),
    tails=st.tuples(ends, ends),
    open_at=st.sampled_from(["", "", "start", "stop"]),
    most=st.integers(1, 60),
)
@pytest.mark.parametrize("reverse", [False, True])
def test_any_range_is_what_a_sorted_dict_gives(
    layered: Layered,
    reverse: bool,
    number: int,
    length: int,
    cut: int,
    tails: tuple[bytes, bytes],
    open_at: str,
    most: int,
) -> None:
    states, key = layered
    first, last = key(max(0, number)), key(max(0, min(NUMBERS, number + length)))
    start = None if open_at == "start" else first[: len(first) - cut] + tails[0]
    stop = None if open_at == "stop" else last[: len(last) - cut] + tails[1]
    for view, contents in states:
        expected = sorted(
            (key, value)
            for key, value in contents.items()
            if (start is None or key >= start) and (stop is None or key < stop)
        )
        found = view.items(start=start, stop=stop, reverse=reverse)
        in_order = expected[::-1] if reverse else expected
        assert list(islice(found, most)) == in_order[:most]


@pytest.mark.parametrize("reverse", [False, True])
def test_open_scans_from_anywhere_are_what_a_sorted_dict_gives(
    layered: Layered, reverse: bool
) -> None:
    """Runs that were put off give their newer entries of keys that are due."""
    states, key = layered
    view, contents = states[-1]
    in_order = sorted(contents.items(), reverse=reverse)
    for number in range(0, NUMBERS, 4):
        bound = key(number)
        found = view.items(stop=bound, reverse=True) if reverse else view.items(start=bound)
        expected = (item for item in in_order if (item[0] < bound) == reverse)
        assert list(islice(found, 30)) == list(islice(expected, 30))


def test_the_layered_store_asks_its_filters_for_ranges(layered: Layered) -> None:
    (_, (db, contents)), key = layered
    assert isinstance(db, DB)
    before = db.stats()
    empty = [number for number in range(NUMBERS) if key(number) not in contents]
    for number in empty:
        assert not list(db.keys(start=key(number), stop=key(number) + b"\0"))
        next(iter(db.keys(start=key(number))), None)
    negatives = (db.stats() - before).range_filter_negatives
    assert (negatives > len(empty)) == (key is of_one_length)


# Reads


def four_runs(path: Path, **options: Any) -> tuple[DB, set[int]]:
    """Four runs of the same size; keys of 8 bytes, about 25 numbers apart in the whole tree."""
    chance = random.Random(4)
    known: set[int] = set()
    db = lsmkv.open(
        path,
        block_cache_size_bytes=0,
        compression="none",
        background="thread",
        **MANY_RUNS,
        **options,
    )
    for _ in range(4):
        taken = {chance.randrange(400_000) for _ in range(4000)}
        known |= taken
        with db.write_batch() as batch:
            for number in taken:
                batch.put(struct.pack(">Q", number), b"v" * 100)
        db.flush()
    return db, known


def empty_ranges(known: set[int], count: int) -> list[tuple[int, int]]:
    """Ranges of 1 to 8 numbers without a key."""
    chance = random.Random(8)
    found: list[tuple[int, int]] = []
    while len(found) < count:
        start = chance.randrange(100, 399_900)
        stop = start + chance.randint(1, 8)
        if known.isdisjoint(range(start, stop)):
            found.append((start, stop))
    return found


def reads_of(db: DB, ranges: list[tuple[int, int]]) -> float:
    before = db.stats()
    for start, stop in ranges:
        found = db.items(start=struct.pack(">Q", start), stop=struct.pack(">Q", stop))
        assert next(iter(found), None) is None
    return (db.stats() - before).block_reads / len(ranges)


def test_an_empty_range_reads_four_blocks_of_four_runs_without_range_filters_and_hardly_one_with(
    tmp_path: Path,
) -> None:
    """The bound at 0.25 %: 4 runs, 4.5 numbers on average, 0.0025 each."""
    db, known = four_runs(tmp_path / "bloom", error_rate=0.0025)
    with db:
        assert reads_of(db, empty_ranges(known, 500)) > 3.8
    db, known = four_runs(tmp_path / "grafite", error_rate=0.0025, filter_policy="grafite")
    with db:
        ranges = empty_ranges(known, 2000)
        before = db.stats()
        assert reads_of(db, ranges) <= 0.05
        assert (db.stats() - before).range_filter_negatives > 3.7 * len(ranges)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_seek_reads_the_large_run_and_few_blocks_of_the_small_ones(
    tmp_path: Path, reverse: bool
) -> None:
    """Runs of a tree, each a tenth of the one below; keys every other number."""
    reads: dict[str, float] = {}
    for policy in ("bloom", "grafite"):
        chance = random.Random(10)
        with lsmkv.open(
            tmp_path / policy,
            filter_policy=policy,
            error_rate=0.0025,
            block_cache_size_bytes=0,
            background="thread",
            **MANY_RUNS,
        ) as db:
            for count in (10_000, 1000, 100):
                with db.write_batch() as batch:
                    for number in chance.sample(range(20_000), count):
                        batch.put(struct.pack(">Q", number), chance.randbytes(50))
                db.flush()
            before = db.stats()
            for _ in range(200):
                key = struct.pack(">Q", chance.randrange(1000, 19_000))
                bounds = {"stop": key} if reverse else {"start": key}
                assert len(list(islice(db.items(**bounds, reverse=reverse), 10))) == 10
            reads[policy] = (db.stats() - before).block_reads / 200
    assert reads["bloom"] > 2.9
    assert reads["grafite"] < 2.1


def test_a_long_scan_asks_each_other_run_eight_times_at_most(tmp_path: Path) -> None:
    """The oldest run has all numbers that are scanned, the others some far below and far above."""
    with lsmkv.open(
        tmp_path, filter_policy="grafite", error_rate=1e-6, block_cache_size_bytes=0, **MANY_RUNS
    ) as db:
        for number in range(100_000, 101_000):
            db[struct.pack(">Q", number)] = b"v" * 50
        db.flush()
        for _ in range(3):
            for number in (*range(20), *range(200_000, 200_010)):
                db[struct.pack(">Q", number)] = b"v"
            db.flush()
        before = db.stats()
        scan = iter(db.keys(start=struct.pack(">Q", 100_010)))
        assert sum(1 for _ in scan) == 1000
        assert 3 * 5 <= (db.stats() - before).range_filter_negatives <= 3 * 8


def test_typed_integers_are_numbers_to_the_filters(tmp_path: Path) -> None:
    with lsmkv.open(
        tmp_path, filter_policy="grafite", error_rate=1e-4, block_cache_size_bytes=0
    ) as db:
        store = TypedDB(db, key=Int64(), value=Bytes())
        for number in range(-3000, 3000, 10):
            store[number] = b"v" * 100
        db.flush()
        before = db.stats()
        for number in range(-2990, 2980, 10):
            assert next(iter(store.keys(start=number + 1, stop=number + 10)), None) is None
        spent = db.stats() - before
        assert spent.block_reads < 30
        assert spent.range_filter_negatives > 500
        assert list(store.keys(start=-5, stop=11)) == [0, 10]


@pytest.mark.parametrize("residency", ["resident", "cached", "off"])
def test_filters_are_asked_unless_they_are_off(tmp_path: Path, residency: str) -> None:
    options = {"filter_policy": "grafite", "filter_residency": residency, "error_rate": 0.001}
    db, known = four_runs(tmp_path / "db", **options)
    with db:
        reads = reads_of(db, empty_ranges(known, 100))
        assert reads > 3.7 if residency == "off" else reads < 0.3


def test_damaged_filters_are_rebuilt_for_ranges_too(tmp_path: Path) -> None:
    db, known = four_runs(tmp_path / "db", filter_policy="grafite", error_rate=0.001)
    db.close()
    tables = list((tmp_path / "db").glob("*.sst"))
    for table in tables:
        flip(table, footer_of(table).filters_offset)
    with lsmkv.open(tmp_path / "db", block_cache_size_bytes=0) as db:
        assert reads_of(db, empty_ranges(known, 100)) < 0.3
        assert db.stats().filter_rebuilds == len(tables) == 4
