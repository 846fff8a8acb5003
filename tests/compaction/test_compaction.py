"""Compaction of whole stores: the shape and contents of settled trees."""

from __future__ import annotations

import contextlib
import os
import random
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import fill, open_small
from hypothesis import given, settings
from hypothesis import strategies as st

import lsmkv
from gates import WAIT_S, GatedStorage
from lsmkv.compaction.picker import level_target_bytes
from lsmkv.filters import expected_wasted_reads, memory_bits
from lsmkv.options import CompactionStyle, Options
from made_trees import KIB, STYLES


def open_store(path: str | Path, style: CompactionStyle, **options: Any) -> lsmkv.DB:
    """A store small enough that a few thousand keys make several levels."""
    chosen_options: dict[str, Any] = {
        "write_buffer_size_bytes": 8 * KIB,
        "block_size_bytes": 512,
        "table_size_bytes": 8 * KIB,
        "level1_size_bytes": 32 * KIB,
        "size_ratio": 4,
        "level0_compaction_trigger": 2,
        "compression": "none",
        **options,
    }
    return lsmkv.open(path, compaction=style, **chosen_options)


def load(
    db: lsmkv.DB, seed: int, count: int, key_space: int, before: dict[bytes, bytes] | None = None
) -> dict[bytes, bytes]:
    """Put and delete at random, with flushes; return the contents.

    The tree is the same for a seed.  ``before`` is what the store held.
    """
    chances = random.Random(seed)
    model = dict(before or {})
    for number in range(count):
        key = b"key%06d" % chances.randrange(key_space)
        if chances.random() < 0.2:
            db.delete(key)
            model.pop(key, None)
        else:
            model[key] = b"%d:" % number + b"v" * chances.randrange(100)
            db.put(key, model[key])
        if number % 90 == 89:
            db.flush()
            db.wait_until_settled()
    db.flush()
    db.wait_until_settled()
    return model


def run_counts(db: lsmkv.DB) -> list[int]:
    return [len(level.runs) for level in db.inspect().levels]


def assert_in_shape(db: lsmkv.DB, style: CompactionStyle) -> None:
    counts = run_counts(db)
    options = db.options
    assert not counts or counts[0] < options.level0_compaction_trigger
    if style == "leveled":
        for level in db.inspect().levels[1:]:
            assert len(level.runs) <= 1
            assert level.size_bytes <= level_target_bytes(level.number, options)
    else:
        assert all(runs < options.size_ratio for runs in counts[1:])
    if style == "lazy-leveled" and len(counts) > 1:
        assert counts[-1] == 1


@pytest.mark.parametrize("style", STYLES)
@settings(max_examples=3)
@given(st.integers(0, 1 << 30), st.sampled_from([100, 500, 3000]))
def test_a_settled_tree_has_the_shape_of_its_style_and_all_its_data(
    style: CompactionStyle, seed: int, key_space: int
) -> None:
    with tempfile.TemporaryDirectory() as path, open_store(path, style) as db:
        model = load(db, seed, 1500, key_space)
        assert_in_shape(db, style)
        assert dict(db) == model


CHANGES = {("leveled", "tiered"), ("tiered", "lazy-leveled"), ("lazy-leveled", "leveled")}
"""From each style and to each: the fast ones of all changes."""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(before, after, marks=() if (before, after) in CHANGES else pytest.mark.slow)
        for before in STYLES
        for after in STYLES
    ],
)
def test_a_store_may_change_its_style(
    tmp_path: Path, before: CompactionStyle, after: CompactionStyle
) -> None:
    with open_store(tmp_path, before) as db:
        model = load(db, 1, 1500, 3000)
    with open_store(tmp_path, after) as db:
        db.wait_until_settled()
        assert_in_shape(db, after)
        assert dict(db) == model
        model = load(db, 2, 500, 3000, model)
        assert_in_shape(db, after)
        assert dict(db) == model


def test_write_amplification_falls_and_runs_rise_from_leveled_to_lazy_to_tiered(
    tmp_path: Path,
) -> None:
    amplification, runs = {}, {}
    for style in STYLES:
        with open_store(tmp_path / style, style) as db:
            seen = []
            for seed in range(14):
                load(db, seed, 500, 20_000)
                seen.append(sum(run_counts(db)))
            stats = db.stats()
            amplification[style] = (
                stats.flush_bytes + stats.compaction_write_bytes
            ) / stats.flush_bytes
            runs[style] = sum(seen) / len(seen)
    assert 1.0 < amplification["tiered"] <= amplification["lazy-leveled"]
    assert amplification["lazy-leveled"] <= amplification["leveled"]
    assert runs["leveled"] <= runs["lazy-leveled"] <= runs["tiered"]


