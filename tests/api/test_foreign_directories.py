"""Directories that hold files of other programs: nothing in them is written, cut or removed."""

from __future__ import annotations

import os
import pickle
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import contents, fill, open_small

import lsmkv
from lsmkv.log.reader import HEADER_BYTES
from lsmkv.storage.file_names import BACKUP, CURRENT, LOCK, UNFINISHED, UNFINISHED_COPY
from lsmkv.storage.storage import Storage
from time_limits import in_time

# As LevelDB 1.23 and RocksDB 9.8 write them; long files are cut.
LEVELDB = {
    "000003.log": b"\xd3\x1c>\xc7\x11\0\1\1\0\0\0\0\0\0\0\1\0\0\0\1\1a\1b",
    "CURRENT": b"MANIFEST-000002\n",
    "LOCK": b"",
    "LOG": b"2026/11/25-09:46:14.549572 139913548737408 Delete type=3 #1\n",
    "MANIFEST-000002": b"V\xf9\xb8\xf8\x1c\0\1\1\x1aleveldb.BytewiseComparator\xa4\x9c\x8b\xbe\x08\0\1\2"
    b"\3\t\0\3\4\4\0",
}
EMPTY_LEVELDB = {**LEVELDB, "000003.log": b""}
COMPACTED_LEVELDB = {
    **EMPTY_LEVELDB,
    "000005.ldb": b"\0\t\1a\1\1\0\0\0\0\0\0b\0\0\0\0\1\0\0\0\0\xcb-\xdaM" + b"\0" * 60,
}
ROCKSDB = {
    "000008.log": b"",
    "000009.sst": b"\0\t\1a\1\1\0\0\0\0\0\0b\0\0\0\0\1\0\0\0\0"
    + b"\0\0\xf7\xcf\xf4\x85\xb7A\xe2\x88",
    "CURRENT": b"MANIFEST-000005\n",
    "IDENTITY": b"70578670-31dd-4014-88e9-430b5467f226",
    "LOCK": b"",
    "MANIFEST-000005": b"Fv\x18:'\0\1\x81@$70578670-31dd-4014-88e9-430b5467f226\5+(C\0\0\1"
    b"5@?\x88 \0\1\1\x1aleveldb.BytewiseComparator\x89@\1\1\xf4\3",
}
OTHERS = {
    "LevelDB": LEVELDB,
    "empty LevelDB": EMPTY_LEVELDB,
    "compacted LevelDB": COMPACTED_LEVELDB,
    "RocksDB": ROCKSDB,
}
TEXT = b"my own text " * 500


def write(directory: Path, files: dict[str, bytes]) -> dict[str, bytes]:
    directory.mkdir(exist_ok=True)
    for name, data in files.items():
        (directory / name).write_bytes(data)
    return files


