"""Repair with a manifest or CURRENT that is wrong, and of damaged and missing logs."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

import lsmkv
import outside_tables
from damage import cut, files, flip, write_table
from lsmkv.log.reader import read_log
from lsmkv.options import Options
from lsmkv.salvage.repair import repair
from lsmkv.storage.storage import Storage
from lsmkv.tree.version_set import table_format
from repair_stores import Content, build_store, content_of, lose_manifest, manifest_files


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def test_a_manifest_older_than_the_tables_is_not_used_without_current(
    store: Path, output: Path
) -> None:
    content = build_store(store)
    (manifest,) = manifest_files(store)
    first = read_log(Storage(), str(manifest), int(manifest.name[9:]), "manifest")
    assert first is not None
    second_record = list(first.records())[1][0]
    cut(manifest, second_record)
    (store / "CURRENT").unlink()
    report = repair(store, output)
    assert report.manifest is None
    assert content_of(output) == content


@pytest.mark.parametrize("style", ["leveled", "tiered", "lazy-leveled"])
@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))]
)
def test_without_a_manifest_a_compacted_store_keeps_its_newest_values(
    store: Path, output: Path, style: str, seed: int
) -> None:
    chooser = random.Random(seed)
    options = Options(
        block_size_bytes=256,
        compaction=style,  # type: ignore[arg-type]
        write_buffer_size_bytes=4096,
        table_size_bytes=4096,
        level1_size_bytes=8192,
        level0_compaction_trigger=2,
        size_ratio=3,
    )
    expected: Content = {}
    with lsmkv.open(store, options) as db:
        for _ in range(3000):
            key = b"%04d" % int(chooser.paretovariate(0.3) % 700)
            value = b"%d" % chooser.getrandbits(40)
            db.put(key, value)
            expected[key] = value
        db.wait_until_settled()
        assert len(db.inspect().levels) > 1
    lose_manifest(store)
    report = repair(store, output)
    assert report.is_complete
    assert content_of(output) == expected


def test_a_manifest_that_lost_its_last_edits_is_not_used(store: Path, output: Path) -> None:
    with lsmkv.open(store, level0_compaction_trigger=10) as db:
        for number in range(3):
            db[b"%d" % number] = b"v"
            db.flush()
        shorter = manifest_files(store)[0].read_bytes()
        db.compact_range()
        db[b"in"] = b"the log"
        db.sync()
        db.wait_until_settled()
        shutil.copytree(store, store.with_name("killed"))
    killed = store.with_name("killed")
    manifest_files(killed)[0].write_bytes(shorter)
    report = repair(killed, output)
    assert report.manifest is None
    assert content_of(output) == {b"0": b"v", b"1": b"v", b"2": b"v", b"in": b"the log"}


def test_the_manifest_of_another_store_is_not_used(
    store: Path, output: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    for path, value in ((store, b"own"), (other, b"another's")):
        with lsmkv.open(path) as db:
            db[b"a"] = value
            db.flush()
            db.wait_until_settled()  # the flushed log is gone, too
            if path == store:
                shutil.copytree(store, tmp_path / "killed")
    (own,) = (tmp_path / "killed").glob("MANIFEST-*")
    (others,) = other.glob("MANIFEST-*")
    own.write_bytes(others.read_bytes())
    report = repair(tmp_path / "killed", output)
    assert report.manifest is None
    assert any("of another store" in str(problem) for problem in report.problems)
    assert content_of(output) == {b"a": b"own"}


def test_tables_that_changed_places_do_not_make_the_manifest_another_stores(
    store: Path, output: Path
) -> None:
    with lsmkv.open(store, level0_compaction_trigger=10) as db:
        for key in (b"a", b"b"):
            db[key] = b"v"
            db.flush()
    one, two = sorted(store.glob("*.sst"))
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    report = repair(store, output)
    assert report.manifest is not None
    assert {(lost.first, lost.last) for lost in report.lost_ranges} == {(b"a", b"a"), (b"b", b"b")}


def test_without_a_manifest_each_key_gets_its_highest_sequence_number(
    store: Path, output: Path
) -> None:
    # Compaction can leave this: the deeper table 1 has the highest number, and the older "c".
    form = table_format(Options(), 0.01)
    store.mkdir()
    write_table(store / "000001.sst", [(b"c", b"old", 3), (b"d", b"1", 100)], form, 1)
    write_table(store / "000002.sst", [(b"c", b"new", 5), (b"e", b"2", 6)], form, 2)
    write_table(store / "000003.sst", [(b"a", b"3", 7), (b"f", None, 8)], form, 3)
    write_table(store / "000004.sst", [(b"e", b"4", 101), (b"f", b"0", 101)], form, 4)
    report = repair(store, output)
    assert report.tables_merged == 3
    assert content_of(output) == {b"a": b"3", b"c": b"new", b"d": b"1", b"e": b"4", b"f": b"0"}


def test_a_left_over_log_does_not_hide_newer_tables(store: Path, output: Path) -> None:
    with lsmkv.open(store) as db:
        db.put(b"key", b"old")
        (log,) = files(store, ".log")
        old = (log.name, log.read_bytes())
        db.flush()
        db.put(b"key", b"new")
        db.flush()
    (store / old[0]).write_bytes(old[1])
    lose_manifest(store)
    repair(store, output)
    assert content_of(output) == {b"key": b"new"}


@pytest.mark.parametrize("loss", ["current", "torn manifest"])
def test_a_table_that_an_unused_manifest_names_is_lost_if_it_is_gone(
    store: Path, output: Path, loss: str
) -> None:
    build_store(store)
    gone = files(store, ".sst")[0]
    gone.unlink()
    if loss == "current":
        (store / "CURRENT").unlink()
    else:
        with manifest_files(store)[-1].open("ab") as manifest:
            manifest.write(b"\x11" * 30)
    report = repair(store, output)
    assert report.manifest is None
    assert not report.is_complete
    assert report.tables_lost == 1
    assert [lost.table for lost in report.lost_ranges] == [int(gone.stem)]


def test_a_log_that_an_unused_manifest_notes_is_lost_if_it_is_gone(
    store: Path, output: Path
) -> None:
    build_store(store)
    (store / "CURRENT").unlink()
    files(store, ".log")[-1].unlink()
    report = repair(store, output)
    assert report.log_bytes_lost > 0
    assert not report.is_complete


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_current_that_is_no_file_is_repaired_in_place(store: Path, kind: str) -> None:
    content = build_store(store)
    current = store / "CURRENT"
    current.unlink()
    if kind == "pipe":
        os.mkfifo(current)
    else:
        current.symlink_to(store / "LOCK")
    repair(store, in_place=True)
    assert content_of(store) == content


def test_records_before_damage_in_a_log_are_kept(store: Path, output: Path) -> None:
    with lsmkv.open(store) as db:
        for number in range(20):
            db.put(b"%03d" % number, b"value", sync=True)
    (log,) = files(store, ".log")
    contents = read_log(Storage(), str(log), int(log.name[:6]), "log")
    assert contents is not None
    offsets, size = [offset for offset, _ in contents.records()], log.stat().st_size
    flip(log, offsets[12] + 10)
    report = repair(store, output)
    assert report.log_records_kept == report.log_operations_kept == 12
    assert report.log_bytes_lost == size - offsets[12]
    (problem,) = report.problems
    assert (problem.path, problem.offset) == (str(log), offsets[12])
    assert content_of(output) == {b"%03d" % number: b"value" for number in range(12)}


@pytest.mark.parametrize("kind", ["ingest", "flush"])
def test_a_table_whose_edit_the_manifest_lost_is_kept(
    store: Path, output: Path, tmp_path: Path, kind: str
) -> None:
    db = lsmkv.open(store)
    db.update({b"a": b"old", b"b": b"old"})
    db.flush()
    if kind == "ingest":
        db.ingest([outside_tables.write_table(tmp_path / "t", {b"a": b"new", b"c": b"new"})])
    else:
        db.update({b"a": b"new", b"c": b"new"})
        db.flush()
    db.wait_until_settled()  # no file is removed during the copy
    copy = tmp_path / "killed"  # as a process leaves it that was killed
    shutil.copytree(store, copy)
    db.close()
    (manifest,) = copy.glob("MANIFEST-*")
    os.truncate(manifest, manifest.stat().st_size - 5)
    report = repair(copy, output)
    assert content_of(output) == {b"a": b"new", b"b": b"old", b"c": b"new"}
    assert report.problems
