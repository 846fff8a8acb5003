"""Repair of damaged and missing logs: how many of their records are applied."""

from __future__ import annotations

from pathlib import Path

import pytest

import lsmkv
from damage import cut, files, flip
from log_files import written_bytes
from lsmkv.log.reader import read_log
from lsmkv.log.writer import LogWriter
from lsmkv.salvage.logs import salvage_logs
from lsmkv.salvage.repair import repair
from lsmkv.storage.storage import Storage
from repair_stores import content_of
from torture.fuzz.encoded import encode_batch


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "output"


def _logged(path: Path, count: int = 20) -> Path:
    """A closed store with all its writes in one log, each synced."""
    with lsmkv.open(path) as db:
        for number in range(count):
            db.put(b"%03d" % number, b"value", sync=True)
    (log,) = files(path, ".log")
    return log


def _record_offsets(log: Path) -> list[int]:
    contents = read_log(Storage(), str(log), int(log.name[:6]), "log")
    assert contents is not None
    return [offset for offset, _ in contents.records()]


def test_records_before_damage_in_a_log_are_kept(store: Path, output: Path) -> None:
    log = _logged(store)
    offsets = _record_offsets(log)
    size = log.stat().st_size
    flip(log, offsets[12] + 10)
    report = repair(store, output)
    assert report.log_records_kept == report.log_operations_kept == 12
    assert report.log_bytes_lost == size - offsets[12]
    (problem,) = report.problems
    assert (problem.path, problem.offset) == (str(log), offsets[12])
    assert content_of(output) == {b"%03d" % number: b"value" for number in range(12)}


def test_a_log_cut_short_after_it_was_closed_is_reported(store: Path, output: Path) -> None:
    log = _logged(store)
    offsets = _record_offsets(log)
    closed_end = log.stat().st_size - 17  # the mark that closes a log is written after that
    cut(log, offsets[12] + 5)
    report = repair(store, output)
    assert report.log_records_kept == 12
    assert report.log_bytes_lost == closed_end - offsets[12]
    assert str(log) in {problem.path for problem in report.problems}
    assert content_of(output) == {b"%03d" % number: b"value" for number in range(12)}


def test_a_torn_tail_is_dropped_and_reported(store: Path, output: Path) -> None:
    log = _logged(store)
    size = log.stat().st_size
    with log.open("ab") as file:
        file.write(b"half a rec")
    report = repair(store, output)
    assert report.log_records_kept == 20
    assert report.log_bytes_lost == 10
    assert [(problem.path, problem.offset) for problem in report.problems] == [(str(log), size)]


def test_the_report_says_that_a_torn_tail_is_left_out(store: Path, output: Path) -> None:
    with _logged(store).open("ab") as file:
        file.write(b"h")
    (problem,) = repair(store, output).problems
    assert problem.reason == "1 byte from the first damaged record on is left out"


def test_the_report_says_that_whole_records_after_damage_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "000001.log"
    writer = LogWriter.create(Storage(), str(path), 1, "log", None)
    for seq in range(1, 101):  # unsynced, so no mark vouches for more
        writer.append(encode_batch(seq, [(b"%03d" % seq, b"v" * 100)]))
    offsets = _record_offsets(path)
    flip(path, offsets[2] + 9)
    logs = salvage_logs(Storage(), str(tmp_path), [1], None)
    (problem,) = logs.problems
    assert (logs.record_count, problem.offset) == (2, offsets[2])
    left_out = f"{logs.lost_bytes:,} bytes from the first damaged record on are left out"
    assert problem.reason == left_out


def test_a_log_with_a_damaged_header_is_lost(store: Path, output: Path) -> None:
    log = _logged(store)
    flip(log, 20)
    report = repair(store, output)
    assert (report.log_records_kept, report.log_bytes_lost) == (0, log.stat().st_size)
    assert content_of(output) == {}


def test_a_missing_log_is_reported(store: Path, output: Path) -> None:
    log = _logged(store)
    log.unlink()
    report = repair(store, output)
    assert [problem.path for problem in report.problems] == [str(log)]
    assert content_of(output) == {}


def test_deletions_in_the_log_hide_what_tables_hold(store: Path, output: Path) -> None:
    with lsmkv.open(store) as db:
        db.put(b"a", b"1")
        db.put(b"b", b"2")
        db.flush()
        db.delete(b"a")
    repair(store, output)
    assert content_of(output) == {b"b": b"2"}