def test_compacting_everything_leaves_one_run_without_deletions(tmp_path: Path) -> None:
    with open_store(tmp_path, "tiered") as db:
        model = load(db, 5, 1500, 300)
        db.compact_range()
        assert sum(run_counts(db)) == 1
        tables = list(db.inspect().tables())
        assert sum(info.tombstone_count for info in tables) == 0
        assert sum(info.entry_count for info in tables) == len(model)
        assert dict(db) == model


def rates_by_run(db: lsmkv.DB) -> list[tuple[int, float]]:
    return [
        (run.entry_count, sum(info.requested_rate for info in run.tables) / len(run.tables))
        for level in db.inspect().levels
        for run in level.runs
    ]


def test_monkey_gives_larger_runs_higher_rates_and_wastes_fewer_reads(tmp_path: Path) -> None:
    with open_store(
        tmp_path, "tiered", filter_allocation="monkey", error_rate=0.05, size_ratio=3
    ) as db:
        load(db, 9, 3000, 100_000)
        found = sorted(rates_by_run(db))
        counts, rates = [entries for entries, _ in found], [rate for _, rate in found]
    assert len(found) >= 3 and counts[-1] > 5 * counts[0]
    assert rates[0] < 0.05 <= round(rates[-1], 9)  # the last was alone when it was written
    # A run keeps the rate of its writing, so the memory equals the uniform one's only roughly.
    assert memory_bits(counts, rates) < 1.3 * memory_bits(counts, [0.05] * len(counts))
    assert expected_wasted_reads(rates) < expected_wasted_reads([0.05] * len(rates))


def test_monkey_takes_the_memory_of_the_uniform_rate_in_a_leveled_tree(tmp_path: Path) -> None:
    with open_store(tmp_path, "leveled", filter_allocation="monkey") as db:
        load(db, 1, 4000, 50_000)
        info = db.inspect()
        assert len(info.levels) >= 4
        uniform = memory_bits([info.entry_count], [db.options.error_rate])
        # A table keeps the rate of its writing, and sizes are rounded up to bytes.
        assert 0.85 * uniform < 8 * info.filter_bytes < 1.15 * uniform


@pytest.mark.parametrize("style", STYLES)
def test_a_compaction_that_close_cuts_short_leaves_no_file_behind(
    tmp_path: Path, style: CompactionStyle
) -> None:
    storage = GatedStorage()
    path = tmp_path / "store"
    db = open_store(path, style, storage=storage, level0_compaction_trigger=4)
    model = {}
    for seed in range(3):
        chances = random.Random(seed)
        for _ in range(600):
            key = b"key%06d" % chances.randrange(10_000)
            model[key] = b"%d" % seed
            db.put(key, model[key])
        db.flush()

    def compact() -> None:
        with contextlib.suppress(lsmkv.ClosedError):
            db.compact_range()

    compacting, closing = threading.Thread(target=compact), threading.Thread(target=db.close)
    storage.shut()
    compacting.start()
    assert storage.held_up.wait(WAIT_S)
    closing.start()
    while closing.is_alive():
        storage.let_one_pass()
        closing.join(0.01)
    compacting.join(WAIT_S)
    with lsmkv.open(path, read_only=True) as db:  # a writer might begin to compact
        tables = {info.file_name for info in db.inspect().tables()}
        assert {name for name in os.listdir(path) if name.endswith(".sst")} == tables
        assert dict(db) == model


def test_forced_compaction_gives_tidy_data_the_form_of_the_present_options(tmp_path: Path) -> None:
    with open_small(tmp_path / "db", error_rate=0.5) as db:
        fill(db, range(200))
        db.compact_range()
    with open_small(tmp_path / "db", error_rate=0.001) as db:
        db.compact_range()
        assert {table.requested_rate for table in db.inspect().tables()} == {0.5}
        db.compact_range(force=True)
        assert {table.requested_rate for table in db.inspect().tables()} == {0.001}
        assert len(db) == 200


def test_versions_of_a_key_that_straddle_blocks_stay_in_one_table(tmp_path: Path) -> None:
    # Each version fills a block, so no block has two versions of a key, and a table has only a few.
    options = Options(
        compression="none",
        block_size_bytes=512,
        table_size_bytes=4096,
        write_buffer_size_bytes=1 << 20,
    )
    with lsmkv.open(tmp_path / "db", options) as db:
        snapshots = []
        for number in range(20):
            for key in (b"a", b"b", b"c"):
                db.put(key, b"%d" % number + b"v" * 1000)
            snapshots.append(db.snapshot())
        db.compact_range()
        db.put(b"b", b"newest")
        db.compact_range()
        for number, snapshot in enumerate(snapshots):
            assert snapshot[b"c"] == b"%d" % number + b"v" * 1000
            snapshot.close()
        db.compact_range(force=True)
        assert db.inspect().entry_count == 3
