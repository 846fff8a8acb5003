"""The commit of ``DB.ingest``, and tables in ``DB.staging`` that are ingested unread."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import SMALL, open_small

import lsmkv
from lsmkv.storage.storage import Storage
from outside_tables import numbered, write_table
from storages import FaultyStorage
from time_limits import join


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


# --- the commit ---


class Slow(Storage):
    """Waits at the sync of each directory, where a commit is, until told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.go_on = threading.Event(), threading.Event()
        self.armed = False

    def sync_directory(self, path: str) -> None:
        if self.armed:
            self.armed = False
            self.reached.set()
            assert self.go_on.wait(30)
        super().sync_directory(path)


@pytest.fixture
def slow(store: Path) -> Iterator[tuple[Slow, lsmkv.DB]]:
    storage = Slow()
    with open_small(store, storage=storage) as opened:
        yield storage, opened


def test_writers_wait_for_the_commit_and_readers_do_not(
    slow: tuple[Slow, lsmkv.DB], tmp_path: Path
) -> None:
    storage, db = slow
    path = write_table(tmp_path / "t", numbered(0, 10))
    db[b"before"] = b"1"
    db.flush()
    storage.armed = True
    ingesting = threading.Thread(target=db.ingest, args=([path],))
    ingesting.start()
    assert storage.reached.wait(30)
    writing = threading.Thread(target=db.put, args=(b"00001", b"written"))
    writing.start()
    writing.join(0.2)
    assert writing.is_alive()
    assert (db[b"before"], db.get(b"00001")) == (b"1", None)
    storage.go_on.set()
    join(ingesting)
    join(writing)
    assert (db[b"00001"], db[b"00002"]) == (b"written", b"outside")
    assert db.stats().write_stops >= 1


def test_closing_waits_for_the_commit(slow: tuple[Slow, lsmkv.DB], tmp_path: Path) -> None:
    storage, db = slow
    path = write_table(tmp_path / "t", numbered(0, 10))
    storage.armed = True
    ingesting = threading.Thread(target=db.ingest, args=([path],))
    ingesting.start()
    assert storage.reached.wait(30)
    closing = threading.Thread(target=db.close)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive()
    storage.go_on.set()
    join(ingesting)
    join(closing)
    with open_small(tmp_path / "store") as again:
        assert dict(again) == numbered(0, 10)


def test_a_commit_that_fails_lets_writers_go_on(tmp_path: Path) -> None:
    storage = FaultyStorage()
    path = write_table(tmp_path / "t", numbered(0, 10))
    with open_small(tmp_path / "other", storage=storage) as db:
        db[b"a"] = b"1"
        storage.fail("replace", path_suffix=".sst")
        with pytest.raises(OSError, match="injected"):
            db.ingest([path])
        db[b"b"] = b"2"
        assert dict(db) == {b"a": b"1", b"b": b"2"}
        db.ingest([path])
        assert len(db) == 12


def test_a_commit_whose_edit_is_in_doubt_stops_the_store_until_it_resumes(tmp_path: Path) -> None:
    storage = FaultyStorage()
    path = write_table(tmp_path / "t", numbered(0, 10))
    with open_small(tmp_path / "other", storage=storage) as db:
        db[b"a"] = b"1"
        db.flush()
        storage.fail("sync", path_suffix="MANIFEST-000002")
        with pytest.raises(OSError, match="injected"):
            db.ingest([path], move=True)
        assert path.exists()
        with pytest.raises(lsmkv.BackgroundError):
            db[b"b"] = b"2"
        db.resume()
        db[b"b"] = b"2"
        assert dict(db) == {b"a": b"1", b"b": b"2"}
        db.ingest([path], move=True)
        assert len(db) == 12
    with open_small(tmp_path / "other") as db:
        assert len(db) == 12
        assert db.verify().ok


def test_writes_after_an_ingest_survive_a_crash(tmp_path: Path, store: Path) -> None:
    with open_small(store) as db:
        db[b"before"] = b"1"
        db.ingest([write_table(tmp_path / "t", numbered(0, 10))])
        db.put(b"after", b"2", sync=True)
        db.wait_until_settled()  # no file is removed during the copy
        shutil.copytree(store, tmp_path / "crashed")
    with open_small(tmp_path / "crashed") as db:
        assert dict(db) == {**numbered(0, 10), b"before": b"1", b"after": b"2"}


def write(path: str, key: bytes) -> str:
    with lsmkv.TableWriter(path, SMALL) as writer:
        writer.add(key, b"value")
    return path


def test_staged_tables_move_into_the_store(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", SMALL) as db:
        with db.staging() as folder:
            paths = [write(os.path.join(folder, f"{key!r}.sst"), key) for key in (b"a", b"b")]
            number = os.stat(paths[0]).st_ino
            db.ingest(paths, move=True, verify=False)
        assert not os.path.exists(folder)
        assert dict(db) == {b"a": b"value", b"b": b"value"}
        files = [os.path.join(db.path, table.file_name) for table in db.inspect().tables()]
        assert number in [os.stat(file).st_ino for file in files]
        assert db.verify().ok


def test_what_is_left_in_staging_goes_and_nothing_new_comes(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", SMALL) as db:
        with pytest.raises(ZeroDivisionError), db.staging() as folder:
            write(os.path.join(folder, "1.sst"), b"a")
            late = lsmkv.TableWriter(os.path.join(folder, "2.sst"), SMALL)
            late.add(b"b", b"")
            raise ZeroDivisionError
        with pytest.raises(OSError):
            late.finish()
        assert [name for name in os.listdir(db.path) if name.startswith("staging")] == []


def test_an_opening_removes_staging_that_a_crash_left(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", SMALL) as db, db.staging() as folder:
        name = os.path.basename(folder)
    (tmp_path / "db" / name).mkdir()
    write(str(tmp_path / "db" / name / "1.sst"), b"a")
    with lsmkv.open(tmp_path / "db", SMALL):
        assert not (tmp_path / "db" / name).exists()


def test_destroying_a_store_removes_staging_that_a_crash_left(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", SMALL) as db, db.staging() as folder:
        name = os.path.basename(folder)
    (tmp_path / "db" / name / "attempt").mkdir(parents=True)
    lsmkv.destroy(tmp_path / "db")
    assert not (tmp_path / "db").exists()


def test_an_unverified_table_is_read_at_its_end_alone(tmp_path: Path) -> None:
    path = tmp_path / "table"
    with lsmkv.TableWriter(path, SMALL) as writer:
        for number in range(200):
            writer.add(b"%04d" % number, b"v" * 50)
    damaged = bytearray(path.read_bytes())
    damaged[100] ^= 1
    path.write_bytes(damaged)
    with lsmkv.open(tmp_path / "db", SMALL) as db:
        with pytest.raises(lsmkv.CorruptionError):
            db.ingest([path])
        assert db.ingest([path], verify=False).entries == 200
        assert not db.verify().ok
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    with lsmkv.open(tmp_path / "other", SMALL) as db, pytest.raises(lsmkv.CorruptionError):
        db.ingest([path], verify=False)
