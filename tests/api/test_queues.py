"""Stores used as queues: written at one end, popped at the other."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from conftest import SMALL
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lsmkv
from lsmkv.options import Background
from lsmkv.storage.storage import AppendFile, Storage

KEYS = [b"%06d" % number for number in range(2000)]


def tombstones(db: lsmkv.DB) -> int:
    return sum(table.tombstone_count for table in db.inspect().tables())


def fill(db: lsmkv.DB, keys: list[bytes] = KEYS) -> None:
    for key in keys:
        db.put(key, b"v" * 50)


# --- deletions that hide nothing ---


@pytest.mark.parametrize("background", ["thread", "process"])
def test_a_flush_into_an_empty_tree_drops_deletions(tmp_path: Path, background: Background) -> None:
    with lsmkv.open(tmp_path, background=background, process_job_size_bytes=0) as db:
        fill(db)
        for key in KEYS[:1990]:
            db.delete(key)
        db.flush()
        assert (tombstones(db), db.inspect().entry_count) == (0, 10)
        assert list(db) == KEYS[1990:]


def test_a_flush_of_nothing_but_deletions_into_an_empty_tree_makes_no_table(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path) as db:
        fill(db)
        db.clear()
        db.flush()
        assert list(db.inspect().tables()) == []
        assert list(tmp_path.glob("*.sst")) == []
        db.put(b"k", b"v")
    with lsmkv.open(tmp_path) as db:
        assert dict(db) == {b"k": b"v"}
        assert db.verify().ok


def test_a_flush_keeps_deletions_for_older_snapshots(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path) as db:
        fill(db, KEYS[:100])
        with db.snapshot() as snapshot:
            for key in KEYS[:50]:
                db.delete(key)
            db.flush()
            assert list(snapshot) == KEYS[:100]
            assert list(db) == KEYS[50:100]
        db.compact_range()
        assert db.inspect().entry_count == 50


def test_a_flush_onto_tables_keeps_deletions(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path) as db:
        fill(db, KEYS[:100])
        db.flush()
        db.clear()
        db.flush()
        assert tombstones(db) == 100
        assert not list(db)


class _Gated(Storage):
    """Writes no table before the gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()

    def create(self, path: str) -> AppendFile:
        if path.endswith(".sst"):
            self.gate.wait(60)
        return super().create(path)


def test_deletions_in_a_memtable_that_waits_behind_an_older_one_still_hide_its_keys(
    tmp_path: Path,
) -> None:
    storage = _Gated()
    options = SMALL.replace(write_buffer_size_bytes=4096, max_immutable_memtables=8)
    with lsmkv.open(tmp_path, options, storage=storage) as db:
        fill(db, KEYS[:60])
        for key in KEYS[:60]:
            db.delete(key)
        fill(db, KEYS[100:130])
        assert len(db.inspect().memtable_key_counts) > 2
        storage.gate.set()
        db.flush()
        assert list(db) == KEYS[100:130]


# --- popping the first key ---


def test_popitem_takes_the_first_key(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path) as db:
        fill(db, KEYS[10:14])
        assert [db.popitem()[0] for _ in range(2)] == KEYS[10:12]
        db.put(KEYS[3], b"below")
        assert db.popitem() == (KEYS[3], b"below")
        with db.write_batch() as batch:
            batch.put(KEYS[5], b"in a batch")
            batch.delete(KEYS[1])
        assert db.popitem() == (KEYS[5], b"in a batch")
        assert [db.popitem()[0] for _ in range(2)] == KEYS[12:14]
        with pytest.raises(KeyError):
            db.popitem()


def test_popping_all_of_a_queue_reads_every_block_about_once(tmp_path: Path) -> None:
    options = SMALL.replace(block_cache_size_bytes=0, write_buffer_size_bytes=1 << 20)
    with lsmkv.open(tmp_path, options) as db:
        fill(db)
        db.flush()
        before = db.stats()
        for key in KEYS[:1000]:
            assert db.popitem()[0] == key
        # One block a pop, and the next where one is used up.
        assert (db.stats() - before).block_reads < 2500


def test_the_floor_of_a_queue_rises_with_each_pop_and_falls_with_a_write_below(
    tmp_path: Path,
) -> None:
    with lsmkv.open(tmp_path) as db:
        fill(db, KEYS[:50])
        for number in range(30):
            db.popitem()
            db.put(KEYS[100 + number], b"pushed")
            assert db._engine.floor == KEYS[number]
        db.put(KEYS[7], b"again")
        assert db._engine.floor == KEYS[7]
        db.delete(KEYS[2])
        assert db._engine.floor == KEYS[7]


steps = st.lists(
    st.tuples(st.sampled_from(["put", "delete", "pop", "batch", "flush"]), st.integers(0, 12)),
    max_size=40,
)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps)
def test_popitem_agrees_with_a_sorted_dict(
    tmp_path_factory: pytest.TempPathFactory, program: list[tuple[str, int]]
) -> None:
    model: dict[bytes, bytes] = {}
    with lsmkv.open(tmp_path_factory.mktemp("store")) as db:
        for number, (what, at) in enumerate(program):
            key, value = KEYS[at], b"%d" % number
            if what == "put":
                db.put(key, value)
                model[key] = value
            elif what == "delete":
                db.delete(key)
                model.pop(key, None)
            elif what == "batch":
                with db.write_batch() as batch:
                    batch.put(key, value)
                    batch.delete(KEYS[at + 1])
                model[key] = value
                model.pop(KEYS[at + 1], None)
            elif what == "flush":
                db.flush()
            elif model:
                first = min(model)
                assert db.popitem() == (first, model.pop(first))
            else:
                with pytest.raises(KeyError):
                    db.popitem()
        assert dict(db) == model


def test_threads_that_pop_never_get_the_same_entry(tmp_path: Path) -> None:
    popped: list[list[bytes]] = [[], [], []]
    with lsmkv.open(tmp_path) as db:
        fill(db, KEYS[:600])

        def pop(found: list[bytes]) -> None:
            while True:
                try:
                    found.append(db.popitem()[0])
                except KeyError:
                    return

        threads = [threading.Thread(target=pop, args=(found,)) for found in popped]
        for thread in threads:
            thread.start()
        for number in range(600, 700):
            db.put(KEYS[number], b"v")
        for thread in threads:
            thread.join()
        popped.append([db.popitem()[0] for _ in range(len(db))])
    assert sorted(key for found in popped for key in found) == KEYS[:700]
