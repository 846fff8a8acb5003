"""A store's identity: given once, kept by all that goes on in it, and another for each copy."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import msgspec
import pytest
from conftest import fill, open_small

import lsmkv
from lsmkv.errors import CorruptionError, UnsupportedFormatError
from lsmkv.storage.file_names import CURRENT, LOCK
from lsmkv.storage.storage import Storage
from torture.fuzz.crafting import state_of, write_manifest


def identity(path: str | Path) -> str:
    with lsmkv.open(path, read_only=True) as db:
        return db.inspect().store_id


def make(path: str, value: bytes) -> str:
    with open_small(path) as db:
        for number in range(5):
            db[b"%03d" % number] = value
        db.flush()
        return db.inspect().store_id


def test_a_new_store_has_128_random_bits(tmp_path: Path) -> None:
    found = {make(str(tmp_path / name), b"v") for name in "abc"}
    assert len(found) == 3
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in found)


def test_nothing_that_goes_on_in_a_store_changes_it(path: str) -> None:
    first = make(path, b"v")
    with open_small(path) as db:
        fill(db, range(500))
        db.compact_range()
        db._engine.tables.manifest.rewrite()
        assert db.inspect().store_id == first
    os.rename(path, f"{path}.moved")
    assert identity(f"{path}.moved") == first


def test_a_checkpoint_is_a_store_of_its_own(path: str, tmp_path: Path) -> None:
    first = make(path, b"v")
    with open_small(path) as db:
        db.checkpoint(tmp_path / "copy")
    assert identity(tmp_path / "copy") != first == identity(path)


def test_a_backup_keeps_its_own(path: str, tmp_path: Path) -> None:
    first = make(path, b"v")
    lsmkv.backup(path, tmp_path / "backup")
    own = identity(tmp_path / "backup")
    make(path, b"w")
    lsmkv.backup(path, tmp_path / "backup")
    assert identity(tmp_path / "backup") == own != first


def test_a_repair_in_place_keeps_it_where_the_manifest_is_there(path: str) -> None:
    first = make(path, b"v")
    Path(path, CURRENT).unlink()
    lsmkv.repair(path, in_place=True)
    assert identity(path) == first


def test_a_repair_without_a_manifest_gives_a_new_one(path: str) -> None:
    first = make(path, b"v")
    for manifest in Path(path).glob("MANIFEST-*"):
        manifest.unlink()
    lsmkv.repair(path, in_place=True)
    assert identity(path) not in ("", first)


def test_a_repaired_copy_is_a_store_of_its_own(path: str, tmp_path: Path) -> None:
    first = make(path, b"v")
    lsmkv.repair(path, tmp_path / "repaired")
    assert identity(tmp_path / "repaired") not in ("", first)


def test_a_store_whose_lock_has_the_number_of_the_one_before_is_noticed(path: str) -> None:
    """A file system gives numbers of files that are gone to new ones."""

    class Reused(Storage):
        def file_at(self, path: str) -> tuple[int, int] | None:
            assert path.endswith(LOCK)
            return 1, 1

    before = make(path, b"old")
    with lsmkv.open(path, read_only=True, storage=Reused()) as reader:
        begun = iter(reader.values())
        shutil.rmtree(path)
        after = make(path, b"new")
        assert reader.inspect().store_id == before
        assert reader.refresh()  # it has as many writes
        assert reader.inspect().store_id == after
        assert len(reader.values()) == 5  # an iteration that waits takes over what this reads
        assert [*begun] == [b"old"] * 5
        assert {*reader.values()} == {b"new"}


def test_a_refresh_of_the_same_store_is_no_news(path: str) -> None:
    make(path, b"v")
    with lsmkv.open(path, read_only=True) as reader:
        with open_small(path) as db:
            db._engine.tables.manifest.rewrite()
        assert not reader.refresh()


@pytest.mark.parametrize("hostile", ["", "f" * 31, "F" * 32, "f" * 33, "g" * 32, "f" * 32 + "\n"])
def test_another_form_is_damage_with_its_place(path: str, hostile: str) -> None:
    make(path, b"v")
    edit = msgspec.structs.replace(state_of(Path(path)).as_edit(), store_id=hostile)
    write_manifest(Path(path), msgspec.json.encode(edit))
    with pytest.raises(CorruptionError, match="the store's identity is") as caught:
        lsmkv.open(path)
    assert "MANIFEST-" in caught.value.path and caught.value.offset == 56


def test_no_record_changes_it(path: str) -> None:
    make(path, b"v")
    state = state_of(Path(path))
    with pytest.raises(ValueError, match="the store's identity is"):
        state.changed(msgspec.structs.replace(state.as_edit(), added=[], store_id="1" * 32))
    assert state.changed(msgspec.structs.replace(state.as_edit(), added=[])).store_id


def test_a_manifest_without_it_is_of_another_format(path: str) -> None:
    make(path, b"v")
    edit = msgspec.structs.replace(state_of(Path(path)).as_edit(), store_id=None)
    write_manifest(Path(path), msgspec.json.encode(edit))
    with pytest.raises(UnsupportedFormatError, match="manifest format 1"):
        lsmkv.open(path)
