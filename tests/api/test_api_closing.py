"""The public API's promises about closing and destroying a store."""

from __future__ import annotations

import gc
import os
import sys
import warnings
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from conftest import SMALL, fill, open_small

import lsmkv
from gates import WAIT_S
from kinds_of_mappings import MAPPING_READS, STORE_WRITES
from lsmkv import DB, ClosedError
from lsmkv.layers.peers import own_names

# Closing

USES: dict[str, Callable[[DB], object]] = {
    "tables": lambda db: db.tables(),
    "memtable_key_counts": lambda db: db.memtable_key_counts,
    "tree_changes": lambda db: db.tree_changes(),
    "staging": lambda db: db.staging().__enter__(),
    **MAPPING_READS,
    **STORE_WRITES,
    "snapshot": lambda db: db.snapshot(),
    "prefixed": lambda db: db.prefixed(b"k"),
    "ingest": lambda db: db.ingest([]),
    "bulk_load": lambda db: db.bulk_load([]),
    "transaction": lambda db: db.transaction(),
    "transact": lambda db: db.transact(len),
    "compare_and_set": lambda db: db.compare_and_set(b"k", b"v", None),
    "sync": lambda db: db.sync(),
    "flush": lambda db: db.flush(),
    "compact_range": lambda db: db.compact_range(),
    "wait_until_settled": lambda db: db.wait_until_settled(),
    "resume": lambda db: db.resume(),
    "checkpoint": lambda db: db.checkpoint("copy"),
    "publish": lambda db: db.publish("s3://bucket/store"),
    "refresh": lambda db: db.refresh(),
    "stats": lambda db: db.stats(),
    "memory_usage": lambda db: db.memory_usage(),
    "write_room_bytes": lambda db: db.write_room_bytes,
    "approximate_count": lambda db: db.approximate_count(),
    "approximate_size": lambda db: db.approximate_size(),
    "disk_bytes": lambda db: db.disk_bytes(),
    "explain": lambda db: db.explain(b"k"),
    "explore": lambda db: db.explore(),
    "inspect": lambda db: db.inspect(),
    "blocks": lambda db: db.blocks(1),
    "verify": lambda db: db.verify(),
    "with": lambda db: db.__enter__(),
}


@pytest.mark.parametrize("name", USES)
def test_a_closed_store_refuses(name: str, path: str) -> None:
    db = open_small(path)
    db[b"k"] = b"v"
    db.close()
    with pytest.raises(ClosedError, match="is closed"):
        USES[name](db)


def test_every_public_method_is_tried_on_a_closed_store() -> None:
    tried = set(USES) | {"close", "closed", "path", "options", "read_only", "generation"}
    public = {name for name in own_names(DB, dir(DB)) if not name.startswith("_")}
    assert public <= tried


def test_properties_of_a_closed_store_still_work(path: str) -> None:
    db = open_small(path)
    db.close()
    assert (db.closed, db.path, db.read_only, db.options) == (True, path, False, SMALL)


@pytest.mark.parametrize("taken", [1, 10, 100, 1000, 1500])
@pytest.mark.parametrize("flushed", [False, True])
def test_an_iterator_raises_at_its_next_step(path: str, taken: int, flushed: bool) -> None:
    db = open_small(path, block_size_bytes=65_536)
    fill(db, range(3000), value=b"")
    if flushed:
        db.flush()
    walk = iter(db.items())
    assert len(list(islice(walk, taken))) == taken
    db.close()
    with pytest.raises(ClosedError, match="is closed"):
        next(walk)


def test_leaving_the_with_block_closes_even_after_an_exception(path: str) -> None:
    with pytest.raises(RuntimeError), open_small(path) as db:
        raise RuntimeError
    assert db.closed


def test_a_store_dropped_unclosed_warns_and_is_closed(path: str) -> None:
    db = open_small(path)
    db[b"k"] = b"v"
    with pytest.warns(ResourceWarning, match="was not closed"):
        del db
        gc.collect()
    with open_small(path) as again:
        assert again[b"k"] == b"v"


def test_a_store_whose_end_is_interrupted_is_closed_all_the_same(path: str) -> None:
    db = open_small(path)
    db[b"k"] = b"v"
    engine: Any = db._engine

    class Interrupted:
        """The engine, whose first end an interrupt cuts short."""

        calls = 0

        def close(self) -> None:
            Interrupted.calls += 1
            if Interrupted.calls == 1:
                raise KeyboardInterrupt
            engine.close()

        def __getattr__(self, name: str) -> Any:
            return getattr(engine, name)

    db._engine = Interrupted()  # type: ignore[assignment]
    with pytest.warns(ResourceWarning):
        sys.unraisablehook, hook = lambda _: None, sys.unraisablehook
        try:
            del db
            gc.collect()
        finally:
            sys.unraisablehook = hook
    with open_small(path, wait_s=WAIT_S) as again:
        assert again[b"k"] == b"v"


def test_a_closed_store_dropped_does_not_warn(path: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        db = open_small(path)
        db.close()
        del db
        gc.collect()


# Destroying


def test_destroy_removes_the_store_and_its_directory(path: str) -> None:
    with open_small(path) as db:
        fill(db, range(500))
        db.flush()
    lsmkv.destroy(path)
    assert not os.path.exists(path)


def test_destroy_refuses_a_directory_without_a_store(tmp_path: Path) -> None:
    Path(tmp_path, "000001.log").write_text("not ours to judge")
    with pytest.raises(lsmkv.NotAStoreError):
        lsmkv.destroy(tmp_path)
    with pytest.raises(lsmkv.NotAStoreError):
        lsmkv.destroy(tmp_path / "absent")
    assert os.listdir(tmp_path) == ["000001.log"]


def test_destroy_refuses_a_store_that_is_open(path: str) -> None:
    with open_small(path) as db:
        db[b"k"] = b"v"
        with pytest.raises(lsmkv.LockedError):
            lsmkv.destroy(path)
        assert db[b"k"] == b"v"
    with open_small(path) as db:
        assert db[b"k"] == b"v"


def test_a_destroyed_store_can_be_created_again(path: str) -> None:
    with open_small(path) as db:
        db[b"k"] = b"v"
    lsmkv.destroy(path)
    with open_small(path, error_if_exists=True) as db:
        assert not db


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_closed_handle_that_the_end_of_the_interpreter_drops_says_nothing(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By then Python may have set what modules hold to None."""
    db = open_small(path)
    db.close()
    for name in ("Life", "handles", "in_own_thread", "in_worker"):
        monkeypatch.setattr(f"lsmkv.engine.engine.{name}", None)
    del db
    gc.collect()
