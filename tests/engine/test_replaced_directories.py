"""A store's directory is removed or replaced while a handle has it open."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import fill, open_small

import lsmkv
from lsmkv.storage.storage import Storage
from storages import FaultyStorage


def remove(path: str) -> None:
    shutil.rmtree(path)


def move(path: str) -> None:
    os.rename(path, f"{path}.away")


def empty(path: str) -> None:
    """Remove what is in the directory, which stays."""
    for name in os.listdir(path):
        os.unlink(os.path.join(path, name))


def contents(path: str) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in Path(path).iterdir()}


def ingest(db: lsmkv.DB, folder: Path) -> None:
    table = folder / "outside.sst"
    with lsmkv.TableWriter(table) as writer:
        writer.add(b"outside", b"v")
    db.ingest([table])


def fill_up(db: lsmkv.DB, _: Path) -> None:
    for numbers in (range(500), range(500)):
        fill(db, numbers)


USES: dict[str, Callable[[lsmkv.DB, Path], object]] = {
    "a full log": fill_up,
    "put with sync": lambda db, _: db.put(b"k", b"v", sync=True),
    "sync": lambda db, _: db.sync(),
    "flush": lambda db, _: db.flush(),
    "compact_range": lambda db, _: db.compact_range(force=True),
    "ingest": ingest,
    "bulk_load": lambda db, _: db.bulk_load([(b"loaded", b"v")]),
    "staging": lambda db, _: db.staging().__enter__(),
    "checkpoint": lambda db, folder: db.checkpoint(folder / "copy"),
    "verify": lambda db, _: db.verify(),
    "close": lambda db, _: db.close(),
}


@pytest.mark.parametrize("away", [remove, move, empty])
@pytest.mark.parametrize("use", USES)
def test_the_store_made_in_its_place_stays_as_it_is(
    path: str, tmp_path: Path, away: Callable[[str], None], use: str
) -> None:
    old = open_small(path)
    fill(old, range(300))
    old.flush()
    old.wait_until_settled()  # so that nothing else removes files meanwhile
    old[b"in the log"] = b"v"
    away(path)
    with open_small(path) as new:
        for number in range(100):
            new.put(b"new%03d" % number, b"v", sync=True)
        before = contents(path)
        with pytest.raises(lsmkv.Error, match="was removed or replaced while it was open"):
            USES[use](old, tmp_path)
        if use != "close":
            with pytest.raises(lsmkv.StoreReplacedError):
                old.close()
        assert contents(path) == before
        assert len(new) == 100
    with open_small(path) as new:
        assert len(new) == 100


def test_a_lock_that_was_removed_is_noticed(path: str) -> None:
    old = open_small(path)
    os.unlink(os.path.join(path, "LOCK"))
    with open_small(path) as new:
        new.put(b"k", b"v", sync=True)
        with pytest.raises(lsmkv.StoreReplacedError):
            old.sync()
        with pytest.raises(lsmkv.StoreReplacedError):
            old.close()
    with open_small(path) as db:
        assert db[b"k"] == b"v"


def test_a_directory_that_comes_back_can_be_written_again(path: str) -> None:
    with open_small(path) as db:
        db[b"k"] = b"1"
        move(path)
        with pytest.raises(lsmkv.StoreReplacedError):
            db.flush()
        with pytest.raises(lsmkv.BackgroundError, match="was removed or replaced"):
            db[b"k"] = b"2"
        with pytest.raises(lsmkv.StoreReplacedError):
            db.resume()
        os.rename(f"{path}.away", path)
        db.resume()
        db[b"k"] = b"3"
        db.flush()
    with open_small(path) as db:
        assert db[b"k"] == b"3"


def test_a_store_that_is_moved_keeps_all_writes(path: str) -> None:
    db = open_small(path)
    db[b"k"] = b"v"
    move(path)
    with pytest.raises(lsmkv.StoreReplacedError):
        db.close()
    with open_small(f"{path}.away") as db:
        assert db[b"k"] == b"v"


def test_another_store_with_as_many_writes_is_news_but_not_to_iterators(path: str) -> None:
    def make(value: bytes) -> None:
        with open_small(path) as db:
            for number in range(5):
                db[b"%03d" % number] = value
            db.flush()

    make(b"old")
    told: list[object] = []
    with lsmkv.open(path, read_only=True, on_event=told.append) as reader:
        view = reader.values()
        begun = iter(view)
        move(path)
        make(b"new")
        assert reader.verify().ok
        assert reader.refresh()
        assert len(reader.values()) == 5
        assert [*begun] == [b"old"] * 5
        assert {*reader.values()} == {b"new"}
    assert any(isinstance(event, lsmkv.Refreshed) for event in told)


def test_a_checkpoint_links_no_table_of_the_store_that_took_the_place(
    path: str, tmp_path: Path
) -> None:
    def make(value: bytes) -> None:
        with open_small(path) as db:
            db[b"k"] = value
            db.flush()

    class Late(Storage):
        def link(self, source: str, target: str) -> None:
            remove(path)
            make(b"new")
            super().link(source, target)

    make(b"old")
    with open_small(path, read_only=True, storage=Late()) as reader:
        report = reader.checkpoint(tmp_path / "copy")
        assert report.linked_count == 0
    with open_small(tmp_path / "copy") as copy:
        assert copy[b"k"] == b"old"
        assert copy.verify().ok


def test_a_backup_does_not_go_on_in_a_directory_that_was_replaced(
    path: str, tmp_path: Path
) -> None:
    target = str(tmp_path / "backup")
    with open_small(path) as db:
        fill(db, range(300))
        db.flush()

        def replace(*_: int) -> None:
            if not os.path.exists(f"{target}.away"):
                move(target)
                with open_small(target) as other:
                    other[b"other"] = b"v"

        with pytest.raises(lsmkv.StoreReplacedError):
            lsmkv.backup(db, target, progress=replace)
    with open_small(target) as other:
        assert dict(other) == {b"other": b"v"}


def test_what_cannot_be_looked_at_is_not_taken_for_replaced(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_small(path) as db:
        real = os.lstat

        def refused(name: Any, **more: Any) -> os.stat_result:
            if str(name).endswith("LOCK"):
                raise PermissionError(13, "refused", name)
            return real(name, **more)

        with monkeypatch.context() as patch:
            patch.setattr(os, "lstat", refused)
            db.put(b"k", b"v", sync=True)


@pytest.mark.parametrize("background", ["thread", "process"])
def test_background_work_that_fails_for_it_says_so(path: str, background: str) -> None:
    options: dict[str, Any] = {"background": background, "process_job_size_bytes": 0}
    db = open_small(path, write_buffer_size_bytes=1 << 20, **options)
    for value in (b"1" * 30, b"2" * 30):
        fill(db, range(2000), value=value)
        db.flush()
    db.wait_until_settled()
    remove(path)
    with open_small(path) as new, pytest.raises(lsmkv.Error, match="was removed or replaced"):
        new[b"k"] = b"v"
        db.compact_range(force=True)
    with pytest.raises(lsmkv.StoreReplacedError):
        db.close()


def test_a_storage_may_be_used_for_the_next_store(path: str) -> None:
    storage = FaultyStorage()
    for _ in range(2):
        with open_small(path, storage=storage) as db:
            db[b"k"] = b"v"
        remove(path)


def test_a_reader_of_files_that_another_store_was_copied_into_shows_that_one(
    tmp_path: Path,
) -> None:
    """The files keep their inodes, and the tables' records are equal."""
    for name, value in (("first", b"1" * 60), ("second", b"2" * 60)):
        with lsmkv.open(tmp_path / name, compression="none") as db:
            db.update({b"%04d" % number: value for number in range(200)})
            db.flush()
    with lsmkv.open(tmp_path / "first", read_only=True) as reader:
        assert reader[b"0000"] == b"1" * 60
        for file in (tmp_path / "second").iterdir():
            shutil.copyfile(file, tmp_path / "first" / file.name)
        assert reader.refresh()
        assert set(reader.values()) == {b"2" * 60}
