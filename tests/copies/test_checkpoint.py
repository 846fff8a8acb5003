"""``DB.checkpoint``: a store of its own, with everything that was acknowledged before the call."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from conftest import contents, fill, open_small

import lsmkv
from bench.harness.object_server import ObjectServer
from lsmkv.storage.file_names import CURRENT, UNFINISHED_COPY
from lsmkv.storage.storage import Storage
from lsmkv.tree.ownership import UNFINISHED_NOTE
from other_processes import process
from outside_tables import numbered, write_table
from published_stores import FORM, published, reader
from sequential_writer import SCRIPT, WITHOUT_END, acknowledged, check_prefix
from storages import FaultyStorage


def inodes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in folder.glob("*.sst")}


def test_it_holds_what_was_written_before_in_tables_and_logs(tmp_path: Path) -> None:
    with open_small(tmp_path / "store") as db:
        expected = fill(db, range(500))
        db[b"last"] = expected[b"last"] = b"in the log"
        report = db.checkpoint(tmp_path / "copy")
        db.clear()
    assert contents(tmp_path / "copy") == expected
    assert report.table_count > 1
    assert report.linked_count == report.table_count
    assert report.log_bytes > 0


def test_tables_are_linked_and_survive_their_removal(tmp_path: Path) -> None:
    with open_small(tmp_path / "store") as db:
        expected = fill(db, range(300))
        db.flush()
        db.checkpoint(tmp_path / "copy")
        before = inodes(tmp_path / "copy")
        assert before.items() <= inodes(tmp_path / "store").items()
        db.compact_range(force=True)
        fill(db, range(300), value=b"new")
        db.compact_range(force=True)
    lsmkv.destroy(tmp_path / "store")
    assert inodes(tmp_path / "copy") == before
    assert contents(tmp_path / "copy") == expected


@pytest.mark.parametrize("error", [errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP])
def test_tables_are_copied_where_links_are_refused(tmp_path: Path, error: int) -> None:
    storage = FaultyStorage()
    with open_small(tmp_path / "store", storage=storage) as db:
        expected = fill(db, range(300))
        db.flush()
        storage.fail("link", error=error, times=None)
        report = db.checkpoint(tmp_path / "copy")
        assert inodes(tmp_path / "copy").items().isdisjoint(inodes(tmp_path / "store").items())
    assert (report.linked_count, report.copied_bytes) == (0, report.table_bytes)
    assert contents(tmp_path / "copy") == expected


def test_a_failure_of_a_link_for_another_reason_is_raised(tmp_path: Path) -> None:
    storage = FaultyStorage()
    with open_small(tmp_path / "store", storage=storage) as db:
        fill(db, range(300))
        db.flush()
        storage.fail("link", error=errno.EIO)
        with pytest.raises(OSError, match="injected"):
            db.checkpoint(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_table_that_a_compaction_removed_meanwhile_is_copied(tmp_path: Path) -> None:
    calls: list[int] = []

    def compact(done: int, _total: int) -> None:
        if not calls:
            db.compact_range(force=True)
        calls.append(done)

    with open_small(tmp_path / "store") as db:
        expected = fill(db, range(400))
        db.flush()
        report = db.checkpoint(tmp_path / "copy", progress=compact)
    assert report.linked_count == 1
    assert report.copied_bytes > 0
    assert contents(tmp_path / "copy") == expected


def test_progress_ends_with_all_bytes(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    with open_small(tmp_path / "store") as db:
        fill(db, range(400))
        report = db.checkpoint(
            tmp_path / "copy", progress=lambda done, total: seen.append((done, total))
        )
    assert seen == sorted(seen)
    assert seen[-1] == (report.table_bytes + report.log_bytes,) * 2


def test_it_was_closed_properly(tmp_path: Path) -> None:
    with open_small(tmp_path / "store") as db:
        fill(db, range(20))
        db.checkpoint(tmp_path / "copy")
    storage = FaultyStorage()
    names = sorted(path.name for path in (tmp_path / "copy").iterdir())
    with open_small(tmp_path / "copy", storage=storage):
        assert storage.calls["sync"] == storage.calls["append"] == 0
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == names


def test_damage_to_the_end_of_its_log_is_found(tmp_path: Path) -> None:
    with open_small(tmp_path / "store") as db:
        db[b"key"] = b"value"
        db.checkpoint(tmp_path / "copy")
    (log,) = (tmp_path / "copy").glob("*.log")
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    with pytest.raises(lsmkv.CorruptionError, match="synced"):
        open_small(tmp_path / "copy")


# --- beside writers ---


def test_a_reader_makes_ones_beside_a_process_that_flushes_and_is_killed(tmp_path: Path) -> None:
    with process(SCRIPT, tmp_path / "store", WITHOUT_END) as writer:
        for number in range(5):
            least = acknowledged(writer, 10)
            with open_small(tmp_path / "store", read_only=True) as reader:
                if number == 4:
                    writer.kill()
                reader.checkpoint(tmp_path / f"copy{number}")
            check_prefix(tmp_path / f"copy{number}", least)


def test_ingested_tables_are_linked_and_never_changed_later(tmp_path: Path) -> None:
    outside = write_table(tmp_path / "outside.sst", numbered(0, 200))
    with lsmkv.open(tmp_path / "store") as db:
        db.ingest([outside], move=True)
        db.checkpoint(tmp_path / "copy")
        (table,) = (tmp_path / "copy").glob("*.sst")
        before = table.read_bytes()
        # The copy's table, moved on into a third store, must stay as it is in the first.
        os.link(table, tmp_path / "moved.sst")
        with lsmkv.open(tmp_path / "third") as third:
            third.ingest([tmp_path / "moved.sst"], move=True)
            assert dict(third) == numbered(0, 200)
        db.compact_range()
        assert table.read_bytes() == before
        assert db.verify().ok
    assert dict(lsmkv.open(tmp_path / "copy", read_only=True)) == numbered(0, 200)


# --- refusals ---


@pytest.mark.parametrize("where", [".", "inside", "inside/deeper"])
def test_inside_the_store_is_refused(tmp_path: Path, where: str) -> None:
    with open_small(tmp_path / "store") as db:
        before = sorted(os.listdir(tmp_path / "store"))
        with pytest.raises(ValueError, match="inside it"):
            db.checkpoint(tmp_path / "store" / where)
        (tmp_path / "alias").symlink_to(tmp_path / "store")
        with pytest.raises(ValueError, match="inside it"):
            db.checkpoint(tmp_path / "alias" / where)
        assert sorted(os.listdir(tmp_path / "store")) == before


def test_a_directory_with_something_in_it_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with open_small(tmp_path / "store") as db:
        with pytest.raises(FileExistsError, match=r"notes\.txt"):
            db.checkpoint(tmp_path / "full")
        db.checkpoint(tmp_path / "copy")
        with pytest.raises(FileExistsError, match="holds a store already"):
            db.checkpoint(tmp_path / "copy")
        with pytest.raises(ValueError, match="URL"):
            db.checkpoint("s3://bucket/copy")
    assert os.listdir(tmp_path / "full") == ["notes.txt"]


def test_a_closed_store_and_one_that_failed_make_none(tmp_path: Path) -> None:
    storage = FaultyStorage()
    db = open_small(tmp_path / "store", storage=storage)
    storage.fail("append", path_suffix=".log")
    with pytest.raises(OSError, match="injected"):
        db[b"key"] = b"value"
    with pytest.raises(lsmkv.BackgroundError, match="resume"):
        db.checkpoint(tmp_path / "copy")
    db.close()
    with pytest.raises(lsmkv.ClosedError):
        db.checkpoint(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_target_that_is_being_made_is_locked(tmp_path: Path) -> None:
    errors: list[Exception] = []

    def again(_done: int, _total: int) -> None:
        try:
            db.checkpoint(tmp_path / "copy")
        except lsmkv.LockedError as error:
            errors.append(error)

    with open_small(tmp_path / "store") as db:
        expected = fill(db, range(100))
        db.checkpoint(tmp_path / "copy", progress=again)
    assert errors
    assert contents(tmp_path / "copy") == expected


def test_an_error_of_the_callback_leaves_nothing(tmp_path: Path) -> None:
    def fail(_done: int, _total: int) -> None:
        raise RuntimeError("stop")

    with open_small(tmp_path / "store") as db:
        fill(db, range(100))
        with pytest.raises(RuntimeError, match="stop"):
            db.checkpoint(tmp_path / "copy", progress=fail)
    assert not (tmp_path / "copy").exists()


# --- half-made directories ---


def half_made(tmp_path: Path) -> Path:
    """What a kill leaves before CURRENT is there."""
    with open_small(tmp_path / "store") as db:
        fill(db, range(100))
        db.flush()
        db.checkpoint(tmp_path / "copy")
    (tmp_path / "copy" / CURRENT).unlink()
    (tmp_path / "copy" / UNFINISHED_COPY).write_bytes(UNFINISHED_NOTE)
    (tmp_path / "copy" / "000099.sst").write_bytes(b"half a table")
    return tmp_path / "copy"


def test_a_half_made_directory_does_not_open_and_says_why(tmp_path: Path) -> None:
    path = half_made(tmp_path)
    for read_only in (True, False):
        with pytest.raises(lsmkv.NotAStoreError, match="unfinished checkpoint or backup"):
            open_small(path, read_only=read_only)


def test_a_half_made_directory_is_cleared_and_made_anew(tmp_path: Path) -> None:
    path = half_made(tmp_path)
    with open_small(tmp_path / "store") as db:
        db[b"more"] = b"now"
        db.checkpoint(path)
        expected = dict(db)
    assert not {"000099.sst", UNFINISHED_COPY} & set(os.listdir(path))
    assert contents(path) == expected


def test_a_store_whose_marker_a_crash_left_is_whole(tmp_path: Path) -> None:
    with open_small(tmp_path / "store") as db:
        expected = fill(db, range(50))
        db.checkpoint(tmp_path / "copy")
    (tmp_path / "copy" / UNFINISHED_COPY).write_bytes(UNFINISHED_NOTE)
    assert contents(tmp_path / "copy", Storage()) == expected
    assert UNFINISHED_COPY not in os.listdir(tmp_path / "copy")


def test_it_has_the_generation_that_is_open(tmp_path: Path, server: ObjectServer, url: str) -> None:
    expected = published(tmp_path / "store", url)
    with reader(url) as db:
        with lsmkv.open(tmp_path / "store", FORM) as store:
            store.clear()
            store.publish(url)
        report = db.checkpoint(tmp_path / "copy")
    assert (report.linked_count, report.copied_bytes) == (0, report.table_bytes)
    assert report.table_count > 1
    with lsmkv.open(tmp_path / "copy", FORM) as copy:
        assert dict(copy) == expected
        assert copy.verify().ok
        copy[b"new"] = b"write"
        copy.compact_range(force=True)
        assert len(copy) == len(expected) + 1


def test_a_backup_is_refused(tmp_path: Path, server: ObjectServer, url: str) -> None:
    published(tmp_path / "store", url)
    with reader(url) as db, pytest.raises(ValueError, match="checkpoint"):
        lsmkv.backup(db, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
