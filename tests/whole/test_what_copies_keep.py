"""Whatever makes a store of another keeps when entries are due, and what range deletes hide."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

import lsmkv
from damage import files, flip
from repair_stores import lose_manifest

DUE_S: Final = {b"%04d" % number: 9_000_000_000 + number for number in range(0, 600, 2)}


def _checkpoint(store: Path, target: Path) -> str:
    with lsmkv.open(store) as db:
        return db.checkpoint(target).path


def _backup(store: Path, target: Path) -> str:
    lsmkv.backup(store, target)
    return str(target)


def _publish(store: Path, target: Path) -> str:
    with lsmkv.open(store) as db:
        db.publish(f"file://{target}")
    return f"file://{target}"


def _repair(store: Path, target: Path) -> str:
    assert lsmkv.repair(store, target).manifest is not None
    return str(target)


def _repair_without_manifest(store: Path, target: Path) -> str:
    lose_manifest(store)
    assert lsmkv.repair(store, target).entries_lost == 0
    return str(target)


def _repair_without_footer(store: Path, target: Path) -> str:
    table = files(store, ".sst")[0]
    flip(table, table.stat().st_size - 1)
    report = lsmkv.repair(store, target)
    assert (report.tables_salvaged, report.entries_lost) == (1, 0)
    return str(target)


@pytest.mark.parametrize(
    "make",
    [_checkpoint, _backup, _publish, _repair_without_manifest, _repair_without_footer],
    ids=lambda make: make.__name__.strip("_"),
)
def test_entries_are_due_when_they_were(tmp_path: Path, make: Callable[[Path, Path], str]) -> None:
    store = tmp_path / "store"
    with lsmkv.open(store, block_size_bytes=512) as db:
        for number in range(600):
            key = b"%04d" % number
            db.put(key, b"value", expires_at=DUE_S.get(key))
            if number == 500:
                db.flush()
    with lsmkv.open(make(store, tmp_path / "target"), read_only=True) as made:
        assert dict(made) == {b"%04d" % number: b"value" for number in range(600)}
        assert {key: at_s for key in made if (at_s := made.expires_at(key))} == DUE_S
        expiry = made.inspect().expiry
        assert expiry is not None
        assert (expiry.count, expiry.earliest_s, expiry.latest_s) == (
            *(len(DUE_S), min(DUE_S.values()), max(DUE_S.values())),
        )
        assert made.verify().ok


@pytest.mark.parametrize(
    "make",
    [_checkpoint, _backup, _publish, _repair, _repair_without_manifest],
    ids=lambda make: make.__name__.strip("_"),
)
def test_what_range_deletes_hide_stays_hidden(
    tmp_path: Path, make: Callable[[Path, Path], str]
) -> None:
    store = tmp_path / "store"
    with lsmkv.open(store) as db:
        db.update((b"%04d" % number, b"value") for number in range(1000))
        db.flush()
        with db.snapshot():
            db.delete_range(b"0000", b"0300")  # for the manifest
            db.flush()
            db.delete_range(b"0500", b"0800")  # the log alone has it
            db[b"0600"] = b"newer"
    with lsmkv.open(make(store, tmp_path / "copy"), read_only=True) as copy:
        assert [int(key) for key in copy] == [*range(300, 500), 600, *range(800, 1000)]
