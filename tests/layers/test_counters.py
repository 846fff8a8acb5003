"""Counters of a program, published beside its store."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

import lsmkv
from lsmkv import counters
from threaded_stores import wait_until


def published(path: Path) -> counters.Counters:
    found = counters.read(path)
    assert found is not None
    return found


def write(path: Path, **changes: Any) -> None:
    whole = {
        "format": 1,
        "pid": 7,
        "published_at_s": 9.0,
        "interval_s": 1.0,
        "stats": {},
        "tables": [],
    }
    Path(counters.path_beside(path)).write_text(json.dumps(whole | changes))


def test_counters_stand_beside_the_store_while_the_block_runs(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db") as db:
        db[b"a"] = b""
        files = sorted(os.listdir(tmp_path / "db"))
        with counters.publish(db) as path:
            assert path == str(tmp_path / "db.counters.json")
            assert sorted(os.listdir(tmp_path)) == ["db", "db.counters.json"]
            assert sorted(os.listdir(tmp_path / "db")) == files
            found = published(tmp_path / "db")
            assert (found.pid, found.stats["writes"], found.is_old) == (os.getpid(), 1, False)
        assert os.listdir(tmp_path) == ["db"]
        assert counters.read(tmp_path / "db") is None


def test_they_are_published_anew(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db") as db, counters.publish(db, interval_s=0.1):
        db[b"a"] = b""
        wait_until(lambda: published(tmp_path / "db").stats["writes"] == 1)


def test_false_positives_are_told_by_table(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", error_rate=0.3) as db:
        db.update({b"%06d" % number: b"" for number in range(0, 2000, 2)})
        db.flush()
        for number in range(1, 1999, 2):
            db.get(b"%06d" % number)
        with counters.publish(db):
            (table,) = published(tmp_path / "db").tables
        (shown,) = db.tables()
        wasted = db.stats().filter_false_positives
    assert wasted > 100
    assert (table.table, table.level, table.false_positives) == (shown.number, 0, wasted)
    assert shown.false_positives == wasted


def test_what_filters_answer_is_told_by_level_and_table(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", error_rate=0.3, level0_compaction_trigger=10) as db:
        for step in (2, 4):
            db.update({b"%06d" % number: b"" for number in range(0, 2000, step)})
            db.compact_range() if step == 2 else db.flush()
        for number in range(1, 1990, 2):
            db.get(b"%06d" % number)
        with counters.publish(db):
            found = published(tmp_path / "db")
        tables, stats = list(db.tables()), db.stats()
    assert [(each.level, each.tables) for each in found.levels] == [
        (table.level, 1) for table in tables
    ]
    for name in ("false_positives", "filter_negatives"):
        by_table = {table.number: getattr(table, name) for table in tables}
        assert {each.table: getattr(each, name) for each in found.tables} == by_table
        assert [getattr(each, name) for each in found.levels] == list(by_table.values())
    assert sum(each.filter_negatives for each in found.levels) == stats.filter_negatives > 0


def test_a_file_of_one_s_own_choice(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db") as db, counters.publish(db, tmp_path / "mine.json"):
        assert (tmp_path / "mine.json").exists()
        assert counters.read(tmp_path / "db") is None


def test_a_closed_store_ends_the_publishing(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db") as db, counters.publish(db, interval_s=0.1):
        db.close()
    assert counters.read(tmp_path / "db") is None


def test_a_failure_after_the_first_publication_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "there").mkdir()
    named = tmp_path / "there" / "c.json"
    with lsmkv.open(tmp_path / "db") as db, counters.publish(db, named, interval_s=0.1):
        shutil.rmtree(tmp_path / "there")
        wait_until(lambda: "counters are not published" in caplog.text)
        time.sleep(0.3)
    assert caplog.text.count("counters are not published") == 1


def test_the_first_failure_is_the_caller_s(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db") as db, pytest.raises(FileNotFoundError):
        counters.publish(db, tmp_path / "nowhere" / "c.json").__enter__()


@pytest.mark.parametrize(
    ("interval_s", "error"),
    [(0.01, ValueError), (61, ValueError), ("1", TypeError), (True, TypeError)],
)
def test_wrong_intervals_are_refused(
    tmp_path: Path, interval_s: Any, error: type[Exception]
) -> None:
    with lsmkv.open(tmp_path / "db") as db, pytest.raises(error, match="interval_s"):
        counters.publish(db, interval_s=interval_s).__enter__()


def test_only_a_db_is_published() -> None:
    with pytest.raises(TypeError, match="not dict"):
        counters.publish({}).__enter__()  # type: ignore[arg-type]


def test_old_counters_are_called_old(tmp_path: Path) -> None:
    write(tmp_path / "db")
    assert not published(tmp_path / "db").is_old
    for at_s in (time.time() - 60, time.time() + 60):
        os.utime(counters.path_beside(tmp_path / "db"), (at_s, at_s))
        assert published(tmp_path / "db").is_old


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 2},
        {"pid": -1},
        {"pid": "7"},
        {"interval_s": 1e9},
        {"stats": {"<script>": 1}},
        {"stats": {"gets": "many"}},
        {"stats": {"gets": 1 << 70}},
        {"tables": [{"table": 1}]},
        {"more": 1},
    ],
)
def test_other_content_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    write(tmp_path / "db", **changes)
    with pytest.raises(ValueError, match="is no file of counters"):
        counters.read(tmp_path / "db")


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 100_000, b" " * 300_000])
def test_no_json_is_refused(tmp_path: Path, data: bytes) -> None:
    Path(counters.path_beside(tmp_path / "db")).write_bytes(data)
    with pytest.raises(ValueError, match="is no file of counters"):
        counters.read(tmp_path / "db")


def test_what_is_no_plain_file_is_not_read(tmp_path: Path) -> None:
    path = Path(counters.path_beside(tmp_path / "db"))
    os.mkfifo(path)
    with pytest.raises(ValueError, match="no plain file"):
        counters.read(tmp_path / "db")
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(ValueError, match="no plain file"):
        counters.read(tmp_path / "db")
    path.unlink()
    path.mkdir()
    with pytest.raises((ValueError, OSError)):
        counters.read(tmp_path / "db")


def test_a_link_to_the_store_has_the_same_counters(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "db")
    with lsmkv.open(tmp_path / "db") as db, counters.publish(db):
        assert published(tmp_path / "link").pid == os.getpid()
