"""The stages of an open store."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from conftest import open_small

import lsmkv
from forked_children import in_child
from lsmkv.engine.state import Life
from storages import FaultyStorage


def life(db: lsmkv.DB) -> Life:
    return db._state.life


def test_a_store_is_open_and_then_closed(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:
        assert life(db) is Life.OPEN
    assert life(db) is Life.CLOSED


def test_a_failed_store_is_open_again_once_it_has_resumed(tmp_path: Path) -> None:
    storage = FaultyStorage()
    with open_small(tmp_path, storage=storage) as db:
        storage.fail("sync", times=None, path_suffix=".log")
        with pytest.raises(OSError):
            db.put(b"k", b"v", sync=True)
        assert life(db) is Life.FAILED
        storage.heal()
        db.resume()
        assert life(db) is Life.OPEN
        db[b"k"] = b"v"


def test_a_handle_that_travelled_is_unopened_until_it_is_used(tmp_path: Path) -> None:
    with open_small(tmp_path) as writer:
        writer[b"k"] = b"v"
        with open_small(tmp_path, read_only=True) as reader:
            travelled: lsmkv.DB = pickle.loads(pickle.dumps(reader))
        assert life(travelled) is Life.UNOPENED
        assert travelled[b"k"] == b"v"
        assert life(travelled) is Life.OPEN
        travelled.close()


def test_a_store_is_forked_in_the_child_and_open_in_the_parent(tmp_path: Path) -> None:
    with open_small(tmp_path) as db:

        def child() -> str:
            return db._state.life.value

        assert in_child(child) == "forked"
        assert life(db) is Life.OPEN
