"""Opening a table: which parts it reads, and when damage is found."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import pytest

import lsmkv
from damage import files, flip, footer_of
from lsmkv.errors import CorruptionError
from lsmkv.sstable.format import TableMeta
from lsmkv.sstable.read_ahead import every_block
from lsmkv.sstable.reader import TableReader
from storages import HookedStorage
from table_files import Tables, ask, contents, numbered
from threaded_stores import run_all


def opened(tables: Tables, meta: TableMeta, residency: str = "resident") -> TableReader:
    return TableReader(
        tables.storage,
        tables.path(meta.number),
        tables.cache,
        meta=meta,
        filter_residency=residency,
    )


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_table_takes_no_memory_for_index_and_filters_until_it_is_used(
    tables: Tables, compression: str
) -> None:
    table = opened(tables, tables.write(numbered(500), compression=compression))
    assert (table.index_memory_bytes, table.filter_memory_bytes) == (0, 0)
    assert ask(table, b"key00000000") == b"value of 0"
    assert table.index_memory_bytes == table.index.memory_bytes > 0
    assert table.filter_memory_bytes == table.footer.filters_length > 0


@pytest.mark.parametrize("residency", ["resident", "cached", "off"])
@pytest.mark.parametrize("granularity", ["block", "table"])
def test_any_first_use_loads_the_table(tables: Tables, residency: str, granularity: str) -> None:
    entries = numbered(300)
    meta = tables.write(entries, filter_granularity=granularity)
    assert ask(opened(tables, meta, residency), entries[7][0]) == entries[7][1]
    assert contents(opened(tables, meta, residency)) == entries
    assert len(opened(tables, meta, residency).block(1, True).keys()) > 0
    assert not opened(tables, meta, residency).is_cached(1)
    blocks = every_block(opened(tables, meta, residency))
    assert sum(block.count for block in blocks) == len(entries)


class _MeetingStorage(HookedStorage):
    """Once armed, makes the first read wait briefly for a second one."""

    reads = 0
    meeting: threading.Barrier | None = None
    met = False

    def before_read(self, *_: object) -> None:
        if self.meeting is not None:
            self.reads += 1
            with contextlib.suppress(threading.BrokenBarrierError):
                self.meeting.wait(0.3)
                self.met = True


def test_a_table_is_loaded_once_by_any_number_of_threads(tmp_path: Path) -> None:
    storage = _MeetingStorage()
    tables = Tables(tmp_path, storage)
    table = opened(tables, tables.write(numbered(2000)))
    storage.meeting = threading.Barrier(2)
    run_all(table.load, table.load)
    assert not storage.met
    assert storage.reads == 3  # index, properties, both for their checksum, and filters


def test_a_table_retired_before_its_first_use_keeps_nothing_in_the_cache(tables: Tables) -> None:
    table = opened(tables, tables.write(numbered(300)), "cached")
    table.leave_cache()
    for key, value, _ in numbered(300):
        assert ask(table, key) == value
    assert tables.cache.used_bytes == 0


# --- damage ---


def test_a_tail_of_many_pieces_is_checked_to_its_last_byte(tables: Tables) -> None:
    pairs = [b"%03d" % number + b"x" * 500 + end for number in range(300) for end in (b"0", b"1")]
    meta = tables.write([(key, b"v" * 256, 1) for key in pairs])  # a long separator in each pair
    path = Path(tables.path(meta.number))
    footer = footer_of(path)
    assert footer.index_length > 2 * 64 * 1024
    for offset in range(footer.index_offset, footer.properties_offset, 20_011):
        flip(path, offset)
        with pytest.raises(CorruptionError, match="index"):
            opened(tables, meta)
        flip(path, offset)
    opened(tables, meta).load()


def test_an_index_that_is_damaged_after_opening_is_noticed_each_time_it_is_used(
    tables: Tables,
) -> None:
    meta = tables.write(numbered(300))
    table = opened(tables, meta)
    place = table.footer.index_offset
    flip(Path(table.path), place + 40)
    for _ in range(2):
        with pytest.raises(CorruptionError, match="index") as caught:
            ask(table, b"key00000000")
        assert (caught.value.path, caught.value.offset) == (table.path, place)
    flip(Path(table.path), place + 40)
    assert ask(table, b"key00000000") == b"value of 0"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    with lsmkv.open(path, compression="none") as db:
        for number in range(2000):
            db.put(b"key%06d" % number, b"value")
        db.compact_range()
    return path


def test_a_damaged_index_keeps_a_store_from_being_opened(store: Path) -> None:
    table = files(store, ".sst")[0]
    flip(table, footer_of(table).index_offset + 100)
    with pytest.raises(CorruptionError, match="index"):
        lsmkv.open(store)


def test_a_table_that_is_written_is_ready_before_it_is_used(store: Path) -> None:
    with lsmkv.open(store) as db:
        db.put(b"another", b"value")
        db.flush()
        assert db.memory_usage().index_bytes > 0
