"""Range deletes outlast the manifest: repair finds them again, and hides no newer entry with them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import number_key, open_small

import lsmkv
from damage import files, flip, open_table
from lsmkv.encoding.range_deletes import RangeDelete
from lsmkv.errors import CorruptionError
from lsmkv.salvage.repair import repair
from lsmkv.storage.file_names import CURRENT, ERASED
from lsmkv.storage.storage import Storage
from lsmkv.tree.erased_file import read_erased, write_erased
from repair_stores import content_of, lose_manifest

KEYS = [number_key(number) for number in range(40)]
OPTIONS: dict[str, Any] = {
    "level0_compaction_trigger": 2,
    "level1_size_bytes": 4096,
    "table_size_bytes": 4096,
    "size_ratio": 2,
    "block_size_bytes": 512,
}


def erasing(path: Path, **options: Any) -> lsmkv.DB:
    """A store of which every range delete is one."""
    db = open_small(path, **{**OPTIONS, **options})
    db._engine.writer.most_deletions = 0
    return db


def repaired(store: Path) -> tuple[lsmkv.RepairReport, dict[bytes, bytes]]:
    output = store.with_name("output")
    report = repair(store, output)
    return report, content_of(output)


def erase_all_and_write_again(db: lsmkv.DB) -> None:
    """Leave in ERASED a range delete that the manifest has no more."""
    for key in KEYS:
        db.put(key, b"old")
    db.flush()
    db.delete_range(KEYS[0], None)
    db.flush()
    db.wait_until_settled()
    db.put(KEYS[3], b"new")
    db.compact_range(force=True)
    assert (db.inspect().range_delete_count, db.inspect().entry_count) == (0, 1)


def test_a_put_behind_a_range_delete_stays_though_a_compaction_numbered_it_anew(
    tmp_path: Path,
) -> None:
    with erasing(tmp_path / "store") as db:
        erase_all_and_write_again(db)
        (table,) = db.inspect().tables()
        assert table.largest_seq == 0
    lose_manifest(tmp_path / "store")
    report, content = repaired(tmp_path / "store")
    assert report.is_complete
    assert content == {KEYS[3]: b"new"}


def test_writes_to_a_repaired_store_are_newer_than_its_range_deletes(tmp_path: Path) -> None:
    with erasing(tmp_path / "store") as db:
        erase_all_and_write_again(db)
    lose_manifest(tmp_path / "store")
    repair(tmp_path / "store", in_place=True)
    assert {CURRENT, ERASED} & {file.name for file in (tmp_path / "store/lost").iterdir()} == {
        ERASED
    }
    with erasing(tmp_path / "store") as db:
        db.put(KEYS[5], b"newer")
        assert list(db) == [KEYS[3], KEYS[5]]
        db.delete_range(KEYS[0], KEYS[4])
        assert list(db) == [KEYS[5]]


@pytest.fixture
def held(tmp_path: Path) -> Path:
    """A store that was closed with a range delete that hides all but one key."""
    path = tmp_path / "store"
    with erasing(path) as db:
        for key in KEYS:
            db.put(key, b"old")
        db.compact_range()
        with db.snapshot():
            db.delete_range(KEYS[1])
            db.flush()
            db.wait_until_settled()  # then its log is gone
            shutil.copytree(path, tmp_path / "copy")
    (tmp_path / "copy" / "LOCK").unlink()
    return tmp_path / "copy"


def test_without_a_list_of_range_deletes_a_repair_is_not_complete(held: Path) -> None:
    lose_manifest(held)
    flip(held / ERASED, 20)
    report, content = repaired(held)
    assert (report.is_complete, report.range_deletes_lost) == (False, True)
    assert "range deletes: lost" in str(report)
    assert [problem.path for problem in report.problems] == [
        str(held / CURRENT),
        str(held / ERASED),
    ]
    assert content == dict.fromkeys(KEYS, b"old")


def test_a_table_without_properties_loses_no_entry_to_a_range_delete(held: Path) -> None:
    with erasing(held) as db:
        db.put(KEYS[7], b"new")
        db.compact_range()
    lose_manifest(held)
    (table,) = files(held, ".sst")
    flip(table, table.stat().st_size - 1)
    report, content = repaired(held)
    assert not report.is_complete
    assert content == {KEYS[0]: b"old", KEYS[7]: b"new"}


def test_an_opening_mends_a_damaged_list_of_range_deletes(held: Path) -> None:
    flip(held / ERASED, 20)
    with lsmkv.open(held, read_only=True) as reader:
        (problem,) = reader.verify().problems
    assert problem.path == str(held / ERASED)
    with lsmkv.open(held) as db:
        assert db.verify().ok
        assert list(db) == [KEYS[0]]


def test_a_range_delete_that_was_lost_with_its_log_does_not_come_back(held: Path) -> None:
    record = read_erased(Storage(), str(held))
    assert record is not None
    write_erased(Storage(), str(held), record.store_id, [*record.range_deletes, (b"", None, 1000)])
    with lsmkv.open(held) as db:
        assert list(db) == [KEYS[0]]
    assert read_erased(Storage(), str(held)) == record


def test_a_store_forgets_the_range_deletes_of_another(held: Path) -> None:
    write_erased(Storage(), str(held), "0" * 32, [(b"", None, 1)])
    with lsmkv.open(held):
        pass
    record = read_erased(Storage(), str(held))
    assert record is not None
    assert [each[:2] for each in record.range_deletes] == [(KEYS[1], None)]


@pytest.mark.parametrize("ranges", [[(b"a", b"b", 0)], [(b"b", b"a", 1)]])
def test_a_list_with_an_impossible_range_delete_is_damage(
    tmp_path: Path, ranges: list[RangeDelete]
) -> None:
    write_erased(Storage(), str(tmp_path), "", ranges)
    with pytest.raises(CorruptionError) as caught:
        read_erased(Storage(), str(tmp_path))
    assert (caught.value.path, caught.value.offset) == (str(tmp_path / ERASED), 0)


def test_an_ingested_table_forgets_what_was_applied_to_it_elsewhere(
    held: Path, tmp_path: Path
) -> None:
    with erasing(held) as db:
        db.compact_range()
    (table,) = files(held, ".sst")
    assert open_table(table).meta.erased_seq > 0
    shutil.copyfile(table, tmp_path / "outside.sst")
    with erasing(tmp_path / "other") as db:
        db.put(b"a", b"")
        db.ingest([tmp_path / "outside.sst"])
        db.delete_range(KEYS[0])
        assert list(db) == [b"a"]


def test_copies_have_a_list_of_range_deletes_of_their_own(held: Path, tmp_path: Path) -> None:
    with lsmkv.open(held) as db, db.snapshot():
        db.checkpoint(tmp_path / "checkpoint")
        lsmkv.backup(db, tmp_path / "backup")
        lsmkv.backup(db, tmp_path / "backup")
    for copy in ("checkpoint", "backup"):
        lose_manifest(tmp_path / copy)
        report = repair(tmp_path / copy, tmp_path / f"{copy} again")
        assert report.is_complete
        assert list(content_of(tmp_path / f"{copy} again")) == [KEYS[0]]


def test_a_destroyed_store_leaves_no_list_of_range_deletes(held: Path) -> None:
    lsmkv.destroy(held)
    assert not held.exists()
