"""Damaged filter sections: filters are rebuilt from the blocks' copies."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest

import lsmkv
from damage import files, flip, footer_of, open_table
from gates import WAIT_S
from lsmkv.errors import CorruptionError
from lsmkv.options import FilterResidency
from lsmkv.sstable.block.trailer import TRAILER_BYTES
from time_limits import join

KEYS = [b"%05d" % number for number in range(0, 9_000, 3)]
ABSENT = [key + b"x" for key in KEYS[:-1:3]]
# Small blocks and long filters: several chunks.
OPTIONS: dict[str, Any] = {
    "block_size_bytes": 512,
    "error_rate": 1e-9,
    "compression": "none",
    "read_compaction_rate_bytes": 0,
}


def written(path: Path, **options: Any) -> Path:
    """The only table of a closed store of that many keys."""
    with lsmkv.open(path, **{**OPTIONS, **options}) as db:
        for key in KEYS:
            db[key] = b"value " + key
        db.flush()
    (table,) = files(path, ".sst")
    return table


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of such a store."""
    folder = tmp_path_factory.mktemp("whole") / "store"
    written(folder)
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture
def table(whole: dict[str, bytes], tmp_path: Path) -> Path:
    """The table of a copy of that store."""
    store = tmp_path / "store"
    store.mkdir()
    for name, data in whole.items():
        (store / name).write_bytes(data)
    (table,) = files(store, ".sst")
    return table


def opened(table: Path, residency: FilterResidency) -> lsmkv.DB:
    return lsmkv.open(
        table.parent, read_only=True, filter_residency=residency, block_cache_size_bytes=0
    )


def flip_embedded(table: Path, block: int) -> None:
    """Damage a block's copy of its filter."""
    flip(table, open_table(table, residency="off").index.offset(block + 1) - TRAILER_BYTES - 1)


def chunk_middle(table: Path, chunk: int) -> int:
    """An offset within a chunk of the filter section."""
    low, high = open_table(table, residency="off").index.chunk_span(chunk)
    return footer_of(table).filters_offset + int(low + high) // 2


@pytest.mark.parametrize("residency", ["resident", "cached"])
@pytest.mark.parametrize("where", ["first", "last", pytest.param("middle", marks=pytest.mark.slow)])
@pytest.mark.parametrize("mask", [0x01, pytest.param(0x80, marks=pytest.mark.slow)])
def test_a_flipped_bit_changes_no_answer_and_is_counted_once(
    table: Path, residency: FilterResidency, where: str, mask: int
) -> None:
    footer = footer_of(table)
    place = {
        "first": footer.filters_offset,
        "middle": footer.filters_offset + footer.filters_length // 2,
        "last": footer.index_offset - 1,
    }[where]
    flip(table, place, mask)
    before = table.read_bytes()
    with opened(table, residency) as db:
        assert db.multi_get(KEYS) == [b"value " + key for key in KEYS]
        assert all(db.get(key) == b"value " + key for key in KEYS[::7])
        assert db.stats().filter_rebuilds == 1
    assert table.read_bytes() == before


@pytest.mark.parametrize("residency", ["resident", "cached"])
def test_rebuilt_filters_save_the_reads_that_whole_ones_do(
    table: Path, residency: FilterResidency
) -> None:
    counts = []
    for damaged in (False, True):
        if damaged:
            flip(table, chunk_middle(table, 1))
        with opened(table, residency) as db:
            assert db.multi_get(ABSENT) == [None] * len(ABSENT)
            stats = db.stats()
            counts.append((stats.block_reads, stats.filter_negatives))
    assert counts[0] == counts[1]
    assert counts[0][1] > len(ABSENT) // 2


def test_every_chunk_may_be_damaged(table: Path) -> None:
    count = int(open_table(table, residency="off").index.chunk_count)
    assert count > 2
    for chunk in range(count):
        flip(table, chunk_middle(table, chunk))
    with opened(table, "resident") as db:
        assert all(db.get(key) == b"value " + key for key in KEYS[::7])
        assert db.stats().filter_rebuilds == count


@pytest.mark.parametrize("residency", ["resident", "cached"])
def test_a_rebuild_is_logged_once_with_its_place(
    table: Path, residency: FilterResidency, caplog: pytest.LogCaptureFixture
) -> None:
    flip(table, chunk_middle(table, 1))
    with caplog.at_level(logging.WARNING, logger="lsmkv"), opened(table, residency) as db:
        db.multi_get(KEYS)
        db.multi_get(KEYS)
    (record,) = caplog.records
    low, _ = open_table(table, residency="off").index.chunk_span(1)
    assert record.name == "lsmkv"
    assert f"{table} at offset {footer_of(table).filters_offset + low}" in record.getMessage()
    assert "compact_range(force=True)" in record.getMessage()


