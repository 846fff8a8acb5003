"""What a report says of the disk and of the memory limit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reports.block_device import (
    NOT_TOLD,
    block_device,
    takes_direct_reads,
)


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    """A sysfs in which the device of ``tmp_path`` is a partition of an NVMe disk."""
    disk = tmp_path / "devices" / "pci0000:00" / "nvme0n1"
    partition = disk / "nvme0n1p2"
    for folder in (partition, disk / "queue", disk / "device"):
        folder.mkdir(parents=True)
    (disk / "device" / "model").write_text("Samsung SSD 980 PRO  \n")
    (disk / "queue" / "rotational").write_text("0\n")
    (disk / "queue" / "scheduler").write_text("none [mq-deadline] kyber\n")
    (disk / "queue" / "read_ahead_kb").write_text("128\n")
    number = os.stat(tmp_path).st_dev
    (tmp_path / "dev" / "block").mkdir(parents=True)
    link = tmp_path / "dev" / "block" / f"{os.major(number)}:{os.minor(number)}"
    link.symlink_to(partition)
    return tmp_path


def test_a_partition_is_described_by_its_disk(sysfs: Path) -> None:
    assert block_device(str(sysfs), str(sysfs)) == {
        "device": "nvme0n1p2",
        "device_model": "Samsung SSD 980 PRO",
        "device_rotational": "no",
        "device_virtual": "no sign of it",
        "device_scheduler": "mq-deadline",
        "device_read_ahead_kib": "128",
    }


def test_a_device_on_others_names_them(sysfs: Path) -> None:
    slaves = sysfs / "devices" / "pci0000:00" / "nvme0n1" / "slaves"
    (slaves / "sdb").mkdir(parents=True)
    (slaves / "sda").mkdir()
    assert block_device(str(sysfs), str(sysfs))["device"] == "nvme0n1p2 (on sda, sdb)"


def test_what_the_system_does_not_tell_is_said_so(sysfs: Path, tmp_path: Path) -> None:
    disk = sysfs / "devices" / "pci0000:00" / "nvme0n1"
    (disk / "device" / "model").unlink()
    assert block_device(str(sysfs), str(sysfs))["device_model"] == NOT_TOLD
    nowhere = block_device(str(tmp_path), str(tmp_path / "no sysfs"))
    assert set(nowhere.values()) == {NOT_TOLD}
    assert nowhere.keys() == block_device(str(sysfs), str(sysfs)).keys()


def test_direct_reads_are_tried_and_leave_nothing(tmp_path: Path) -> None:
    assert takes_direct_reads(str(tmp_path)) in (True, False)
    assert list(tmp_path.iterdir()) == []


def test_without_the_flag_there_are_no_direct_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "O_DIRECT", raising=False)
    assert not takes_direct_reads(str(tmp_path))


def test_a_directory_that_is_not_there_takes_no_direct_reads(tmp_path: Path) -> None:
    assert not takes_direct_reads(str(tmp_path / "nothing"))