def read(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def opened(path: Path) -> None:
    lsmkv.open(path).close()


USES: dict[str, Callable[[Path, lsmkv.DB], object]] = {
    "open": lambda path, db: opened(path),
    "open to read": lambda path, db: lsmkv.open(path, read_only=True),
    "destroy": lambda path, db: lsmkv.destroy(path),
    "repair": lambda path, db: lsmkv.repair(path, path.with_name("output")),
    "repair in place": lambda path, db: lsmkv.repair(path, in_place=True),
    "repair to": lambda path, db: lsmkv.repair(db.path, path),
    "checkpoint": lambda path, db: db.checkpoint(path),
    "back up": lambda path, db: lsmkv.backup(path, path.with_name("output")),
    "back up to": lambda path, db: lsmkv.backup(db, path),
}
AS_A_STORE = ("open", "open to read", "destroy", "repair", "repair in place", "back up")


@pytest.fixture
def db(tmp_path: Path) -> Any:
    with open_small(tmp_path / "store") as db:
        fill(db, range(20))
        yield db


def check_refused(use: str, path: Path, db: lsmkv.DB) -> str:
    """The error of a use, which must leave the directory as it is and make nothing beside it."""
    before = read(path)
    kinds = (lsmkv.NotAStoreError, lsmkv.LockedError, FileExistsError)
    if use == "repair to":
        db.close()
    with pytest.raises(kinds) as caught:
        USES[use](path, db)
    assert read(path) == before
    assert not path.with_name("output").exists()
    assert str(path) in str(caught.value)
    return str(caught.value)


def check_all_refused(path: Path, db: lsmkv.DB) -> None:
    for use in sorted(USES, key=lambda use: use == "repair to"):  # which closes the store
        check_refused(use, path, db)


# Other programs


@pytest.mark.parametrize("has_current", [True, False])
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("other", OTHERS)
def test_a_store_of_another_program_is_left_alone(
    tmp_path: Path, db: lsmkv.DB, other: str, use: str, has_current: bool
) -> None:
    path = tmp_path / "other"
    write(path, OTHERS[other])
    if not has_current:
        (path / CURRENT).unlink()
    message = check_refused(use, path, db)
    if use in AS_A_STORE and (has_current or use not in ("destroy", "back up")):
        assert "LevelDB or RocksDB" in message
        assert "repair" not in message


NAMES = [
    "000001.log",
    "000002.log",
    "000007.sst",
    "MANIFEST-000002",
    CURRENT,
    LOCK,
    BACKUP,
    "a.txt",
]


@pytest.mark.parametrize("length", [5, 33, HEADER_BYTES, 200, 5000])
@pytest.mark.parametrize("name", [*NAMES, UNFINISHED_COPY])
def test_a_file_of_another_program_is_neither_changed_nor_removed(
    tmp_path: Path, db: lsmkv.DB, name: str, length: int
) -> None:
    path = tmp_path / "other"
    write(path, {name: TEXT[:length]})
    check_all_refused(path, db)


@pytest.mark.parametrize("lock", [b"", TEXT])
def test_a_long_current_of_another_program_does_not_make_its_directory_ours(
    tmp_path: Path, db: lsmkv.DB, lock: bytes
) -> None:
    path = tmp_path / "other"
    write(path, {CURRENT: TEXT, LOCK: lock})
    for use in ("open", "destroy", "repair", "repair in place"):
        assert "not lsmkv's" in check_refused(use, path, db)


@pytest.mark.parametrize("name", ["000001.log", "MANIFEST-000002", LOCK, UNFINISHED_COPY])
@pytest.mark.parametrize("kind", ["link", "dangling link", "folder", "pipe"])
def test_what_is_no_file_is_left_alone(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / "other"
    path.mkdir()
    (tmp_path / "empty").touch()
    if kind == "folder":
        (path / name).mkdir()
    elif kind == "pipe":
        os.mkfifo(path / name)
    else:
        (path / name).symlink_to(tmp_path / ("empty" if kind == "link" else "nowhere"))
    before = (path / name).lstat()
    with pytest.raises(lsmkv.NotAStoreError, match=name):
        lsmkv.open(path)
    after = (path / name).lstat()
    assert (before.st_ino, stat.S_IFMT(before.st_mode)) == (
        after.st_ino,
        stat.S_IFMT(after.st_mode),
    )
    assert os.listdir(path) == [name]
    assert (tmp_path / "empty").read_bytes() == b""


def test_empty_files_with_names_of_ours_are_taken_for_an_empty_directory(tmp_path: Path) -> None:
    path = tmp_path / "store"
    write(path, dict.fromkeys(["000001.log", "000007.sst", "MANIFEST-000002", LOCK], b""))
    with open_small(path) as db:
        db[b"k"] = b"v"
    assert contents(path) == {b"k": b"v"}
    assert "000007.sst" not in os.listdir(path)


# Files of ours whose store is not whole


def lost_current(path: Path) -> None:
    with open_small(path) as db:
        fill(db, range(20))
        db.flush()
    (path / CURRENT).unlink()


@pytest.mark.parametrize("kept", [".log", ".sst", "MANIFEST"])
def test_a_store_that_lost_current_is_told_by_any_of_its_files(tmp_path: Path, kept: str) -> None:
    path = tmp_path / "store"
    lost_current(path)
    for file in path.iterdir():
        if kept not in file.name:
            file.unlink()
    before = read(path)
    for read_only in (False, True):
        with pytest.raises(lsmkv.NotAStoreError, match=r"lost it.*lsmkv\.repair"):
            lsmkv.open(path, read_only=read_only)
    assert read(path) == before
    lsmkv.repair(path, tmp_path / "output")


@pytest.mark.parametrize("has_current", [True, False])
def test_a_store_of_another_program_with_files_of_ours_in_it_is_left_alone(
    tmp_path: Path, db: lsmkv.DB, has_current: bool
) -> None:
    db.flush()
    (table,) = Path(db.path).glob("*.sst")
    log = max(Path(db.path).glob("*.log"))  # the flushed one may not be removed yet
    path = tmp_path / "other"
    write(path, LEVELDB)
    write(path, {"000007.sst": table.read_bytes()[:-80], "000008.log": log.read_bytes()})
    if not has_current:
        (path / CURRENT).unlink()
    check_all_refused(path, db)


# Copies, repair's output, destroy


@pytest.mark.parametrize("lock", [b"", b"lsmkv process 17\n"])
@pytest.mark.parametrize("use", ["open", "checkpoint", "back up to", "repair to"])
def test_a_lock_of_ours_alone_is_an_empty_directory(
    tmp_path: Path, db: lsmkv.DB, use: str, lock: bytes
) -> None:
    write(tmp_path / "copy", {LOCK: lock})
    expected = {} if use == "open" else dict(db)
    if use == "repair to":
        db.close()
    USES[use](tmp_path / "copy", db)
    assert contents(tmp_path / "copy") == expected


class TakesTheOutput(Storage):
    def lock(self, path: str) -> Any:
        if "output" in path and not os.path.exists(path):
            write(Path(path).parent, {"notes.txt": b"mine"})
        return super().lock(path)


def test_an_output_that_was_taken_meanwhile_is_refused(
    tmp_path: Path, db: lsmkv.DB, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.close()
    monkeypatch.setattr("lsmkv.salvage.repair.Storage", TakesTheOutput)
    with pytest.raises(FileExistsError, match="not empty"):
        lsmkv.repair(db.path, tmp_path / "output")
    assert sorted(os.listdir(tmp_path / "output")) == [LOCK, "notes.txt"]


def test_a_repair_that_failed_can_be_made_again(tmp_path: Path, db: lsmkv.DB) -> None:
    expected = dict(db)
    db.close()

    def fail(_done: int, _total: int) -> None:
        raise RuntimeError("stop")

    with open_small(db.path) as again:
        again.flush()
    with pytest.raises(RuntimeError, match="stop"):
        lsmkv.repair(db.path, tmp_path / "output", progress=fail)
    lsmkv.repair(db.path, tmp_path / "output")
    assert contents(tmp_path / "output") == expected


@pytest.mark.parametrize("name", [LOCK, BACKUP, UNFINISHED_COPY, "CURRENT.tmp", "000009.sst.tmp"])
def test_destroy_leaves_a_file_that_is_not_ours(tmp_path: Path, name: str) -> None:
    path = tmp_path / "store"
    opened(path)
    write(path, {name: b"mine", f"000009.sst{UNFINISHED}": b"half a table"})
    lsmkv.destroy(path)
    assert read(path) == {name: b"mine"}


LET_BE = [
    "lost+found",
    ".DS_Store",
    "._.DS_Store",
    ".Trash-0",
    ".gitkeep",
    ".stfolder",
    "System Volume Information",
    ".nfs000000000000a1b2",
]


@pytest.mark.parametrize("is_folder", [True, False])
@pytest.mark.parametrize("use", ["open", "checkpoint", "back up to", "repair to"])
def test_what_systems_put_into_any_directory_is_let_be(
    tmp_path: Path, db: lsmkv.DB, use: str, is_folder: bool
) -> None:
    path = tmp_path / "volume"
    path.mkdir()
    for name in LET_BE:
        (path / name).mkdir() if is_folder else (path / name).write_bytes(b"of nobody")
    if use == "repair to":
        db.close()
    USES[use](path, db)
    with lsmkv.open(path) as made:
        made[b"k"] = b"v"
    with lsmkv.open(path) as again:
        assert again[b"k"] == b"v"
    lsmkv.destroy(path)
    assert sorted(os.listdir(path)) == sorted(LET_BE)


@pytest.mark.parametrize("name", ["lost+found.txt", ".DS_Store2", ".Trash-me", "gitkeep", ".env"])
def test_a_name_like_those_of_systems_is_not_let_be(
    tmp_path: Path, db: lsmkv.DB, name: str
) -> None:
    path = tmp_path / "other"
    write(path, {name: b"mine"})
    check_refused("open", path, db)
    check_refused("checkpoint", path, db)


def test_a_store_of_links_is_read_and_not_written(tmp_path: Path, db: lsmkv.DB) -> None:
    db.flush()
    db[b"in the log"] = b"v"
    expected = dict(db)
    db.close()
    snapshot, blobs = tmp_path / "snapshot", tmp_path / "blobs"
    shutil.copytree(db.path, blobs)
    snapshot.mkdir()
    for file in blobs.iterdir():
        (snapshot / file.name).symlink_to(f"../blobs/{file.name}")
    before = read(blobs)
    with lsmkv.open(snapshot, read_only=True) as reader:
        assert dict(reader) == expected
        assert reader.verify().ok
        assert not reader.refresh()
        assert dict(pickle.loads(pickle.dumps(reader))) == expected
        reader.checkpoint(tmp_path / "copy")
    with lsmkv.open(tmp_path / "copy") as copy:
        assert dict(copy) == expected
    assert not [file for file in (tmp_path / "copy").iterdir() if file.is_symlink()]
    for use in (lsmkv.open, lsmkv.destroy, lambda path: lsmkv.repair(path, in_place=True)):
        with pytest.raises(lsmkv.NotAStoreError, match=r"symbolic link.*read_only=True"):
            use(snapshot)
    assert read(blobs) == before


def test_a_reader_of_links_follows_them_to_the_next_store(tmp_path: Path) -> None:
    """As a Kubernetes volume is replaced: the links stay, the directory that they lead through not."""
    for name in ("1", "2"):
        with lsmkv.open(tmp_path / name) as db:
            db.update({b"%d" % number: name.encode() for number in range(50)})
            db.flush()
            db[b"log"] = name.encode()
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "..data").symlink_to("../1")
    for file in (tmp_path / "1").iterdir():
        (volume / file.name).symlink_to(f"..data/{file.name}")
    with lsmkv.open(volume, read_only=True) as reader:
        assert {*reader.values()} == {b"1"}
        (volume / "new").symlink_to("../2")
        (volume / "new").rename(volume / "..data")
        assert reader.refresh()
        assert {*reader.values()} == {b"2"}


@pytest.mark.slow
@pytest.mark.parametrize("peer", ["leveldb", "rocksdb"])
@pytest.mark.parametrize("has_current", [True, False])
def test_real_stores_of_other_programs_are_left_alone(
    tmp_path: Path, db: lsmkv.DB, peer: str, has_current: bool
) -> None:
    path = tmp_path / "other"
    if peer == "leveldb":
        plyvel = pytest.importorskip("plyvel")
        other = plyvel.DB(str(path), create_if_missing=True)
        for number in range(1000):
            other.put(b"%d" % number, b"v" * 50)
        other.compact_range()
    else:
        rocksdict = pytest.importorskip("rocksdict")
        other = rocksdict.Rdict(str(path), rocksdict.Options(raw_mode=True))
        other[b"a"] = b"b"
    other.close()
    del other
    if not has_current:
        (path / CURRENT).unlink()
    check_all_refused(path, db)


@pytest.mark.parametrize("kind", ["pipe", "file", "dangling link", "link"])
def test_what_is_named_like_a_staging_directory_and_is_none_stays(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "store"
    lsmkv.open(path).close()
    odd = path / ("staging-" + 32 * "0")
    if kind == "pipe":
        os.mkfifo(odd)
    elif kind == "file":
        odd.write_text("mine")
    else:
        odd.symlink_to(tmp_path if kind == "link" else "nowhere")
    in_time(lambda: lsmkv.open(path).close())
    in_time(lambda: lsmkv.destroy(path))
    assert os.listdir(path) == [odd.name]
