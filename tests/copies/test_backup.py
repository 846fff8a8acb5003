"""``lsmkv.backup``: a copy that shares nothing, and that later backups bring up to date."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import contents, fill, open_small

import lsmkv
from gates import WAIT_S
from lsmkv.copies.backup import back_up
from lsmkv.copies.record import FORMAT
from lsmkv.encoding.checksums import content_checksum
from lsmkv.storage.file_names import BACKUP, UNFINISHED, UNFINISHED_COPY
from lsmkv.storage.storage import ReadKind, Storage
from lsmkv.tree.capture import Capture
from other_processes import process
from outside_tables import numbered, write_table
from sequential_writer import SCRIPT, WITHOUT_END, acknowledged, check_prefix
from storages import CountingStorage
from torture.framework.ordered_background import in_order


class Places:
    def __init__(self, folder: Path) -> None:
        self.store, self.target, self.other = (
            folder / "store",
            folder / "target",
            folder / "other",
        )


@pytest.fixture
def at(tmp_path: Path) -> Places:
    return Places(tmp_path)


def read(path: Path) -> dict[bytes, bytes]:
    """The contents of a backup, which is verified and not opened for writing."""
    with open_small(path, read_only=True) as db:
        assert db.verify().ok
        return dict(db)


def tables(path: Path) -> dict[str, int]:
    return {file.name: file.stat().st_ino for file in path.glob("*.sst")}


def filled(path: Path, count: int = 400) -> dict[bytes, bytes]:
    with open_small(path) as db:
        return fill(db, range(count))


def test_it_shares_no_file_with_the_source(at: Places) -> None:
    with open_small(at.store) as db:
        expected = fill(db, range(400))
        report = lsmkv.backup(db, at.target)
        assert not set(tables(at.target).values()) & set(tables(at.store).values())
        db.clear()
    assert report.is_first and report.copied_count == report.table_count > 1
    assert read(at.target) == expected


@pytest.mark.parametrize("flushed", [True, False])
def test_a_closed_store_is_backed_up_by_its_path(at: Places, flushed: bool) -> None:
    with open_small(at.store) as db:
        expected = fill(db, range(30))
        if flushed:
            db.flush()
    report = lsmkv.backup(at.store, at.target)
    assert (report.copied_count, report.made_count) == ((1, 0) if flushed else (0, 1))
    assert read(at.target) == expected
    assert contents(at.store) == expected


def test_only_new_tables_are_copied_and_old_ones_removed(at: Places) -> None:
    with open_small(at.store) as db:
        fill(db, range(400))
        db.compact_range()
        lsmkv.backup(db, at.target)
        before = tables(at.target)
        expected = dict(db) | fill(db, range(1000, 1030))
        second = lsmkv.backup(db, at.target)
        assert tables(at.target).items() > before.items()
        assert (second.copied_count, second.removed_count, second.is_first) == (1, 0, False)
        assert read(at.target) == expected
        db.compact_range(force=True)
        third = lsmkv.backup(db, at.target)
        assert not set(tables(at.target)) & set(before)
        assert third.copied_count == third.table_count
        assert third.removed_count == second.table_count
    assert read(at.target) == expected


def test_tables_that_are_there_are_not_read_in_the_source(at: Places) -> None:
    storage = CountingStorage()
    with open_small(at.store, storage=storage) as db:
        fill(db, range(400))
        db.compact_range()
        lsmkv.backup(db, at.target)
        storage.reset()
        lsmkv.backup(db, at.target)
        assert storage.read_bytes(ReadKind.COMPACTION, ".sst") == 0


def test_a_source_that_moved_copies_nothing_again(at: Places) -> None:
    expected = filled(at.store)
    lsmkv.backup(at.store, at.target)
    shutil.copytree(at.store, at.other)
    shutil.rmtree(at.store)
    report = lsmkv.backup(at.other, at.target)
    assert report.copied_count == 0
    assert read(at.target) == expected


@pytest.mark.parametrize("damage", ["removed", "cut", "changed"])
def test_a_table_that_is_damaged_in_the_backup_is_copied_again(at: Places, damage: str) -> None:
    expected = filled(at.store)
    lsmkv.backup(at.store, at.target)
    path = next(path for path in at.target.glob("*.sst") if (at.store / path.name).exists())
    data = bytearray(path.read_bytes())
    if damage == "removed":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(data[:-10])
    else:
        data[-100] ^= 1
        path.write_bytes(data)
    report = lsmkv.backup(at.store, at.target)
    assert report.copied_count == 1
    assert read(at.target) == expected


def test_what_an_interrupted_first_backup_copied_is_not_copied_again(at: Places) -> None:
    expected = filled(at.store, 3000)
    calls: list[int] = []

    def stop(done: int, _total: int) -> None:
        calls.append(done)
        if len(calls) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lsmkv.backup(at.store, at.target, progress=stop)
    there = set(tables(at.target))
    assert UNFINISHED_COPY in os.listdir(at.target)
    with pytest.raises(lsmkv.NotAStoreError, match="unfinished"):
        open_small(at.target)
    report = lsmkv.backup(at.store, at.target)
    assert report.copied_count == len(set(tables(at.store)) - there) > 0
    assert read(at.target) == expected


def test_a_half_copied_table_of_an_interrupted_backup_is_not_used(at: Places) -> None:
    expected = filled(at.store)
    lsmkv.backup(at.store, at.target)
    with open_small(at.store) as db:
        expected |= fill(db, range(2000, 2100))
        db.flush()
    new = next(iter(set(tables(at.store)) - set(tables(at.target))))
    data = bytearray((at.store / new).read_bytes())
    data[10] ^= 1  # its end is whole
    (at.target / new).write_bytes(data)
    (at.target / f"{new}{UNFINISHED}").write_bytes(data[:100])
    lsmkv.backup(at.store, at.target)
    assert read(at.target) == expected
    assert not list(at.target.glob(f"*{UNFINISHED}"))


def test_progress_ends_with_all_bytes_of_tables(at: Places) -> None:
    filled(at.store)
    for _ in range(2):
        seen: list[tuple[int, int]] = []

        def note(done: int, total: int, seen: list[tuple[int, int]] = seen) -> None:
            seen.append((done, total))

        lsmkv.backup(at.store, at.target, progress=note)
        assert seen == sorted(seen)
        assert seen[-1] == (sum(path.stat().st_size for path in at.store.glob("*.sst")),) * 2


# --- meanwhile ---


def test_writes_flushes_compactions_and_ingests_meanwhile_come_with_the_next(
    at: Places, tmp_path: Path
) -> None:
    calls: list[int] = []

    def meddle(done: int, _total: int) -> None:
        calls.append(done)
        fill(db, range(100, 130), value=b"meanwhile")
        if len(calls) == 1:
            db.ingest([write_table(tmp_path / "outside.sst", numbered(0, 100))], move=True)
        elif len(calls) == 3:
            db.compact_range(force=True)

    # How many tables are copied must not depend on threads: compactions are only those asked for.
    with open_small(
        at.store,
        level0_compaction_trigger=1000,
        level0_slowdown_trigger=1000,
        level0_stop_trigger=1000,
    ) as db:
        expected = fill(db, range(400))
        db.flush()
        lsmkv.backup(db, at.target, progress=meddle)
        assert read(at.target) == expected
        expected = dict(db)
        lsmkv.backup(db, at.target)
        assert read(at.target) == expected
    assert len(calls) > 3


def test_a_second_backup_to_the_same_target_meanwhile_is_refused(at: Places) -> None:
    errors = []

    def again(_done: int, _total: int) -> None:
        try:
            lsmkv.backup(at.store, at.target)
        except lsmkv.LockedError as error:
            errors.append(error)

    expected = filled(at.store)
    for _ in range(2):
        errors.clear()
        lsmkv.backup(at.store, at.target, progress=again)
        assert errors
        assert read(at.target) == expected


def test_backups_beside_a_process_that_writes_and_is_killed_have_no_hole(at: Places) -> None:
    with process(SCRIPT, at.store, WITHOUT_END) as writer:
        for number in range(5):
            least = acknowledged(writer, 10)
            kill = None if number < 4 else lambda _done, _total: writer.kill()
            lsmkv.backup(at.store, at.target, progress=kill)
            check_prefix(at.target, least)
    expected = contents(at.store)
    lsmkv.backup(at.store, at.target)
    assert read(at.target) == expected


# --- restoring, and backups that are written to ---


def test_a_restored_store_may_have_a_log_of_the_number_of_the_sources(at: Places) -> None:
    with open_small(at.store) as db:
        lsmkv.backup(db, at.target)
        db.delete(b"absent")
        lsmkv.backup(db, at.target)  # still without a table, which would show what it is of
    shutil.rmtree(at.store)
    shutil.copytree(at.target, at.other)
    lsmkv.backup(at.other, at.target)
    assert read(at.target) == {}


def test_a_restored_copy_gives_no_number_of_a_log_of_the_source_out_again(at: Places) -> None:
    def capture() -> Capture:
        """As of a store that is written to between its flush and its capture."""
        found = db._engine.capture()
        assert len(found.logs) > 3
        assert found.logs[-1].number >= found.state.next_file
        return replace(found, last_seq=found.state.last_seq)

    with in_order(), open_small(at.store, max_immutable_memtables=8) as db:
        fill(db, range(400))  # nothing is flushed
        back_up(Storage(), str(at.store), capture, str(at.target), db.options, None)
    shutil.copytree(at.target, at.other)
    lsmkv.backup(at.other, at.target)
    assert read(at.target) == {}


@pytest.mark.parametrize("how", ["in the log", "in tables", "killed"])
def test_a_backup_that_was_written_to_is_refused_and_left_alone(at: Places, how: str) -> None:
    expected = filled(at.store, 30)
    lsmkv.backup(at.store, at.target)
    if how == "killed":
        with process(SCRIPT, at.target, 1) as writer:
            writer.wait(WAIT_S)
        expected |= {b"%08d" % 0: b"v" * 40}
    else:
        with open_small(at.target) as copy:
            copy[b"own"] = expected[b"own"] = b"write"
            if how == "in tables":
                copy.flush()
    with pytest.raises(FileExistsError, match="was written to since"):
        lsmkv.backup(at.store, at.target)
    assert contents(at.target) == expected


def test_a_backup_is_itself_backed_up_and_destroyed(at: Places) -> None:
    expected = filled(at.store)
    lsmkv.backup(at.store, at.target)
    lsmkv.backup(at.target, at.other)
    lsmkv.destroy(at.target)
    assert not at.target.exists()
    assert read(at.other) == expected


# --- refusals ---


def test_another_store_is_refused(at: Places, tmp_path: Path) -> None:
    filled(at.store)
    filled(at.other, 3000)
    expected = contents(at.store)
    lsmkv.backup(at.store, at.target)
    with pytest.raises(ValueError, match="backup of another store"):
        lsmkv.backup(at.other, at.target)
    assert read(at.target) == expected


def test_a_larger_backup_of_another_store_is_not_called_newer(at: Places) -> None:
    filled(at.store, 3000)
    lsmkv.backup(at.store, at.target)
    with open_small(at.other):
        pass
    with pytest.raises(ValueError, match="backup of another store"):
        lsmkv.backup(at.other, at.target)


def test_a_store_made_anew_in_the_place_of_one_does_not_replace_its_backup(at: Places) -> None:
    expected = filled(at.store, 30)
    lsmkv.backup(at.store, at.target)
    lsmkv.destroy(at.store)
    filled(at.store, 3000)
    with pytest.raises(ValueError, match="backup of another store"):
        lsmkv.backup(at.store, at.target)
    assert read(at.target) == expected


def test_a_store_that_went_another_way_is_refused(at: Places) -> None:
    filled(at.store)
    shutil.copytree(at.store, at.other)
    for path, value in ((at.store, b"here"), (at.other, b"gone")):
        with open_small(path) as db:
            fill(db, range(1000, 1040), value=value)
            db.flush()
    lsmkv.backup(at.store, at.target)
    expected = contents(at.store)
    with pytest.raises((ValueError, lsmkv.CorruptionError)):
        lsmkv.backup(at.other, at.target)
    assert read(at.target) == expected


def test_a_table_with_the_same_record_and_other_values_is_refused(
    at: Places, tmp_path: Path
) -> None:
    for path, value in ((at.store, b"here"), (at.other, b"gone")):
        with open_small(path, filter_policy="none") as db:
            db.update({b"%03d" % number: value for number in range(50)})
            db.flush()
    lsmkv.backup(at.store, at.target)
    shutil.copytree(at.store, tmp_path / "forged")
    (table,) = at.other.glob("*.sst")
    shutil.copy(table, tmp_path / "forged" / table.name)
    with pytest.raises(lsmkv.CorruptionError, match="other bytes than the source's"):
        lsmkv.backup(tmp_path / "forged", at.target)
    assert read(at.target) == {b"%03d" % number: b"here" for number in range(50)}


def test_a_store_that_is_no_backup_is_refused(at: Places) -> None:
    filled(at.store)
    filled(at.other)
    with open_small(at.store) as db:
        db.checkpoint(at.target)
        for target in (at.target, at.other):
            before = sorted(os.listdir(target))
            with pytest.raises(FileExistsError, match="is no backup"):
                lsmkv.backup(db, target)
            assert sorted(os.listdir(target)) == before


@pytest.mark.parametrize(
    ("source", "error"), [("nowhere", lsmkv.NotAStoreError), ("s3://b/p", ValueError)]
)
def test_a_source_that_is_no_store_is_refused(at: Places, source: str, error: Any) -> None:
    with pytest.raises(error):
        lsmkv.backup(at.store.parent / source if "://" not in source else source, at.target)
    assert not at.target.exists()


@pytest.mark.parametrize(
    ("format", "error"),
    [(FORMAT + 1, lsmkv.UnsupportedFormatError), (FORMAT, lsmkv.CorruptionError)],
)
def test_a_record_of_another_form_is_reported(at: Places, format: int, error: Any) -> None:
    filled(at.store, 30)
    lsmkv.backup(at.store, at.target)
    line = json.dumps({"format": format, "news": 1}).encode()
    (at.target / BACKUP).write_bytes(b"%b\n%b\n" % (line, content_checksum(line).encode()))
    with pytest.raises(error):
        lsmkv.backup(at.store, at.target)
