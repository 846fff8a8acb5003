"""Which process may open a store for writing, and when."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

import lsmkv
from gates import WAIT_S
from lsmkv.storage.storage import Storage
from other_processes import HOLDER, REFUSED, line_of, open_store, process, run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


def test_a_second_writing_process_is_refused_with_the_firsts_id(path: Path) -> None:
    with process(HOLDER, path) as holder:
        assert line_of(holder) == "open"
        with pytest.raises(lsmkv.LockedError) as caught:
            lsmkv.open(path)
        assert (caught.value.path, caught.value.pid) == (str(path), holder.pid)
        assert str(path) in str(caught.value) and str(holder.pid) in str(caught.value)


def test_the_same_process_may_not_open_a_store_twice_for_writing(path: Path) -> None:
    with lsmkv.open(path), pytest.raises(lsmkv.LockedError) as caught:
        lsmkv.open(path)
    assert caught.value.pid == os.getpid()


def test_a_refused_opening_does_not_disturb_the_one_that_has_the_store(path: Path) -> None:
    with lsmkv.open(path) as db:
        for _ in range(3):
            with pytest.raises(lsmkv.LockedError):
                lsmkv.open(path)
            gc.collect()
        db[b"key"] = b"value"
        assert run(REFUSED, path) == "LockedError\n"
    with lsmkv.open(path) as db:
        assert db[b"key"] == b"value"


def test_a_store_is_free_once_it_is_closed(path: Path) -> None:
    lsmkv.open(path).close()
    assert run("lsmkv.open(sys.argv[1]).close(); print('opened')", path) == "opened\n"


def test_a_store_is_free_once_its_process_is_dead(path: Path) -> None:
    with process(HOLDER, path) as holder:
        assert line_of(holder) == "open"
        holder.kill()
        holder.wait(WAIT_S)
        with lsmkv.open(path) as db:
            assert db[b"key"] == b"value"


def test_destroy_is_refused_while_a_store_is_open(path: Path) -> None:
    with lsmkv.open(path) as db:
        with pytest.raises(lsmkv.LockedError):
            lsmkv.destroy(path)
        db[b"key"] = b"value"
        assert db[b"key"] == b"value"


def test_two_stores_may_share_a_storage(tmp_path: Path) -> None:
    storage = Storage()
    with (
        open_store(tmp_path / "one", storage=storage) as one,
        open_store(tmp_path / "two", storage=storage) as two,
    ):
        one[b"key"], two[b"key"] = b"1", b"2"
        assert (one[b"key"], two[b"key"]) == (b"1", b"2")
