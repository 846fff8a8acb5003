"""Reads of logs that change meanwhile find no damage in undamaged logs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import lsmkv
from damage import flip
from log_files import PAYLOADS, create
from lsmkv.log.reader import HEADER_BYTES, read_log
from lsmkv.storage.storage import ReadKind, Storage
from torture.load.nonatomic_reads import ORDERS, AgedLog, AgedStorage
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


def test_a_hole_before_a_sync_mark_is_read_again(
    torn: tuple[Path, _TwoHalves, int],
) -> None:
    path, storage, _ = torn
    contents = read_log(storage, str(path), 7, "log")
    assert contents is not None
    expected = [PAYLOADS[0], PAYLOADS[2], PAYLOADS[3], PAYLOADS[4]]
    assert [payload for _, payload in contents.records()] == expected
    assert storage.reads == 2


def test_a_hole_that_persists_is_damage(
    torn: tuple[Path, _TwoHalves, int],
) -> None:
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


def test_the_pages_of_one_read_are_of_different_ages(tmp_path: Path) -> None:
    dice = random.Random(2)
    log = AgedLog(tmp_path / "000007.log", 7, dice, 60)
    storage = AgedStorage(log.history, 20, "any", 64, dice)
    read = [storage.read_whole(str(log.path), ReadKind.LOG, 1 << 30) for _ in range(10)]
    assert 0 < storage.torn <= sum(data not in log.history for data in read)


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
