"""Verification: every damage is found, with its place, and hides no other."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import lsmkv
from damage import (
    cut,
    files,
    flip,
    footer_of,
    forge_table,
    open_table,
    sections,
    unloaded,
    write_table,
)
from log_files import written_bytes
from lsmkv.encoding.expiry import Expiring
from lsmkv.inspection.table_check import check_table
from lsmkv.inspection.verify import VerifyReport, verify_store
from lsmkv.memtable.memtable import Memtable
from lsmkv.options import Options
from lsmkv.read.view import SuperVersion
from lsmkv.sstable.format import TableExpiry, TableFormat
from lsmkv.storage.storage import Storage
from lsmkv.tree.levels import Levels
from lsmkv.tree.version import Run, Version
from lsmkv.tree.version_set import table_format
from table_files import Entry
from time_limits import join

KEYS = [b"key%04d" % number for number in range(300)]


def _form(**changes: object) -> TableFormat:
    return table_format(Options(block_size_bytes=512, **changes), 0.01)  # type: ignore[arg-type]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[lsmkv.DB]:
    """A store with two tables of several blocks, and a log."""
    with lsmkv.open(tmp_path / "db", block_size_bytes=512) as db:
        for half in (KEYS[::2], KEYS[1::2]):
            for key in half:
                db.put(key, b"value of " + key)
            db.delete(half[7])
            db.flush()
        for key in KEYS[:10]:
            db.put(key, b"newer")
        db.wait_until_settled()
        yield db


def _tables(db: lsmkv.DB) -> list[Path]:
    return files(Path(db.path), ".sst")


def _log(db: lsmkv.DB) -> Path:
    return files(Path(db.path), ".log")[-1]


def test_everything_checked_is_counted(db: lsmkv.DB) -> None:
    report = db.verify()
    info = db.inspect()
    assert report.ok and report.damaged_block_count == report.torn_bytes == 0
    assert str(report).startswith("ok: 2 tables")
    assert report.table_count == 2
    assert report.block_count == sum(table.block_count for table in info.tables())
    assert report.entry_count == info.entry_count == 299  # one deletion hides no value
    assert (report.log_count, report.log_record_count) == (1, 10)


def test_progress_counts_up_to_all_blocks(db: lsmkv.DB) -> None:
    seen: list[tuple[int, int]] = []
    report = db.verify(lambda done, total: seen.append((done, total)))
    total = report.block_count
    assert seen == [(done, total) for done in range(1, total + 1)]


@pytest.mark.parametrize("part", ["payload", "block filter", "trailer"])
def test_damage_in_a_block_is_reported_at_the_block(db: lsmkv.DB, part: str) -> None:
    path = _tables(db)[0]
    start, stop = sections(path)[part]
    block_start = sections(path)["payload"][0]
    flip(path, (start + stop) // 2)
    report = db.verify()
    assert [(problem.path, problem.offset) for problem in report.problems] == [
        (str(path), block_start)
    ]
    assert report.damaged_block_count == 1


def test_damage_to_the_second_copy_of_filters_blames_no_block(db: lsmkv.DB) -> None:
    path = _tables(db)[0]
    start, stop = sections(path)["filters"]
    flip(path, (start + stop) // 2)
    report = db.verify()
    assert [(problem.path, problem.offset) for problem in report.problems] == [(str(path), start)]
    assert report.damaged_block_count == 0
    assert report.entry_count == 299


@pytest.mark.parametrize("part", ["filters", "index", "properties", "footer"])
def test_damage_behind_the_blocks_is_reported_though_the_store_holds_it_in_memory(
    db: lsmkv.DB, part: str
) -> None:
    path = _tables(db)[0]
    start, stop = sections(path)[part]
    flip(path, (start + stop) // 2)
    report = db.verify()
    assert not report.ok
    assert {problem.path for problem in report.problems} == {str(path)}
    assert all(problem.offset is not None for problem in report.problems)
    assert len(set(report.problems)) == len(report.problems)


def test_damage_in_a_dictionary_is_reported_where_it_starts(tmp_path: Path) -> None:
    chooser = random.Random(7)
    words = [b"%032x" % chooser.getrandbits(128) for _ in range(20)]
    with lsmkv.open(
        tmp_path / "db", block_size_bytes=512, compression_dictionary_size_bytes=1024
    ) as db:
        for key in KEYS * 10:
            db.put(key + b"%d" % chooser.randrange(10), b" ".join(chooser.choices(words, k=3)))
        db.flush()
        path = _tables(db)[0]
        start, stop = sections(path)["dictionary"]
        flip(path, (start + stop) // 2)
        report = db.verify()
        assert [problem.offset for problem in report.problems] == [start]


def test_verifying_goes_on_after_damage(db: lsmkv.DB) -> None:
    for path in _tables(db):
        flip(path, 3)
        flip(path, sections(path)["payload"][0] + 3)
    flip(_log(db), 70)
    report = db.verify()
    assert report.damaged_block_count == 4
    assert len(report.problems) >= 4
    info = db.inspect()
    whole = sum(table.entry_count for table in info.tables())
    assert 0 < report.entry_count < whole


def test_tables_that_a_writer_has_replaced_are_not_missed(db: lsmkv.DB) -> None:
    with lsmkv.open(db.path, read_only=True) as reader:
        before = _tables(db)
        db.compact_range()
        db.close()
        assert not set(before) & set(_tables(db))
        report = reader.verify()
        assert report.ok
        assert report.table_count == len(before)


def test_a_store_that_is_written_to_meanwhile_is_ok(tmp_path: Path) -> None:
    chooser = random.Random(5)
    stop = threading.Event()
    with lsmkv.open(
        tmp_path / "db",
        write_buffer_size_bytes=4096,
        table_size_bytes=4096,
        level1_size_bytes=8192,
        level0_compaction_trigger=2,
    ) as db:

        def write() -> None:
            while not stop.is_set():
                db.put(b"%04d" % chooser.randrange(2000), b"x" * 50)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            while db.stats().compactions < 10:
                assert writer.is_alive(), "a put failed"
                report = db.verify()
                assert report.ok, str(report)
        finally:
            stop.set()
            join(writer)


def test_damage_to_synced_log_records_is_reported_with_its_offset(db: lsmkv.DB) -> None:
    db.put(b"a", b"1", sync=True)
    end = written_bytes(_log(db))
    db.put(b"b", b"2", sync=True)  # preceded by a mark that the first is on disk
    flip(_log(db), end - 1)
    (problem,) = db.verify().problems
    assert problem.path == str(_log(db))
    assert problem.offset is not None and problem.offset < end


def test_a_log_cut_short_inside_its_header_is_reported(db: lsmkv.DB) -> None:
    path = _log(db)
    cut(path, 30)
    (problem,) = db.verify().problems
    assert (problem.path, problem.reason) == (str(path), "the log is cut short inside its header")


def test_a_torn_end_of_a_log_is_counted_and_no_problem(db: lsmkv.DB) -> None:
    end = written_bytes(_log(db))
    with _log(db).open("r+b") as log:
        log.seek(end)
        log.write(b"half a rec")
    report = db.verify()
    assert report.ok
    assert report.torn_bytes == 10


def test_stated_properties_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "000001.sst"
    block = [(b"a", b"1", 7), (b"b", None, 8), (b"c", b"3", 9)]
    for name, wrong in (
        ("tombstone_count", 0),
        ("smallest_seq", 6),
        ("largest_seq", 8),
        ("has_versions", True),
        ("raw_bytes", 1),
        ("filter_bytes", 0),
    ):
        forge_table(path, [block], properties={name: wrong})
        problems = check_table(open_table(path)).problems
        assert [name in problem.reason for problem in problems] == [True]


@pytest.mark.parametrize(
    "wrong",
    [None, (2, 50, 60, 60), (3, 49, 60, 70), (3, 50, 70, 70), (3, 50, None, 70), (3, 50, 60, 71)],
)
def test_a_stated_expiry_is_checked(
    tmp_path: Path, wrong: tuple[int, int, int | None, int] | None
) -> None:
    path = tmp_path / "000001.sst"
    dues = enumerate((50, 60, 70), start=1)
    block: list[Entry] = [(b"%d" % seq, Expiring(b"", due_s), seq) for seq, due_s in dues]
    forge_table(path, [block])
    assert check_table(open_table(path)).problems == ()
    forge_table(path, [block], properties={"expiry": wrong and TableExpiry(*wrong)})
    (problem,) = check_table(open_table(path)).problems
    assert "property expiry of a table is wrong" in problem.reason
    assert (problem.path, problem.offset) == (str(path), footer_of(path).properties_offset)


@pytest.mark.parametrize("name", ["entry_count", "block_count"])
def test_properties_that_the_index_contradicts_are_reported(tmp_path: Path, name: str) -> None:
    path = tmp_path / "000001.sst"
    forge_table(path, [[(b"a", b"1", 7), (b"b", b"2", 8)]], properties={name: 3})
    (problem,) = check_table(unloaded(path)).problems
    assert "of the index" in problem.reason or "index of" in problem.reason
    assert problem.offset == footer_of(path).index_offset


@pytest.mark.parametrize(
    ("blocks", "options", "damaged"),
    [
        # The last key of the second is above the separator that follows.
        ([["a"], ["b" * 9 + "2"], ["b" * 9 + "1"], ["c"]], {}, (1,)),
        ([["a", "c", "b", "d"]], {}, (0,)),
        ([["a"], ["b"]], {"empty_filters": True}, (0, 1)),
    ],
    ids=["blocks out of order", "entries out of order", "filters that deny their keys"],
)
def test_blocks_that_no_writer_makes_are_reported(
    tmp_path: Path, blocks: list[list[str]], options: dict[str, Any], damaged: tuple[int, ...]
) -> None:
    path = tmp_path / "000001.sst"
    forge_table(path, [[(key.encode(), b"", 1) for key in block] for block in blocks], **options)
    assert check_table(open_table(path)).damaged == damaged


def test_versions_out_of_order_across_blocks_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "000001.sst"
    forge_table(path, [[(b"a", b"", 1)], [(b"a", b"", 2)]])
    assert check_table(open_table(path)).damaged == (1,)


LOSSES: Final[dict[str, Callable[[lsmkv.DB], Path]]] = {
    "a table": lambda db: _tables(db)[0],
    "a log": lambda db: _log(db),
    "CURRENT": lambda db: Path(db.path) / "CURRENT",
}


@pytest.mark.parametrize("what", LOSSES)
def test_a_missing_file_is_reported(db: lsmkv.DB, what: str) -> None:
    path = LOSSES[what](db)
    path.unlink()
    assert [problem.path for problem in db.verify().problems] == [str(path)]


@pytest.mark.parametrize(("name", "offset"), [("CURRENT", 10), ("MANIFEST-000002", 80)])
def test_damage_to_what_leads_to_the_tables_is_reported(
    db: lsmkv.DB, name: str, offset: int
) -> None:
    path = Path(db.path) / name
    flip(path, offset)
    assert [problem.path for problem in db.verify().problems] == [str(path)]


def test_tables_of_a_run_that_overlap_are_reported(tmp_path: Path) -> None:
    paths = [tmp_path / "000001.sst", tmp_path / "000002.sst"]
    tables = []
    for number, (path, keys) in enumerate(zip(paths, (KEYS[:20], KEYS[10:30]), strict=True), 1):
        meta = write_table(path, [(key, b"v", 5) for key in keys], _form(), number)
        tables.append(open_table(path, meta))
    version = Version(Levels(), {})
    version.runs = [Run(1, 0, tables)]
    with lsmkv.open(tmp_path / "db") as db:
        report = verify_store(Storage(), db.path, SuperVersion(Memtable(6, 1), (), version))
    assert [problem.path for problem in report.problems] == [str(paths[1])]


def test_verifying_changes_nothing(db: lsmkv.DB) -> None:
    before = {path.name: path.read_bytes() for path in Path(db.path).iterdir()}
    db.verify()
    assert {path.name: path.read_bytes() for path in Path(db.path).iterdir()} == before


def test_verifying_leaves_the_cache_alone(db: lsmkv.DB) -> None:
    before = db.stats()
    db.verify()
    delta = db.stats() - before
    assert (delta.block_cache_hits, delta.block_cache_misses) == (0, 0)


def _report(db: lsmkv.DB) -> VerifyReport:
    flip(_tables(db)[0], 3)
    return db.verify()


def test_the_report_is_json_safe(db: lsmkv.DB) -> None:
    report = _report(db)
    shown = json.loads(json.dumps(report.as_dict()))
    assert shown["ok"] is False
    assert shown["problems"][0]["offset"] == 0
    assert f"{_tables(db)[0]} at offset 0" in str(report)
