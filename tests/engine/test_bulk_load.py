"""``DB.bulk_load``: sorted or not, all or none, within a memory budget."""

from __future__ import annotations

import os
import random
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import open_small

import lsmkv
from lsmkv.engine import bulk_load, external_sort
from outside_tables import names, staged
from time_limits import exit_code, join


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def entries(count: int) -> list[tuple[bytes, bytes]]:
    return [(b"%06d" % number, b"value %d" % number) for number in range(count)]


def shuffled(pairs: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return random.Random(3).sample(pairs, len(pairs))


def test_sorted_pairs_become_tables_of_the_bottom_level(db: lsmkv.DB) -> None:
    report = db.bulk_load(iter(entries(3000)), sorted=True)
    assert dict(db) == dict(entries(3000))
    assert report.tables > 2
    assert report.levels == {2: report.tables}  # level 1 is too small for all
    assert report.entries == 3000
    stats = db.stats()
    assert (stats.writes, stats.flush_bytes, stats.compaction_write_bytes) == (0, 0, 0)
    assert db.verify().ok


def test_more_than_memory_is_sorted_through_runs_on_disk(
    db: lsmkv.DB, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_load, "_LEAST_MEMORY_BYTES", 1)
    report = db.bulk_load(shuffled(entries(3000)), memory_bytes=50_000)
    assert list(db.items()) == entries(3000)
    assert db.stats().spill_bytes > 0
    assert sum(name.endswith(".sst") for name in names(store)) == report.tables
    assert staged(store) == []
    assert db.verify().ok


@pytest.mark.parametrize("memory_bytes", [300, 2_000, 20_000, 1 << 30])
def test_the_last_value_of_a_repeated_key_counts(
    db: lsmkv.DB, monkeypatch: pytest.MonkeyPatch, memory_bytes: int
) -> None:
    monkeypatch.setattr(bulk_load, "_LEAST_MEMORY_BYTES", 1)
    monkeypatch.setattr(external_sort, "_MERGE_BYTES", 100)  # so three or more runs are merged
    dice = random.Random(1)
    pairs = [(b"%02d" % dice.randrange(40), b"%d" % number) for number in range(400)]
    report = db.bulk_load(pairs, memory_bytes=memory_bytes)
    assert dict(db) == dict(pairs)
    assert report.entries == len(dict(pairs))


def test_nothing_is_to_be_seen_before_the_end(db: lsmkv.DB) -> None:
    def watched() -> Iterator[tuple[bytes, bytes]]:
        for pair in entries(2000):
            yield pair
            assert len(db) == 0

    db.bulk_load(watched(), sorted=True)
    assert len(db) == 2000


@pytest.mark.parametrize("size", [1_000, 300_000])
def test_long_values_are_loaded(db: lsmkv.DB, size: int) -> None:
    pairs = [(b"%d" % number, bytes([number]) * size) for number in range(5)]
    db.bulk_load(pairs, sorted=True)
    assert dict(db) == dict(pairs)
    db.bulk_load(pairs[::-1])
    assert dict(db) == dict(pairs)


# --- errors ---


@pytest.mark.parametrize(
    ("late", "told"),
    [
        (b"000005", r"b'000005' follows b'001999'.*must ascend"),
        (b"001999", r"b'001999' follows b'001999': each key may come once"),
    ],
)
def test_a_key_out_of_order_is_refused_and_both_are_named(
    db: lsmkv.DB, unchanged: None, late: bytes, told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        db.bulk_load([*entries(2000), (late, b"")], sorted=True)


@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize(
    "pair", [("text", b""), (b"k", None), (b"k", 5), (b"k" * 70_000, b""), (b"k",), 7, b"kv", None]
)
def test_what_is_no_pair_is_refused(
    db: lsmkv.DB, unchanged: None, pair: object, is_sorted: bool
) -> None:
    with pytest.raises((TypeError, ValueError)):
        db.bulk_load([*entries(2000), pair], sorted=is_sorted)  # type: ignore[list-item]


@pytest.mark.parametrize("is_sorted", [False, True])
def test_an_error_of_the_pairs_undoes_all(
    db: lsmkv.DB, unchanged: None, is_sorted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_load, "_LEAST_MEMORY_BYTES", 1)

    def failing() -> Iterator[tuple[bytes, bytes]]:
        yield from entries(5000)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        db.bulk_load(failing(), sorted=is_sorted, memory_bytes=100_000)


@pytest.mark.parametrize("is_sorted", [False, True])
def test_an_interrupt_undoes_all(db: lsmkv.DB, unchanged: None, is_sorted: bool) -> None:
    def progress(read: int, written: int) -> None:
        if written:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        db.bulk_load(entries(5000), sorted=is_sorted, progress=progress)


@pytest.mark.parametrize("goes_on", [False, True])
@pytest.mark.parametrize("is_sorted", [False, True])
def test_a_fork_inside_the_pairs_leaves_the_load_to_the_parent(
    db: lsmkv.DB, is_sorted: bool, goes_on: bool
) -> None:
    parent = os.getpid()
    statuses = []

    def forking() -> Iterator[tuple[bytes, bytes]]:
        for number, entry in enumerate(entries(5000)):
            if number == 3000 and (child := os.fork()):
                statuses.append(exit_code(child))
            if os.getpid() != parent and not goes_on:
                raise ZeroDivisionError
            yield entry

    try:
        db.bulk_load(forking(), sorted=is_sorted)
    except BaseException as error:
        if os.getpid() != parent:
            os._exit(7 if isinstance(error, lsmkv.ForkedError | ZeroDivisionError) else 1)
        raise
    if os.getpid() != parent:
        os._exit(2)
    assert statuses == [7]
    assert dict(db.items()) == dict(entries(5000))


@pytest.mark.parametrize("memory_bytes", [1 << 63, 1 << 70])
def test_a_budget_may_exceed_every_memory(db: lsmkv.DB, memory_bytes: int) -> None:
    assert db.bulk_load(entries(10), memory_bytes=memory_bytes).entries == 10


@pytest.mark.parametrize("memory_bytes", [0, -1, 1 << 19, 2.0**30])
def test_a_budget_out_of_range_is_refused(db: lsmkv.DB, memory_bytes: int) -> None:
    with pytest.raises(ValueError, match="give at least 1048576"):
        db.bulk_load([], memory_bytes=memory_bytes)


@pytest.mark.parametrize("is_sorted", [False, True])
def test_closing_the_store_ends_a_load(store: Path, is_sorted: bool) -> None:
    loaded = open_small(store)

    def closing() -> Iterator[tuple[bytes, bytes]]:
        yield from entries(1000)
        thread = threading.Thread(target=loaded.close)
        thread.start()
        join(thread)
        yield from ((b"x%06d" % number, b"") for number in range(100_000))

    with pytest.raises(lsmkv.ClosedError):
        loaded.bulk_load(closing(), sorted=is_sorted)
    assert staged(store) == []
    with open_small(store) as db:
        assert len(db) == 0


# --- progress and counters ---


@pytest.mark.parametrize("is_sorted", [False, True])
def test_progress_ends_with_all_entries(db: lsmkv.DB, is_sorted: bool) -> None:
    calls: list[tuple[int, int]] = []
    db.bulk_load(entries(40_000), sorted=is_sorted, progress=lambda *numbers: calls.append(numbers))
    assert calls == sorted(calls)
    assert calls[-1] == (40_000, 40_000)
    assert len(calls) >= 3


def process_writes() -> int:
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["wchar"])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts what a process writes")
def test_hardly_more_is_written_than_the_tables(store: Path) -> None:
    with open_small(store, table_size_bytes=1 << 20) as db:
        before = process_writes()
        report = db.bulk_load(entries(50_000), sorted=True)
        assert process_writes() - before <= 1.01 * report.size_bytes + 4096
        assert db.stats().ingested_bytes == report.size_bytes
