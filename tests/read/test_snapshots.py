from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import BACKGROUNDS, fill, number_key, open_small

from kinds_of_mappings import MAPPING_READS
from lsmkv import DB, ClosedError, Snapshot
from lsmkv.layers.peers import own_names

Contents = dict[bytes, bytes]


def stored_entries(db: DB) -> int:
    """Entries in the tables, old versions and deletions included."""
    return db.inspect().entry_count


@pytest.fixture(
    params=[BACKGROUNDS[0], pytest.param(BACKGROUNDS[1], marks=pytest.mark.slow)],
    ids=lambda options: str(options["background"]),
)
def background(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Threads; in slow tests also helper processes, whose tables are read in the same way."""
    options: dict[str, Any] = request.param
    return options


@pytest.fixture
def db(path: str, background: dict[str, Any]) -> Iterator[DB]:
    with open_small(path, **background) as opened:
        yield opened


def test_every_snapshot_has_its_own_past(db: DB) -> None:
    snapshots = []
    for version in range(10):
        db[b"k"] = b"%d" % version
        snapshots.append(db.snapshot())
        if version % 3 == 0:
            db.flush()
    db.compact_range()
    assert [snapshot[b"k"] for snapshot in snapshots] == [b"%d" % version for version in range(10)]
    for snapshot in snapshots:
        snapshot.close()


def test_sequence_number_is_that_of_the_last_write(db: DB) -> None:
    db[b"a"] = b"1"
    db[b"b"] = b"2"
    with db.snapshot() as snapshot:
        db[b"c"] = b"3"
        assert snapshot.sequence_number == 2


# Versions that compaction keeps


def test_compaction_keeps_both_versions_while_a_snapshot_needs_the_old_one(db: DB) -> None:
    fill(db, range(100), seed=1)
    with db.snapshot():
        fill(db, range(100), seed=2)
        db.compact_range()
        assert stored_entries(db) == 200


def test_compaction_drops_old_versions_once_the_snapshot_is_released(db: DB) -> None:
    fill(db, range(100), seed=1)
    with db.snapshot():
        fill(db, range(100), seed=2)
        db.compact_range()
    fill(db, range(1))
    db.compact_range()
    assert stored_entries(db) == 100


def test_compaction_drops_versions_between_snapshots(db: DB) -> None:
    db[b"k"] = b"1"
    with db.snapshot() as first:
        for value in (b"2", b"3", b"4"):
            db[b"k"] = value
        with db.snapshot() as second:
            db[b"k"] = b"5"
            db.compact_range()
            assert stored_entries(db) == 3
            assert (first[b"k"], second[b"k"], db[b"k"]) == (b"1", b"4", b"5")


def test_compaction_keeps_a_deletion_for_older_snapshots(db: DB) -> None:
    fill(db, range(100))
    with db.snapshot() as snapshot:
        db.clear()
        db.compact_range()
        assert stored_entries(db) == 200
        assert sum(table.tombstone_count for table in db.inspect().tables()) == 100
        assert len(snapshot) == 100
    db.compact_range()
    assert stored_entries(db) == 0
    assert list(db.inspect().tables()) == []


def test_compaction_without_snapshots_drops_deletions(db: DB) -> None:
    fill(db, range(100))
    db.clear()
    db.compact_range()
    assert stored_entries(db) == 0


def test_a_flush_writes_only_versions_that_somebody_sees(db: DB) -> None:
    db[b"k"] = b"1"
    with db.snapshot():
        db[b"k"] = b"2"
    db[b"k"] = b"3"
    with db.snapshot() as snapshot:
        db[b"k"] = b"4"
        db.flush()
        assert stored_entries(db) == 2
        assert snapshot[b"k"] == b"3"


def test_a_released_snapshot_no_longer_makes_writes_keep_old_versions(db: DB) -> None:
    db[b"k"] = b"1"
    db.snapshot().close()
    db[b"k"] = b"2"
    assert db.memory_usage().snapshot_versions == 0


def test_a_dropped_snapshot_is_released(db: DB) -> None:
    db[b"k"] = b"1"
    snapshot = db.snapshot()
    del snapshot
    gc.collect()
    db[b"k"] = b"2"
    assert db.memory_usage().snapshot_versions == 0


# Closing


def test_every_public_method_is_tried_on_a_closed_snapshot(db: DB) -> None:
    snapshot = db.snapshot()
    snapshot.close()
    uses: dict[str, Callable[[], object]] = {
        "prefixed": lambda: snapshot.prefixed(b"k"),
        "sequence_number": lambda: snapshot.sequence_number,
        "with": snapshot.__enter__,
    }
    for use in uses.values():
        with pytest.raises(ClosedError, match="snapshot is closed"):
            use()
    public = {name for name in own_names(Snapshot, dir(Snapshot)) if not name.startswith("_")}
    assert public <= set(uses) | set(MAPPING_READS) | {"close", "closed"}


def test_closing_a_snapshot_again_does_nothing(db: DB) -> None:
    with db.snapshot() as first, db.snapshot() as second:
        first.close()
        first.close()
        assert (first.closed, second.closed) == (True, False)
        db[b"k"] = b"v"
        assert not second


# Snapshots of readers


@pytest.mark.parametrize("merge", [False, True])
def test_a_snapshot_of_a_reader_keeps_its_past_through_refresh(path: str, merge: bool) -> None:
    with open_small(path) as writer:
        contents = fill(writer, range(100))
        writer.flush()
        with open_small(path, read_only=True) as reader, reader.snapshot() as snapshot:
            keys, items = snapshot.keys(), snapshot.items()
            fill(writer, range(50), value=b"changed")
            writer.delete(number_key(60))
            writer[b"new"] = b"v"
            if merge:
                writer.compact_range()
            reader.refresh()
            assert reader[b"new"] == b"v"
            assert dict(snapshot) == contents
            assert snapshot.multi_get(list(contents)) == list(contents.values())
            assert [key in keys for key in (b"new", number_key(60))] == [False, True]
            assert (number_key(0), contents[number_key(0)]) in items
            with snapshot.cursor() as cursor:
                assert cursor.seek(b"n") is False
