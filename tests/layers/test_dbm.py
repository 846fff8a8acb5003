"""``lsmkv.dbm``: what it adds to a store, and what it refuses."""

from __future__ import annotations

import inspect
import os
import shelve
import stat
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest

import lsmkv
import lsmkv.dbm


def shelf_of(db: MutableMapping[bytes, bytes], *, writeback: bool = False) -> shelve.Shelf[Any]:
    return shelve.Shelf(db, writeback=writeback)


def test_how_long_to_wait_is_a_parameter_of_its_own(tmp_path: Path) -> None:
    assert inspect.signature(lsmkv.dbm.open).parameters["wait_s"].default == 0.0
    with pytest.raises(ValueError, match="wait_s=-1"):
        lsmkv.dbm.open(tmp_path / "store", "c", wait_s=-1)


def test_the_longest_key_has_a_next_one(path: str) -> None:
    with lsmkv.dbm.open(path, "c") as db:
        longest = b"x" * 65535
        db[longest], db["y"] = "1", "2"
        assert db.firstkey() == longest
        assert (db.nextkey(longest), db.nextkey("y")) == (b"y", None)
        with pytest.raises(ValueError, match="65536"):
            db.nextkey(b"x" * 65536)


def test_a_text_that_is_no_utf8_is_named(path: str) -> None:
    with lsmkv.dbm.open(path, "c") as db:
        with pytest.raises(ValueError, match=r"key 'a\\ud800' has a lone surrogate .*: use bytes"):
            db["a\ud800"] = "1"
        with pytest.raises(ValueError, match=r"value '\\ud800' has a lone surrogate .*: use bytes"):
            db["a"] = "\ud800"
        assert db.keys() == []


@pytest.mark.parametrize("flag", ["r", "w"])
def test_r_and_w_need_a_store(path: str, flag: Any) -> None:
    with pytest.raises(lsmkv.dbm.error, match="holds no lsmkv store") as caught:
        lsmkv.dbm.open(path, flag)
    assert caught.value.filename == path
    assert not os.path.exists(path)


def test_n_takes_the_place_of_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "made by tempfile").touch()
    lsmkv.dbm.open(tmp_path / "made by tempfile", "n").close()


def test_n_leaves_any_other_file_alone(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("kept")
    with pytest.raises(OSError, match="notes"):
        lsmkv.dbm.open(tmp_path / "notes", "n")
    assert (tmp_path / "notes").read_text() == "kept"


def test_a_wrong_flag_is_named(path: str) -> None:
    with pytest.raises(ValueError, match="'r', 'w', 'c' and 'n', not 'rw'"):
        lsmkv.dbm.open(path, "rw")


def test_r_writes_nothing(path: str) -> None:
    lsmkv.dbm.open(path, "c").close()
    with lsmkv.dbm.open(path) as db:
        with pytest.raises(lsmkv.dbm.error, match="read_only=True"):
            db["a"] = "1"
        with pytest.raises(lsmkv.dbm.error, match="flag 'r'; use 'w'"):
            del db["a"]
        with pytest.raises(lsmkv.dbm.error, match="read_only=True"):
            db.clear()
        db.sync()


def test_a_second_writer_gets_the_error_with_its_cause(path: str) -> None:
    with lsmkv.dbm.open(path, "c"), pytest.raises(lsmkv.dbm.error, match="is open") as caught:
        lsmkv.dbm.open(path, "c")
    assert isinstance(caught.value.__cause__, lsmkv.LockedError)


@pytest.mark.parametrize("use", [
    lambda db: db["a"], lambda db: db.get("a"), lambda db: "a" in db, len, bool, list,
    lambda db: db.keys(), lambda db: db.items(), lambda db: db.values(),
    lambda db: db.firstkey(), lambda db: db.nextkey("a"), lambda db: db.__setitem__("a", "1"),
    lambda db: db.__delitem__("a"), lambda db: db.setdefault("a", "1"), lambda db: db.clear(),
    lambda db: db.sync(), lambda db: db.reorganize(),
])  # fmt: skip
def test_use_after_close_is_the_error(path: str, use) -> None:  # type: ignore[no-untyped-def]
    db = lsmkv.dbm.open(path, "c")
    db.close()
    db.close()
    with pytest.raises(lsmkv.dbm.error, match="closed"):
        use(db)


def test_a_value_of_another_type_is_named(path: str) -> None:
    with lsmkv.dbm.open(path, "c") as db:
        with pytest.raises(TypeError, match="a value is str or bytes, not int"):
            db["a"] = 1  # type: ignore[assignment]
        with pytest.raises(TypeError, match="a key is str or bytes, not NoneType"):
            db[None] = "1"  # type: ignore[index]


def test_the_mode_takes_the_umask_into_account(path: str) -> None:
    before = os.umask(0o027)
    try:
        lsmkv.dbm.open(path, "c", 0o666).close()
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(file.stat().st_mode) for file in Path(path).glob("*.log")}
    assert modes == {0o640}


def test_reorganize_frees_what_was_deleted(path: str) -> None:
    with lsmkv.dbm.open(path, "c", compression="none") as db:
        db["a"] = b"x" * 100_000
        db.reorganize()
        del db["a"]
        db.reorganize()
        assert sum(file.stat().st_size for file in Path(path).glob("*.sst")) < 10_000


def test_a_shelf_that_is_closed_closes_its_store(path: str) -> None:
    db = lsmkv.open(path)
    with shelf_of(db, writeback=True) as shelf:
        shelf["list"] = []
        shelf["list"].append(1)
    assert db.closed
    with shelf_of(lsmkv.open(path)) as shelf:
        assert shelf["list"] == [1]