def test_a_compaction_ends_the_damage(table: Path) -> None:
    flip(table, chunk_middle(table, 1))
    with lsmkv.open(table.parent, **OPTIONS) as db:
        db.compact_range(force=True)
        assert db.verify().ok
        assert dict(db.items()) == {key: b"value " + key for key in KEYS}


@pytest.mark.parametrize("residency", ["resident", "cached"])
def test_damage_to_both_copies_costs_the_answers_of_that_block_alone(
    table: Path, residency: FilterResidency, caplog: pytest.LogCaptureFixture
) -> None:
    flip(table, chunk_middle(table, 0))
    flip_embedded(table, 3)
    index = open_table(table, residency="off").index
    lost_from, lost_to = index.separator(3), index.separator(4)
    rest_from = index.separator(index.chunk_start(1))
    with caplog.at_level(logging.WARNING, logger="lsmkv"), opened(table, residency) as db:
        for key in KEYS:
            if lost_from <= key < lost_to:
                with pytest.raises(CorruptionError, match="checksum of a block's filter"):
                    db.get(key)
            else:
                assert db[key] == b"value " + key
        before = db.stats()
        assert not any(key in db for key in ABSENT if not lost_from <= key < lost_to)
        spent = db.stats() - before
        assert spent.filter_false_positives >= sum(
            key < rest_from and not lost_from <= key < lost_to for key in ABSENT
        )
        assert spent.filter_negatives > len(ABSENT) // 4  # the other chunks still answer
        assert (db.stats().filter_rebuilds, db.stats().filter_losses) == (0, 1)
    (record,) = caplog.records
    assert f"{table} at offset {footer_of(table).filters_offset}" in record.getMessage()
    assert "no whole copy" in record.getMessage()


@pytest.mark.parametrize(
    ("policy", "residency"),
    [
        ("bloom", "resident"),
        ("ribbon", "cached"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (("bloom", "cached"), ("ribbon", "resident"))
        ),
    ],
)
def test_a_table_whose_only_filter_is_damaged_is_searched_without(
    tmp_path: Path, residency: FilterResidency, policy: str
) -> None:
    table = written(
        tmp_path / "store", filter_granularity="table", filter_policy=policy, error_rate=0.01
    )
    flip(table, footer_of(table).index_offset - 1)
    with opened(table, residency) as db:
        assert db.multi_get(KEYS) == [b"value " + key for key in KEYS]
        assert [db.get(key) for key in ABSENT[:50]] == [None] * 50
        assert (db.stats().filter_losses, db.stats().filter_negatives) == (1, 0)


@pytest.mark.parametrize("residency", ["resident", "cached"])
def test_verify_reports_a_lost_filter_and_a_compaction_makes_a_new_one(
    tmp_path: Path, residency: FilterResidency
) -> None:
    options = {"filter_granularity": "table", "error_rate": 0.01, "filter_residency": residency}
    table = written(tmp_path / "store", **options)
    flip(table, footer_of(table).index_offset - 1)
    with lsmkv.open(table.parent, **{**OPTIONS, **options}) as db:
        assert db[KEYS[0]] == b"value " + KEYS[0]
        (problem,) = db.verify().problems
        assert (problem.path, "filter chunk" in problem.reason) == (str(table), True)
        db.compact_range(force=True)
        assert db.verify().ok
        before = db.stats()
        assert db.multi_get(ABSENT) == [None] * len(ABSENT)
        assert (db.stats() - before).filter_negatives > len(ABSENT) // 2


def test_threads_that_ask_at_once_rebuild_once(table: Path) -> None:
    flip(table, chunk_middle(table, 1))
    start = threading.Barrier(6)
    wrong: list[bytes] = []

    def ask() -> None:
        start.wait(WAIT_S)
        wrong.extend(key for key in KEYS[::3] if db.get(key) != b"value " + key)

    with opened(table, "cached") as db:
        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        join(*threads)
        assert db.stats().filter_rebuilds == 1
    assert wrong == []


def test_a_handler_of_log_records_may_use_the_store(table: Path) -> None:
    flip(table, chunk_middle(table, 0))
    found: list[bytes | None] = []

    class Asking(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(db.get(KEYS[1]))

    logger, handler = logging.getLogger("lsmkv"), Asking()
    for residency in ("resident", "cached"):
        with opened(table, residency) as db:
            logger.addHandler(handler)
            try:
                assert db.get(KEYS[0]) == b"value " + KEYS[0]
            finally:
                logger.removeHandler(handler)
    assert found == [b"value " + KEYS[1]] * 2


def test_rebuilt_chunks_are_counted_as_memory(table: Path) -> None:
    flip(table, chunk_middle(table, 0))
    reader = open_table(table, residency="cached")
    assert reader.filter_memory_bytes == 0
    reader.filters.may_hold(0, 1)
    low, high = reader.index.chunk_span(0)
    assert reader.filter_memory_bytes >= high - low
    assert reader.filters.bytes_to_read(0) == 0
