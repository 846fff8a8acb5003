"""Replayed lookups: what they count is what real lookups count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lsmkv
from lsmkv.inspection.wasted_reads import WastedReads, WastedReadsCount

KEYS = [b"key%04d" % number for number in range(0, 800, 2)]
ASKED = [b"key%04d" % number for number in range(-5, 805)]
SMALL: dict[str, Any] = {
    "block_size_bytes": 512,
    "compression": "none",
    "filter_policy": "bloom",
    "error_rate": 0.2,
    "compaction": "tiered",
    "level0_compaction_trigger": 9,
}


def _replayed(db: lsmkv.DB, keys: list[bytes], worst: int = 10) -> WastedReads:
    counted = WastedReadsCount()
    for key in keys:
        counted.add(db.explain(key))
    return counted.report(db.tables(), worst)


def _plain(db: lsmkv.DB) -> None:
    """Two runs with the same keys, and a memtable."""
    for value in (b"old", b"new"):
        db.update(dict.fromkeys(KEYS, value))
        db.flush()
    db.update({b"key0000": b"newest", b"key0801": b""})


def _deleted(db: lsmkv.DB) -> None:
    """Deletions above, in the same run, and in the memtable."""
    _plain(db)
    for key in KEYS[:50]:
        db.delete(key)
    db.flush()
    db.delete(KEYS[60])


def _range_deleted(db: lsmkv.DB) -> lsmkv.Snapshot:
    """Range deletes that hide tables, a memtable, and some entries of a table."""
    db._engine.writer.most_deletions = 10  # deletions of more keys are range deletes
    _plain(db)
    snapshot = db.snapshot()
    db.delete_range(start=b"key0100", stop=b"key0300")
    db.update(dict.fromkeys(KEYS[70:120], b"again"))
    db.compact_range()  # the hidden entries stay, for the snapshot
    db.update(dict.fromkeys(KEYS[250:300], b"hidden"))
    db.flush()
    db.delete_range(start=b"key0500", stop=b"key0550")
    db[b"key0600"] = b"later"
    db.flush()
    db[b"key0704"] = b"hidden"
    db.delete_range(start=b"key0700", stop=b"key0750")
    return snapshot


def _versions(db: lsmkv.DB) -> None:
    """A table of which several blocks hold versions of one key."""
    held = []
    for number in range(60):
        db[b"key0100"] = b"%d" % number * 40
        held.append(db.snapshot())
    db.update(dict.fromkeys(KEYS, b"value"))
    db.flush()
    for snapshot in held:
        snapshot.close()


def _expired(db: lsmkv.DB) -> None:
    """Entries that are due."""
    _plain(db)
    for key in KEYS[:50]:
        db.put(key, b"", expires_at=1)
    db.flush()


FORMS = pytest.mark.parametrize(
    "form",
    [
        {},
        {"filter_policy": "ribbon"},
        {"filter_policy": "grafite"},
        {"filter_policy": "none"},
        {"filter_granularity": "table"},
        {"filter_key": lsmkv.FixedPrefix(6)},
    ],
    ids=str,
)


@FORMS
@pytest.mark.parametrize("fill", [_plain, _deleted, _versions, _expired])
def test_reads_are_those_that_real_lookups_count(
    tmp_path: Path, form: dict[str, Any], fill: Callable[[lsmkv.DB], None]
) -> None:
    with lsmkv.open(tmp_path / "db", block_cache_size_bytes=0, **SMALL | form) as db:
        fill(db)
        found = _replayed(db, ASKED)
        before = db.stats()
        present = sum(db.get(key) is not None for key in ASKED)
        after = db.stats()
    negatives, wrong, right, unfiltered = (
        getattr(after, name) - getattr(before, name)
        for name in (
            "filter_negatives",
            "filter_false_positives",
            "filter_true_positives",
            "unfiltered_probes",
        )
    )
    assert (found.present, found.absent) == (present, len(ASKED) - present)
    # Where several blocks hold versions of a key, explain tells one of those that filters denied.
    assert found.avoided <= negatives if fill is _versions else found.avoided == negatives
    assert found.needed + found.wasted == wrong + right + unfiltered
    assert found.needed > 0
    if not unfiltered:
        assert (found.wasted, found.needed) == (wrong, right)


def test_what_range_deletes_hide_is_absent(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", **SMALL) as db:
        snapshot = _range_deleted(db)
        found = _replayed(db, ASKED)
        assert found.present == sum(db.get(key) is not None for key in ASKED)
        snapshot.close()


@pytest.fixture
def db(tmp_path: Path) -> Any:
    with lsmkv.open(tmp_path / "db", **SMALL) as db:
        _plain(db)
        yield db


def test_blocks_and_keys_are_those_that_explain_names(db: lsmkv.DB) -> None:
    found = _replayed(db, ASKED, worst=1000)
    wasted: dict[tuple[int, int, int, int], int] = {}
    for key in ASKED:
        for step in db.explain(key).runs:
            if step.outcome == "absent":
                place = (step.level, step.run, step.table or 0, step.blocks[0].number)
                wasted[place] = wasted.get(place, 0) + 1
    assert {(b.level, b.run, b.table, b.block): b.wasted for b in found.blocks} == wasted
    assert {key.key: key.wasted for key in found.keys} == {
        key: times for key in ASKED if (times := db.explain(key).false_positives)
    }
    assert found.wasteful_blocks == len(wasted)


def test_a_block_is_told_with_its_span_and_the_rate_of_its_filter(db: lsmkv.DB) -> None:
    worst = _replayed(db, ASKED).blocks[0]
    (info,) = (info for info in db.blocks(worst.table) if info.number == worst.block)
    assert (worst.first_key, worst.last_key) == (info.first_key, info.last_key)
    assert worst.expected_rate == info.expected_rate
    assert worst.seen_rate == worst.wasted / (worst.wasted + worst.denied)


def test_a_filter_for_the_table_has_one_rate_for_all_blocks(tmp_path: Path) -> None:
    form = SMALL | {"filter_granularity": "table"}
    with lsmkv.open(tmp_path / "db", **form) as db:
        _plain(db)
        (rate,) = {block.expected_rate for block in _replayed(db, ASKED).blocks}
        assert rate == db.tables()[0].filter(0).expected_rate


def test_of_equals_come_the_newest_block_and_the_lowest_key(db: lsmkv.DB) -> None:
    found = _replayed(db, ASKED[::-1], worst=1000)
    places = [(-block.wasted, -block.run, block.block) for block in found.blocks]
    assert places == sorted(places) and len({place[1] for place in places}) == 2
    keys = [(-key.wasted, key.key) for key in found.keys]
    assert keys == sorted(keys)
    few = _replayed(db, ASKED[::-1], worst=3)
    assert (few.blocks, few.keys) == (found.blocks[:3], found.keys[:3])


def test_lookups_of_one_key_add_up(db: lsmkv.DB) -> None:
    key = _replayed(db, ASKED).keys[0]
    (again,) = _replayed(db, [key.key] * 5).keys
    assert (again.key, again.wasted) == (key.key, 5 * key.wasted)


def test_a_damaged_block_is_named(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", **SMALL) as db:
        _plain(db)
    for path in (tmp_path / "db").glob("*.sst"):
        data = bytearray(path.read_bytes())
        data[20] ^= 0xFF
        path.write_bytes(data)
    with (
        lsmkv.open(tmp_path / "db", read_only=True) as db,
        pytest.raises(lsmkv.CorruptionError, match=r"\.sst at offset 0"),
    ):
        _replayed(db, KEYS[1:])
