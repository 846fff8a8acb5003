"""Repair: its arguments, the original files, and its report."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from damage import cut, entries_of, files, flip
from lsmkv.encoding.checksums import checksum
from lsmkv.errors import NotAStoreError, UnsupportedFormatError
from lsmkv.salvage.repair import repair
from lsmkv.salvage.report import RepairReport
from repair_stores import KEYS, build_store, content_of


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def _snapshot(path: Path) -> dict[str, bytes]:
    return {
        file.name: file.read_bytes()
        for file in path.iterdir()
        if file.is_file() and file.name != "LOCK"
    }


# --- what repair promises of its arguments and of the originals ---


@pytest.mark.parametrize("name", ["output", "store-repaired"])
def test_a_whole_store_keeps_everything(store: Path, name: str) -> None:
    content, output = build_store(store), store.with_name(name)
    before = _snapshot(store)
    report = repair(store, output)
    assert _snapshot(store) == before
    for path in files(store, ".sst"):
        assert (output / path.name).read_bytes() == path.read_bytes()
    assert report.is_complete and report.problems == ()
    assert (report.tables_kept, report.tables_salvaged, report.tables_lost) == (2, 0, 0)
    assert report.log_operations_kept == 15
    assert content_of(output) == content


def test_repair_in_place_keeps_the_originals_in_a_folder(store: Path) -> None:
    content = build_store(store)
    damaged = files(store, ".sst")[0]
    flip(damaged, 3)
    before = _snapshot(store)
    report = repair(store, in_place=True)
    after = _snapshot(store)
    lost = _snapshot(store / "lost")
    for name, data in before.items():
        assert data in (after.get(name), lost.get(name))
    assert damaged.name in report.moved and damaged.name in lost
    assert set(content_of(store)) <= set(content) | set(KEYS)


def test_files_moved_twice_get_names_of_their_own(store: Path) -> None:
    build_store(store)
    repair(store, in_place=True)
    repair(store, in_place=True)
    names = set(os.listdir(store / "lost"))
    assert {"CURRENT", "CURRENT.1"} <= names


def test_exactly_one_of_output_and_in_place_is_wanted(store: Path, output: Path) -> None:
    build_store(store)
    with pytest.raises(ValueError, match="either"):
        repair(store)
    with pytest.raises(ValueError, match="either"):
        repair(store, output, in_place=True)
    assert not output.exists()


@pytest.mark.parametrize("place", ["", "lost", "lost/deeper", "../link", "../link/lost"])
def test_an_output_that_is_the_store_or_inside_it_is_refused(store: Path, place: str) -> None:
    build_store(store)
    (store.parent / "link").symlink_to(store)
    flip(files(store, ".sst")[0], 3)
    before = _snapshot(store)
    with pytest.raises(ValueError, match="in_place=True instead"):
        repair(store, store / place)
    assert _snapshot(store) == before
    assert not (store / "lost").exists()


@pytest.mark.parametrize("kind", ["link", "dangling link", "file"])
def test_a_folder_of_lost_files_that_is_no_directory_is_refused(store: Path, kind: str) -> None:
    build_store(store)
    flip(files(store, ".sst")[0], 3)
    elsewhere = store.parent / "elsewhere"
    if kind == "link":
        elsewhere.mkdir()
    if kind == "file":
        (store / "lost").write_bytes(b"")
    else:
        (store / "lost").symlink_to(elsewhere)
    before = _snapshot(store)
    with pytest.raises(OSError, match="lost"):
        repair(store, in_place=True)
    assert _snapshot(store) == before
    assert not elsewhere.exists() or not os.listdir(elsewhere)


def test_files_of_the_store_that_are_links_are_not_followed(store: Path, output: Path) -> None:
    build_store(store)
    table = files(store, ".sst")[0]
    elsewhere = store.parent / table.name
    table.rename(elsewhere)
    table.symlink_to(elsewhere)
    report = repair(store, output)
    assert report.tables_lost == 1 and not report.is_complete
    assert any("symbolic link" in problem.reason for problem in report.problems)


@pytest.mark.parametrize("present", [True, False])
def test_a_folder_without_a_store_is_refused(tmp_path: Path, present: bool) -> None:
    path = tmp_path / "folder"
    if present:
        path.mkdir()
        (path / "notes.txt").write_text("mine")
    with pytest.raises(NotAStoreError):
        repair(path, tmp_path / "output")
    assert path.exists() == present
    assert not (tmp_path / "output").exists()


def test_tables_without_their_ends_are_told_to_be_ours_by_their_blocks(
    store: Path, output: Path
) -> None:
    build_store(store)
    for path in store.iterdir():
        if path.suffix == ".sst":
            cut(path, path.stat().st_size - 80)
        else:
            path.unlink()
    report = repair(store, output)
    assert report.tables_salvaged == 2
    assert set(content_of(output)) <= set(KEYS)


def test_files_in_which_nothing_of_ours_is_left_are_refused(store: Path, output: Path) -> None:
    build_store(store)
    for path in store.iterdir():
        path.write_bytes(bytes(path.stat().st_size))
    before = {path.name: path.read_bytes() for path in store.iterdir()}
    with pytest.raises(NotAStoreError, match="not lsmkv's"):
        repair(store, output)
    assert {path.name: path.read_bytes() for path in store.iterdir()} == before
    assert not output.exists()


def test_progress_ends_at_all_bytes_of_tables(store: Path, output: Path) -> None:
    build_store(store)
    flip(files(store, ".sst")[0], 3)
    seen: list[tuple[int, int]] = []
    repair(store, output, progress=lambda done, total: seen.append((done, total)))
    total = sum(path.stat().st_size for path in files(store, ".sst"))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (total, total)


def test_a_repair_that_fails_leaves_no_new_files(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_store(store)
    flip(files(store, ".sst")[0], 3)
    before = _snapshot(store)

    def fail(directory: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        repair(store, in_place=True)
    assert _snapshot(store) == before


def test_a_crash_before_the_switch_leaves_the_store_as_it_was(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = build_store(store)

    def crash(source: str, target: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "replace", crash)
        repair(store, in_place=True)
    assert content_of(store) == content
    assert repair(store, in_place=True).is_complete
    assert content_of(store) == content


def test_a_crash_after_the_switch_has_every_original_in_the_folder(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_store(store)
    damaged = files(store, ".sst")[0]
    flip(damaged, 3)
    before = _snapshot(store)
    remove = os.unlink

    def crash(path: str) -> None:
        if path.endswith(".sst"):
            raise KeyboardInterrupt
        remove(path)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "unlink", crash)
        repair(store, in_place=True)
    content_of(store)  # opening removes files that the new manifest does not name
    lost = _snapshot(store / "lost")
    assert lost[damaged.name] == before[damaged.name]
    assert not damaged.exists()


def test_a_file_that_may_not_be_read_is_not_called_lost(
    store: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_store(store)
    real = os.open

    def refuse(path: str, flags: int, mode: int = 0o777) -> int:
        if path.endswith(".sst"):
            raise PermissionError(errno.EACCES, "not allowed", path)
        return real(path, flags, mode)

    with monkeypatch.context() as patch, pytest.raises(PermissionError):
        patch.setattr(os, "open", refuse)
        repair(store, output)


def test_a_table_of_a_newer_format_is_refused(store: Path, output: Path) -> None:
    build_store(store)
    path = files(store, ".sst")[0]
    data = bytearray(path.read_bytes())
    data[-16:-12] = (3).to_bytes(4, "little")
    data[-12:-8] = (checksum(bytes(data[-72:-12]), 0) & 0xFFFF_FFFF).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(UnsupportedFormatError):
        repair(store, output)


# --- the report ---


@pytest.fixture
def report(store: Path, output: Path) -> Iterator[RepairReport]:
    build_store(store)
    flip(files(store, ".sst")[0], 3)
    log = files(store, ".log")[-1]
    flip(log, log.stat().st_size - 60)
    yield repair(store, output)


def test_the_report_is_json_safe_and_names_lost_keys(report: RepairReport) -> None:
    shown = json.loads(json.dumps(report.as_dict()))
    assert shown["is_complete"] is False
    assert bytes.fromhex(shown["lost_ranges"][0]["first_hex"]) == KEYS[0]
    assert shown["problems"][0]["offset"] == 0
    assert repr(KEYS[0]) in str(report)


def test_every_entry_is_either_kept_or_lost(report: RepairReport, store: Path) -> None:
    whole = 0
    for path in files(store, ".sst"):
        flip(path, 3) if path == files(store, ".sst")[0] else None
        whole += sum(map(len, entries_of(path)))
    assert report.entries_lost == whole - report.entries_kept
