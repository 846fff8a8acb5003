"""A live page shows the counters of the program that writes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import lsmkv
from lsmkv import counters
from lsmkv.explore import messages
from lsmkv.explore.exploration import Exploration
from lsmkv.explore.program import ProgramReader


def found(reader: ProgramReader) -> messages.Program:
    program = reader.now()
    assert program is not None
    return program


def test_the_pulse_has_what_the_program_counts_not_the_page(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db") as db:
        db[b"a"] = b""
        db.flush()
        for _ in range(3):
            db.get(b"a")
        with Exploration(str(tmp_path / "db"), is_live=True) as exploration:
            assert exploration.pulse().program is None
            with counters.publish(db):
                program = exploration.pulse().program
            assert program is not None
            assert (program.pid, program.stats["gets"], program.silent_s) == (os.getpid(), 3, None)
            assert exploration.pulse().program is None


def test_the_pulse_tells_what_filters_answered_by_level(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", error_rate=0.5) as db:
        db.bulk_load([(b"%04d" % number, b"") for number in range(1000)])
        for number in range(500):
            db.get(b"%04d!" % number)
        stats = db.stats()
        with counters.publish(db):
            program = found(ProgramReader(str(tmp_path / "db")))
    (level,) = program.levels
    counts = level.filter_negatives, level.false_positives
    assert counts == (stats.filter_negatives, stats.filter_false_positives) and min(counts) > 0
    (table,) = program.tables
    assert (table.filter_negatives, table.false_positives) == counts


def test_two_publications_make_a_rate(tmp_path: Path) -> None:
    reader = ProgramReader(str(tmp_path / "db"))
    with lsmkv.open(tmp_path / "db") as db:
        with counters.publish(db, interval_s=60):
            assert found(reader).per_second == {}
            time.sleep(0.01)
            db[b"a"] = b""
        with counters.publish(db, interval_s=60):
            assert found(reader).per_second["writes"] > 0


def test_a_program_that_was_killed_is_silent(tmp_path: Path) -> None:
    reader = ProgramReader(str(tmp_path / "db"))
    with lsmkv.open(tmp_path / "db") as db, counters.publish(db, interval_s=60) as path:
        assert found(reader).silent_s is None
        at_s = time.time() - 1000
        os.utime(path, (at_s, at_s))
        assert found(reader).silent_s in (1000, 1001)
        assert found(reader).per_second == {}


def test_hostile_content_is_a_problem_in_the_pulse(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db"):
        pass
    Path(counters.path_beside(tmp_path / "db")).write_text('{"format": "<b>"}')
    with Exploration(str(tmp_path / "db"), is_live=True) as exploration:
        program = exploration.pulse().program
    assert program is not None and program.problem is not None
    assert "is no file of counters" in program.problem and len(program.problem) <= 304


def test_counters_with_unknown_names_are_left_out(tmp_path: Path) -> None:
    Path(counters.path_beside(tmp_path / "db")).write_text(
        '{"format":1,"pid":1,"published_at_s":1,"interval_s":1,"tables":[],"levels":[],'
        '"stats":{"gets":1,"constructor":2,"__proto__":3}}'
    )
    assert found(ProgramReader(str(tmp_path / "db"))).stats == {"gets": 1}


@pytest.mark.parametrize("url", ["s3://bucket/db", "file:///nowhere"])
def test_a_published_store_has_no_program(url: str) -> None:
    assert ProgramReader(url).now() is None