def _chain(directory: Path, logs: list[list[int]]) -> list[Path]:
    """Consecutive logs; the records of each write these sequence numbers."""
    storage = Storage()
    before: LogWriter | None = None
    paths = []
    for number, seqs in enumerate(logs, 1):
        path = directory / f"{number:06}.log"
        writer = LogWriter.create(storage, str(path), number, "log", before)
        for seq in seqs:
            writer.append(encode_batch(seq, [(b"%d" % seq, b"v")]))
            writer.sync_through(writer.end)
        paths.append(path)
        before = writer
    return paths


def test_logs_behind_a_damaged_one_are_not_applied(tmp_path: Path) -> None:
    paths = _chain(tmp_path, [[1, 2, 3], [4, 5, 6], [7]])
    flip(paths[1], _record_offsets(paths[1])[1] + 9)
    logs = salvage_logs(Storage(), str(tmp_path), [1, 2, 3], None)
    assert sorted(logs.newest) == [b"1", b"2", b"3", b"4"]
    assert logs.last_seq == 4
    damaged_at = logs.problems[0].offset
    assert damaged_at is not None
    assert logs.lost_bytes == written_bytes(paths[1]) - damaged_at + written_bytes(paths[2])


def test_logs_behind_one_that_lost_its_end_are_not_applied(tmp_path: Path) -> None:
    paths = _chain(tmp_path, [[1, 2, 3], [4]])
    whole, kept = written_bytes(paths[0]), _record_offsets(paths[0])[2]
    cut(paths[0], kept)
    logs = salvage_logs(Storage(), str(tmp_path), [1, 2], None)
    assert sorted(logs.newest) == [b"1", b"2"]
    assert logs.lost_bytes == whole - kept + written_bytes(paths[1])


def test_logs_before_a_missing_one_are_not_needed(tmp_path: Path) -> None:
    paths = _chain(tmp_path, [[1], [2], [3], [4]])
    paths[1].unlink()
    logs = salvage_logs(Storage(), str(tmp_path), [1, 3, 4], None)
    assert sorted(logs.newest) == [b"3", b"4"]
    assert logs.lost_bytes == 0


def test_an_abandoned_log_is_skipped(tmp_path: Path) -> None:
    storage = Storage()
    paths = _chain(tmp_path, [[1], [2], []])
    second = read_log(storage, str(paths[1]), 2, "log")
    assert second is not None
    before = LogWriter.reopen(storage, second)
    writer = LogWriter.create(storage, str(tmp_path / "000004.log"), 4, "log", before)
    writer.append(encode_batch(3, [(b"3", b"")]))
    logs = salvage_logs(storage, str(tmp_path), [1, 2, 3, 4], None)
    assert (sorted(logs.newest), logs.problems) == ([b"1", b"2", b"3"], [])


def test_the_new_log_does_not_follow_an_unused_one(tmp_path: Path) -> None:
    paths = _chain(tmp_path, [[1], []])
    writer = read_log(Storage(), str(paths[0]), 1, "log")
    assert writer is not None
    LogWriter.reopen(Storage(), writer).append(encode_batch(2, [(b"2", b"")]))
    logs = salvage_logs(Storage(), str(tmp_path), [1, 2], None)
    assert logs.last_log == (1, written_bytes(paths[0]))


def test_a_log_whose_making_was_cut_short_is_passed_over(tmp_path: Path) -> None:
    paths = _chain(tmp_path, [[1], [2]])
    (tmp_path / "000003.log").write_bytes(paths[0].read_bytes()[:30])
    logs = salvage_logs(Storage(), str(tmp_path), [1, 2, 3], None)
    assert (sorted(logs.newest), logs.problems, logs.lost_bytes) == ([b"1", b"2"], [], 0)


def test_the_log_that_the_store_was_closed_with_is_missed(store: Path, output: Path) -> None:
    log = _logged(store)
    cut(log, 30)
    report = repair(store, output)
    assert [problem.path for problem in report.problems] == [str(log)]
    assert report.log_bytes_lost > 30
    assert not report.is_complete


def test_a_record_with_the_wrong_sequence_number_ends_the_replay(tmp_path: Path) -> None:
    (path,) = _chain(tmp_path, [[1, 2, 4, 5]])
    logs = salvage_logs(Storage(), str(tmp_path), [1], None)
    assert logs.last_seq == 2
    assert logs.lost_bytes == written_bytes(path) - _record_offsets(path)[2]
