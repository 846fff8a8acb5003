"""Neighbours in a run are merged: how many tables series of keys leave, and what is rewritten."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

import lsmkv
from lsmkv.compaction.picker import Compaction, PickState, pick
from lsmkv.engine.placement import places
from lsmkv.options import MIB, Options
from lsmkv.sstable.format import TableMeta
from lsmkv.tree.levels import Levels, PlacedTable
from made_trees import KIB, STYLES, table

# The table of 6,000 entries of 50 bytes at random; their log is twice that.
MINUTE_BYTES = 228 * KIB


@dataclass
class Store:
    """A tree that takes tables and runs what is picked; a merge makes one table of all bytes."""

    options: Options = Options()
    levels: Levels = Levels()
    state: PickState = field(default_factory=PickState)
    number: int = 0
    flushed_bytes: int = 0
    rewritten_bytes: int = 0
    most_tables: int = 0

    def flush(self, first: str, last: str, size_bytes: int, *, deletions: int = 0) -> None:
        self.number += 1
        meta = table(self.number, first, last, size_bytes=size_bytes, deletions=deletions)
        self.flushed_bytes += size_bytes
        self.change([PlacedTable(0, self.number, meta)], ())
        self.settle()

    def ingest(self, metas: list[TableMeta]) -> None:
        wanted = places(self.levels, self.options, metas)
        self.number = max(meta.number for meta in metas)
        added = [
            PlacedTable(level, self.number if run is None else run, meta)
            for meta, (level, run) in zip(metas, wanted, strict=True)
        ]
        self.change(added, ())
        self.settle()

    def settle(self) -> None:
        for _ in range(1000):
            found = pick(self.levels, self.options, self.state)
            if found is None:
                return
            self.run(found)
        raise AssertionError("compactions do not end")

    def run(self, found: Compaction) -> None:
        tables = found.tables()
        made = tables if found.move else [self.merged(tables, found.drop_deletions)]
        self.number += 1
        run = self.number if found.output_run is None else found.output_run
        self.change(
            [PlacedTable(found.output_level, run, meta) for meta in made],
            [meta.number for meta in tables],
        )

    def merged(self, tables: list[TableMeta], drops: bool) -> TableMeta:
        self.number += 1
        size_bytes = sum(meta.size_bytes for meta in tables)
        self.rewritten_bytes += size_bytes
        return msgspec.structs.replace(
            tables[0],
            number=self.number,
            size_bytes=size_bytes,
            smallest=min(meta.smallest for meta in tables),
            largest=max(meta.largest for meta in tables),
            tombstone_count=0 if drops else sum(meta.tombstone_count for meta in tables),
        )

    def change(self, added: Iterable[PlacedTable], removed: Iterable[int]) -> None:
        self.levels = self.levels.changed(added, removed)
        self.most_tables = max(self.most_tables, self.count)

    @property
    def count(self) -> int:
        return len(list(self.levels.tables()))

    @property
    def rewritten(self) -> float:
        """How often a byte was rewritten, on average."""
        return self.rewritten_bytes / self.flushed_bytes


def key(number: int, series: int = 0) -> str:
    return f"{series:04}/{number:09}"


@pytest.mark.parametrize("order", [1, -1])
def test_a_flush_a_minute_leaves_few_tables_and_rewrites_each_byte_once(order: int) -> None:
    store = Store()
    for number in range(1500)[::order]:
        store.flush(key(10 * number), key(10 * number + 9), MINUTE_BYTES)
    assert store.most_tables <= 64
    assert store.rewritten <= 1.02


def test_many_flushes_leave_tables_of_an_eighth_of_their_full_size() -> None:
    store = Store()
    for number in range(6000):
        store.flush(key(10 * number), key(10 * number + 9), MINUTE_BYTES)
    assert store.count <= 8 * store.flushed_bytes / store.options.table_size_bytes + 16
    assert store.rewritten <= 1.55


@pytest.mark.parametrize("share", [1 / 7, 1 / 4, 1.0])
def test_tables_not_far_below_their_full_size_are_left_alone(share: float) -> None:
    store = Store()
    for number in range(600):
        store.flush(key(10 * number), key(10 * number + 9), int(64 * MIB * share))
    assert store.rewritten <= 0.15


@pytest.mark.parametrize("count", [2, 7, 20])
def test_series_that_are_flushed_by_turns_are_not_merged_with_each_other(count: int) -> None:
    store = Store()
    chances = random.Random(count)
    for number in range(1500):
        series = chances.randrange(count)
        store.flush(key(10 * number, series), key(10 * number + 9, series), MINUTE_BYTES)
    assert store.count <= 4 * 64
    assert store.rewritten <= 2


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("order", ["ascending", "shuffled"])
def test_many_small_tables_that_are_ingested_are_merged(style: str, order: str) -> None:
    options: Any = {"compaction": style}
    store = Store(Options(**options))
    metas = [table(n + 1, key(n), key(n), size_bytes=KIB) for n in range(3000)]
    if order == "shuffled":
        numbers = [meta.number for meta in metas]
        random.Random(1).shuffle(numbers)
        metas = [msgspec.structs.replace(m, number=n) for m, n in zip(metas, numbers, strict=True)]
    store.ingest(metas)
    assert store.count <= 4 * 64
    assert store.rewritten_bytes <= 2 * sum(meta.size_bytes for meta in metas)


def test_neighbours_keep_deletions_of_what_lies_below() -> None:
    options = Options(level1_size_bytes=64 * KIB)
    store = Store(options)
    store.ingest([table(1, key(0), key(9999), size_bytes=100 * KIB)])
    metas = [table(n + 2, key(n), key(n), size_bytes=KIB, deletions=1) for n in range(60)]
    store.change([PlacedTable(1, 0, meta) for meta in metas], ())
    found = pick(store.levels, options, store.state)
    assert found is not None
    assert (found.output_level, found.drop_deletions) == (1, False)
    assert len(found.tables()) == 60


def test_a_small_table_between_full_ones_stays() -> None:
    metas = [
        table(n + 1, key(n), key(n), size_bytes=64 * MIB if n % 2 else 10 * KIB) for n in range(300)
    ]
    levels = Levels().changed([PlacedTable(4, 0, meta) for meta in metas], ())
    assert pick(levels, Options(level1_size_bytes=1 << 40), PickState()) is None


@pytest.mark.parametrize("style", STYLES)
def test_a_store_of_ascending_keys_has_few_files_and_holds_all(tmp_path: Path, style: str) -> None:
    options: Any = {"compaction": style}
    with lsmkv.open(tmp_path, **options) as db:
        for batch in range(130):
            for n in range(20 * batch, 20 * batch + 20):
                db.put(b"%08d" % n, b"reading %d" % n)
            db.flush()
            db.wait_until_settled()
        assert list(db.keys()) == [b"%08d" % n for n in range(2600)]
        assert sum(name.endswith(".sst") for name in os.listdir(tmp_path)) <= 52
        stats = db.stats()
        written = stats.log_bytes + stats.flush_bytes
        assert stats.compaction_write_bytes <= (1.3 if style != "leveled" else 0.3) * written
        assert db.get(b"00001234") == b"reading 1234"
