"""Lookups through the entry cache: fewer reads, and never a value that was replaced."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import lsmkv
from clocks import SetClock
from lsmkv.encoding.entries import Absent
from lsmkv.filters.hashing import hash_key
from outside_tables import write_table
from threaded_stores import open_store, run_all

KEYS = [b"key%05d" % number for number in range(3_000)]


def fill(db: lsmkv.DB) -> None:
    for key in KEYS:
        db.put(key, key * 5)
    db.flush()
    db.compact_range()


def read_once(db: lsmkv.DB, key: bytes) -> None:
    """Make the entry cache hold ``key``, and the block cache something else."""
    for other in random.Random(key).sample(KEYS, 400):
        db.get(other)
    db.get(key)
    assert db.explain(key).in_entry_cache


def test_an_entry_is_found_after_its_block_has_left(path: str) -> None:
    with open_store(path) as db:
        fill(db)
        read_once(db, b"key00007")
        assert db.get(b"key00007") == b"key00007" * 5
        for key in KEYS[200:600]:
            assert db.get(key) == key * 5
        before = db.stats()
        assert db.get(b"key00007") == b"key00007" * 5
        spent = db.stats() - before
    assert (spent.entry_cache_hits, spent.block_reads, spent.block_cache_hits) == (1, 0, 0)
    assert (spent.gets, spent.get_hits, spent.filter_true_positives) == (1, 1, 0)


def test_multi_get_finds_entries_that_get_read(path: str) -> None:
    with open_store(path) as db:
        fill(db)
        read_once(db, b"key00007")
        before = db.stats()
        assert db.multi_get([b"key00007", b"absent"]) == [b"key00007" * 5, None]
        assert (db.stats() - before).entry_cache_hits == 1


def test_multi_get_keeps_entries_whose_blocks_it_read(path: str) -> None:
    far_apart = KEYS[::300]
    with open_store(path) as db:
        fill(db)
        assert db.multi_get(far_apart) == [key * 5 for key in far_apart]
        assert all(db.explain(key).in_entry_cache for key in far_apart)


def test_multi_get_keeps_entries_of_all_runs(path: str) -> None:
    far_apart = KEYS[::300]
    with open_store(path, write_buffer_size_bytes=1 << 20) as db:
        fill(db)
        db.update(dict.fromkeys(KEYS[:1500], b"newer"))
        db.flush()
        assert sum(len(level.runs) for level in db.inspect().levels) == 2
        db.multi_get([*far_apart, b"absent"])
        assert [key for key in far_apart if not db.explain(key).in_entry_cache] == []


def test_multi_get_of_neighbours_keeps_their_block_alone(path: str) -> None:
    with open_store(path) as db:
        fill(db)
        assert db.multi_get(KEYS[:20]) == [key * 5 for key in KEYS[:20]]
        assert not any(db.explain(key).in_entry_cache for key in KEYS[:20])


def test_explain_and_memory_usage_tell_it(path: str) -> None:
    with open_store(path) as db:
        fill(db)
        assert db.memory_usage().entry_cache_bytes == 0
        assert not db.explain(b"key00007").in_entry_cache
        read_once(db, b"key00007")
        assert str(db.explain(b"key00007")).endswith(
            "the entry cache has the entry: get asks no run"
        )
        assert 0 < db.memory_usage().entry_cache_bytes <= 64 * 1024
        db.put(b"key00007", b"new")
        assert not db.explain(b"key00007").in_entry_cache  # the memtable has it


def test_a_store_without_a_cache_keeps_no_entries(path: str) -> None:
    with open_store(path, block_cache_size_bytes=0) as db:
        fill(db)
        for key in KEYS:
            db.get(key)
        assert db.memory_usage().entry_cache_bytes == 0


Change = Callable[[lsmkv.DB, Path], object]
CHANGES: dict[str, tuple[Change, bytes | None]] = {
    "put": (lambda db, _: db.put(b"key00007", b"new"), b"new"),
    "delete": (lambda db, _: db.delete(b"key00007"), None),
    "large batch": (lambda db, _: db.update(dict.fromkeys(KEYS[:40], b"new")), b"new"),
    "range delete": (lambda db, _: db.delete_range(prefix=b"key0"), None),
    "ingest": (
        lambda db, folder: db.ingest([write_table(folder / "t", {b"key00007": b"new"})]),
        b"new",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen_before_and_after_flush_and_compaction(
    path: str, tmp_path: Path, name: str
) -> None:
    change, expected = CHANGES[name]
    with open_store(path) as db:
        fill(db)
        read_once(db, b"key00007")
        change(db, tmp_path)
        assert db.get(b"key00007") == expected
        db.flush()
        assert db.get(b"key00007") == expected
        db.compact_range(force=True)
        assert db.get(b"key00007") == expected
        assert db.get(KEYS[-1]) == (None if name == "range delete" else KEYS[-1] * 5)


def test_what_a_slow_lookup_read_before_a_flush_is_not_kept(path: str) -> None:
    with open_store(path) as db:
        fill(db)
        current = db._engine.state.require_open()
        cache, version, h = db._engine.cache, current.version, hash_key(b"key00007")
        old = version.get(b"key00007", h, 1 << 40, db.stats())
        assert isinstance(old, bytes)
        db.put(b"key00007", b"new")
        db.flush()
        cache.put_entry(b"key00007", h, old, version.epoch)
        assert isinstance(cache.entries.get(b"key00007", h), Absent)
        assert db.get(b"key00007") == b"new"


def test_no_entry_is_added_while_a_memtables_keys_leave_the_cache(path: str) -> None:
    with open_store(path) as db:
        fill(db)
        current = db._engine.state.require_open()
        cache, h = db._engine.cache, hash_key(b"key00007")
        db._engine.state._forget_entries(current.memtable)
        cache.put_entry(b"key00007", h, b"old", current.version.epoch)
        assert isinstance(cache.entries.get(b"key00007", h), Absent)


def test_an_entry_expires_in_the_cache_too(path: str) -> None:
    clock = SetClock()
    with open_store(path, clock=clock) as db:
        for key in KEYS:
            db.put(key, key * 5, ttl_s=100)
        db.flush()
        read_once(db, b"key00007")
        assert db.get(b"key00007") == b"key00007" * 5
        clock.now_s += 101
        assert db.get(b"key00007") is None


def test_a_snapshot_and_a_view_never_ask_it(path: str) -> None:
    with open_store(path) as db:
        fill(db)
        snapshot, view = db.snapshot(), db.items()
        db.put(b"key00007", b"new")
        db.flush()
        read_once(db, b"key00007")
        before = db.stats()
        assert snapshot.get(b"key00007") == b"key00007" * 5
        assert snapshot.multi_get([b"key00007"]) == [b"key00007" * 5]
        assert (b"key00007", b"key00007" * 5) in view
        assert (db.stats() - before).entry_cache_hits == 0
        snapshot.close()


def test_a_readers_snapshot_does_not_ask_it_for_newer_writes(path: str) -> None:
    with open_store(path) as writer:
        fill(writer)
        with open_store(path, read_only=True) as reader:
            snapshot = reader.snapshot()
            writer.put(b"key00007", b"new")
            writer.flush()
            reader.refresh()
            read_once(reader, b"key00007")
            assert snapshot.multi_get([b"key00007"]) == [b"key00007" * 5]
            snapshot.close()


def test_a_reader_that_takes_in_a_writers_news_forgets_what_it_had(path: str) -> None:
    with open_store(path) as writer:
        fill(writer)
        with open_store(path, read_only=True) as reader:
            read_once(reader, b"key00007")
            writer.put(b"key00007", b"new")
            writer.flush()
            reader.refresh()
            assert reader.get(b"key00007") == b"new"


def test_threads_that_write_and_read_see_their_own_writes(path: str) -> None:
    with open_store(path) as db:
        fill(db)

        def work(name: int) -> None:
            dice = random.Random(name)
            mine, model = KEYS[name::4], dict[bytes, bytes | None]()
            for turn in range(3_000):
                key = dice.choice(mine[:200])
                if turn % 3:
                    expected = model.get(key, key * 5)
                    assert db.get(key) == expected, key
                elif turn % 6:
                    model[key] = b"%d" % turn
                    db.put(key, b"%d" % turn)
                else:
                    model[key] = None
                    db.delete(key)
                db.get(dice.choice(KEYS[1_000:]))

        run_all(*[lambda name=name: work(name) for name in range(4)])
        assert db.stats().entry_cache_hits > 0
