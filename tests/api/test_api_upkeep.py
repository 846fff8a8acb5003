"""The public API's promises about counts, sizes and upkeep."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import SMALL, fill, number_key, open_small

import lsmkv
from gates import GatedStorage
from lsmkv import DB
from lsmkv.storage.storage import Storage

# Counting and measuring


def test_approximate_count_is_exact_for_keys_written_once(db: DB) -> None:
    fill(db, range(700))
    assert db.approximate_count() == 700
    db.compact_range()
    assert db.approximate_count() == 700


def test_approximate_count_counts_deletions_once_compacted(db: DB) -> None:
    fill(db, range(400))
    for number in range(100):
        db.delete(number_key(number))
    db.compact_range()
    assert db.approximate_count() == 300


def test_approximate_count_reads_nothing(db: DB) -> None:
    fill(db, range(700))
    db.flush()
    before = db.stats()
    db.approximate_count()
    db.approximate_size()
    after = db.stats() - before
    assert (after.block_reads, after.index_reads, after.filter_reads) == (0, 0, 0)


def test_approximate_size_of_everything_is_that_of_the_blocks(db: DB) -> None:
    fill(db, range(1000))
    db.compact_range()
    tables = list(db.inspect().tables())
    assert db.approximate_size() == sum(table.stored_bytes for table in tables)


def test_approximate_size_of_parts_adds_up(db: DB) -> None:
    fill(db, range(1000))
    db.compact_range()
    middle = number_key(400)
    parts = db.approximate_size(stop=middle) + db.approximate_size(start=middle)
    whole = db.approximate_size()
    assert whole <= parts <= whole + 2 * SMALL.block_size_bytes
    assert db.approximate_size(stop=middle) == pytest.approx(0.4 * whole, rel=0.05)


def test_approximate_size_of_an_empty_range_is_zero(db: DB) -> None:
    fill(db, range(1000))
    db.flush()
    assert db.approximate_size(b"b", b"a") == 0
    assert db.approximate_size(start=b"zzz") == 0
    assert db.approximate_size(stop=b"a") == 0


def test_approximate_size_counts_what_only_the_log_has(db: DB) -> None:
    fill(db, range(100))
    assert not db.tables()
    in_log = db.approximate_size()
    assert in_log > 100 * 8
    middle = number_key(40)
    parts = db.approximate_size(stop=middle) + db.approximate_size(start=middle)
    assert in_log - 2 <= parts <= in_log
    assert db.approximate_size(stop=middle) == pytest.approx(0.4 * in_log, rel=0.05)
    assert db.approximate_size(start=b"zzz") == 0
    db.flush()
    assert 0 < db.approximate_size() < in_log


def test_another_process_sees_about_the_same_size_of_a_log(db: DB) -> None:
    fill(db, range(1000))
    db.wait_until_settled()  # tables come and go meanwhile
    with lsmkv.open(db.path, read_only=True) as reader:
        assert reader.approximate_size() == pytest.approx(db.approximate_size(), rel=0.05)


@pytest.mark.parametrize("flushed", [False, True])
def test_disk_bytes_are_those_of_all_files(db: DB, flushed: bool) -> None:
    fill(db, range(1000))
    if flushed:
        db.flush()
    db.wait_until_settled()  # no log is being removed
    with db.staging() as folder, lsmkv.open(db.path, read_only=True) as reader:
        Path(folder, "1.sst").write_bytes(bytes(12345))
        listed = [path for path in Path(db.path).rglob("*") if path.is_file()]
        assert db.disk_bytes() == reader.disk_bytes() == sum(path.stat().st_size for path in listed)
        assert db.disk_bytes() > db.approximate_size() + 12345


def test_disk_bytes_count_no_file_of_another_program(db: DB) -> None:
    before = db.disk_bytes()
    Path(db.path, "notes.txt").write_bytes(bytes(1000))
    Path(db.path, "folder").mkdir()
    assert db.disk_bytes() == before


def test_memory_usage_tells_purposes_apart(db: DB) -> None:
    fill(db, range(1000))
    db.compact_range()
    tables = list(db.inspect().tables())
    usage = db.memory_usage()
    assert usage.filter_bytes == sum(table.filter_memory_bytes for table in tables) > 0
    assert usage.index_bytes == sum(table.index_bytes for table in tables) > 0
    assert usage.block_cache_budget_bytes == db.options.block_cache_size_bytes
    assert usage.as_dict()["total_bytes"] == usage.total_bytes


def test_memory_of_index_and_filters_is_told_by_key_and_by_block(db: DB) -> None:
    fill(db, range(1000))
    db.compact_range()
    info, usage = db.inspect(), db.memory_usage()
    assert (usage.entry_count, usage.block_count) == (1000, info.block_count)
    assert usage.index_bytes_per_key == usage.index_bytes / 1000 > 0
    assert usage.filter_bytes_per_block == usage.filter_bytes / info.block_count > 0
    assert usage.as_dict()["filter_bits_per_block"] == 8 * usage.filter_bytes_per_block


def test_memtable_memory_grows_with_writes_and_is_freed_by_a_flush(path: str) -> None:
    with lsmkv.open(path) as db:
        empty = db.memory_usage().memtable_bytes
        db[b"k"] = bytes(100_000)
        assert 100_000 <= db.memory_usage().memtable_bytes - empty <= 101_000
        db.flush()
        assert db.memory_usage().memtable_bytes <= empty + 100


def test_memory_of_the_block_cache_grows_with_reads_up_to_its_budget(path: str) -> None:
    with open_small(path, block_cache_size_bytes=4096) as db:
        contents = fill(db, range(600))
        db.compact_range()
        assert db.memory_usage().block_cache_bytes == 0
        for key in contents:
            db.get(key)
            assert db.memory_usage().block_cache_bytes <= 4096
        assert db.memory_usage().block_cache_bytes > 0


def test_snapshot_versions_are_those_kept_in_memory_for_snapshots(db: DB) -> None:
    db[b"k"] = b"1"
    db[b"k"] = b"2"
    assert db.memory_usage().snapshot_versions == 0
    with db.snapshot():
        db[b"k"] = b"3"
        assert db.memory_usage().snapshot_versions == 1


def test_stats_count_from_the_opening(path: str) -> None:
    with open_small(path) as db:
        db[b"k"] = b"v"
    with open_small(path) as db:
        assert (db.stats().writes, db.stats().gets) == (0, 0)


def test_stats_can_be_subtracted(db: DB) -> None:
    db[b"a"] = b"1"
    before = db.stats()
    db.get(b"a")
    db.get(b"x")
    db.multi_get([b"a", b"a"])
    assert b"a" in db
    after = db.stats() - before
    assert (after.gets, after.get_hits, after.memtable_hits, after.writes) == (5, 4, 4, 0)


def test_flush_counts_what_it_wrote(db: DB) -> None:
    fill(db, range(50))
    before = db.stats()
    db.flush()
    flushed = db.stats() - before
    assert flushed.flushes == 1
    assert flushed.flush_bytes == sum(table.size_bytes for table in db.inspect().tables())


def test_blocks_lists_every_block_of_a_table(db: DB) -> None:
    contents = fill(db, range(150))
    db.compact_range()
    (table,) = db.inspect().tables()
    blocks = list(db.blocks(table.number))
    assert [block.number for block in blocks] == list(range(table.block_count))
    assert sum(block.entry_count for block in blocks) == 150
    assert (blocks[0].first_key, blocks[-1].last_key) == (min(contents), max(contents))


def test_blocks_of_an_unknown_table_is_a_value_error(db: DB) -> None:
    with pytest.raises(ValueError, match="table_number=99"):
        db.blocks(99)


# Upkeep


def test_flush_of_an_empty_memtable_writes_nothing(db: DB) -> None:
    db.flush()
    db[b"k"] = b"v"
    db.flush()
    db.flush()
    assert db.stats().flushes == 1


def test_compact_range_leaves_one_entry_for_each_key(db: DB) -> None:
    for _ in range(3):
        fill(db, range(300))
    db.delete(number_key(1))
    db.compact_range()
    assert db.inspect().entry_count == 299
    assert sum(len(level.runs) for level in db.inspect().levels) == 1


def test_compact_range_of_a_part_leaves_the_rest(path: str) -> None:
    with open_small(path, level0_compaction_trigger=12) as db:
        contents = fill(db, range(300), seed=1)
        db.flush()
        for number in range(100):
            db.delete(number_key(number))
            del contents[number_key(number)]
        db.compact_range(stop=number_key(100))
        assert not any(table.tombstone_count for table in db.inspect().tables())
        assert dict(db) == contents


@pytest.mark.parametrize(
    ("start", "stop"),
    [(number_key(200), number_key(100)), (number_key(9), number_key(9)), (b"zzz", None)],
    ids=["descending", "equal", "beyond"],
)
def test_compact_range_of_an_empty_range_merges_nothing(
    path: str, start: bytes, stop: bytes | None
) -> None:
    with open_small(path, level0_compaction_trigger=12) as db:
        contents = fill(db, range(300))
        db.compact_range(start, stop)
        assert (db.stats().compactions, len(db.inspect().levels)) == (0, 1)
        assert dict(db) == contents


def test_compact_range_leaves_a_single_run_alone(db: DB) -> None:
    fill(db, range(300))
    db.compact_range()
    before = [table.number for table in db.inspect().tables()]
    db.compact_range()
    assert [table.number for table in db.inspect().tables()] == before


def test_forced_compact_range_rewrites_tables_with_the_present_options(path: str) -> None:
    with open_small(path) as db:
        contents = fill(db, range(300))
        db.compact_range()
    with open_small(path, compression="zstd", error_rate=0.2) as db:
        db.compact_range(force=True)
        assert {table.requested_rate for table in db.inspect().tables()} == {0.2}
        assert dict(db.items()) == contents


def test_wait_until_settled_returns_with_every_level_in_shape(db: DB) -> None:
    fill(db, range(3000))
    db.wait_until_settled()
    info = db.inspect()
    assert len(info.levels[0].runs) < SMALL.level0_compaction_trigger
    assert all(len(level.runs) <= 1 for level in info.levels[1:])


@pytest.mark.parametrize("style", ["leveled", "tiered", "lazy-leveled"])
def test_deletions_hide_older_values_until_they_reach_the_bottom(path: str, style: str) -> None:
    with open_small(
        path, compaction=style, level0_compaction_trigger=2, size_ratio=4, table_size_bytes=4096
    ) as db:
        contents = fill(db, range(2000))
        db.compact_range()
        for start in range(8):
            for number in range(start, 2000, 10):
                db.delete(number_key(number))
                del contents[number_key(number)]
            db.flush()
            db.wait_until_settled()
            assert list(iter(db)) == list(contents)
            assert db.get(number_key(start)) is None


def test_resume_does_nothing_when_there_was_no_failure(db: DB) -> None:
    db[b"k"] = b"v"
    db.resume()
    db[b"k"] = b"w"
    assert db[b"k"] == b"w"


def test_a_copy_of_the_directory_of_a_closed_store_is_a_store(path: str, tmp_path: Path) -> None:
    with open_small(path) as db:
        contents = fill(db, range(500))
    shutil.copytree(path, tmp_path / "copy")
    with open_small(tmp_path / "copy") as db:
        assert dict(db) == contents
        assert db.verify().ok


def test_opening_to_read_while_a_store_is_being_made_finds_no_store(path: str) -> None:
    class Vanishing(Storage):
        """Lists temporary files that have already been removed."""

        def list_directory(self, path: str) -> list[str]:
            return [*super().list_directory(path), "000001.log", "CURRENT.lsmkv-tmp"]

    Path(path).mkdir()
    with pytest.raises(lsmkv.NotAStoreError, match="holds no lsmkv store"):
        lsmkv.open(path, read_only=True, storage=Vanishing())


def test_the_approximate_count_subtracts_each_deletion_once(db: DB) -> None:
    for number in range(100):
        db[b"%03d" % number] = b"v"
    for number in range(50):
        db.delete(b"%03d" % number)
    assert db.approximate_count() == 50


# --- room for writes ---


def test_the_room_for_writes_shrinks_to_nothing_when_the_next_needs_a_new_log(path: str) -> None:
    with open_small(path) as db:
        before = db.write_room_bytes
        assert 8000 < before <= 8192
        db.put(b"key", bytes(1000))
        assert 1000 < before - db.write_room_bytes < 1100
        db.put(b"key", bytes(8000))
        assert db.write_room_bytes == 0
        db.put(b"key", b"")  # starts a new log
        assert db.write_room_bytes > 8000


def test_there_is_no_room_for_writes_while_level_0_slows_them_down(path: str) -> None:
    storage = GatedStorage(thread="lsmkv-compact")
    with open_small(
        path, storage=storage, level0_compaction_trigger=2, level0_slowdown_trigger=2
    ) as db:
        storage.shut()
        for _ in range(2):
            fill(db, range(10))
            db.flush()
        assert db.write_room_bytes == 0
        storage.open_up()
        db.wait_until_settled()
        assert db.write_room_bytes > 0


def test_there_is_no_room_for_writes_in_a_read_only_store(path: str) -> None:
    open_small(path).close()
    with open_small(path, read_only=True) as db:
        assert db.write_room_bytes == 0
    with pytest.raises(lsmkv.ClosedError):
        _ = db.write_room_bytes
