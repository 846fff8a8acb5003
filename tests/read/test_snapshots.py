"""Snapshots: the versions that they keep, also of a key whose versions fill several blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import BACKGROUNDS, fill, number_key, open_small

import lsmkv
from kinds_of_mappings import MAPPING_READS
from lsmkv import DB, ClosedError, Snapshot
from lsmkv.layers.peers import own_names
from table_files import first_key, last_key


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


# Versions that compaction keeps


# Closing


def test_every_public_method_is_tried_on_a_closed_snapshot(db: DB) -> None:
    snapshot = db.snapshot()
    snapshot.close()
    uses: dict[str, Callable[[], object]] = {
        "expires_at": lambda: snapshot.expires_at(b"k"),
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


Held = list[tuple[lsmkv.Snapshot, dict[bytes, bytes]]]

FILTERS: dict[str, dict[str, Any]] = {
    "per block": {},
    "per table": {"filter_granularity": "table"},
    "none": {"filter_policy": "none"},
    "off": {"filter_residency": "off"},
    "for ranges": {"filter_policy": "grafite"},
    "that err and learn": {"adaptive_filters": True, "error_rate": 0.5},
}


@pytest.fixture(params=FILTERS)
def overwritten(request: pytest.FixtureRequest, path: str) -> Iterator[tuple[DB, Held]]:
    """A key with 60 versions, and a snapshot of each.

    Its versions fill dozens of blocks, between neighbours.
    """
    held: Held = []
    contents: dict[bytes, bytes] = {}
    filters = FILTERS[request.param]
    with open_small(
        path, write_buffer_size_bytes=1 << 20, table_size_bytes=1 << 20, **filters
    ) as db:
        for version in range(60):
            for key in (b"j%02d" % version, b"k"):
                contents[key] = db[key] = b"%d:" % version + bytes(200)
            if version % 7 == 3:
                db.delete(b"k")
                del contents[b"k"]
            contents[b"l%02d" % version] = db[b"l%02d" % version] = b"after"
            held.append((db.snapshot(), dict(contents)))
        yield db, held


def within(
    contents: dict[bytes, bytes], wanted: dict[str, bytes], reverse: bool
) -> list[tuple[bytes, bytes]]:
    start, stop = wanted.get("start", b""), wanted.get("stop", b"\xff")
    prefix = wanted.get("prefix", b"")
    found = [
        (key, value)
        for key, value in sorted(contents.items())
        if start <= key < stop and key.startswith(prefix)
    ]
    return found[::-1] if reverse else found


BOUNDS: list[dict[str, bytes]] = [
    {},
    {"start": b"k"},
    {"stop": b"k"},
    {"start": b"k", "stop": b"k\0"},
    {"prefix": b"k"},
    {"start": b"j59!", "stop": b"k"},
    {"start": b"k\0", "stop": b"l"},
]
ASKED = [b"j00", b"j31", b"j59", b"j59!", b"k", b"k\0", b"l00", b"l59", b"a", b"z"]


@pytest.mark.parametrize("upkeep", ["memtable", "flush", "compact"])
def test_each_snapshot_finds_its_version(overwritten: tuple[DB, Held], upkeep: str) -> None:
    db, held = overwritten
    if upkeep == "flush":
        db.flush()
    elif upkeep == "compact":
        db.compact_range()
    for view, contents in (*held, (db, held[-1][1])):
        expected = [contents.get(key) for key in ASKED]
        assert [view.get(key) for key in ASKED] == view.multi_get(ASKED) == expected
        for bounds in BOUNDS:
            for reverse in (False, True):
                found = list(view.items(**bounds, reverse=reverse))
                assert found == within(contents, bounds, reverse)
    assert db.verify().ok


def test_the_versions_of_these_tests_fill_several_blocks(overwritten: tuple[DB, Held]) -> None:
    db, _ = overwritten
    db.flush()
    (table,) = db._state.require_open().version.tables()
    shared = [
        number
        for number in range(1, table.index.block_count)
        if first_key(table, number) == last_key(table, number - 1) == b"k"
    ]
    assert len(shared) > 10
    assert {table.index.separator(number) for number in shared} == {b"k"}
    (shown,) = db.tables()
    assert shown.may_contain(b"k")


def test_the_present_version_is_found_and_explained_among_many(
    overwritten: tuple[DB, Held],
) -> None:
    db, held = overwritten
    for value in (b"newest", None):
        if value is None:
            db.delete(b"k")
        else:
            db[b"k"] = value
        db.flush()
        assert db.get(b"k") == dict(db).get(b"k") == value
        for compacted in range(2):
            explained = db.explain(b"k")
            assert (explained.outcome, explained.value) == ("found" if value else "deleted", value)
            if not compacted:
                db.compact_range()
    assert db.explain(b"k!").outcome == "absent"
    assert held[0][0].get(b"k") == held[0][1][b"k"]
