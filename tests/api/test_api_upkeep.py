"""The public API's promises about counts, sizes, upkeep, closing and destroying a store."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import SMALL, fill, number_key, open_small

import lsmkv
from gates import GatedStorage
from kinds_of_mappings import MAPPING_READS, STORE_WRITES
from lsmkv import DB, ClosedError
from lsmkv.layers.peers import own_names
from lsmkv.storage.storage import Storage

# Counting and measuring


def test_approximate_count_is_exact_for_keys_written_once(db: DB) -> None:
    fill(db, range(700))
    assert db.approximate_count() == 700
    db.compact_range()
    assert db.approximate_count() == 700


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
    assert db.approximate_size(b"b", b"a") == db.approximate_size(start=b"zzz") == 0


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


def test_snapshot_versions_are_those_kept_in_memory_for_snapshots(db: DB) -> None:
    db[b"k"] = b"1"
    db[b"k"] = b"2"
    assert db.memory_usage().snapshot_versions == 0
    with db.snapshot():
        db[b"k"] = b"3"
        assert db.memory_usage().snapshot_versions == 1


def test_blocks_of_an_unknown_table_is_a_value_error(db: DB) -> None:
    with pytest.raises(ValueError, match="table_number=99"):
        db.blocks(99)


# Upkeep


def test_opening_to_read_while_a_store_is_being_made_finds_no_store(path: str) -> None:
    class Vanishing(Storage):
        """Lists temporary files that have already been removed."""

        def list_directory(self, path: str) -> list[str]:
            return [*super().list_directory(path), "000001.log", "CURRENT.lsmkv-tmp"]

    Path(path).mkdir()
    with pytest.raises(lsmkv.NotAStoreError, match="holds no lsmkv store"):
        lsmkv.open(path, read_only=True, storage=Vanishing())


def test_the_approximate_count_subtracts_each_deletion_once(db: DB) -> None:
    fill(db, range(100))
    db.flush()
    for number in range(50):
        db.delete(number_key(number))
    assert db.approximate_count() == 50
    db.flush()
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


# Closing

USES: dict[str, Callable[[DB], object]] = {
    "tables": lambda db: db.tables(),
    "memtable_key_counts": lambda db: db.memtable_key_counts,
    "tree_changes": lambda db: db.tree_changes(),
    "staging": lambda db: db.staging().__enter__(),
    **MAPPING_READS,
    **STORE_WRITES,
    "delete_range": lambda db: db.delete_range(b"k"),
    "snapshot": lambda db: db.snapshot(),
    "prefixed": lambda db: db.prefixed(b"k"),
    "ingest": lambda db: db.ingest([]),
    "bulk_load": lambda db: db.bulk_load([]),
    "transaction": lambda db: db.transaction(),
    "transact": lambda db: db.transact(len),
    "expires_at": lambda db: db.expires_at(b"k"),
    "touch": lambda db: db.touch(b"k"),
    "compare_and_set": lambda db: db.compare_and_set(b"k", b"v", None),
    "sync": lambda db: db.sync(),
    "flush": lambda db: db.flush(),
    "compact_range": lambda db: db.compact_range(),
    "wait_until_settled": lambda db: db.wait_until_settled(),
    "resume": lambda db: db.resume(),
    "checkpoint": lambda db: db.checkpoint("copy"),
    "publish": lambda db: db.publish("s3://bucket/store"),
    "refresh": lambda db: db.refresh(),
    "stats": lambda db: db.stats(),
    "memory_usage": lambda db: db.memory_usage(),
    "write_room_bytes": lambda db: db.write_room_bytes,
    "approximate_count": lambda db: db.approximate_count(),
    "approximate_size": lambda db: db.approximate_size(),
    "disk_bytes": lambda db: db.disk_bytes(),
    "explain": lambda db: db.explain(b"k"),
    "explore": lambda db: db.explore(),
    "inspect": lambda db: db.inspect(),
    "blocks": lambda db: db.blocks(1),
    "verify": lambda db: db.verify(),
    "with": lambda db: db.__enter__(),
}


@pytest.mark.parametrize("name", USES)
def test_a_closed_store_refuses(name: str, path: str) -> None:
    db = open_small(path)
    db[b"k"] = b"v"
    db.close()
    with pytest.raises(ClosedError, match="is closed"):
        USES[name](db)


def test_every_public_method_is_tried_on_a_closed_store() -> None:
    tried = set(USES) | {"close", "closed", "path", "options", "read_only", "generation"}
    public = {name for name in own_names(DB, dir(DB)) if not name.startswith("_")}
    assert public <= tried


def test_properties_of_a_closed_store_still_work(path: str) -> None:
    db = open_small(path)
    db.close()
    assert (db.closed, db.path, db.read_only, db.options) == (True, path, False, SMALL)


def test_leaving_the_with_block_closes_even_after_an_exception(path: str) -> None:
    with pytest.raises(RuntimeError), open_small(path) as db:
        raise RuntimeError
    assert db.closed


def test_a_store_dropped_unclosed_warns_and_is_closed(path: str) -> None:
    db = open_small(path)
    db[b"k"] = b"v"
    with pytest.warns(ResourceWarning, match="was not closed"):
        del db
        gc.collect()
    with open_small(path) as again:
        assert again[b"k"] == b"v"


# Destroying


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_closed_handle_that_the_end_of_the_interpreter_drops_says_nothing(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By then Python may have set what modules hold to None."""
    db = open_small(path)
    db.close()
    for name in ("Life", "handles", "in_own_thread", "in_worker"):
        monkeypatch.setattr(f"lsmkv.engine.engine.{name}", None)
    del db
    gc.collect()
