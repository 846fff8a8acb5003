"""A creation that is cut short anywhere leaves a directory in which the next one succeeds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import SMALL, contents, open_small

import lsmkv
from lsmkv.storage.file_names import CURRENT, LOCK, UNFINISHED, is_unfinished_name
from lsmkv.tree.ownership import leftovers_of_creation
from storages import FaultyStorage
from torture.crash.disk import STORE, Disk, Image
from torture.crash.disk_states import states
from torture.crash.disk_storage import MemoryStorage
from torture.framework.ordered_background import in_order


def crashes(image: Image | None, samples: int) -> Iterator[Image]:
    """What a crash may leave of a creation in a directory with these files."""
    storage = MemoryStorage(image)
    with in_order():
        lsmkv.open(STORE, SMALL, storage=storage).close()
    disk = Disk(image)
    for number, operation in enumerate(storage.operations):
        disk.apply(operation)
        for state in states(disk, f"creation {number}", samples):
            yield state.image
        if CURRENT in disk.the_least():
            return


def distinct(images: Iterator[Image]) -> list[Image]:
    return list({frozenset(image.items()): image for image in images}.values())


def check_created(image: Image) -> None:
    storage = MemoryStorage(image)
    with in_order(), lsmkv.open(STORE, SMALL, storage=storage) as db:
        db[b"k"] = b"v"
    with in_order(), lsmkv.open(STORE, SMALL, storage=storage) as db:
        assert dict(db) == {b"k": b"v"}
    left = [name for name in storage.list_directory(STORE) if is_unfinished_name(name)]
    assert left == []


def test_a_power_failure_during_a_creation_leaves_what_the_next_completes() -> None:
    images = distinct(crashes(None, samples=10))
    assert len(images) > 50
    for image in images:
        check_created(image)


def test_a_power_failure_during_the_second_creation_does_so_too() -> None:
    begun = [image for image in distinct(crashes(None, samples=-1)) if CURRENT not in image]
    images = distinct(again for image in begun[::3] for again in crashes(image, samples=-1))
    assert len(images) > 100
    for image in images:
        check_created(image)


def test_files_have_their_names_once_they_are_whole() -> None:
    """Else a half-written file could not be told from another program's."""
    whole = {"000001.log": 56, "MANIFEST-000002": 154, CURRENT: 33}
    for image in distinct(crashes(None, samples=3)):
        sizes = {name: len(data) for name, data in image.items() if not is_unfinished_name(name)}
        assert sizes.pop(LOCK, 0) == 0  # this storage writes nothing to it
        assert sizes.items() <= whole.items()


def half_made(path: Path) -> dict[str, bytes]:
    """The files of a creation that failed just before CURRENT."""
    storage = FaultyStorage()
    storage.fail("replace", path_suffix=CURRENT)
    with pytest.raises(OSError, match="injected"):
        open_small(path, storage=storage)
    return {file.name: file.read_bytes() for file in path.iterdir()}


def test_a_process_killed_during_a_creation_leaves_what_the_next_completes(tmp_path: Path) -> None:
    path = tmp_path / "store"
    made = half_made(path)
    assert sorted(made) == ["000001.log", LOCK, "MANIFEST-000002"]
    for length in range(len(made[LOCK]) + 1):
        for tail in (b"", bytes(len(made[LOCK]) - length)):
            (path / LOCK).write_bytes(made[LOCK][:length] + tail)
            assert leftovers_of_creation(FaultyStorage(), str(path))
    for name in ("000001.log", "MANIFEST-000002"):
        for data in (made[name][:30], bytes(200), os.urandom(5000)):
            (path / (name + UNFINISHED)).write_bytes(data)
    with open_small(path) as db:
        db[b"k"] = b"v"
    assert contents(path) == {b"k": b"v"}
    assert sorted(os.listdir(path)) == ["000001.log", CURRENT, LOCK, "MANIFEST-000002"]


@pytest.mark.parametrize("name", ["000001.log", "MANIFEST-000002"])
def test_a_changed_byte_makes_a_file_another_programs(tmp_path: Path, name: str) -> None:
    path = tmp_path / "store"
    data = half_made(path)[name]
    for changed in (*range(0, len(data), 7), len(data) - 1):
        (path / name).write_bytes(data[:changed] + bytes([data[changed] ^ 1]) + data[changed + 1 :])
        before = {file.name: file.read_bytes() for file in path.iterdir()}
        with pytest.raises(lsmkv.NotAStoreError):
            open_small(path)
        assert {file.name: file.read_bytes() for file in path.iterdir()} == before


def test_a_file_of_another_program_beside_a_half_made_store_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store"
    made = half_made(path)
    (path / "000003.log").write_bytes(b"mine")
    with pytest.raises(lsmkv.NotAStoreError, match=r"000003\.log, which is not lsmkv's"):
        open_small(path)
    assert {file.name: file.read_bytes() for file in path.iterdir()} == {
        **made,
        "000003.log": b"mine",
    }


def test_a_half_made_store_is_none_to_a_reader(tmp_path: Path) -> None:
    path = tmp_path / "store"
    made = half_made(path)
    with pytest.raises(lsmkv.NotAStoreError, match="holds no lsmkv store"):
        open_small(path, read_only=True)
    assert {file.name: file.read_bytes() for file in path.iterdir()} == made
