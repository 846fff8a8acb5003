"""``DB.staging``, and tables that are ingested unread."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conftest import SMALL

import lsmkv


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


def test_a_reader_cannot_stage(tmp_path: Path) -> None:
    lsmkv.open(tmp_path / "db", SMALL).close()
    with (
        lsmkv.open(tmp_path / "db", read_only=True) as db,
        pytest.raises(lsmkv.ReadOnlyError),
        db.staging(),
    ):
        pass


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
