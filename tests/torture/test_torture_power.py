"""The torture part ``power-cuts``, small."""

from __future__ import annotations

from pathlib import Path

import pytest

from torture.framework.part import Scale, Settings
from torture.load.power_cuts import KINDS, PART, LoopDisk


def settings(directory: Path, replay: str | None) -> Settings:
    return Settings(Scale.CI, 20.0, 1, directory, replay)


@pytest.mark.parametrize("kind", KINDS)
def test_everything_synced_is_there_after_the_power_was_cut(kind: str, tmp_path: Path) -> None:
    outcome = PART.run(settings(tmp_path, kind))
    assert not outcome.failures
    assert not list(tmp_path.iterdir())
    if outcome.skipped:
        pytest.skip(outcome.skipped[0])
    assert outcome.counts[f"{kind}: power cuts"] == 2


def test_where_no_file_system_can_be_made_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    outcome = PART.run(settings(tmp_path, None))
    assert len(outcome.skipped) == len(KINDS) and not outcome.failures
    assert not list(tmp_path.iterdir())


def test_what_never_reached_the_disk_is_gone_after_the_power_was_cut(tmp_path: Path) -> None:
    try:
        disk = LoopDisk("ext4", tmp_path)
        disk.mount()
    except PermissionError as error:
        pytest.skip(str(error))
    try:
        file = disk.mount_point / "file"
        file.write_bytes(b"not synced")
        disk.cut_the_power()
        disk.unmount()
        disk.mount()
        assert not file.exists()
    finally:
        disk.close()


def test_a_replay_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="none of ext4"):
        PART.run(settings(tmp_path, "ext2"))
