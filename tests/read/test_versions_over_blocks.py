"""A key whose versions fill several blocks is read as of each snapshot, whatever filters there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from conftest import open_small

import lsmkv
from lsmkv import DB
from table_files import first_key, last_key

Contents = dict[bytes, bytes]
Held = list[tuple[lsmkv.Snapshot, Contents]]

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
    contents: Contents = {}
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
    contents: Contents, wanted: dict[str, bytes], reverse: bool
) -> list[tuple[bytes, bytes]]:
    """What a scan of a sorted dict gives."""
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
