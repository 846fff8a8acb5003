"""Reads of logs that change meanwhile, and creations that are cut short anywhere."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import SMALL, contents, open_small

import lsmkv
from damage import flip
from log_files import PAYLOADS, create
from lsmkv.log.reader import HEADER_BYTES, read_log
from lsmkv.storage.file_names import CURRENT, LOCK, UNFINISHED, is_unfinished_name
from lsmkv.storage.storage import ReadKind, Storage
from lsmkv.tree.ownership import leftovers_of_creation
from storages import FaultyStorage
from torture.crash.disk import STORE, Disk, Image
from torture.crash.disk_states import states
from torture.crash.disk_storage import MemoryStorage
from torture.framework.ordered_background import in_order
from torture.load.nonatomic_reads import ORDERS
from torture.load.torn_logs import try_log, try_store


class _TwoHalves(Storage):
    """Its first read shows an old state of the first ``cut`` bytes."""

    def __init__(self, before: bytes, cut: int) -> None:
        super().__init__()
        self.reads = 0
        self._before = before
        self._cut = cut

    def read_whole(self, path: str, kind: ReadKind, limit: int, start: int = 0) -> bytes:
        data = super().read_whole(path, kind, limit, start)
        self.reads += 1
        if self.reads > 1:
            return data
        return self._before[: self._cut].ljust(self._cut, b"\0") + data[self._cut :]


@pytest.fixture
def torn(tmp_path: Path) -> Iterator[tuple[Path, _TwoHalves, int]]:
    """A log, a storage that first hides synced records, and their offset."""
    path = tmp_path / "000007.log"
    log = create(path)
    hole = log.append(PAYLOADS[0])
    before = path.read_bytes()
    log.append(PAYLOADS[2])
    cut = log.append(PAYLOADS[3])
    log.sync_through(log.end)
    log.append(PAYLOADS[4])
    yield path, _TwoHalves(before, cut), hole
    log.close()


def test_a_hole_before_a_sync_mark_is_read_again(torn: tuple[Path, _TwoHalves, int]) -> None:
    path, storage, _ = torn
    contents = read_log(storage, str(path), 7, "log")
    assert contents is not None
    expected = [PAYLOADS[0], PAYLOADS[2], PAYLOADS[3], PAYLOADS[4]]
    assert [payload for _, payload in contents.records()] == expected
    assert storage.reads == 2


def test_a_hole_that_persists_is_damage(torn: tuple[Path, _TwoHalves, int]) -> None:
    path, storage, hole = torn
    flip(path, hole + 20, 0x01)
    with pytest.raises(lsmkv.CorruptionError, match="damaged record") as caught:
        read_log(storage, str(path), 7, "log")
    assert caught.value.offset == hole
    assert storage.reads == 2


def test_a_whole_log_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "000007.log"
    log = create(path)
    log.sync_through(log.append(b"one"))
    log.append(b"two")
    storage = _TwoHalves(path.read_bytes(), HEADER_BYTES)
    assert read_log(storage, str(path), 7, "log") is not None
    assert storage.reads == 1
    log.close()


@pytest.mark.parametrize("order", ORDERS)
def test_damage_is_found_in_logs_that_change_if_and_only_if_there_is_some(
    order: str, tmp_path: Path
) -> None:
    for seed in range(4):
        counts = try_log(tmp_path / "000007.log", random.Random(seed), order)
        assert counts["torn reads of logs"] and counts["damaged logs reported"]


@pytest.mark.parametrize("order", ORDERS)
def test_readers_and_verify_find_no_damage_while_a_writer_goes_on(
    order: str, tmp_path: Path
) -> None:
    for seed in range(3):
        counts = try_store(tmp_path / f"store-{seed}", random.Random(seed), order)
        assert counts["writes between pages"] > 20


class _Listing(Storage):
    """Lists a missing log, so many times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def list_directory(self, path: str) -> list[str]:
        self.times -= 1
        return super().list_directory(path) + (["000099.log"] if self.times >= 0 else [])


def test_a_leftover_log_that_a_writer_removes_meanwhile_is_not_missed(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path) as db:
        db.put(b"k", b"v")
        with lsmkv.open(tmp_path, read_only=True, storage=_Listing(1)) as reader:
            assert dict(reader) == {b"k": b"v"}


def test_a_log_that_is_missing_at_every_look_is_an_error(tmp_path: Path) -> None:
    lsmkv.open(tmp_path).close()
    with pytest.raises(FileNotFoundError, match=r"000099\.log"):
        lsmkv.open(tmp_path, read_only=True, storage=_Listing(1000))


def test_verify_does_not_miss_a_log_that_was_missing_at_one_look_alone(tmp_path: Path) -> None:
    storage = _Listing(0)
    with lsmkv.open(tmp_path, storage=storage) as db:
        storage.times = 1
        assert db.verify().ok
        storage.times = 2
        assert [problem.path for problem in db.verify().problems] == [str(tmp_path / "000099.log")]


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_many_logs_and_stores_that_change(order: str, tmp_path: Path) -> None:
    for seed in range(60):
        dice = random.Random(seed)
        try_log(tmp_path / "000007.log", dice, order)
        try_store(tmp_path / f"store-{seed}", dice, order)


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
