"""What range deletes do to memtables, tables and the manifest, and what brings nothing back."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import BACKGROUNDS, number_key, open_small

import lsmkv
from interruptions import at_each_place
from lsmkv.errors import CorruptionError
from lsmkv.log.reader import read_log
from lsmkv.log.writer import LogWriter
from lsmkv.storage.file_names import parse_file_name
from lsmkv.storage.storage import Storage
from torture.fuzz.encoded import encode_batch

KEYS = [number_key(number) for number in range(2000)]
LOW, HIGH = KEYS[500], KEYS[1500]
LEFT = KEYS[:500] + KEYS[1500:]
NEVER: dict[str, Any] = {"level0_compaction_trigger": 64, "level0_slowdown_trigger": 65}
NEVER |= {"level0_stop_trigger": 66, "level1_size_bytes": 1 << 30}


def erasing(path: Path, **options: Any) -> lsmkv.DB:
    """A store of which every range delete is one."""
    db = open_small(path, **options)
    db._engine.writer.most_deletions = 0
    return db


@pytest.fixture
def db(tmp_path: Path) -> Iterator[lsmkv.DB]:
    """All keys in tables, and a snapshot that keeps compactions from range deletes."""
    with erasing(tmp_path / "store") as db:
        for key in KEYS:
            db.put(key, b"old")
        db.compact_range()
        yield db


def live(db: lsmkv.DB) -> int:
    return db.inspect().range_delete_count


def entry_count(db: lsmkv.DB) -> int:
    return db.inspect().entry_count


# --- memtables ------------------------------------------------------------------------------------


def test_range_deletes_without_entries_share_a_memtable(db: lsmkv.DB) -> None:
    def log_number() -> int:
        return db._engine.state.require_open().memtable.log_number

    with db.snapshot():
        db.put(b"z", b"")
        before, numbers = log_number(), set[int]()
        for number in range(5):
            db.delete_range(KEYS[number], KEYS[number + 100])
            numbers.add(log_number())
        assert (len(numbers), before in numbers, live(db)) == (1, False, 5)
        db.put(KEYS[7], b"new")
        db.delete_range(KEYS[0], KEYS[50])
        assert KEYS[7] not in db
        assert log_number() not in numbers


def test_a_flush_of_a_range_delete_alone_writes_no_table(db: lsmkv.DB) -> None:
    files = len(list(Path(db.path).glob("*.sst")))
    with db.snapshot():
        db.delete_range(LOW, HIGH)
        db.flush()
        assert (len(list(Path(db.path).glob("*.sst"))), live(db)) == (files, 1)
        assert list(db) == LEFT


def test_a_range_delete_over_nothing_in_tables_leaves_no_trace(tmp_path: Path) -> None:
    with erasing(tmp_path) as db:
        db.put(b"a", b"")
        db.flush()
        db.delete_range(b"b", b"c")
        db.put(b"bb", b"")
        db.flush()
        assert (live(db), list(db)) == (0, [b"a", b"bb"])


def test_lookups_and_scans_of_what_was_erased_read_no_more_the_more_it_was(tmp_path: Path) -> None:
    reads = []
    for count in (200, 1800):
        with erasing(tmp_path / str(count), **NEVER) as db:
            for key in KEYS:
                db.put(key, b"v" * 50)
            db.flush()
            with db.snapshot():
                db.delete_range(KEYS[100], KEYS[100 + count])
                before = db.stats()
                assert list(db.keys(start=KEYS[100], stop=KEYS[100 + count])) == []
                assert next(iter(db.keys(start=KEYS[100]))) == KEYS[100 + count]
                assert next(iter(db.keys(stop=KEYS[100 + count], reverse=True))) == KEYS[99]
                assert db.multi_get(KEYS[100:110]) == [None] * 10
                reads.append((db.stats() - before).block_reads)
                assert db.popitem()[0] == KEYS[0]
    assert max(reads) <= min(reads) + 1


# --- what must not come back, and what must stay --------------------------------------------------

STEPS: dict[str, Callable[[lsmkv.DB], object]] = {
    "nothing": lambda db: None,
    "flush": lambda db: db.flush(),
    "compact": lambda db: db.compact_range(),
    "compact a part": lambda db: db.compact_range(KEYS[400], KEYS[600], force=True),
    "settle": lambda db: db.wait_until_settled(),
}


@pytest.mark.parametrize("before", STEPS)
@pytest.mark.parametrize("after", STEPS)
def test_a_newer_put_stays_and_an_older_one_does_not_come_back(
    tmp_path: Path, before: str, after: str
) -> None:
    check_steps(tmp_path, before, after)


def test_helper_processes_apply_range_deletes(tmp_path: Path) -> None:
    check_steps(tmp_path, "flush", "compact", **BACKGROUNDS[1])


def check_steps(tmp_path: Path, before: str, after: str, **background: Any) -> None:
    with erasing(tmp_path, **background) as db:
        for key in KEYS:
            db.put(key, b"old")
        STEPS[before](db)
        db.delete_range(LOW, HIGH)
        STEPS[after](db)
        db.put(KEYS[600], b"new")
        STEPS[before](db)
        db.delete(KEYS[1600])
        STEPS[after](db)
        expected = {key: b"old" for key in LEFT if key != KEYS[1600]} | {KEYS[600]: b"new"}
        assert dict(db) == expected
    for _ in range(2):
        with erasing(tmp_path, **background) as db:
            assert dict(db) == expected
            db.compact_range()
            assert dict(db) == expected
            assert (live(db), entry_count(db)) == (0, len(expected))


def test_entries_that_compactions_number_anew_are_not_hidden_by_an_older_range(
    tmp_path: Path,
) -> None:
    with erasing(tmp_path, **NEVER) as db:
        for key in KEYS:
            db.put(key, b"old")
        db.compact_range()
        with db.snapshot() as snapshot:  # keeps the range delete
            db.delete_range(LOW, HIGH)
            for key in KEYS[900:1100]:
                db.put(key, b"new")
            db.compact_range()
            assert live(db) == 1
            assert (len(db), len(snapshot)) == (1200, 2000)
        db.compact_range(KEYS[900], KEYS[901], force=True)
        db.compact_range()
        assert all(table.largest_seq == 0 for table in db.inspect().tables())
        assert (len(db), live(db), db[KEYS[950]]) == (1200, 0, b"new")


def test_versions_of_a_key_in_two_blocks_stay_together_where_a_range_ends(tmp_path: Path) -> None:
    with erasing(tmp_path, block_size_bytes=1024, fit_pages=False, **NEVER) as db:
        for key in KEYS[:20]:
            db.put(key, b"old")
        with db.snapshot():
            db.put(KEYS[19], b"new" * 400)  # ends the first block
            db.compact_range()
        (table,) = db.tables()
        assert table.block_count == 2
        db.delete_range(KEYS[2], KEYS[18])
        db.compact_range()
        assert list(db) == [KEYS[0], KEYS[1], KEYS[18], KEYS[19]]
        assert entry_count(db) == 4


# --- compactions ----------------------------------------------------------------------------------


def test_tables_that_are_erased_as_a_whole_are_dropped_unread(db: lsmkv.DB) -> None:
    db.delete_range(b"")
    before = db.stats()
    db.flush()
    db.wait_until_settled()
    done = db.stats() - before
    assert list(db.inspect().tables()) == []
    assert (done.block_reads, done.compaction_write_bytes, live(db)) == (0, 0, 0)


def test_a_table_of_which_half_is_erased_is_written_anew_in_its_place(tmp_path: Path) -> None:
    with erasing(tmp_path, table_size_bytes=1 << 20, **NEVER) as db:
        for key in KEYS:
            db.put(key, b"v" * 50)
        db.compact_range()
        places = [(level.number, run.number) for level in db.inspect().levels for run in level.runs]
        db.delete_range(KEYS[10], KEYS[1500])
        db.flush()
        db.wait_until_settled()
        assert (entry_count(db), live(db)) == (510, 0)
        levels = db.inspect().levels
        assert [(level.number, run.number) for level in levels for run in level.runs] == places


def test_more_than_32_ranges_are_applied_to_each_table_that_they_touch(tmp_path: Path) -> None:
    with erasing(tmp_path, table_size_bytes=1 << 20, **NEVER) as db:
        for key in KEYS:
            db.put(key, b"v" * 50)
        db.compact_range()
        for number in range(0, 1000, 31):
            db.delete_range(KEYS[number], KEYS[number + 1])
            db.flush()
            db.wait_until_settled()
        assert live(db) <= 32
        assert len(db) == 2000 - 33


# --- recovery and readers of other processes ------------------------------------------------------


def test_a_log_brings_range_deletes_back_and_may_go_on_with_more(tmp_path: Path) -> None:
    with erasing(tmp_path / "a") as db:
        for key in KEYS:
            db.put(key, b"old")
        db.flush()
        db.delete_range(LOW, KEYS[1000])
        with db.write_batch() as batch:
            batch.delete_range(KEYS[1000], HIGH)
            batch.put(KEYS[1200], b"new")
        db.wait_until_settled()
        shutil.copytree(db.path, tmp_path / "b")  # as if the process had been killed
        with lsmkv.open(tmp_path / "b", read_only=True) as reader:
            assert list(reader) == sorted([*LEFT, KEYS[1200]])
        (tmp_path / "b" / "LOCK").unlink()
        with erasing(tmp_path / "b") as again:
            assert list(again) == sorted([*LEFT, KEYS[1200]])
            again.delete_range(KEYS[1100], KEYS[1600])
        with erasing(tmp_path / "b") as again:
            assert list(again) == KEYS[:500] + KEYS[1600:]
            assert again.verify().ok


def records(path: Path, *batches: bytes) -> Path:
    """A new store whose log has these batches."""
    open_small(path).close()
    (log_path,) = path.glob("*.log")
    number = (parse_file_name(log_path.name) or ("", 0))[1]
    contents = read_log(Storage(), str(log_path), number, "log")
    assert contents is not None
    log = LogWriter.reopen(Storage(), contents)
    for batch in batches:
        log.append(batch)
    log.close()
    return log_path


@pytest.mark.parametrize(
    "batches",
    [
        (encode_batch(1, [(b"k", b"v")]), encode_batch(2, [], [(b"a", b"b")])),
        (encode_batch(1, [], [(b"b", b"a")]),),
        (encode_batch(1, [], [(b"a", b"b" * 70_000)]),),
        (encode_batch(1, [], [(b"a", b"b")]), encode_batch(1, [(b"k", b"v")])),
    ],
)
def test_a_range_delete_that_cannot_be_in_a_log_is_damage(
    tmp_path: Path, batches: tuple[bytes, ...]
) -> None:
    path = records(tmp_path / "store", *batches)
    with pytest.raises(CorruptionError) as caught:
        lsmkv.open(tmp_path / "store")
    assert caught.value.path == str(path)
    assert caught.value.offset is not None


def test_an_interrupted_range_delete_is_written_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    with erasing(tmp_path) as db:

        def fill() -> None:
            with db.write_batch() as batch:
                for key in KEYS[:30]:
                    batch.put(key, b"old")

        def erase() -> None:
            with db.write_batch(sync=True) as batch:
                batch.delete_range(KEYS[0], KEYS[30])
                batch.put(KEYS[3], b"new")

        def check() -> None:
            assert dict(db) in (dict.fromkeys(KEYS[:30], b"old"), {KEYS[3]: b"new"})
            fill()

        fill()
        assert at_each_place(erase, check, stride=7)
        expected = dict(db)
    with erasing(tmp_path) as db:
        assert dict(db) == expected


# --- what shows them ----------------------------------------------------------


def test_explain_and_inspect_tell_of_range_deletes(db: lsmkv.DB) -> None:
    with db.snapshot() as snapshot:
        db.delete_range(LOW, HIGH)
        number = snapshot.sequence_number + 1
        told = db.explain(KEYS[600])
        assert (told.outcome, told.range_delete, told.runs) == ("deleted", number, ())
        assert f"range delete {number}" in str(told)
        assert db.explain(KEYS[0]).range_delete is None
        assert "1 range delete" in str(db.inspect())
        db.put(KEYS[600], b"new")
        assert db.explain(KEYS[600]).outcome == "found"


def test_a_batch_deletes_what_came_into_its_empty_range_while_it_looked(tmp_path: Path) -> None:
    arriving: list[bytes] = []

    def clock() -> float:
        if arriving:  # the batch looks for the range's keys, and comes by one that is due
            store.put(arriving.pop(), b"")
        return 100.0

    with lsmkv.open(tmp_path / "db", clock=clock) as store:
        store.put(b"job/0", b"", expires_at=50)
        with store.write_batch() as batch:
            batch.delete_range(prefix=b"job/")
            batch.put(b"mark", b"1")
            arriving.append(b"job/1")
        assert arriving == []
        assert list(store) == [b"mark"]
